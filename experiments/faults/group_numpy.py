"""The numpy twins: faults that the torch reference does not have (groups A and B, from 300 on)."""

from experiments.faults.planting import Fault, fault, replace

SAMPLE = "engine/ops/sample_numpy.py"
ACCEPT = "engine/ops/accept_numpy.py"
PROPOSE = "engine/ops/propose_numpy.py"
RNG = "engine/ops/rng_numpy.py"
TWINS = ("property_tests/test_numpy_ops.py",)


def _twin(name: str, title: str, file: str, old: str, new: str, *clauses: str) -> Fault:
    return fault(name, title, replace(file, old, new), checks=TWINS, clauses=("BATCH-8", *clauses))


FAULTS: tuple[Fault, ...] = (
    _twin("A300", "numpy's bound is one group too high", SAMPLE, "place = num_groups - cap\n", "place = num_groups - cap + (cap > 1)\n", "SAMP-2"),
    _twin("A301", "numpy leaves out what only reaches the bound", SAMPLE, "(values >= bound)", "(values > bound)", "SAMP-5"),
    _twin("A302", "numpy's ties keep no order", SAMPLE, "packed_ids[owner, column] = token_ids", "packed_ids[owner, column] = token_ids[::-1]", "SAMP-5"),
    _twin("A303", "numpy's bans do not act", SAMPLE, "allowed & ~banned_bitmask.numpy()", "allowed | banned_bitmask.numpy()", "SERV-25"),
    _twin("A304", "numpy's constrained flag is inverted", SAMPLE, "else constrained_mask.numpy()[:, None]", "else ~constrained_mask.numpy()[:, None]", "SAMP-12"),
    _twin("A305", "numpy's illegal NaNs spoil a row", SAMPLE, "np.fmin(adjusted", "np.minimum(adjusted", "SAMP-10"),
    _twin("A306", "numpy takes +inf for a candidate", SAMPLE, "(best > -np.inf) & (best < np.inf)", "(best > -np.inf) & (best <= np.inf)", "SAMP-10"),
    _twin("A307", "numpy's -0 reaches the candidates", SAMPLE, "ZERO - packed_values[row, order]", "-packed_values[row, order]", "SAMP-5"),
    _twin("A308", "numpy's presence acts from the second occurrence", SAMPLE, "(counts > 0)", "(counts > 1)", "SAMP-3"),
    _twin("A309", "numpy's padding bits make a set look filled", SAMPLE, "allowed[:, -1] &= (1 << vocab_size % WORD_BITS) - 1", "pass", "SAMP-9"),
    _twin("A310", "numpy's top_p drops the id that crosses", SAMPLE, "kept[:, 1:] &= goes_on[:, :-1]", "kept[:, 1:] &= goes_on[:, 1:]", "SAMP-6"),
    _twin("A311", "numpy's min_p cuts at equality", SAMPLE, "kept = weights >= ", "kept = weights > ", "SAMP-6"),
    _twin("A312", "numpy's chunks write over each other", SAMPLE, "self.found[rows] = found", "self.found[: num_rows] = found", "SAMP-2"),
    _twin("A313", "numpy's last positive entry is the first", SAMPLE, "weights.shape[1] - 1 - positive[:, ::-1].argmax(axis=1)", "positive.argmax(axis=1)", "SAMP-8"),
    _twin("A314", "numpy's exponentials are numpy's", SAMPLE, "torch.from_numpy(exponents).exp_().numpy()", "np.exp(exponents)", "SAMP-6"),
    _twin("A315", "numpy's round keys do not wrap", RNG, "(key + _STEPS) & _MASK", "(key + _STEPS)", "SAMP-13"),
    _twin("A316", "numpy's seed loses its upper word", RNG, "seed_words >> _HALF", "seed_words & _MASK", "SAMP-13"),
    _twin("A317", "numpy's purposes are the first row's", RNG, "purpose.numpy() if", "purpose.numpy()[:1] if", "SAMP-13"),
    _twin("B300", "numpy accepts at equality", ACCEPT, "return coins < target_prob", "return coins <= target_prob", "SPEC-9"),
    _twin("B301", "numpy's acceptance leaves q out", ACCEPT, "return coins * q < target_prob", "return coins < target_prob", "SPEC-3"),
    _twin("B302", "numpy judges by the next column's law", ACCEPT, "matches, one.probs[:, :-1]", "matches, one.probs[:, 1:]", "SPEC-6"),
    _twin("B303", "numpy's residual is |p - q|", ACCEPT, "np.maximum(probs - q, 0.0)", "np.abs(probs - q)", "SPEC-3"),
    _twin("B304", "numpy walks on behind a completion id", ACCEPT, "run &= ends.cumsum(axis=1) - ends == 0", "pass", "SPEC-6"),
    _twin("B305", "numpy walks past the extent", ACCEPT, "(np.arange(k) < one.extents[:, None])", "(np.arange(k) < k)", "MASK-3"),
    _twin("B306", "numpy blames the grammar for free rows", ACCEPT, "by_grammar &= constrained_mask.numpy()", "pass", "SPECG-3"),
    _twin("B307", "numpy's row without a law emits its drafts", ACCEPT, "(num_accepted + ~has_ended) * is_ok", "num_accepted + ~has_ended", "SPEC-6"),
    _twin("B308", "numpy's draft is drawn from the unscaled scores", PROPOSE, "np.where(is_greedy, 1.0, heat)", "1.0", "SPEC-4"),
    _twin("B309", "numpy's draft has numpy's exponentials", PROPOSE, "torch.from_numpy(exponents).exp_().numpy()", "np.exp(exponents)", "SPEC-4"),
)  # fmt: skip
