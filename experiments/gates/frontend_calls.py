"""Gate: calls that the grammar lets through are read as the oracle reads them, however the stream is cut."""

import json
import random
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import attrs
from attrs import frozen

from engine.errors import IntegrityError
from engine.frontend.decoder import OutputDecoder, OutputForm
from engine.frontend.events import CallArguments, CallEnd, CallStart, Event
from engine.frontend.output_language import output_language
from engine.frontend.tool_contract import ToolContract, tool_contract
from engine.request import FinishReason, JsonOptions, ToolChoice, ToolDeclaration, ToolMode
from experiments.cases import Line
from experiments.gates.frontend_words import (
    FrontendWorld,
    frontend_world,
    random_choice,
    random_tools,
    random_walk,
)
from experiments.verdict import Verdict, failed, inconclusive, passed, skipped
from oracles.output_validator import validate_output
from oracles.tool_text import NotCalls, read_calls

NAME = "frontend calls"
CHECK = "calls are read as written"
CLAUSES = ("TOOL-27", "TOOL-29", "TOOL-31", "STREAM-1")
Said = list[tuple[str, str]]  # (name, arguments as JSON) of each call


@frozen
class Turn:
    """The tools of one request, its choice, and one finished output."""

    tools: tuple[ToolDeclaration, ...]
    choice: ToolChoice
    walk: tuple[int, ...]

    @property
    def contract(self) -> ToolContract:
        """What preparation makes of tools and choice."""
        return tool_contract(self.tools, self.choice)


def gate(
    *, seed: int, vocab: str, num_sets: int, walks: int = 4, min_calls: int = 10, max_tokens: int = 200
) -> list[Verdict]:
    """Judge `walks` random outputs for each of `num_sets` random sets of tools."""
    started, world = time.perf_counter(), frontend_world(vocab)
    if world.missing:
        return [skipped(NAME, CHECK, world.missing)]
    rng, counts = random.Random(f"frontend calls {seed}"), Counter[str]()
    for _ in range(num_sets):
        for turn in _turns(rng, world, walks, max_tokens, counts):
            wrong = judge(rng, world, turn, counts)
            if wrong:
                return [_failure(world, vocab, turn, wrong, counts).timed(time.perf_counter() - started)]
    facts: dict[str, Any] = {
        "n": counts["calls"],
        "clauses": CLAUSES,
        "seconds": time.perf_counter() - started,
    }
    facts["detail"] = ", ".join(f"{n} {name}" for name, n in sorted(counts.items()))
    if min(counts["calls"], counts["strict calls"], counts["arguments"]) < min_calls:
        return [inconclusive(NAME, CHECK, "too few calls", **facts)]
    return [passed(NAME, CHECK, **facts)]


def _turns(
    rng: random.Random, world: FrontendWorld, walks: int, max_tokens: int, counts: Counter[str]
) -> list[Turn]:
    tools = tuple(random_tools(rng))
    choice = random_choice(rng, list(tools))
    language = output_language(world.compiler, None, tool_contract(tools, choice))
    assert language is not None
    found = [random_walk(rng, world, language, max_tokens) for _ in range(walks)]
    counts["walks without an end"] += found.count(None)
    return [Turn(tools, choice, tuple(walk)) for walk in found if walk is not None]


def judge(rng: random.Random, world: FrontendWorld, turn: Turn, counts: Counter[str]) -> str:
    """What is wrong with how one output is read, "" where nothing is."""
    counts["outputs"] += 1
    try:
        wanted = _oracle_calls(world, turn)
        whole, pieces = _events(world, turn, [turn.walk]), _events(world, turn, _cut(rng, turn.walk))
    except (NotCalls, IntegrityError) as fault:
        return f"{type(fault).__name__}: {fault}"
    said = [(event.call.name, event.call.arguments_json) for event in whole if isinstance(event, CallEnd)]
    for events in (whole, pieces):
        if _streamed(events) != said:
            return f"the stream says {_streamed(events)}, its final calls {said}"
    read = json.dumps([(name, list(json.loads(text).items())) for name, text in said])
    if read != json.dumps(wanted):
        return f"read as {read}, written as {json.dumps(wanted)}"
    return _broken_promise(turn, said, counts)


def _oracle_calls(world: FrontendWorld, turn: Turn) -> list[tuple[str, list[tuple[str, Any]]]]:
    """The calls of the text from the first opening token on; the id alone begins a call, not its spelling."""
    body = [token_id for token_id in turn.walk if token_id not in world.vocabulary.eos_ids]
    begin = body.index(world.ids.tool_open) if world.ids.tool_open in body else len(body)
    text = b"".join(world.vocabulary.token_bytes[i] for i in body[begin:]).decode()
    return read_calls(text, {tool.name: (json.loads(tool.parameters), tool.strict) for tool in turn.tools})


def _cut(rng: random.Random, walk: Sequence[int]) -> list[Sequence[int]]:
    """A walk in pieces of a few tokens."""
    places = [0, *sorted(rng.choices(range(len(walk) + 1), k=len(walk) // 2)), len(walk)]
    return [walk[begin:end] for begin, end in pairwise(places)]


def _events(world: FrontendWorld, turn: Turn, pieces: Iterable[Sequence[int]]) -> list[Event]:
    """Everything a client sees. Raises IntegrityError."""
    decoder = OutputDecoder(OutputForm(world.vocabulary, contract=turn.contract))
    events = [event for piece in pieces for event in decoder.feed(piece)]
    return [*events, *decoder.finish(FinishReason.COMPLETED)]


def _streamed(events: Iterable[Event]) -> Said:
    """The calls by their fragments alone."""
    names, fragments = dict[int, str](), dict[int, str]()
    for event in events:
        if isinstance(event, CallStart):
            names[event.index] = event.name
        elif isinstance(event, CallArguments):
            fragments[event.index] = fragments.get(event.index, "") + event.fragment
    return [(name, fragments.get(index, "")) for index, name in names.items()]


def _broken_promise(turn: Turn, said: Said, counts: Counter[str]) -> str:
    """What the calls break of the choice and of strict declarations, "" where they break nothing."""
    tools, choice = {tool.name: tool for tool in turn.tools}, turn.choice
    if (choice.mode is ToolMode.REQUIRED and not said) or (not choice.parallel and len(said) > 1):
        return f"{len(said)} calls"
    for name, arguments in said:
        tool = tools[name]
        counts["calls"] += 1
        counts["strict calls"] += tool.strict
        counts["arguments"] += len(json.loads(arguments))
        if choice.allowed_names is not None and name not in choice.allowed_names:
            return f"{name} may not be called"
        wrong = (
            validate_output("json_schema", tool.parameters, arguments, JsonOptions()) if tool.strict else None
        )
        if wrong is not None:
            return f"the arguments of {name}: {wrong}"
    return ""


def _failure(world: FrontendWorld, vocab: str, turn: Turn, wrong: str, counts: Counter[str]) -> Verdict:
    case: dict[str, Any] = {
        "kind": "frontend calls",
        "replay": f"{__name__}:replay",
        "vocab": vocab,
        "wrong": wrong,
    }
    case |= {"tools": [attrs.asdict(tool) for tool in turn.tools], "choice": attrs.asdict(turn.choice)}
    case |= {"walk": list(turn.walk), "text": _text(world, turn)}
    return failed(NAME, CHECK, case=case, n=counts["calls"], worst_error=1.0, detail=wrong, clauses=CLAUSES)


def _text(world: FrontendWorld, turn: Turn) -> str:
    return b"".join(world.vocabulary.token_bytes[i] for i in turn.walk).decode(errors="replace")


def replay(case: dict[str, Any]) -> list[Line]:
    """Read the output of a case file again."""
    world, choice = frontend_world(case["vocab"]), case["choice"]
    names = choice["allowed_names"]
    choice = ToolChoice(**choice | {"allowed_names": None if names is None else tuple(names)})
    turn = Turn(tuple(ToolDeclaration(**tool) for tool in case["tools"]), choice, tuple(case["walk"]))
    wrong = judge(random.Random(0), world, turn, Counter())
    return [Line(repr(_text(world, turn)), wrong or "as written", "as written", not wrong)]
