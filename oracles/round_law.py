"""The exact joint law of the tokens one speculative round emits, and of ordinary masked sampling.

A target is a function from the tokens so far to the law of the next one (its mask, penalties and logits all
belong to that prefix). A proposal is a function from the tokens so far, history and earlier drafts, to the
law from which the next draft comes. With `one_hot` the verifier is told only the draft (MTP, DFlash,
n-gram); otherwise it is told the proposal law itself (DFlash2). Law of a run = dict from token tuples to
probabilities; a run that reaches a column without a law ends in the outcome FAILED, as the whole request
does. SPEC-8: `speculative_law` equals `ordinary_law` token by token.
"""

from collections import defaultdict
from collections.abc import Callable, Container, Mapping, Sequence

from oracles.accept import SparseLaw, accept_break, residual
from oracles.sample import Law

Tokens = tuple[int, ...]
JointLaw = dict[Tokens, float]
Target = Callable[[Tokens], Law]
Proposal = Callable[[Tokens], Mapping[int, float]]
FAILED: Tokens = (-1,)


def given_drafts(
    laws: Sequence[Law], drafts: Sequence[int], qs: Sequence[SparseLaw], ends: Container[int] = ()
) -> JointLaw:
    """The law of one round's tokens when its drafts are given: `laws` has one column more than `drafts`."""
    result: defaultdict[Tokens, float] = defaultdict(float)
    weight = 1.0
    prefix: Tokens = ()
    for law, draft, q in zip(laws, drafts, qs, strict=False):
        if law.status != "ok":
            result[FAILED] += weight
            return dict(result)
        accepted = accept_break(law, draft, q)
        for token, p in residual(law, draft, q).as_dict().items():
            result[*prefix, token] += weight * (1 - accepted) * p
        weight, prefix = weight * accepted, (*prefix, draft)
        if draft in ends:
            result[prefix] += weight
            return _positive(result)
    last = laws[len(drafts)]
    if last.status != "ok":
        result[FAILED] += weight
    for token, p in last.as_dict().items():
        result[*prefix, token] += weight * p
    return _positive(result)


def draft_chains(
    proposal: Proposal, num_drafts: int, ends: Container[int] = (), history: Tokens = ()
) -> dict[Tokens, float]:
    """Every chain of drafts with its probability; the drafter runs on past an end, as real ones do."""
    chains: dict[Tokens, float] = {(): 1.0}
    for _ in range(num_drafts):
        chains = {
            (*chain, draft): weight * q
            for chain, weight in chains.items()
            for draft, q in proposal((*history, *chain)).items()
            if q > 0
        }
    return chains


def round_law(
    target: Target,
    proposal: Proposal,
    num_drafts: int,
    ends: Container[int] = (),
    one_hot: bool = False,
    history: Tokens = (),
) -> JointLaw:
    """The law of the tokens that one round after `history` emits, over its drafts, coins and corrections."""
    result: defaultdict[Tokens, float] = defaultdict(float)
    for drafts, weight in draft_chains(proposal, num_drafts, ends, history).items():
        prefixes = [(*history, *drafts[:i]) for i in range(num_drafts + 1)]
        qs = [None if one_hot else proposal(prefix) for prefix in prefixes[:-1]]
        outcome = given_drafts([target(prefix) for prefix in prefixes], drafts, qs, ends)
        for tokens, p in outcome.items():
            result[tokens] += weight * p
    return _positive(result)


def ordinary_law(target: Target, length: int, ends: Container[int] = (), history: Tokens = ()) -> JointLaw:
    """The law of the first `length` tokens of ordinary masked sampling; an id of `ends` is the last token."""
    result: JointLaw = {(): 1.0}
    for _ in range(length):
        result = _one_more(result, target, ends, history)
    return _positive(result)


def _one_more(law: JointLaw, target: Target, ends: Container[int], history: Tokens) -> JointLaw:
    result: defaultdict[Tokens, float] = defaultdict(float)
    for tokens, weight in law.items():
        if tokens == FAILED or (tokens and tokens[-1] in ends):
            result[tokens] += weight
            continue
        column = target((*history, *tokens))
        if column.status != "ok":
            result[FAILED] += weight
        for token, p in column.as_dict().items():
            result[*tokens, token] += weight * p
    return dict(result)


def extend(law: JointLaw, target: Target, length: int, ends: Container[int] = ()) -> JointLaw:
    """Complete what a round emitted to exactly `length` tokens by ordinary sampling, or cut it there."""
    result: defaultdict[Tokens, float] = defaultdict(float)
    for tokens, weight in law.items():
        if tokens == FAILED:
            result[FAILED] += weight
            continue
        head = tokens[:length]
        done = len(head) == length or head[-1] in ends
        rest = {(): 1.0} if done else ordinary_law(target, length - len(head), ends, head)
        for tail, p in rest.items():
            result[FAILED if tail == FAILED else (*head, *tail)] += weight * p
    return _positive(result)


def speculative_law(
    target: Target,
    proposal: Proposal,
    num_drafts: int,
    length: int,
    ends: Container[int] = (),
    one_hot: bool = False,
) -> JointLaw:
    """The law of the first `length` tokens when round follows round; extents shrink at the budget's tail."""
    result: defaultdict[Tokens, float] = defaultdict(float)
    open_runs: dict[Tokens, float] = {(): 1.0}
    while open_runs:
        history, weight = open_runs.popitem()
        extent = min(num_drafts, length - len(history) - 1)
        for tokens, p in round_law(target, proposal, extent, ends, one_hot, history).items():
            run = FAILED if tokens == FAILED else (*history, *tokens)
            finished = run == FAILED or len(run) >= length or run[-1] in ends
            if finished:
                result[run] += weight * p
            else:
                open_runs[run] = open_runs.get(run, 0.0) + weight * p
    return dict(result)


def largest_difference(one: Mapping[Tokens, float], other: Mapping[Tokens, float]) -> float:
    """The largest difference of any outcome's probability."""
    return max((abs(one.get(key, 0.0) - other.get(key, 0.0)) for key in {*one, *other}), default=0.0)


def total_variation(one: Mapping, other: Mapping) -> float:
    """Half the sum of the differences: the largest difference of any event's probability."""
    return sum(abs(one.get(key, 0.0) - other.get(key, 0.0)) for key in {*one, *other}) / 2


def marginal(law: JointLaw, position: int) -> dict[int | None, float]:
    """The law of the token at one position; None stands for a run that ended before it."""
    result: defaultdict[int | None, float] = defaultdict(float)
    for tokens, p in law.items():
        result[tokens[position] if position < len(tokens) else None] += p
    return dict(result)


def _positive(law: Mapping[Tokens, float]) -> JointLaw:
    return {tokens: p for tokens, p in law.items() if p > 0}
