"""Group A, first half: which ids may be sampled and in which order they stand (contract 3, steps 1 to 4)."""

from experiments.faults.planting import Fault, fault, replace

SAMPLE = "engine/ops/sample.py"
OPS = ("gate:exact ops", "property_tests/test_sample.py")
TESTS = ("property_tests/test_ops_wide.py", "property_tests/test_ops_layout.py")

INPUTS = "    inputs = _Inputs(\n        logits[:, :vocab_size],\n"
FREE_WORDS = "legal_words(logits, vocab_size, None, None, banned_bitmask)[0]"
PACK = (
    "    _pad = torch.zeros(legal.shape[0], legal.shape[1] * WORD_BITS, dtype=torch.bool)\n"
    "    _pad[:, :vocab_size] = _bits\n"
    "    _words = (_pad.view(legal.shape[0], -1, WORD_BITS).long() << torch.arange(WORD_BITS)).sum(2)\n"
    "    _words = torch.where(_words >= 2**31, _words - 2**32, _words).int()\n"
)


def _before_inputs(code: str):
    return replace(SAMPLE, INPUTS, code + INPUTS)


FAULTS: tuple[Fault, ...] = (
    fault(
        "A1",
        "top_k is taken before the mask",
        _before_inputs(
            "    _cap = vocab_size if candidate_cap is None else min(candidate_cap, vocab_size)\n"
            "    _k = torch.where((settings.top_k >= 1) & (settings.top_k < _cap), settings.top_k, _cap)\n"
            "    _order = logits[:, :vocab_size].float().argsort(dim=1, descending=True, stable=True)\n"
            "    _bits = torch.zeros(_order.shape, dtype=torch.bool).scatter_(\n"
            "        1, _order, torch.arange(vocab_size)[None, :] < _k[:, None]\n"
            "    )\n" + PACK + "    legal = legal & _words\n"
        ),
        checks=OPS,
        clauses=("SAMP-2", "SAMP-6", "SERV-26", "VER-3"),
    ),
    fault(
        "A3",
        "illegal logits become -1e4 and stay in the race",
        _before_inputs(
            "    _bits = (legal[:, :, None] >> torch.arange(WORD_BITS)) & 1\n"
            "    _bits = _bits.flatten(1)[:, :vocab_size].bool()\n"
            "    logits = torch.where(_bits, logits[:, :vocab_size].float(), -1e4)\n"
            "    legal = torch.where((empty_kind == RowStatus.OK)[:, None], " + FREE_WORDS + ", legal)\n"
        ),
        checks=OPS,
        clauses=("SAMP-2", "SERV-3", "SERV-25"),
    ),
    fault(
        "A4",
        "one greedy row turns its whole batch greedy",
        replace(
            SAMPLE,
            "    is_greedy = settings.temperature <= 0\n",
            "    is_greedy = (settings.temperature <= 0).any().expand_as(settings.temperature)\n",
        ),
        checks=OPS,
        clauses=("SAMP-5",),
    ),
    fault(
        "A5",
        "bits of a mask word are read in the wrong order on whole rows",
        replace(SAMPLE, "torch.arange(WORD_BITS - 1, -1, -1, dtype", "torch.arange(WORD_BITS, dtype"),
        checks=OPS,
        clauses=("MASK-1", "SAMP-2"),
    ),
    fault(
        "A200",
        "bits of a mask word are read in the wrong order where few ids are legal",
        replace(
            SAMPLE,
            "word_index[entry] * WORD_BITS + bit_index",
            "word_index[entry] * WORD_BITS + (WORD_BITS - 1 - bit_index)",
        ),
        checks=TESTS,
        clauses=("MASK-1", "SAMP-2"),
    ),
    fault(
        "A7",
        "a row without a grammar reads its zero mask as a ban",
        replace(SAMPLE, "torch.where(constrained_mask[:, None], inside, allowed)", "inside"),
        checks=OPS,
        clauses=("SAMP-12", "MASK-13", "SAMP-14"),
    ),
    fault(
        "A10",
        "equal logits are won by the larger id",
        replace(SAMPLE, "| (ID_MASK - token_ids)", "| token_ids"),
        replace(SAMPLE, "ID_MASK - (keys & ID_MASK)", "keys & ID_MASK"),
        replace(SAMPLE, "ID_MASK - (word_keys.", "(word_keys."),
        checks=OPS,
        clauses=("SAMP-5", "SAMP-6"),
    ),
    fault(
        "A14",
        "an empty legal set is sampled as id 0",
        replace(
            SAMPLE,
            "(empty_kind == RowStatus.OK) & non_finite, int(RowStatus.NON_FINITE), empty_kind)",
            "(empty_kind == RowStatus.OK) & non_finite, int(RowStatus.NON_FINITE), 0 * empty_kind)",
        ),
        checks=OPS,
        clauses=("SAMP-10", "EMPTY-1"),
    ),
    fault(
        "A16",
        "a positive bias opens an illegal id",
        _before_inputs(
            "    if bias is not None:\n"
            "        _bits = bias[:, :vocab_size] > 0\n"
            + "".join(f"    {line}\n" for line in PACK.splitlines())
            + "        legal = legal | _words\n"
        ),
        checks=OPS,
        clauses=("SERV-25", "SERV-3"),
    ),
    fault(
        "A18",
        "greedy rows skip the mask",
        _before_inputs(
            "    legal = torch.where((settings.temperature <= 0)[:, None], " + FREE_WORDS + ", legal)\n"
        ),
        checks=OPS,
        clauses=("SAMP-5", "SPEC-7", "SAMP-2"),
    ),
    fault(
        "A201",
        "the mask's bits past the vocabulary count as legal ids",
        replace(SAMPLE, "    if vocab_size % WORD_BITS:\n", "    if vocab_size % WORD_BITS < 0:\n"),
        checks=OPS,
        clauses=("MASK-1", "SAMP-9", "VOC-1"),
    ),
    fault(
        "A202",
        "bans act on unconstrained rows only",
        replace(
            SAMPLE,
            "legal = allowed if banned_bitmask is None else",
            "legal = allowed if banned_bitmask is None or allowed_bitmask is not None else",
        ),
        checks=OPS,
        clauses=("SERV-25", "EMPTY-4"),
    ),
    fault(
        "A203",
        "a set emptied by bans is reported as empty by itself",
        replace(SAMPLE, "int(RowStatus.EMPTY_BY_BANS), int(RowStatus.EMPTY))", "int(RowStatus.EMPTY), 1)"),
        checks=OPS,
        clauses=("EMPTY-4",),
    ),
    fault(
        "A204",
        "top_k = 1 is not a limit",
        replace(SAMPLE, "(top_k >= 1) & (top_k < cap)", "(top_k > 1) & (top_k < cap)"),
        checks=OPS,
        clauses=("SAMP-7",),
    ),
    fault(
        "A205",
        "top_k counts one more than it says",
        replace(SAMPLE, "(top_k < cap), top_k, cap)", "(top_k < cap), top_k + 1, cap)"),
        checks=OPS,
        clauses=("SAMP-7",),
    ),
    fault(
        "A206",
        "the candidate cap does not bind",
        replace(
            SAMPLE,
            "cap = vocab_size if candidate_cap is None else min(candidate_cap, vocab_size)",
            "cap = vocab_size if candidate_cap is None else min(candidate_cap + 1, vocab_size)",
        ),
        checks=OPS,
        clauses=("SAMP-7",),
    ),
    fault(
        "A207",
        "no limit still means at most 20 candidates",
        replace(
            SAMPLE,
            "cap = vocab_size if candidate_cap is None else min(candidate_cap, vocab_size)",
            "cap = min(20 if candidate_cap is None else candidate_cap, vocab_size)",
        ),
        checks=TESTS,
        clauses=("SAMP-7", "SAMP-2"),
    ),
    fault(
        "A208",
        "the smallest of few legal candidates is lost",
        replace(
            SAMPLE,
            "sparse_rows)\n        num_kept = min(cap, keys.shape[1])",
            "sparse_rows)\n        num_kept = min(cap, max(1, keys.shape[1] - 1))",
        ),
        checks=TESTS,
        clauses=("SAMP-9", "SAMP-2"),
    ),
    fault(
        "A209",
        "compacted rows read another row's mask words",
        replace(SAMPLE, "(legal[rows[owner], word_index]", "(legal[owner, word_index]"),
        checks=TESTS,
        clauses=("SAMP-2",),
    ),
    fault(
        "A210",
        "compacted rows read another row's logits",
        replace(
            SAMPLE, "_adjusted(inputs, (rows[owner], token_ids))", "_adjusted(inputs, (owner, token_ids))"
        ),
        checks=TESTS,
        clauses=("SAMP-2",),
    ),
    fault(
        "A211",
        "every row takes the first row's frequency penalty",
        replace(SAMPLE, "settings.frequency_penalty[:, None]", "settings.frequency_penalty[:1, None]"),
        replace(
            SAMPLE, "[:1, None].expand(-1, vocab_size)", "[:1, None].expand(logits.shape[0], vocab_size)"
        ),
        checks=OPS,
        clauses=("SAMP-3",),
    ),
    fault(
        "A212",
        "every row takes the first row's presence penalty",
        replace(SAMPLE, "settings.presence_penalty[:, None]", "settings.presence_penalty[:1, None]"),
        replace(
            SAMPLE, "[:1, None].expand(-1, vocab_size)", "[:1, None].expand(logits.shape[0], vocab_size)"
        ),
        checks=OPS,
        clauses=("SAMP-3",),
    ),
    fault(
        "A220",
        "one word of 32 ids too few is looked through",
        replace(
            SAMPLE,
            "word_keys.topk(min(cap, num_words), dim=1)",
            "word_keys.topk(max(1, min(cap, num_words) - 1), dim=1)",
        ),
        checks=TESTS,
        clauses=("SAMP-2", "SAMP-6"),
    ),
    fault(
        "A221",
        "whole rows read the first rows' masks",
        replace(SAMPLE, "(legal[index][:, :, None] << shifts)", "(legal[: len(rows)][:, :, None] << shifts)"),
        checks=TESTS,
        clauses=("SAMP-2",),
    ),
    fault(
        "A213",
        "+0 and -0 do not tie",
        replace(SAMPLE, "neginf=-torch.inf) + 0.0).view", "neginf=-torch.inf)).view"),
        checks=OPS,
        clauses=("SAMP-5",),
    ),
    fault(
        "A214",
        "NaN counts as the smallest logit",
        replace(SAMPLE, "(nan=torch.inf, posinf", "(nan=-torch.inf, posinf", times=2),
        checks=OPS,
        clauses=("SAMP-10", "FAIL-4"),
    ),
    fault(
        "A215",
        "+inf counts as a large finite logit",
        replace(SAMPLE, "posinf=torch.inf, ", "posinf=3e38, ", times=2),
        checks=OPS,
        clauses=("SAMP-10",),
    ),
    fault(
        "A216",
        "-inf is a candidate",
        replace(SAMPLE, "(ordered > ~ORDERED_INFINITY)", "(ordered >= ~ORDERED_INFINITY)"),
        checks=OPS,
        clauses=("SAMP-9", "SAMP-10"),
    ),
    fault(
        "A217",
        "a legal set of -inf only is reported as empty",
        replace(
            SAMPLE,
            "non_finite, int(RowStatus.NON_FINITE), empty_kind)",
            "non_finite, torch.where(num_usable == 0, 1, int(RowStatus.NON_FINITE)), empty_kind)",
        ),
        checks=OPS,
        clauses=("SAMP-10", "EMPTY-4"),
    ),
    fault(
        "A218",
        "a non-finite illegal logit fails the row",
        _before_inputs(
            "    empty_kind = torch.where(\n"
            "        (empty_kind == 0) & ~logits[:, :vocab_size].isfinite().any(1), 2, empty_kind\n"
            "    )\n"
            "    _nan = logits[:, :vocab_size].isnan().any(1)\n"
            "    empty_kind = torch.where((empty_kind == 0) & _nan, 2, empty_kind)\n"
        ),
        checks=OPS,
        clauses=("SAMP-2", "SAMP-10"),
    ),
    fault(
        "A219",
        "negative logits are ranked upside down",
        replace(SAMPLE, "return bits ^ ((bits >> 31) & 0x7FFFFFFF)", "return bits"),
        checks=OPS,
        clauses=("SAMP-6", "VER-3"),
    ),
)
