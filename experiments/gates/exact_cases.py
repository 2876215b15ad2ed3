"""Cases of the exact sweeps over the round op, and what a sweep reports.

A case is one round with everything given but its uniforms: a law per column, the drafts, what each was
drawn from, the completion ids and the legal sets. All probabilities are multiples of 2**-12 (see
oracles/sample.py), so oracle and op must agree at every uniform of the generator's grid.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product

import attrs
import numpy as np

from oracles.accept import Round
from oracles.sample import Law, dyadic_law

Progress = Callable[[str, int, int], None]
WEIGHTS = ((8, 4, 2, 1, 1), (1, 1, 1, 1, 1), (2, 5, 3, 3, 1))
BAD_STATUSES = ("empty", "non_finite", "empty_by_bans")


@attrs.frozen
class Size:
    """How much a sweep tries: the exhaustive part by vocabulary and window, the seeded part by numbers."""

    single_vocab_sizes: tuple[int, ...]
    chains: tuple[tuple[int, int], ...]  # (vocab size, drafts)
    num_weightings: int
    num_random_rounds: int
    num_joint: int
    num_sampling_rows: int
    twice: bool = True  # call every op twice and compare
    max_enumerated: int | None = None  # so many cases of an enumeration; None is all of them


TINY = Size((3,), ((3, 2),), 1, 10, 2, 60, twice=False, max_enumerated=6)  # interpreted kernels
QUICK = Size((1, 2, 3, 5), ((5, 2), (3, 3)), 1, 250, 24, 1800)
FULL = Size((1, 2, 3, 4, 5), ((5, 1), (5, 2), (5, 3), (4, 3)), 3, 4000, 240, 20_000)
SIZES: Mapping[str, Size] = {"tiny": TINY, "quick": QUICK, "full": FULL}


@attrs.frozen
class CheckRecord:
    """What one exact check found; `events` counts what its cases contained, so that "none" can be refused."""

    name: str
    passed: bool
    num_cases: int
    num_calls: int  # rows given to the op
    worst_error: float
    first_failure: dict | None
    events: Mapping[str, int]


@attrs.frozen
class RoundCase:
    """One round without its uniforms. `laws` has one column more than `drafts`; `qs` None is one-hot.

    `legal` None: the row has no constraint. `split`: the draft is listed twice in its q, half its mass each.
    """

    vocab_size: int
    laws: tuple[Law, ...]
    drafts: tuple[int, ...]
    qs: tuple[Mapping[int, float] | None, ...]
    ends: frozenset[int] = frozenset()
    legal: tuple[frozenset[int], ...] | None = None
    split: bool = False

    @property
    def one_hot(self) -> bool:
        """Whether the verifier is told the drafts only."""
        return all(q is None for q in self.qs)

    def is_illegal(self, column: int) -> bool:
        """Whether the draft at a column is out of range or outside its legal set."""
        draft = self.drafts[column]
        in_range = 0 <= draft < self.vocab_size
        return not in_range or (self.legal is not None and draft not in self.legal[column])


def masked_law(weights: Mapping[int, int] | tuple[int, ...], mask: frozenset[int]) -> Law:
    """The dyadic law of the weights inside the mask, larger first, ties to the smaller id."""
    items = dict(enumerate(weights)) if isinstance(weights, tuple) else dict(weights)
    order = sorted((i for i in items if i in mask), key=lambda i: (-items[i], i))
    return dyadic_law({i: items[i] for i in order})


def picked(cases: Iterable[RoundCase], most: int | None) -> list[RoundCase]:
    """All cases, or a fixed random choice of `most` of them."""
    found = list(cases)
    if most is None or most >= len(found):
        return found
    return [found[i] for i in np.random.default_rng(1).permutation(len(found))[:most]]


def all_masks(vocab_size: int) -> list[frozenset[int]]:
    """Every subset of the vocabulary, the empty one included."""
    return [
        frozenset(i for i, bit in enumerate(bits) if bit)
        for bits in product((False, True), repeat=vocab_size)
    ]


def sparse_laws(law: Law, draft: int, vocab_size: int) -> Iterator[Mapping[int, float]]:
    """Proposal laws that hold the draft: equal to p, all ids, strict subsets, mass out of range, one id."""
    if law.prob(draft) > 0:
        yield law.as_dict()
    other = (draft + 1) % vocab_size
    yield dyadic_law({draft: 1}).as_dict()
    yield dyadic_law({i: 1 + i for i in {*range(vocab_size), draft}}).as_dict()
    yield dyadic_law({draft: 2, other: 1} if other != draft else {draft: 2, vocab_size: 1}).as_dict()
    yield dyadic_law({draft: 3, vocab_size + 2: 4}).as_dict()


def single_column_cases(vocab_size: int, num_weightings: int) -> Iterator[RoundCase]:
    """Every mask x every draft, two out of range x each kind of q; every mask of the bonus column."""
    everything = frozenset(range(vocab_size))
    for weights, mask in product(WEIGHTS[:num_weightings], all_masks(vocab_size)):
        law = masked_law(weights[:vocab_size], mask)
        after = masked_law(weights[:vocab_size][::-1], everything)
        for draft in range(-1, vocab_size + 1):
            for q in (None, *sparse_laws(law, draft, vocab_size)):
                yield RoundCase(vocab_size, (law, after), (draft,), (q,), legal=(mask, everything))
        sure = Law((0,), (1.0,))
        yield RoundCase(vocab_size, (sure, law), (0,), (None,), legal=(everything, mask))
        yield RoundCase(vocab_size, (law,), (), (), legal=(mask,))


def chain_cases(vocab_size: int, num_drafts: int, num_weightings: int) -> Iterator[RoundCase]:
    """Every mask of every column by itself, the others open, over a few draft chains and kinds of q."""
    everything = frozenset(range(vocab_size))
    repeated = (1 % vocab_size,) * num_drafts
    rising = tuple(i % vocab_size for i in range(num_drafts))
    columns = range(num_drafts + 1)
    for weights, column, mask in product(WEIGHTS[:num_weightings], columns, all_masks(vocab_size)):
        masks = tuple(mask if i == column else everything for i in columns)
        turned = [weights[i % 2 :][:vocab_size] + weights[: i % 2] for i in columns]  # neighbours differ
        laws = tuple(masked_law(w[:vocab_size], m) for w, m in zip(turned, masks, strict=True))
        for drafts in (repeated, rising):
            narrow = [dyadic_law({d: 1 + i, vocab_size: 1}).as_dict() for i, d in enumerate(drafts)]
            wide = [dyadic_law({d: 2 + i, (d + 1) % vocab_size: 3}).as_dict() for i, d in enumerate(drafts)]
            for qs in ((None,) * num_drafts, tuple(narrow), tuple(wide)):
                yield RoundCase(vocab_size, laws, drafts, qs, legal=masks)


def random_cases(num_cases: int, seed: int) -> Iterator[RoundCase]:
    """Seeded joint mask tuples: extents, dead and broken columns, ends, free rows, split candidates."""
    rng = np.random.default_rng(seed)
    for _ in range(num_cases):
        vocab_size, num_drafts = int(rng.integers(1, 6)), int(rng.integers(0, 4))
        masks = tuple(_random_mask(rng, vocab_size) for _ in range(num_drafts + 1))
        laws = tuple(_random_law(rng, mask) for mask in masks)
        drafts = tuple(int(d) for d in rng.integers(-1, vocab_size + 2, num_drafts))
        one_hot = bool(rng.random() < 0.4)
        qs = tuple(None if one_hot else _random_q(rng, d, vocab_size) for d in drafts)
        yield RoundCase(
            vocab_size,
            laws,
            drafts,
            qs,
            ends=frozenset(rng.integers(0, vocab_size, int(rng.integers(0, 3))).tolist()),
            legal=masks if rng.random() < 0.7 else None,
            split=bool(rng.random() < 0.3),
        )


def _random_mask(rng: np.random.Generator, vocab_size: int) -> frozenset[int]:
    return frozenset(np.flatnonzero(rng.random(vocab_size) < 0.7).tolist())


def _random_law(rng: np.random.Generator, mask: frozenset[int]) -> Law:
    if not mask or rng.random() < 0.05:
        return Law(status=str(rng.choice(BAD_STATUSES)))
    return masked_law({i: int(rng.integers(1, 9)) for i in mask}, mask)


def _random_q(rng: np.random.Generator, draft: int, vocab_size: int) -> Mapping[int, float]:
    others = rng.integers(0, vocab_size + 2, int(rng.integers(0, 4))).tolist()
    return dyadic_law({i: int(rng.integers(1, 9)) for i in {draft, *others}}).as_dict()


def literal_cases() -> dict[str, RoundCase]:
    """Rounds whose laws are worked by hand in property_tests/test_accept.py."""
    half, reverse = Law((0, 1), (0.5, 0.5)), {0: 0.125, 1: 0.25, 2: 0.25, 3: 0.375}
    after = Law((0,), (1.0,))
    four = Law((0, 1, 2, 3), (0.375, 0.3125, 0.1875, 0.125))
    return {
        "draft a": RoundCase(3, (half, after), (0,), ({0: 0.5, 2: 0.5},), legal=(frozenset({0, 1}),) * 2),
        "draft x": RoundCase(3, (half, after), (2,), ({0: 0.5, 2: 0.5},), legal=(frozenset({0, 1}),) * 2),
        "sparse": RoundCase(4, (four, after), (3,), (reverse,)),
        "one-hot": RoundCase(4, (four, after), (1,), (None,)),
        "no residual mass": RoundCase(3, (half, after), (0,), ({0: 1.0, 1: 1.0},)),
    }


def count_events(case: RoundCase, played: Round) -> dict[str, int]:
    """What one played round contained, for the floors of a sweep."""
    if played.status != "ok":
        return {"dead columns": 1}
    rejected = played.rejected_by != "none"
    ended = not rejected and len(played.tokens) == played.num_accepted
    reached = range(played.num_accepted + rejected)
    return {
        "accepted": played.num_accepted,
        "all accepted": int(played.num_accepted == len(case.drafts) > 0),
        "illegal drafts": sum(case.is_illegal(i) for i in reached),
        "rejected by target": int(played.rejected_by == "target"),
        "rejected by grammar": int(played.rejected_by == "grammar"),
        "bonuses": int(not rejected and not ended),
        "ended": int(ended),
    }
