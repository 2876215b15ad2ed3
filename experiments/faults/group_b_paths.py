"""Group B, second half: faults of proposals, columns and coins, where a round is put together."""

from collections.abc import Callable

from experiments.faults.planting import Fault, fault, replace

PROGRAM = "engine/runtime/program.py"
LANES = "engine/runtime/lanes.py"
PROPOSE = "engine/ops/propose.py"
FINISH = "engine/runtime/finish.py"
ACCEPT = "engine/ops/accept.py"
WALK = "engine/runtime/drafters/walk.py"
RNG = "engine/ops/rng.py"
TOGETHER = ("property_tests/test_paths.py::test_exact_checks",)
SELECTOR = ("property_tests/test_propose.py", "gate:exact ops")


def _at(file: str) -> Callable[..., Fault]:
    def made(name: str, title: str, old: str, new: str, *clauses: str, times: int = 1) -> Fault:
        return fault(name, title, replace(file, old, new, times=times), checks=TOGETHER, clauses=clauses)

    return made


_round, _finish, _coins = _at(PROGRAM), _at(FINISH), _at(ACCEPT)


ONLY_LAST = (
    "_bias = _stack([lane.bias for lane in lanes], stride)\n"
    "    if _bias is None:\n        return None\n"
    "    _last = torch.arange(_bias.shape[0])[:, None] % stride == stride - 1\n"
    "    return torch.where(_last, _bias, 0.0)"
)
REPEAT = "constrained_mask = constrained_mask.repeat_interleave(batch.num_columns)\n"
BANS = "            banned_bitmask=consumers.banned,\n"
COUNTS = "            counts=consumers.counts,\n"
IDS = "token_ids=drafts.token_ids,"
SAFE = "((drafts.token_ids >= 0) & (drafts.token_ids < self.vocab_size))"

FAULTS: tuple[Fault, ...] = (
    fault(
        "B24",
        "only the bonus column is masked",
        replace(
            FINISH,
            REPEAT,
            REPEAT + "            _column = torch.arange(constrained_mask.shape[0]) % batch.num_columns\n"
            "            constrained_mask = constrained_mask & (_column == batch.num_columns - 1)\n",
        ),
        checks=TOGETHER,
        clauses=("SPEC-4", "SAMP-11"),
    ),
    fault(
        "B36",
        "corrections reuse the drafts' random numbers",
        replace(RNG, "    CORRECTION = 3\n", "    CORRECTION = 5\n"),
        checks=("property_tests/test_rng.py",),
        clauses=("SAMP-13", "SPEC-8"),
    ),
    fault(
        "B224",
        "corrections are drawn under the proposal's purpose",
        replace(ACCEPT, "[Purpose.CORRECTION] * k", "[Purpose.PROPOSAL] * k"),
        checks=TOGETHER,
        clauses=("SAMP-13", "SPEC-8"),
    ),
    fault(
        "B38",
        "the draft comes from q's best eight, q is recorded whole",
        replace(
            PROPOSE,
            "    return Choice(first_above(probs, uniforms), probs)\n",
            "    _few = torch.where(rank < max(1, scores.shape[1] // 2), probs, 0.0)\n"
            "    _few = _few / _few.sum(dim=1, keepdim=True)\n"
            "    return Choice(first_above(_few, uniforms), probs)\n",
        ),
        checks=SELECTOR,
        clauses=("SPEC-3", "SPEC-4"),
    ),
    fault(
        "B39",
        "q is recorded at temperature 1",
        replace(
            PROPOSE,
            "    return Choice(first_above(probs, uniforms), probs)\n",
            "    return Choice(first_above(probs, uniforms), torch.softmax(values, dim=1))\n",
        ),
        checks=SELECTOR,
        clauses=("SPEC-3", "SPEC-4"),
    ),
    fault(
        "B225",
        "the selector's ties go to the higher rank",
        replace(
            PROPOSE,
            "values.argmax(dim=1, keepdim=True)",
            "(values.shape[1] - 1 - values.flip(1).argmax(dim=1, keepdim=True))",
        ),
        checks=SELECTOR,
        clauses=("SPEC-3",),
    ),
    fault(
        "B226",
        "the selector's temperature multiplies",
        replace(PROPOSE, "keepdim=True)) / scale)", "keepdim=True)) * scale)"),
        checks=SELECTOR,
        clauses=("SPEC-3",),
    ),
    fault(
        "B50",
        "a bias acts on the bonus column only",
        replace(LANES, "return _stack([lane.bias for lane in lanes], stride)", ONLY_LAST),
        checks=TOGETHER,
        clauses=("SPEC-4", "SAMP-11"),
    ),
    _finish("B227", "bans are left out of verification", BANS, "", "SERV-25", "SPEC-4"),
    _finish("B228", "penalties are left out of verification", COUNTS, "", "SPEC-4", "SAMP-11"),
    fault(
        "B51",
        "a column's counts leave the drafts before it out",
        replace(LANES, "by_row[row, i + 1 :, token_id] += 1", "pass"),
        checks=TOGETHER,
        clauses=("SAMP-3", "SAMP-11"),
    ),
    fault(
        "B229",
        "a column's counts hold its own draft",
        replace(LANES, "by_row[row, i + 1 :, token_id] += 1", "by_row[row, i:, token_id] += 1"),
        checks=TOGETHER,
        clauses=("SAMP-3", "SAMP-11"),
    ),
    fault(
        "B230",
        "drafts are counted in the next column alone",
        replace(LANES, "by_row[row, i + 1 :, token_id] += 1", "by_row[row, i + 1, token_id] += 1"),
        checks=TOGETHER,
        clauses=("SAMP-3", "SAMP-11"),
    ),
    fault(
        "B52",
        "the last committed token is counted twice",
        replace(
            LANES,
            "            _count(lane.counts, token_ids)\n",
            "            _count(lane.counts, [*token_ids, *token_ids[-1:]])\n",
        ),
        checks=TOGETHER,
        clauses=("SAMP-3", "SPECG-2"),
    ),
    fault(
        "B231",
        "a replay counts the prompt too",
        replace(LANES, "_count(lane.counts, generated)", "_count(lane.counts, [*prompt_ids, *generated])"),
        checks=TOGETHER,
        clauses=("SAMP-3",),
    ),
    _round(
        "B54",
        "coins are keyed by the row of the batch",
        "[lane.seed_bits for lane in lanes]",
        "[lane.seed_bits + i for i, lane in enumerate(lanes)]",
        "SAMP-13",
    ),
    _coins(
        "B55",
        "a row without drafts shifts its random numbers",
        "positions[:, -1] += extents",
        "positions[:, -1] += extents + (extents == 0)",
        "SAMP-13",
    ),
    _coins(
        "B232",
        "all columns share the first column's coin",
        "first_positions[:, None] + columns",
        "first_positions[:, None] + 0 * columns",
        "SAMP-13",
        "SPEC-8",
    ),
    _round(
        "B233",
        "positions count the prompt",
        "[lane.num_generated for lane in lanes]",
        "[len(lane.history) for lane in lanes]",
        "SAMP-13",
    ),
    _coins(
        "B234",
        "acceptance and correction share a coin",
        "[Purpose.CORRECTION] * k",
        "[Purpose.ACCEPT] * k",
        "SAMP-13",
        "SPEC-8",
    ),
    _round(
        "B235",
        "a first token is drawn under another purpose",
        "rows, masks, 0, Purpose.PREFILL",
        "rows, masks, 0, Purpose.DECODE",
        "SAMP-13",
    ),
    fault(
        "B56",
        "drafts come from the global generator",
        replace(
            WALK,
            "ops.uniforms(seeds, positions.reshape(-1), Purpose.PROPOSAL)",
            "torch.rand(positions.numel(), dtype=torch.float64)",
        ),
        checks=("property_tests/test_layering.py::test_randomness_is_an_argument", *TOGETHER),
        clauses=("SAMP-13",),
    ),
    fault(
        "B236",
        "all drafts of a chain share one random number",
        replace(WALK, "first_positions[:, None] + columns", "first_positions[:, None] + 0 * columns"),
        checks=TOGETHER,
        clauses=("SAMP-13", "SPEC-8"),
    ),
    fault(
        "B58",
        "q stays with the row of the batch above",
        replace(
            WALK,
            "candidate_ids, torch.stack(draft_probs, dim=1))",
            "candidate_ids.roll(1, 0), torch.stack(draft_probs, dim=1).roll(1, 0))",
        ),
        checks=TOGETHER,
        clauses=("SPEC-3", "SPEC-4"),
    ),
    fault(
        "B237",
        "the pair term always starts from the anchor",
        replace(WALK, "pair(j, chosen, ", "pair(j, batch.anchors, "),
        checks=TOGETHER,
        clauses=("SPEC-3",),
    ),
    _finish(
        "B238",
        "drafts are read as padding where they are out of range",
        IDS,
        f"token_ids=drafts.token_ids * {SAFE},",
        "MASK-3",
        "SPEC-5",
    ),
    _finish(
        "B239",
        "a missing draft is verified like a real one",
        "extents=torch.minimum(drafts.extents, batch.limits)",
        "extents=torch.full_like(drafts.extents, drafts.token_ids.shape[1])",
        "MASK-3",
    ),
    _finish(
        "B240",
        "a completion id among the drafts does not end the round",
        "(drafts.token_ids[:, :, None] == self.eos_ids).any(dim=-1)",
        "torch.zeros_like(drafts.token_ids, dtype=torch.bool)",
        "SPEC-6",
    ),
    _round(
        "B241",
        "the window is longer than the budget",
        "row.max_new - 1",
        "row.max_new",
        "SPEC-6",
        times=3,
    ),
)
