"""The Triton twins: faults that the torch reference does not have (groups A and B, from 280 on)."""

from experiments.faults.planting import Fault, fault, replace

SAMPLE = "engine/ops/sample_triton.py"
ACCEPT = "engine/ops/accept_triton.py"
RNG = "engine/ops/rng_triton.py"
EDGES = ("property_tests/test_sample.py::test_edges_by_hand",)
ROUNDS = ("property_tests/test_accept.py::test_rounds_equal_the_oracle",)
TWINS = ("gate:triton equals torch", "property_tests/test_triton.py")


def _twin(name: str, title: str, file: str, old: str, new: str, *clauses: str) -> Fault:
    return fault(name, title, replace(file, old, new), checks=TWINS, clauses=("BATCH-8", *clauses))


FAULTS: tuple[Fault, ...] = (
    _twin("A280", "the kernel reads mask words of 31 bits", SAMPLE, "bitmask_ptr + token_ids // 32", "bitmask_ptr + token_ids // 31", "MASK-1"),
    _twin("A281", "the kernel lets illegal ids in behind a mask", SAMPLE, "return tl.where(legal & (ordered", "return tl.where((legal | True) & (ordered", "SAMP-2"),
    _twin("A282", "the kernel's constrained flag is inverted", SAMPLE, ".to(tl.int32) ^ 1)", ".to(tl.int32))", "SAMP-12"),
    _twin("A283", "the kernel opens what is banned alone", SAMPLE, "token_ids, allowed) == 0)", "token_ids, allowed) != 0)", "SERV-25"),
    _twin("A284", "the kernel's ties go to the larger id", SAMPLE, "(token_ids.to(tl.int64) ^ _ID_MASK)", "token_ids.to(tl.int64)", "SAMP-5"),
    _twin("A285", "the kernel ranks NaN lowest", SAMPLE, "tl.where(values != values, _INFINITY, ordered)", "tl.where(values != values, _MINUS_INFINITY, ordered)", "SAMP-10"),
    _twin("A286", "the kernel's +0 and -0 do not tie", SAMPLE, "    values = tl.where(values == 0.0, 0.0, values)  # +0 and -0 tie\n", "", "SAMP-5"),
    _twin("A287", "a block keeps one candidate too few", SAMPLE, "while (best != _NO_KEY) & (rank < CAP):", "while (best != _NO_KEY) & (rank < CAP - 1):", "SAMP-2"),
    _twin("A288", "the first block decides whether a set is empty", SAMPLE, "mask=block < num_blocks, other=0), 0)", "mask=block < 1, other=0), 0)", "SAMP-10"),
    _twin("A289", "the kernel's penalties are the first row's", SAMPLE, "tl.load(frequency_ptr + row)", "tl.load(frequency_ptr)", "SAMP-3"),
    fault("A290", "the kernel's top_k counts from 2", replace(SAMPLE, "(top_k >= 1) & (top_k < CAP)", "(top_k > 1) & (top_k < CAP)"), checks=EDGES, clauses=("BATCH-8", "SAMP-7")),
    _twin("A291", "the kernel's presence acts from the second occurrence", SAMPLE, "(counts > 0)", "(counts > 1)", "SAMP-3"),
    _twin("A292", "the kernel's key steps are exchanged", RNG, "key_0 = (key_0 + _STEP_0)", "key_0 = (key_0 + _STEP_1)", "SAMP-13"),
    _twin("B280", "the kernel accepts at equality", ACCEPT, "has_law & (goal < target_prob)", "has_law & (goal <= target_prob)", "SPEC-9"),
    _twin("B281", "the kernel's acceptance leaves q out", ACCEPT, "            goal *= _draft_prob_at(", "            _draft_prob_at(", "SPEC-3"),
    _twin("B282", "the kernel judges by the next column's law", ACCEPT, "        law_row = row * (k + 1) + column\n        draft", "        law_row = row * (k + 1) + column + 1\n        draft", "SPEC-6"),
    _twin("B283", "the kernel's residual is |p - q|", ACCEPT, "tl.where(weights > draft_probs, weights - draft_probs, 0.0)", "tl.abs(weights - draft_probs)", "SPEC-3"),
    fault("B284", "the kernel's edge belongs to the earlier candidate", replace(ACCEPT, "positive & (goal < sums)", "positive & (goal <= sums)"), checks=ROUNDS, clauses=("BATCH-8", "SAMP-8")),
    _twin("B285", "the kernel walks on behind a completion id", ACCEPT, "is_accepted & (has_ended == 0) & (column < extent)", "is_accepted & (column < extent)", "SPEC-6"),
    _twin("B286", "the kernel walks past the extent", ACCEPT, "is_accepted & (has_ended == 0) & (column < extent)", "is_accepted & (has_ended == 0) & (column < k)", "MASK-3"),
    _twin("B287", "the kernel blames the grammar for free rows", ACCEPT, "is_closed & (tl.load(constrained_ptr + row) != 0)", "is_closed", "SPECG-3"),
)  # fmt: skip
