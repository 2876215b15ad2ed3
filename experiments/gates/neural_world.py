"""A neural model directory as the gates see it: languages, prompts, engines of every path, and its own laws.

`Reader` says what the target itself gives after any tokens: logits, and how near a decision was. A greedy
difference is excused only below `NEAR` between the two best legal logits, a sampled one only where a coin
lay that near to a break: matrix products of another shape round otherwise.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import torch

from engine.errors import RequestError
from engine.models.ngram import PromptLookup
from engine.models.qwen3_5.attention import Placement
from engine.models.qwen3_5.target import TargetState
from engine.models.text_model import TextModel, load_text_model
from engine.request import OutputConstraint, RequestOptions, SamplingSettings
from engine.runtime.engine import Engine
from engine.runtime.loading import ProgramOptions, load_program
from engine.runtime.program import TwoPhaseProgram
from engine.text.compiler import ConstraintCompiler
from engine.text.vocabulary import Vocabulary
from experiments.gates.path_world import Case
from oracles import rng, sample
from oracles.expressions import CharClass, Repeat
from oracles.masks import unpack

NEAR = 1e-4
SPECS = {"ordinary": "none", "mtp": "mtp", "dflash": "dflash", "dflash2": "dflash2", "ngram": "ngram"}
PERSON = Path(__file__).resolve().parent.parent / "examples" / "person.json"
QUESTIONS = (
    "Give me a person as JSON. Her name is Ada Hill.",
    "Repeat the words: red, green, blue and green.",
    "Is the film in Seville? Say yes or no, and why.",
    "Write an order for two lamps to Ben Moore, Lyon.",
)
BEGUN = (  # a question with the beginning of its answer: some of what follows is sure, some is not
    ("Repeat the words: red, green, blue and green.", "red, green, blue and "),
    ("Is the film in Seville? Say yes or no, and why.", ""),
    ("Give me a person as JSON.", '{"name": "'),
    ("Repeat: red, green, blue and green, red, green, blue and yellow, red, green,", "red, green,"),
)
ASKED = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
MAX_CONTEXT = 320
COINS = ("prefill", "decode", "accept", "correction", "bonus")
GRAMMAR = r"""root ::= item ("; " item){0,3} "."
item ::= word ": " [0-9]{1,3} | word " (" item ")"
word ::= [a-z]{3,9}
"""
_LETTERS = CharClass(((97, 122), (32, 32), (44, 44)))
WORDS = Case(
    "words",
    OutputConstraint.regex("[a-z ,]{1,16}"),
    {"root": Repeat(_LETTERS, 1, 16)},
    alphabet=bytes([*range(97, 123), 32, 44]),
)


@attrs.frozen(eq=False)
class NeuralWorld:
    """One model directory with the languages and prompts that the gates ask it for; `name` is for reports."""

    name: str
    directory: Path
    vocabulary: Vocabulary
    compiler: ConstraintCompiler
    prompts: tuple[tuple[int, ...], ...]
    cases: Mapping[str, OutputConstraint | None]
    law_case: Case
    law_prompts: tuple[tuple[int, ...], ...]
    max_context: int = MAX_CONTEXT

    def program(
        self, path: str, num_lanes: int, *, num_drafts: int | None = None, launcher: Any = None
    ) -> TwoPhaseProgram:
        """A program of one path in float32. Raises RequestError where the drafter is not there."""
        options = ProgramOptions(
            spec=SPECS[path],
            num_drafts=num_drafts,
            num_lanes=num_lanes,
            max_context=self.max_context,
            lookup=PromptLookup(1, 3, "most_recent"),  # copies at once: more drafts than the default's
            launcher=launcher,
        )
        return load_program(self.directory, self.vocabulary, options)[0]

    def engine(self, program: Any, **hooks: Any) -> Engine:
        """An engine over a program of this world."""
        return Engine(self.vocabulary, program, self.compiler, **hooks)

    @property
    def reader(self) -> "Reader":
        """The target by itself."""
        return Reader(self)

    def without(self, path: str) -> str:
        """Why a path cannot run in this directory; "" where it can."""
        try:
            self.program(path, 1)
        except (RequestError, FileNotFoundError) as error:
            return f"{self.name} has no {path} drafter: {str(error).splitlines()[0]}"
        return ""


@attrs.frozen
class Ask:
    """One request of a neural check, as a case file keeps it."""

    prompt: int
    case: str
    temperature: float
    seed: int
    max_tokens: int

    def options(self, world: NeuralWorld) -> RequestOptions:
        """The engine's options."""
        sampling = SamplingSettings(temperature=self.temperature, top_k=20, seed=self.seed)
        return RequestOptions(self.max_tokens, world.cases[self.case], sampling)

    def submit(self, engine: Engine, world: NeuralWorld) -> Any:
        """Submit it; returns the handle."""
        return engine.submit(world.prompts[self.prompt], self.options(world))


def asks(world: NeuralWorld, num: int, max_tokens: int, seed: int, temperature: float) -> list[Ask]:
    """`num` requests over all languages and prompts in turn."""
    cases, rounds = list(world.cases), len(world.prompts)
    return [
        Ask(i // 2 % rounds, cases[i % len(cases)], temperature, seed * 997 + i, max_tokens)
        for i in range(num)
    ]


class Reader:
    """What a world's target says after a history, by one pass over all of it."""

    def __init__(self, world: NeuralWorld) -> None:
        self._world, self.model = world, _target(world.directory)

    def logits(self, history: Sequence[int]) -> np.ndarray:
        """Float32 logits [positions, width] of every position of a history."""
        state = TargetState.allocate(self.model.config, 1, len(history) + 1)
        placement = Placement.of([0], [0], len(history), max_context=len(history) + 1)
        with torch.inference_mode():
            return self.model(torch.tensor([list(history)]), placement, state).logits[0].numpy()

    def legal(self, constraint: OutputConstraint | None, output: Sequence[int]) -> set[int]:
        """The engine's own legal ids after an output: what makes two tokens rivals."""
        size = self._world.vocabulary.size
        if constraint is None:
            return set(range(size))
        matcher = self._world.compiler.compile(constraint)[0].new_matcher()
        if output:
            matcher.preview(tuple(output))
            matcher.confirm()
        words = np.zeros((size + 31) // 32, np.int32)
        matcher.fill_words(words)
        return unpack(words)

    def nearness(self, ask: Ask, output: Sequence[int]) -> float:
        """How near the decision after an output was: a gap of logits if greedy, of a coin if sampled."""
        row = self.logits([*self._world.prompts[ask.prompt], *output])[-1]
        legal = sorted(self.legal(self._world.cases[ask.case], output))
        if ask.temperature <= 0:
            best = np.sort(row[legal])[::-1]
            return float(best[0] - best[1]) if len(best) > 1 else float("inf")
        settings = sample.Settings(temperature=ask.temperature, top_k=20)
        law = sample.law([float(row[i]) for i in legal], vocab_size=len(legal), settings=settings)
        shares = np.asarray(law.probs)
        breaks = np.concatenate([np.cumsum(shares), shares])
        coins = [rng.uniform(ask.seed, len(output), what) for what in COINS]
        return float(min(np.abs(breaks - coin).min() for coin in coins))


@cache
def _target(directory: Path) -> TextModel:
    return load_text_model(directory)


@cache
def neural_world(model: str) -> NeuralWorld:
    """The world of `bundled` or of a model directory. Raises RequestError."""
    from engine.commands.model import open_model

    opened = open_model(model)
    prompts = [ASKED.format(text) for text in QUESTIONS]
    law_prompts = [ASKED.format(text) + begun for text, begun in BEGUN]
    encoded = tuple(tuple(opened.codec.encode(text, control=True)) for text in prompts)
    return NeuralWorld(
        opened.name,
        opened.path,
        opened.vocabulary,
        opened.compiler,
        encoded,
        languages(),
        WORDS,
        tuple(tuple(opened.codec.encode(text, control=True)) for text in law_prompts),
    )


def languages() -> dict[str, OutputConstraint | None]:
    """The languages that a real model is asked for."""
    return {
        "schema": OutputConstraint.json_schema(PERSON.read_text(encoding="utf-8")),
        "free": None,
        "regex": OutputConstraint.regex("(yes|no)(, [a-z]{2,8}){1,4}[.]"),
        "choice": OutputConstraint.choice(["red", "green", "blue and green", "blue, green and red"]),
        "grammar": OutputConstraint.grammar(GRAMMAR),
    }


def near_miss(world: NeuralWorld, ask: Ask, got: Sequence[int], wanted: Sequence[int]) -> float | None:
    """How near the decision was at which two outputs part; None where they do not part."""
    if tuple(got) == tuple(wanted):
        return None
    pairs = zip(got, wanted, strict=False)
    at = next((i for i, (one, other) in enumerate(pairs) if one != other), min(len(got), len(wanted)))
    return world.reader.nearness(ask, wanted[:at])
