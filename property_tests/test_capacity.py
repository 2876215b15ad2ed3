"""A program's plan names every byte that is then allocated, and is enforced before anything is."""

import attrs
import pytest
import torch

from engine.errors import RequestError
from engine.models.weights import save
from engine.runtime.capacity import mask_bytes
from engine.runtime.loading import ProgramOptions, block_parts, build_program, mtp_parts
from property_tests.neural_words import BLOCK, CONFIG, TOY, models

OPTIONS = ProgramOptions(num_lanes=3, max_context=50)


def parts_of(spec, options, tmp_path):
    target = models()["target"]
    if spec == "mtp":
        pytest.importorskip("safetensors")
        save(tmp_path, target, models()["mtp"])
        return mtp_parts(tmp_path, target, TOY, options)
    return block_parts(models()[spec], target, TOY, options)


@pytest.mark.parametrize("spec", ["mtp", "dflash", "dflash2"])
def test_the_plan_is_what_is_allocated(spec, tmp_path):
    options = attrs.evolve(OPTIONS, spec=spec)
    program, plan = build_program(models()["target"], parts_of(spec, options, tmp_path), TOY, options)
    planned = {item.name: item.num_bytes for item in plan.items}
    held = sum(tensor.nbytes for tensor in program._target.state.tensors())
    drafter = program._drafter
    caches = [drafter._cache] if spec == "mtp" else list(drafter._caches)
    assert planned["keys, values, states"] == held
    assert planned["drafter's context"] == sum(c.keys.nbytes + c.values.nbytes for c in caches)
    assert planned["masks on the host"] == program._bitmask.nbytes == mask_bytes(3, 3, TOY.size)
    assert planned["masks"] == 0  # a CPU has one copy
    assert planned["drafter weights"] == sum(p.nbytes for p in models()[spec].parameters())
    assert planned["target weights"] == sum(p.nbytes for p in models()["target"].parameters())
    assert plan.device_bytes + plan.host_bytes == sum(planned.values())
    assert (program.max_context, program.num_free_lanes, plan.num_drafts) == (50, 3, BLOCK - 1)
    assert len(plan.lines()) == len(plan.items) + 2


def test_a_plan_over_the_limit_is_refused_and_one_at_it_is_not():
    target = models()["target"]
    options = attrs.evolve(OPTIONS, spec="dflash")
    parts = block_parts(models()["dflash"], target, TOY, options)
    needed = sum(item.num_bytes for item in build_program(target, parts, TOY, options)[1].items)
    build_program(target, parts, TOY, attrs.evolve(options, memory_limit=needed))
    with pytest.raises(RequestError, match="fewer lanes"):
        build_program(target, parts, TOY, attrs.evolve(options, memory_limit=needed - 1))


OUT_OF_RANGE = [
    {"max_context": 1},
    {"max_context": CONFIG.max_context + 1},
    {"num_lanes": 0},
    {"num_drafts": 4},
]


def dflash_program(options):
    target = models()["target"]
    return build_program(target, block_parts(models()["dflash"], target, TOY, options), TOY, options)


@pytest.mark.parametrize("changes", OUT_OF_RANGE)
def test_numbers_out_of_range_are_refused(changes):
    with pytest.raises(RequestError):
        dflash_program(attrs.evolve(OPTIONS, spec="dflash", **changes))


@pytest.mark.parametrize("name", ["hidden_size", "vocab_size", "num_target_layers"])
def test_a_drafter_of_another_target_is_refused(name):
    drafter = models()["dflash"]
    other = type(drafter)(attrs.evolve(drafter.config, **{name: getattr(drafter.config, name) + 20}))
    with pytest.raises(RequestError, match=name):
        block_parts(other, models()["target"], TOY, OPTIONS)


def test_a_context_holds_its_last_window():
    """The chain behind the very last position still has its places."""
    program, _ = dflash_program(OPTIONS)
    assert program._target.room == 50 + BLOCK
    assert all(cache.keys.shape[1] == 50 + BLOCK + BLOCK - 1 for cache in program._drafter._caches)
    assert program._bitmask.dtype is torch.int32
