"""Which core a trimmed grammar is given to: a fixed rule over the grammar, never over a clock (GBNF-8)."""

import attrs

from engine.errors import ErrorKind, RefusedConstruct, RequestError
from engine.text.cores.positions import TooLargeToProve, tokens_compete
from engine.text.rules import Grammar, features
from engine.text.vocabulary import Vocabulary

XGRAMMAR, XGRAMMAR_DYNAMIC, LLGUIDANCE = "xgrammar", "xgrammar-dynamic", "llguidance"
CORE_NAMES = (XGRAMMAR, XGRAMMAR_DYNAMIC, LLGUIDANCE)


@attrs.frozen
class Plan:
    """The core that gets a grammar, and the form it gets it in."""

    core_name: str
    grammar: Grammar


def plan(grammar: Grammar, vocabulary: Vocabulary, kind: ErrorKind, *, forced: str | None = None) -> Plan:
    """Choose the core of a trimmed grammar, or take the forced one. Raises RequestError, LimitExceeded."""
    facts = features(grammar)
    if facts.has_tokens:
        _refuse_competing_tokens(grammar, vocabulary, kind)
    if forced is not None:
        if forced not in CORE_NAMES:
            raise RequestError(kind, "there is no such core", found=forced, allowed=", ".join(CORE_NAMES))
        return Plan(forced, grammar)
    if not facts.has_tokens and any(not r.single_character for r in facts.counted_repeats):
        return Plan(LLGUIDANCE, grammar)
    return Plan(XGRAMMAR if facts.expanded_size < 100 else XGRAMMAR_DYNAMIC, grammar)


def _refuse_competing_tokens(grammar: Grammar, vocabulary: Vocabulary, kind: ErrorKind) -> None:
    try:
        compete = tokens_compete(grammar, vocabulary)
    except TooLargeToProve:
        compete = True
    if compete:
        raise RefusedConstruct(
            kind,
            "a token by number and characters may begin alike here: one token would have two readings",
            found="Token or ExcludeToken beside characters that it may begin with",
            allowed="token terminals where no character can stand, or the token's text as a literal",
        )
