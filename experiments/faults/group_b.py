"""Group B, first half: faults of the acceptance op itself (contract 5)."""

from experiments.faults.planting import Fault, append, fault, replace

ACCEPT = "engine/ops/accept.py"
OPS = ("gate:exact ops", "property_tests/test_accept.py")

RENORMALISED = """
_true_round = accept_round


def accept_round(law, proposal, uniforms, **rest):
    if proposal.draft_probs is not None:
        batch, k = proposal.token_ids.shape
        ids = law.token_ids.view(batch, k + 1, -1)[:, :k]
        support = law.probs.view(batch, k + 1, -1)[:, :k] > 0
        same = proposal.candidate_ids[:, :, :, None] == ids[:, :, None, :]
        legal = (same & support[:, :, None, :]).any(-1)
        draft_probs = torch.where(legal, proposal.draft_probs, 0.0)
        draft_probs = draft_probs / draft_probs.sum(-1, keepdim=True).clamp(min=1e-300)
        proposal = attrs.evolve(proposal, draft_probs=draft_probs)
    return _true_round(law, proposal, uniforms, **rest)
"""


def _swap(name: str, title: str, old: str, new: str, *clauses: str, times: int = 1) -> Fault:
    return fault(name, title, replace(ACCEPT, old, new, times=times), checks=OPS, clauses=clauses)


FAULTS: tuple[Fault, ...] = (
    _swap(
        "B20",
        "an illegal draft is dropped and the replacement drawn from p",
        "    token = _final_token(column_law, proposal, uniforms, num_accepted, rejected)\n",
        "    _next = torch.nn.functional.pad(proposal.token_ids, (0, 1)).gather(1, num_accepted[:, None])\n"
        "    _has = ((column_law.token_ids == _next) & (column_law.probs > 0)).any(dim=1)\n"
        "    token = _final_token(column_law, proposal, uniforms, num_accepted, rejected & _has)\n",
        "SPEC-5",
        "VER-4",
        "SPECG-4",
    ),
    _swap(
        "B21",
        "a column without a draft counts as a refusal",
        "rejected = ~has_ended & (num_accepted < proposal.extents)",
        "rejected = ~has_ended & (num_accepted < k)",
        "MASK-3",
        "SPEC-6",
    ),
    _swap(
        "B22",
        "q is zeroed where p refuses the draft for certain",
        "    return (law.probs - draft_prob).clamp(min=0.0)\n",
        "    _next = _at(proposal.token_ids, column)[:, None]\n"
        "    _has = ((law.token_ids == _next) & (law.probs > 0)).any(dim=1, keepdim=True)\n"
        "    return (law.probs - torch.where(_has, draft_prob, 0.0)).clamp(min=0.0)\n",
        "SPEC-5",
        "SPEC-4",
        "SPECG-4",
    ),
    fault(
        "B23",
        "q is renormalised over the legal ids",
        append(ACCEPT, RENORMALISED),
        checks=OPS,
        clauses=("SPEC-4",),
    ),
    _swap(
        "B26",
        "a sparse draft is accepted with p instead of min(1, p/q)",
        "return uniforms.accept * draft_prob < target_prob",
        "return uniforms.accept < target_prob",
        "SPEC-3",
        "SPEC-8",
    ),
    _swap(
        "B200",
        "a sparse draft is accepted with p times q",
        "return uniforms.accept * draft_prob < target_prob",
        "return uniforms.accept < target_prob * draft_prob",
        "SPEC-3",
    ),
    _swap(
        "B27",
        "the correction is drawn from p",
        "residual = _residual(law, proposal, draft_column)",
        "residual = law.probs",
        "SPEC-2",
        "SPEC-3",
        "SPECG-4",
    ),
    _swap(
        "B29",
        "the residual is |p - q|",
        "(law.probs - draft_prob).clamp(min=0.0)",
        "(law.probs - draft_prob).abs()",
        "SPEC-3",
    ),
    _swap(
        "B201",
        "the residual is q - p",
        "(law.probs - draft_prob).clamp(min=0.0)",
        "(draft_prob - law.probs).clamp(min=0.0)",
        "SPEC-3",
    ),
    _swap(
        "B202",
        "a one-hot refusal leaves the draft in the residual and removes the rest",
        "torch.where(law.token_ids == draft[:, None], 0.0, law.probs)",
        "torch.where(law.token_ids == draft[:, None], law.probs, 0.0)",
        "SPEC-2",
    ),
    _swap(
        "B32",
        "a sparse draft is accepted at equality",
        "return uniforms.accept * draft_prob < target_prob",
        "return uniforms.accept * draft_prob <= target_prob",
        "SPEC-9",
    ),
    _swap(
        "B203",
        "a one-hot draft is accepted at equality",
        "return uniforms.accept < target_prob",
        "return uniforms.accept <= target_prob",
        "SPEC-9",
        "SPEC-7",
    ),
    _swap(
        "B34",
        "one coin judges all drafts of a round",
        "uniforms.accept",
        "uniforms.accept[:, :1]",
        "SPEC-8",
        times=2,
    ),
    _swap(
        "B35",
        "the correction reuses the coin that refused",
        "_at(uniforms.correction, draft_column)",
        "_at(uniforms.accept, draft_column)",
        "SPEC-8",
    ),
    _swap(
        "B204",
        "the bonus reuses the last correction's coin",
        "weights, goals = law.probs, uniforms.bonus",
        "weights, goals = law.probs, uniforms.correction[:, -1] if k else uniforms.bonus",
        "SPEC-6",
    ),
    _swap(
        "B205",
        "every correction uses the first column's coin",
        "_at(uniforms.correction, draft_column)",
        "uniforms.correction[:, 0]",
        "SPEC-8",
    ),
    _swap(
        "B40",
        "q of the next column judges a draft",
        "draft_prob_at(proposal.candidate_ids, proposal.draft_probs, drafts[:, :, None])",
        "draft_prob_at(\n        proposal.candidate_ids.roll(-1, 1), proposal.draft_probs.roll(-1, 1), "
        "drafts[:, :, None]\n    )",
        "SPEC-3",
    ),
    _swap(
        "B206",
        "the residual subtracts the first column's q",
        "proposal.candidate_ids[rows, column], proposal.draft_probs[rows, column]",
        "proposal.candidate_ids[rows, 0 * column], proposal.draft_probs[rows, 0 * column]",
        "SPEC-3",
        "SPEC-8",
    ),
    fault(
        "B41",
        "the target law of the next column judges a draft",
        replace(
            ACCEPT,
            "law.token_ids.unflatten(0, (batch, k + 1))[:, :k]",
            "law.token_ids.unflatten(0, (batch, k + 1))[:, 1:]",
        ),
        replace(
            ACCEPT,
            "law.probs.unflatten(0, (batch, k + 1))[:, :k]",
            "law.probs.unflatten(0, (batch, k + 1))[:, 1:]",
        ),
        checks=OPS,
        clauses=("MASK-2", "SPEC-6", "SAMP-11"),
    ),
    _swap(
        "B42",
        "the bonus comes from the last draft's column",
        "column_law = _column(law, num_accepted, k)",
        "column_law = _column(law, num_accepted.clamp(max=max(k - 1, 0)), k)",
        "SPEC-6",
        "MASK-2",
    ),
    _swap(
        "B207",
        "the correction comes from the column after the refused draft",
        "column_law = _column(law, num_accepted, k)",
        "column_law = _column(law, (num_accepted + (num_accepted < proposal.extents)).clamp(max=k), k)",
        "SPEC-6",
    ),
    _swap(
        "B43",
        "another token follows the correction",
        "num_accepted + (~has_ended).long(), 0)",
        "(num_accepted + 2).clamp(max=proposal.token_ids.shape[1] + 1), 0)",
        "SPEC-6",
    ),
    _swap(
        "B44",
        "no bonus when all drafts are accepted",
        "num_accepted + (~has_ended).long(), 0)",
        "num_accepted + (~has_ended & (num_accepted + (proposal.extents == 0) != proposal.extents)).long(), 0)",
        "SPEC-6",
    ),
    _swap(
        "B45",
        "accepted drafts behind a refused one count",
        "run = (accepted & is_real).long().cumprod(dim=1).bool()",
        "run = accepted & is_real",
        "SPEC-6",
        "SPECG-1",
    ),
    _swap(
        "B46",
        "the first draft is trusted",
        "    accepted = _accepted(law, proposal, uniforms, vocab_size)\n",
        "    accepted = _accepted(law, proposal, uniforms, vocab_size)\n    accepted[:, :1] = True\n",
        "SPEC-2",
        "SPECG-1",
    ),
    fault(
        "B59",
        "the judged drafts are taken out of the caller's law",
        replace(
            ACCEPT,
            "    in_domain = (drafts >= 0) & (drafts < vocab_size)\n    has_law",
            "    in_domain = (drafts >= 0) & (drafts < vocab_size)\n"
            "    probs[ids == drafts[:, :, None]] = 0.0\n    has_law",
        ),
        checks=("property_tests/test_accept.py", "gate:exact ops"),
        clauses=("SPEC-4",),
    ),
    _swap(
        "B208",
        "a round goes on behind an accepted completion id",
        "    run = run & (ends.long().cumsum(dim=1) - ends.long() == 0)\n",
        "",
        "SPEC-6",
    ),
    _swap(
        "B209",
        "a token follows an accepted completion id",
        "num_accepted + (~has_ended).long(), 0)",
        "num_accepted + 1, 0)",
        "SPEC-6",
    ),
    _swap(
        "B210",
        "a bad column that was never reached fails the row",
        "    status = torch.where(has_ended, int(RowStatus.OK), column_law.status)\n",
        "    status = law.status.view(batch, k + 1).amax(dim=1)\n",
        "MASK-10",
        "MASK-11",
        "SPEC-8",
    ),
    _swap(
        "B211",
        "a bad column behind an accepted completion id fails the row",
        "torch.where(has_ended, int(RowStatus.OK), column_law.status)",
        "column_law.status",
        "MASK-12",
        "MASK-11",
    ),
    _swap(
        "B212",
        "the residual's goal is not scaled by its mass",
        "_at(uniforms.correction, draft_column) * mass",
        "_at(uniforms.correction, draft_column)",
        "SPEC-3",
        "SPEC-2",
    ),
    _swap(
        "B213",
        "an empty residual takes the first entry of p",
        "correction_goals, torch.inf)",
        "correction_goals, 0.0)",
        "SPEC-9",
    ),
    _swap(
        "B214",
        "an empty residual emits its first filler",
        "residual = torch.where(has_mass[:, None], residual, law.probs)",
        "residual = torch.where(has_mass[:, None], residual, 0.0)",
        "SPEC-9",
    ),
    _swap(
        "B215",
        "a candidate listed twice keeps its last probability only",
        "total = total + torch.where(matches, draft_probs[..., index : index + 1], 0.0)",
        "total = torch.where(matches, draft_probs[..., index : index + 1], total)",
        "SPEC-3",
        "SPEC-4",
    ),
    _swap(
        "B216",
        "a column behind the extent is judged like a draft",
        "torch.arange(k, device=accepted.device) < proposal.extents[:, None]",
        "torch.arange(k, device=accepted.device) <= proposal.extents[:, None]",
        "MASK-3",
    ),
    _swap(
        "B217",
        "a failed row reports its accepted drafts",
        "    num_accepted = torch.where(is_ok, num_accepted, 0)\n",
        "",
        "MASK-11",
        "SAMP-10",
    ),
    _swap(
        "B218",
        "a failed row emits its accepted drafts and a placeholder",
        "    is_ok = status == RowStatus.OK\n",
        "    is_ok = status == status\n",
        "SAMP-10",
        "EMPTY-1",
        "MASK-11",
    ),
    _swap(
        "B219",
        "a refusal of an unconstrained row is blamed on the grammar",
        "is_closed if constrained_mask is None else is_closed & constrained_mask",
        "is_closed",
        "SPECG-3",
    ),
    _swap(
        "B220",
        "a refused id outside the vocabulary is not the grammar's",
        "is_closed = ~(in_domain & is_open)",
        "is_closed = in_domain & ~is_open",
        "SPECG-3",
        "MASK-3",
    ),
    _swap(
        "B221",
        "the refusing bit is read one column too late",
        "* (k + 1) + draft_column\n",
        "* (k + 1) + draft_column + 1\n",
        "SPECG-3",
        "MASK-2",
    ),
    _swap(
        "B222",
        "the last of p's candidates never refuses nor accepts",
        "target_prob = torch.where(ids == drafts[:, :, None], probs, 0.0).sum(dim=2)",
        "target_prob = torch.where(ids == drafts[:, :, None], probs, 0.0)[:, :, :-1].sum(dim=2)",
        "SPEC-2",
        "SPEC-3",
    ),
    _swap(
        "B223",
        "ids are not cleared behind the last emitted token",
        "    token_ids = torch.where(index < num_emitted[:, None], token_ids, 0)\n",
        "",
        "SPEC-6",
    ),
)
