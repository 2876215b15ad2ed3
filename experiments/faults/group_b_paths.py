"""Group B, second half: faults of proposals, columns and coins, where a round is put together."""

from experiments.faults.planting import Fault, fault, replace

PROGRAM = "engine/runtime/program.py"
LANES = "engine/runtime/lanes.py"
PROPOSE = "engine/ops/propose.py"
DFLASH2 = "engine/runtime/drafters/dflash2.py"
RNG = "engine/ops/rng.py"
TOGETHER = ("property_tests/test_paths.py::test_exact_checks",)
SELECTOR = ("property_tests/test_propose.py", "gate:exact ops")


def _round(name: str, title: str, old: str, new: str, *clauses: str, times: int = 1) -> Fault:
    return fault(name, title, replace(PROGRAM, old, new, times=times), checks=TOGETHER, clauses=clauses)


ONLY_LAST = (
    "_bias = _stack([lane.bias for lane in lanes], stride)\n"
    "    if _bias is None:\n        return None\n"
    "    _last = torch.arange(_bias.shape[0])[:, None] % stride == stride - 1\n"
    "    return torch.where(_last, _bias, 0.0)"
)
BANS = "            banned_bitmask=batch_bans(forward.lanes, forward.stride),\n"
COUNTS = "            counts=batch_counts(forward.lanes, forward.drafts.ids, forward.stride),\n"
POSITIONS = "positions = (first[:, None] + torch.arange(num_drafts)).reshape(-1)"

FAULTS: tuple[Fault, ...] = (
    fault(
        "B24",
        "only the bonus column is masked",
        replace(
            PROGRAM,
            "constrained_mask = window.constrained_mask.repeat_interleave(forward.stride)\n",
            "constrained_mask = window.constrained_mask.repeat_interleave(forward.stride)\n"
            "            _column = torch.arange(constrained_mask.shape[0]) % forward.stride\n"
            "            constrained_mask = constrained_mask & (_column == forward.stride - 1)\n",
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
        replace(PROGRAM, "Purpose.CORRECTION", "Purpose.PROPOSAL"),
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
    _round("B227", "bans are left out of verification", BANS, "", "SERV-25", "SPEC-4"),
    _round("B228", "penalties are left out of verification", COUNTS, "", "SPEC-4", "SAMP-11"),
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
        "seeds = torch.tensor([lane.seed_bits for lane in forward.lanes])",
        "seeds = torch.tensor([lane.seed_bits + i for i, lane in enumerate(forward.lanes)])",
        "SAMP-13",
    ),
    _round(
        "B55",
        "a row without drafts shifts its random numbers",
        "draw(seeds, first + proposal.extents, forward.last_purpose)",
        "draw(seeds, first + proposal.extents + (proposal.extents == 0), forward.last_purpose)",
        "SAMP-13",
    ),
    _round(
        "B232",
        "all columns share the first column's coin",
        POSITIONS,
        "positions = (first[:, None] + 0 * torch.arange(num_drafts)).reshape(-1)",
        "SAMP-13",
        "SPEC-8",
    ),
    _round(
        "B233",
        "positions count the prompt",
        "first = torch.tensor([lane.num_generated for lane in forward.lanes])",
        "first = torch.tensor([len(lane.history) for lane in forward.lanes])",
        "SAMP-13",
    ),
    _round(
        "B234",
        "acceptance and correction share a coin",
        "by_column, positions, Purpose.CORRECTION",
        "by_column, positions, Purpose.ACCEPT",
        "SAMP-13",
        "SPEC-8",
    ),
    _round(
        "B235",
        "a first token is drawn under another purpose",
        "return Purpose.PREFILL",
        "return Purpose.DECODE",
        "SAMP-13",
    ),
    fault(
        "B56",
        "drafts come from the global generator",
        replace(
            DFLASH2,
            "ops.uniforms(seeds, positions + j, Purpose.PROPOSAL)",
            "torch.rand(len(lanes), dtype=torch.float64)",
        ),
        checks=("property_tests/test_layering.py::test_randomness_is_an_argument", *TOGETHER),
        clauses=("SAMP-13",),
    ),
    fault(
        "B236",
        "all drafts of a chain share one random number",
        replace(DFLASH2, "positions + j, Purpose.PROPOSAL", "positions, Purpose.PROPOSAL"),
        checks=TOGETHER,
        clauses=("SAMP-13", "SPEC-8"),
    ),
    fault(
        "B58",
        "q stays with the row of the batch above",
        replace(
            DFLASH2,
            "candidate_ids, _stack(draft_probs))",
            "candidate_ids.roll(1, 0), _stack(draft_probs).roll(1, 0))",
        ),
        checks=TOGETHER,
        clauses=("SPEC-3", "SPEC-4"),
    ),
    fault(
        "B237",
        "the pair term always starts from the anchor",
        replace(DFLASH2, "self.model.pair(chosen, ", "self.model.pair(anchor, "),
        replace(
            DFLASH2,
            "        draft_ids, draft_probs = [], []\n",
            "        draft_ids, draft_probs = [], []\n        anchor = chosen\n",
        ),
        checks=TOGETHER,
        clauses=("SPEC-3",),
    ),
    _round(
        "B238",
        "drafts are read as padding where they are out of range",
        "ids = [[*row, *[0] * (num_drafts - len(row))] for row in forward.drafts.ids]",
        "ids = [[*map(self._safe, row), *[0] * (num_drafts - len(row))] for row in forward.drafts.ids]",
        "MASK-3",
        "SPEC-5",
    ),
    _round(
        "B239",
        "a missing draft is verified like a real one",
        "extents=torch.tensor([len(row) for row in forward.drafts.ids])",
        "extents=torch.tensor([num_drafts for row in forward.drafts.ids])",
        "MASK-3",
    ),
    _round(
        "B240",
        "a completion id among the drafts does not end the round",
        "ends = [[token_id in self._eos_ids for token_id in row] for row in ids]",
        "ends = [[False for token_id in row] for row in ids]",
        "SPEC-6",
    ),
    _round(
        "B241",
        "the window is longer than the budget",
        "ids[: row.max_new - 1]",
        "ids[: row.max_new]",
        "SPEC-6",
    ),
)
