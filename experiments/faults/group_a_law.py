"""Group A, second half: the law over the candidates, the draw, the generator (contract 3 and 4)."""

from experiments.faults.planting import Fault, fault, replace

SAMPLE = "engine/ops/sample.py"
RNG = "engine/ops/rng.py"
OPS = ("gate:exact ops", "property_tests/test_sample.py")
TESTS = ("property_tests/test_ops_wide.py", "property_tests/test_ops_layout.py")
NUMBERS = ("property_tests/test_rng.py", "gate:exact ops")

KEEP = "    weights = torch.where(_kept(weights, settings), weights, 0.0)\n"
MASS = "    mass = weights.cumsum(dim=1)[:, -1:]\n"
PRESENCE = "values - inputs.presence[source] * (counts > 0).float()"
FREQUENCY = "values - inputs.frequency[source] * counts.float()"


def _law(name: str, title: str, old: str, new: str, *clauses: str) -> Fault:
    return fault(name, title, replace(SAMPLE, old, new), checks=OPS, clauses=clauses)


def _number(name: str, title: str, old: str, new: str, times: int = 1) -> Fault:
    return fault(name, title, replace(RNG, old, new, times=times), checks=NUMBERS, clauses=("SAMP-13",))


FAULTS: tuple[Fault, ...] = (
    _law(
        "A9",
        "top_p drops the candidate that reaches it",
        "running[:, -1:]).roll(1, dims=1)",
        "running[:, -1:])",
        "SAMP-7",
    ),
    _law(
        "A11",
        "a goal on the edge of two candidates picks the earlier one",
        "(goals[:, None] < weights.cumsum(dim=1))",
        "(goals[:, None] <= weights.cumsum(dim=1))",
        "SAMP-8",
        "SPEC-9",
    ),
    _number(
        "A12",
        "the largest uniform is 1",
        ".double() / (1 << UNIFORM_BITS)",
        ".double() / ((1 << UNIFORM_BITS) - 1)",
    ),
    _law(
        "A230",
        "a bias is subtracted",
        "values + inputs.bias[source]",
        "values - inputs.bias[source]",
        "SAMP-3",
    ),
    _law("A231", "a bias is ignored", "values = values + inputs.bias[source]", "pass", "SAMP-3"),
    _law("A232", "presence acts from the second occurrence on", "(counts > 0)", "(counts > 1)", "SAMP-3"),
    _law("A233", "presence acts on every token", "(counts > 0)", "(counts >= 0)", "SAMP-3"),
    _law("A234", "presence is multiplied by the count", "(counts > 0).float()", "counts.float()", "SAMP-3"),
    _law(
        "A235",
        "frequency acts once however often a token occurred",
        FREQUENCY,
        "values - inputs.frequency[source] * (counts > 0).float()",
        "SAMP-3",
    ),
    _law("A236", "frequency is added", FREQUENCY, FREQUENCY.replace("values -", "values +"), "SAMP-3"),
    _law("A237", "presence is added", PRESENCE, PRESENCE.replace("values -", "values +"), "SAMP-3"),
    _law(
        "A238",
        "presence and frequency are exchanged",
        FREQUENCY,
        "values - inputs.presence[source] * counts.float() + inputs.presence[source] * (counts > 0).float()"
        " - inputs.frequency[source] * (counts > 0).float()",
        "SAMP-3",
    ),
    fault(
        "A239",
        "the adjustment is rounded once, in float64",
        replace(SAMPLE, "values = inputs.logits[source].float()", "values = inputs.logits[source].double()"),
        replace(SAMPLE, "(values.nan_to_num(", "(values.float().nan_to_num("),
        checks=OPS,
        clauses=("SAMP-3",),
    ),
    fault(
        "A240",
        "a bias is written into the caller's logits",
        replace(SAMPLE, "values = values + inputs.bias[source]", "values += inputs.bias[source]"),
        checks=TESTS,
        clauses=("MASK-6",),
    ),
    _law(
        "A241",
        "the temperature multiplies",
        "torch.exp((values - values[:, :1]) / scale)",
        "torch.exp((values - values[:, :1]) * scale)",
        "SAMP-6",
    ),
    _law(
        "A242",
        "weights are taken without the largest logit and overflow",
        "torch.exp((values - values[:, :1]) / scale)",
        "torch.exp(values / scale)",
        "SAMP-6",
    ),
    _law(
        "A243",
        "weights are float32",
        "torch.exp((values - values[:, :1]) / scale)",
        "torch.exp(((values - values[:, :1]) / scale).float()).double()",
        "SAMP-6",
    ),
    _law(
        "A244",
        "the law is not renormalised after min_p and top_p",
        KEEP + MASS,
        MASS + KEEP,
        "SAMP-6",
        "SAMP-1",
    ),
    _law(
        "A245",
        "a weight equal to min_p times the first is cut",
        "weights < settings.min_p",
        "weights <= settings.min_p",
        "SAMP-7",
    ),
    _law(
        "A246",
        "min_p is relative to the sum instead of the first weight",
        "settings.min_p[:, None] * weights[:, :1]",
        "settings.min_p[:, None] * weights.sum(dim=1, keepdim=True)",
        "SAMP-7",
    ),
    _law(
        "A247",
        "top_p needs more than its share",
        "(running >= settings.top_p",
        "(running > settings.top_p",
        "SAMP-7",
    ),
    _law(
        "A248",
        "top_p's total is what min_p left",
        "    running = weights.cumsum(dim=1)\n    reached",
        "    running = torch.where(below_min_p, 0.0, weights).cumsum(dim=1)\n    reached",
        "SAMP-7",
    ),
    _law("A249", "min_p and top_p may cut everything", "    stopped[:, 0] = False\n", "", "SAMP-7"),
    _law(
        "A250",
        "top_p is ignored",
        "stopped = below_min_p | reached_before",
        "stopped = below_min_p",
        "SAMP-7",
    ),
    _law(
        "A251",
        "min_p is ignored",
        "stopped = below_min_p | reached_before",
        "stopped = reached_before",
        "SAMP-7",
    ),
    _law(
        "A252",
        "top_p's share is of 1 instead of the candidates' sum",
        "settings.top_p[:, None] * running[:, -1:]",
        "settings.top_p[:, None]",
        "SAMP-7",
    ),
    _law(
        "A253",
        "a temperature of exactly 0 is not greedy",
        "    is_greedy = settings.temperature <= 0\n",
        "    is_greedy = settings.temperature < 0\n",
        "SAMP-5",
    ),
    _law(
        "A254",
        "past the last edge the draw takes the last entry, positive or not",
        "hit.int().argmax(dim=1), last_positive)",
        "hit.int().argmax(dim=1), weights.shape[1] - 1)",
        "SAMP-8",
    ),
    _law(
        "A255",
        "past the last edge the draw takes the first entry",
        "hit.int().argmax(dim=1), last_positive)",
        "hit.int().argmax(dim=1), 0)",
        "SAMP-8",
        "SPEC-9",
    ),
    _law(
        "A257",
        "the uniform is mirrored",
        "first_above(law.probs, uniforms)",
        "first_above(law.probs, 1.0 - uniforms)",
        "SAMP-8",
    ),
    _law(
        "A258",
        "a failed row draws a real id",
        "return torch.where(law.status == RowStatus.OK, token_ids, 0)",
        "return token_ids + (law.status != RowStatus.OK).long()",
        "SAMP-10",
    ),
    fault(
        "A259",
        "settings are tiled instead of repeated per column",
        replace(SAMPLE, "[:, None].expand(-1, times).reshape(-1)", ".repeat(times)"),
        checks=TESTS,
        clauses=("MASK-2", "SAMP-11"),
    ),
    _number("A260", "nine rounds instead of ten", "NUM_ROUNDS = 10", "NUM_ROUNDS = 9"),
    _number("A261", "uniforms come from the second word", "(words[:, 0] >>", "(words[:, 1] >>"),
    _number("A262", "the seed's upper half is dropped", "(seeds >> 32) & WORD_MASK", "(seeds >> 32) & 0"),
    _number(
        "A263",
        "draw and candidate index are exchanged",
        " = purpose, draw_index, candidate_index\n",
        " = purpose, candidate_index, draw_index\n",
    ),
    _number("A264", "the purpose is left out", " = purpose, draw_index", " = 0, draw_index"),
    _number("A265", "correction and bonus share their numbers", "    BONUS = 4\n", "    BONUS = 3\n"),
    _number("A266", "first and later tokens share their purpose", "    DECODE = 1\n", "    DECODE = 0\n"),
    _number(
        "A267",
        "the number depends on the row",
        "counter[:, 0] = positions & WORD_MASK",
        "counter[:, 0] = (positions + torch.arange(positions.shape[0])) & WORD_MASK",
    ),
    _number(
        "A268",
        "the product loses a carry",
        "(upper + (lower >> 16)) >> 16",
        "(upper >> 16) + (lower >> 32)",
    ),
)
