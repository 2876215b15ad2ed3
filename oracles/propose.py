"""The sparse drafter's choice among its candidates: only scores, temperature and one uniform act.

Greedy (temperature <= 0) takes the largest score, the lower rank on ties, and its recorded law is one-hot.
Otherwise the law is softmax(score / temperature) over the candidates in float64, drawn by the inverse CDF
in rank order. What is recorded is what was drawn from.
"""

from collections.abc import Sequence

from oracles import sample


def law(scores: Sequence[float], temperature: float) -> sample.Law:
    """The law over ranks 0 .. len(scores) - 1."""
    ranks = tuple(range(len(scores)))
    if temperature <= 0:
        best = max(ranks, key=lambda rank: (scores[rank], -rank))
        return sample.Law(ranks, tuple(float(rank == best) for rank in ranks))
    weights = sample.softmax_weights(scores, temperature)
    return sample.Law(ranks, tuple(w / sum(weights) for w in weights))


def draw(scores: Sequence[float], temperature: float, u: float) -> int:
    """The rank chosen by the uniform `u`; greedy does not read it."""
    choice = law(scores, temperature)
    if temperature <= 0:
        return choice.probs.index(1.0)
    return sample.draw(choice, u)
