"""Group M, second half: faults of DFlash drafters, of files that hold models, and of what a program holds."""

from collections.abc import Callable

from experiments.faults.planting import Fault, fault, replace

DFLASH = "engine/models/dflash.py"
DFLASH2 = "engine/models/dflash2.py"
CONFIG = "engine/models/dflash_config.py"
BLOCKS = "engine/runtime/drafters/dflash.py"
WALKS = "engine/runtime/drafters/dflash2.py"
FINISH = "engine/runtime/finish.py"
OPTIONS = "engine/runtime/options.py"
LOADING = "engine/runtime/loading.py"
CAPACITY = "engine/runtime/capacity.py"
WEIGHTS = "engine/models/weights.py"
CHECKPOINT = "engine/models/checkpoint.py"
GGUF = "engine/models/llama/gguf.py"
LLAMA_CONFIG = "engine/models/llama/config.py"
MODULES = ("property_tests/test_dflash.py",)
RUNNING = ("property_tests/test_drafters.py",)
CONFIGS = ("property_tests/test_dflash_config.py",)
PLANS = ("property_tests/test_capacity.py",)
FILES = ("property_tests/test_weights.py",)
GGUF_FILES = ("property_tests/test_gguf.py",)
LLAMA = ("property_tests/test_llama.py",)
ENDS = (
    "property_tests/test_engine.py::"
    "test_an_output_ends_with_the_context_where_that_is_shorter_than_its_budget",
)


def _in(file: str, checks: tuple[str, ...], *clauses: str) -> Callable[[str, str, str, str], Fault]:
    def made(name: str, title: str, old: str, new: str) -> Fault:
        return fault(name, title, replace(file, old, new), checks=checks, clauses=clauses)

    return made


_dflash, _dflash2 = _in(DFLASH, MODULES), _in(DFLASH2, MODULES)
_block, _walk = _in(BLOCKS, RUNNING, "SPEC-15"), _in(WALKS, RUNNING, "SPEC-3")
_config, _plan, _gguf = _in(CONFIG, CONFIGS), _in(LOADING, PLANS), _in(GGUF, GGUF_FILES)

CONTEXT: tuple[Fault, ...] = (
    _dflash("M260", "the context is not normed", "self.hidden_norm(self.fc(features))", "self.fc(features)"),
    fault(
        "M261",
        "the context's norm is centred at one",
        replace(
            DFLASH, "import Mlp, PlainRmsNorm, Projection", "import Mlp, PlainRmsNorm, Projection, RmsNorm"
        ),
        replace(DFLASH, "self.hidden_norm = PlainRmsNorm(", "self.hidden_norm = RmsNorm("),
        checks=MODULES,
    ),
    _dflash(
        "M262",
        "the context passes the layer's norm",
        "layer.self_attn.keys_and_values(context, turns)",
        "layer.self_attn.keys_and_values(layer.input_layernorm(context), turns)",
    ),
    _dflash(
        "M263", "keys are not normed", "self.k_norm(self.k_proj(x).view(shape))", "self.k_proj(x).view(shape)"
    ),
    _dflash(
        "M264",
        "a block looks backwards only",
        "before.new_ones(()).expand(num_batch, num_rows, num_rows)]",
        "before.new_ones(()).expand(num_batch, num_rows, num_rows).tril()]",
    ),
    _dflash("M265", "a window is one position too wide", "behind.abs() < window", "behind.abs() <= window"),
    _dflash("M266", "a window ends backwards only", "behind.abs() < window", "behind < window"),
    _dflash(
        "M267", "the context holds the anchor", "columns < placement.starts", "columns <= placement.starts"
    ),
    _dflash(
        "M268",
        "a block stands behind its anchor",
        "torch.arange(num_rows, device=embeddings.device)",
        "torch.arange(1, num_rows + 1, device=embeddings.device)",
    ),
)
CONVOLUTIONS: tuple[Fault, ...] = (
    _dflash2(
        "M270",
        "taps come from what they mix",
        "conv.mix(mixed, taps, OUT)",
        "conv.mix(mixed, conv.taps(mixed), OUT)",
    ),
    _dflash2("M271", "the sides are swapped", "IN, OUT = 0, 1", "IN, OUT = 1, 0"),
    _dflash2(
        "M272",
        "a convolution looks into the block before",
        "nn.functional.pad(blocks, (0, 0, t, 0))[..., : self.block_size, :]",
        "nn.functional.pad(x, (0, 0, t, 0))[:, : x.shape[1]].unflatten(1, (-1, self.block_size))",
    ),
    _dflash2(
        "M273",
        "taps behind the first are reversed",
        "taps[..., side, t, :]",
        "taps[..., side, self.kernel - t, :]",
    ),
    fault(
        "M274",
        "the codebooks are swapped",
        replace(DFLASH2, "selector.predecessor_codebook[previous]", "selector.successor_codebook[previous]"),
        replace(
            DFLASH2,
            "selector.successor_codebook[candidate_ids]",
            "selector.predecessor_codebook[candidate_ids]",
        ),
        checks=(*MODULES, *RUNNING),
        clauses=("SPEC-3",),
    ),
    _dflash2("M275", "the hidden does not steer the pair term", "selector.hidden_projection(hidden)", "1.0"),
    _block(
        "M280",
        "the anchor's row drafts",
        "hidden[:, 1 : self.num_drafts + 1]",
        "hidden[:, : self.num_drafts]",
    ),
    _block("M281", "a block is not masked", "new_full((1, 1), config.mask_token_id)", "new_full((1, 1), 0)"),
    _block("M282", "padding can be drafted", "[..., : self._vocab_size]", "[..., :]"),
    _walk("M283", "every pair term reads the first row", "hidden[:, j], ids", "hidden[:, 0], ids"),
    fault(
        "M284",
        "drafts beyond the budget are judged",
        replace(FINISH, "torch.minimum(drafts.extents, batch.limits)", "drafts.extents"),
        checks=("property_tests/test_paths.py::test_exact_checks",),
        clauses=("SPEC-6",),
    ),
)
STORED: tuple[Fault, ...] = (
    _in(WEIGHTS, FILES)(
        "M300",
        "only one layout's names are known",
        'prefix = next((p for p in PREFIXES if f"{p}embed_tokens.weight" in stored), "model.")',
        'prefix = "model."',
    ),
    _in(CHECKPOINT, FILES)(
        "M301",
        "a transposed matrix is taken",
        "offered[name].shape != wanted[name]",
        "sorted(offered[name].shape) != sorted(wanted[name])",
    ),
    _in(CHECKPOINT, FILES)("M302", "extra tensors are passed over", "yield ExtraTensor(name)", "continue"),
    _gguf(
        "M303", "pairs stay neighbours", "tensor = halves_from_pairs(tensor, model.config.head_dim)", "pass"
    ),
    _gguf("M304", "keys keep their pairs", '(".q_proj.weight", ".k_proj.weight")', '(".q_proj.weight",)'),
    _gguf("M305", "unknown keys are passed over", "if key not in KNOWN:", "if key not in KNOWN and not key:"),
    _in(LLAMA_CONFIG, LLAMA)(
        "M306",
        "an older file's scaled rotation is passed over",
        'settings.get("rope_type", settings.get("type"))',
        'settings.get("rope_type")',
    ),
    _config(
        "M307",
        "an older drafter's scaled rotation is passed over",
        'settings.get("rope_type", settings.get("type", "default"))',
        'settings.get("rope_type", "default")',
    ),
    _config("M308", "the nested value wins unseen", "if nested[name] != document[name]:", "if not name:"),
    _config("M309", "half a vocabulary is taken", "not in (None, vocab_size)", "is Ellipsis"),
    _config("M310", "layers slide that must not", "not in (None, SLIDING in kinds)", "is Ellipsis"),
)
HELD: tuple[Fault, ...] = (
    _in(CAPACITY, PLANS)(
        "M320", "masks of the bonus column are not counted", "* (num_drafts + 1) *", "* num_drafts *"
    ),
    _plan("M321", "masks are not counted", '"masks on the host", masks,', '"masks on the host", 0,'),
    _plan("M322", "a drafter's context has no room for its last chain", "room + parts.num_drafts,", "room,"),
    _plan(
        "M323",
        "a drafter's context is not counted",
        "tensor_bytes(t for cache in planned for t in (cache.keys, cache.values))",
        "0",
    ),
    _in(CAPACITY, PLANS)(
        "M324",
        "the limit holds for the device alone",
        "needed = self.device_bytes + self.host_bytes",
        "needed = self.device_bytes",
    ),
    _in(OPTIONS, ENDS, "DONE-10")(
        "M325",
        "an output that the context ends says length",
        "FinishReason.CONTEXT if room < max_tokens else FinishReason.LENGTH",
        "FinishReason.LENGTH",
    ),
    _in(OPTIONS, ENDS, "DONE-10")(
        "M326",
        "the context's last token counts as its end",
        "FinishReason.CONTEXT if room < max_tokens",
        "FinishReason.CONTEXT if room <= max_tokens",
    ),
)
FAULTS = CONTEXT + CONVOLUTIONS + STORED + HELD
