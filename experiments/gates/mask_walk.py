"""One compiled constraint against the oracle: every id at several reachable prefixes.

At each prefix: every bit of the row (all words are poisoned first), `may_end` against membership, every id
from -1 to past the padded width tried on a fork against its bit, and the fork's row afterwards: a try
changes nothing.
"""

import random
from collections import Counter, deque

import torch
from attrs import field, frozen

from engine.errors import CoreFault, EmptyLanguage, LimitExceeded, RefusedConstruct, RequestError
from engine.text.matcher import Matcher
from experiments.gates.languages import PlainVocabulary, Source, features
from experiments.gates.subjects import Subject, constraint_of
from oracles.grammar_prefix import Earley, State
from oracles.masks import num_words, unpack

POISON = -1431655766  # alternating bits: a word that is never written shows up as wrong ids


@frozen
class Mismatch:
    """The first disagreement: what was compared, after which tokens, and both answers in short."""

    what: str
    prefix: tuple[int, ...] = ()
    detail: str = ""


@frozen
class Outcome:
    """How one source fared on one core; `taken` is False when the core's typed refusal was allowed."""

    mismatch: Mismatch | None = None
    taken: bool = True
    core: str = ""
    counts: Counter[str] = field(factory=Counter)


def row_of(matcher: Matcher, vocab_size: int) -> set[int]:
    """Return the ids of a freshly filled row whose words were poisoned before."""
    row = torch.full((num_words(vocab_size),), POISON, dtype=torch.int32)
    matcher.fill(row)
    return unpack(row.numpy())


def takes(matcher: Matcher, token_id: int) -> bool:
    """Try one token inside a preview that is always given up."""
    try:
        matcher.preview([token_id])
    except CoreFault:
        return False
    matcher.discard()
    return True


def advanced(matcher: Matcher, token_id: int) -> Matcher:
    """Return a fork that has committed one more token."""
    fork = matcher.fork()
    fork.preview([token_id])
    fork.confirm()
    return fork


def check(
    subject: Subject, source: Source, *, core: str | None, seed: int, num_prefixes: int = 13
) -> Outcome:
    """Compile `source` and compare up to `num_prefixes` reachable prefixes; every exception is a mismatch.

    With `core` named, a typed refusal of the grammar by that core is allowed and counts as not taken; so is
    one of a grammar with token terminals, where a token that may be read as text too is more than the cores
    can do.
    """
    parser = subject.parser(source)
    try:
        compiled, _ = subject.compiler.compile(constraint_of(source), core=core)
    except EmptyLanguage:
        wrong = None if parser.is_empty else Mismatch("a language with strings is refused as empty")
        return Outcome(wrong, taken=False, counts=Counter(empty=1))
    except RequestError as error:
        ambiguous = features(source)["token terminals"] and isinstance(
            error, RefusedConstruct | LimitExceeded
        )
        allowed = core is not None or ambiguous
        return Outcome(None if allowed else Mismatch("refused", (), str(error)), taken=False)
    except Exception as error:  # a fault of any kind is a finding, not the end of the sweep
        return Outcome(Mismatch("compile raised", (), repr(error)), taken=False)
    if parser.is_empty:
        return Outcome(Mismatch("an empty language is compiled"), core=compiled.core_name)
    counts = Counter({"with token terminals": features(source)["token terminals"]})
    try:
        mismatch = _walk(compiled.new_matcher(), parser, subject, random.Random(seed), num_prefixes, counts)
    except Exception as error:
        mismatch = Mismatch("matching raised", (), repr(error))
    return Outcome(mismatch, core=compiled.core_name, counts=counts)


def _walk(
    matcher: Matcher,
    parser: Earley,
    subject: Subject,
    rng: random.Random,
    num_prefixes: int,
    counts: Counter[str],
) -> Mismatch | None:
    first = parser.start()
    assert first is not None
    waiting: deque[tuple[Matcher, State, tuple[int, ...]]] = deque([(matcher, first, ())])
    while waiting and counts["prefixes"] < num_prefixes:
        matcher, state, prefix = waiting.popleft()
        legal = subject.trie.legal_ids(parser, state, subject.plain.eos_ids)
        counts["prefixes"] += 1
        _count(subject.plain, parser, state, prefix, legal, counts)
        mismatch = _compare(matcher, state, subject, prefix, legal)
        if mismatch is not None:
            return mismatch
        for token_id in _next_ids(rng, sorted(legal - set(subject.plain.eos_ids))):
            after = parser.advance_token(state, token_id, subject.plain.oracle_bytes[token_id])
            assert after is not None
            waiting.append((advanced(matcher, token_id), after, (*prefix, token_id)))
    return None


def _next_ids(rng: random.Random, legal: list[int]) -> list[int]:
    return rng.sample(legal, min(3, len(legal)))


def _compare(
    matcher: Matcher, state: State, subject: Subject, prefix: tuple[int, ...], legal: set[int]
) -> Mismatch | None:
    size = subject.plain.size
    row = row_of(matcher, size)
    if row != legal:
        return Mismatch(
            "mask", prefix, f"wrongly open {sorted(row - legal)}, wrongly closed {sorted(legal - row)}"
        )
    if matcher.may_end != state.accepting:
        return Mismatch("may_end", prefix, f"engine {matcher.may_end}, oracle {state.accepting}")
    fork = matcher.fork()
    for token_id in range(-1, subject.plain.logits_width + 1):
        if takes(fork, token_id) != (token_id in legal):
            return Mismatch("accept", prefix, f"id {token_id}: legal is {token_id in legal}")
    if row_of(fork, size) != legal or row_of(matcher, size) != legal:
        return Mismatch("trying tokens changed the state", prefix)
    return None


def _count(
    plain: PlainVocabulary,
    parser: Earley,
    state: State,
    prefix: tuple[int, ...],
    legal: set[int],
    counts: Counter[str],
) -> None:
    """Count what the position was good for: cut characters, tokens over several symbols, dead ends, ends."""
    text = b"".join(plain.token_bytes[i] for i in prefix)
    counts["ids compared"] += plain.logits_width
    counts["positions inside a character"] += _ends_inside_a_character(text)
    counts["dead ends"] += not legal
    counts["ends"] += state.accepting
    for token_id in plain.text_ids:
        data = plain.token_bytes[token_id]
        if len(data) > 1 and token_id in legal:
            counts["tokens over several bytes open"] += 1
        elif len(data) > 1 and parser.advance(state, data[0]) is not None:
            counts["tokens with a bad tail closed"] += 1


def _ends_inside_a_character(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return error.end == len(text) and error.reason == "unexpected end of data"
    return False
