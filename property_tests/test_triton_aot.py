"""Every Triton kernel compiles ahead of time for the served compute capabilities, without a GPU.

A child process compiles (interpretation is decided when Triton is imported) and prints, per kernel, the size
of the binary and the number of fused multiply-adds; the parent judges. Fusion would round a penalty's product
and its difference together, which no other implementation does.
"""

import json
import os
import subprocess
import sys

import pytest

CAPABILITIES = [80, 90, 100]
KERNELS = {
    "philox",
    "rank_block masked",
    "rank_block free",
    "merge_blocks",
    "walk sparse",
    "walk one-hot",
    "settle sparse",
    "settle one-hot",
    "rank_block fused on purpose",
}


@pytest.fixture(scope="module", params=CAPABILITIES)
def compiled(request, tmp_path_factory):
    """Compile all kernels for one capability in a child with its own cache."""
    environment = {
        **os.environ,
        "TRITON_INTERPRET": "0",
        "TRITON_DEFAULT_FP_FUSION": "0",
        "TRITON_CACHE_DIR": str(tmp_path_factory.mktemp("triton")),
    }
    command = [sys.executable, "-m", "property_tests.test_triton_aot", str(request.param)]
    child = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert child.returncode == 0, child.stderr[-2000:]
    return json.loads(child.stdout)


@pytest.mark.clause("BATCH-8")
def test_every_kernel_becomes_a_binary(compiled):
    assert set(compiled) == KERNELS
    assert all(entry["bytes"] > 1000 for entry in compiled.values())


@pytest.mark.clause("SAMP-3")
def test_no_product_is_fused_into_its_sum(compiled):
    """The same kernel compiled with fusion shows that the count would see it."""
    control = compiled.pop("rank_block fused on purpose")
    assert control["fused"] > 0
    assert {name: entry["fused"] for name, entry in compiled.items()} == dict.fromkeys(compiled, 0)


def types_by_suffix(function, given):
    """Pointers and integers of a kernel by name; the launch gives the same types."""
    types = {name: "i32" for name in function.arg_names}
    types.update({name: "*i64" for name in function.arg_names if name.endswith("_ptr")})
    return {**types, **given}


def compile_all(capability):
    """Return, per kernel, the size of its binary and its number of fused multiply-adds."""
    from engine.ops import accept_triton, rng_triton, sample_triton

    table_types = {"allowed_ptr": "*i32", "constrained_ptr": "*u8"}
    penalty_types = dict.fromkeys(["bias_ptr", "presence_ptr", "frequency_ptr"], "*fp32")
    integer_types = dict.fromkeys(["banned_ptr", "counts_ptr", "found_ptr"], "*i32")
    select_types = {**table_types, **penalty_types, **integer_types, "logits_ptr": "*bf16"}
    uniform_types = dict.fromkeys(["uniforms_ptr", "correction_ptr", "bonus_ptr"], "*fp64")
    prob_types = dict.fromkeys(["law_probs_ptr", "draft_probs_ptr"], "*fp64")
    round_types = {**table_types, **uniform_types, **prob_types, "ends_ptr": "*u8"}
    rank = (sample_triton.rank_block_kernel, select_types, {"CAP": 20, "BLOCK": 4096}, sample_triton.OPTIONS)
    no_tables = dict.fromkeys(["allowed_ptr", "constrained_ptr", "banned_ptr", "counts_ptr", "bias_ptr"])
    merge_types = {"found_ptr": "*i32", "logits_ptr": "*fp32"}
    merge_sizes = {"CAP": 20, "MERGE": 2048, "BLOCKS": 64}
    walk, settle, options = accept_triton.walk_kernel, accept_triton.settle_kernel, accept_triton.OPTIONS
    sizes = {"NUM_CANDIDATES": 16, "CAP_BLOCK": 32}
    one_hot = {"NUM_CANDIDATES": 0, "CAP_BLOCK": 32, "candidate_ids_ptr": None, "draft_probs_ptr": None}
    window = {"K_BLOCK": 8}
    jobs = {
        "philox": (rng_triton.philox_kernel, {}, {"BLOCK": rng_triton.BLOCK}, {}),
        "rank_block masked": rank,
        "rank_block free": (
            rank[0],
            {**select_types, "logits_ptr": "*fp32"},
            {**rank[2], **no_tables},
            rank[3],
        ),
        "merge_blocks": (sample_triton.merge_blocks_kernel, merge_types, merge_sizes, sample_triton.OPTIONS),
        "walk sparse": (walk, round_types, sizes, options),
        "walk one-hot": (walk, round_types, one_hot, options),
        "settle sparse": (settle, round_types, {**sizes, **window}, options),
        "settle one-hot": (settle, round_types, {**one_hot, **window}, options),
        "rank_block fused on purpose": (*rank[:3], {**rank[3], "enable_fp_fusion": True}),
    }
    return {name: compile_one(capability, *job) for name, job in jobs.items()}


def compile_one(capability, function, types, constants, options):
    """Compile one kernel for one capability."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature = {**types_by_suffix(function, types), **dict.fromkeys(constants, "constexpr")}
    signature = {name: signature[name] for name in function.arg_names}
    source = ASTSource(function, signature, constants)
    kernel = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    return {"bytes": len(kernel.asm["cubin"]), "fused": kernel.asm["ptx"].count("fma.rn.f")}


if __name__ == "__main__":
    print(json.dumps(compile_all(int(sys.argv[1]))))
