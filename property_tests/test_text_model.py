"""Models of every architecture and file form through one call, decoding and drafting through one program."""

import json

import attrs
import pytest
import torch

from engine.models.checkpoint import InvalidCheckpoint
from engine.models.config_fields import InvalidModelConfig
from engine.models.llama.target import Llama
from engine.models.llama.weights import save_llama
from engine.models.ngram import PromptLookup
from engine.models.qwen3_5.target import Target, TargetState
from engine.models.text_model import load_text_model
from engine.models.weights import save
from engine.ops import get_ops
from engine.request import OutputConstraint, RequestOptions, SamplingSettings
from engine.runtime.drafters.ngram import NgramDrafter
from engine.runtime.drafters.ordinary import OrdinaryDrafter
from engine.runtime.engine import Engine
from engine.runtime.program import TwoPhaseProgram
from engine.runtime.resident import ResidentTarget
from engine.text.compiler import ConstraintCompiler
from experiments.vocabularies import vocabulary_of
from property_tests import llama_words, qwen3_5_words
from property_tests.gguf_words import metadata_of, stored_tensors, write_gguf
from property_tests.llama_words import llama_of
from property_tests.qwen3_5_words import target_of

TOY = vocabulary_of("toy")
COMPILER = ConstraintCompiler(TOY)
CONFIG = attrs.evolve(llama_words.BASE, vocab_size=TOY.logits_width)
NUM_DRAFTS, MAX_CONTEXT = 3, 120
PROMPT = [5, 6, 7, 5, 6, 7, 5]
CONSTRAINTS = (None, OutputConstraint.regex("(a|bc)*(ca?b){1,5}"), OutputConstraint.json_object())


def test_each_form_is_loaded_by_what_it_says(tmp_path):
    save(tmp_path / "qwen", target_of(qwen3_5_words.BASE))
    save_llama(tmp_path / "llama", llama_of(CONFIG))
    assert isinstance(load_text_model(tmp_path / "qwen"), Target)
    assert isinstance(load_text_model(tmp_path / "llama", torch.bfloat16), Llama)
    pytest.importorskip("gguf", reason="pip install 'counterproof[gguf]'")
    path = write_gguf(tmp_path / "m.gguf", stored_tensors(llama_of(CONFIG)), metadata_of(llama_of(CONFIG)))
    assert isinstance(load_text_model(path), Llama)


def test_another_kind_of_model_is_refused(tmp_path):
    with pytest.raises(InvalidCheckpoint):
        load_text_model(tmp_path)
    save_llama(tmp_path, llama_of(CONFIG))
    config = llama_of(CONFIG).config.to_json() | {"rope_scaling": {"type": "yarn"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(InvalidModelConfig):
        load_text_model(tmp_path)


def _outputs(drafter, num_lanes, settings):
    state = TargetState.allocate(CONFIG, num_lanes, MAX_CONTEXT + NUM_DRAFTS + 1)
    resident = ResidentTarget(llama_of(CONFIG), state, MAX_CONTEXT, TOY.size)
    program = TwoPhaseProgram(
        resident,
        drafter,
        get_ops("torch"),
        vocab_size=TOY.size,
        eos_ids=frozenset(TOY.eos_ids),
        num_lanes=num_lanes,
    )
    engine = Engine(TOY, program, COMPILER)
    handles = [
        engine.submit([*PROMPT, 6 + i], RequestOptions(24, constraint, settings))
        for i, constraint in enumerate(CONSTRAINTS)
    ]
    engine.run_until_done()
    drafted = sum(handle.stats.num_drafted for handle in handles)
    return [handle.result().token_ids for handle in handles], drafted


@pytest.mark.clause("SPEC-1", "SPEC-9")
@pytest.mark.parametrize("num_lanes", [1, 3])
def test_copied_drafts_give_the_tokens_of_ordinary_decoding(num_lanes):
    settings = SamplingSettings(temperature=0.0)
    ordinary, _ = _outputs(OrdinaryDrafter(), 1, settings)
    copied, drafted = _outputs(NgramDrafter(PromptLookup(1, 3), NUM_DRAFTS), num_lanes, settings)
    assert copied == ordinary
    assert drafted > 0
