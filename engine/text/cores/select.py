"""Which core a trimmed grammar is given to: a fixed rule over the grammar, never over a clock (GBNF-8).

The numbers behind the rule stand in reports/mask_latency.md. xgrammar is the default: it builds masks per
state, 1 to 5 ms each over a vocabulary of 248 thousand ids, and reuses them. Its counted repetition is the
exception. A counted class written by its ranges is unrolled (seconds to compile), and a counted alternation
tries every token that crosses from one copy to the next (70 ms a mask at a count of 50, seconds at 400).
llguidance reads a counted expression as one terminal of its lexer in under 0.1 ms a mask, if `fusion` proves
that the longest match loses nothing; read character by character it costs 10 ms and more. So:

0. lexemes (terminals chosen by the lowering of JSON): llguidance, whose lexer reads them as they are;
1. token terminals: xgrammar, and refused where a token and characters compete (no core keeps both readings);
2. loops deep inside each other: llguidance, if fusion leaves few levels, else LimitExceeded;
3. no count past one: xgrammar, eager while few states see much of the vocabulary, else with masks on demand;
4. every count in a fused terminal, or with few bytes at the seam between two copies: llguidance;
5. else short counts of single classes: xgrammar; very short counts: llguidance; longer: LimitExceeded.
"""

import attrs

from engine.errors import ErrorKind, LimitExceeded, RefusedConstruct, RequestError
from engine.text.cores.fusion import fuse, with_loops
from engine.text.cores.positions import TooLargeToProve, boundary_widths, tokens_compete
from engine.text.rules import Bytes, Chars, Expr, Grammar, Ref, Repeat, components, features, fold, walk
from engine.text.shape import count_of, has_lexemes
from engine.text.vocabulary import Vocabulary

XGRAMMAR, XGRAMMAR_DYNAMIC, LLGUIDANCE = "xgrammar", "xgrammar-dynamic", "llguidance"
CORE_NAMES = (XGRAMMAR, XGRAMMAR_DYNAMIC, LLGUIDANCE)
EAGER_STATES = 150  # states that see much of the vocabulary, at up to 5 ms each
EAGER_BYTES = 30_000  # bytes of literals: 0.05 ms each
WIDE_CLASS = 16  # characters from which on a class sees much of the vocabulary
LOOP_DEPTH = 5  # repetitions inside each other: xgrammar's masks take 0.2 s at 4 levels and 2 s at 8
NARROW_SEAM = 16  # first bytes: few tokens cross such a seam
UNROLLED_CLASSES = 100  # copies of single classes that xgrammar may write out, at up to 5 ms each
UNFUSED_COUNT = 8  # copies that llguidance may try character by character within 50 ms a mask


@attrs.frozen
class Plan:
    """The core that gets a grammar, and the form it gets it in."""

    core_name: str
    grammar: Grammar


def plan(grammar: Grammar, vocabulary: Vocabulary, kind: ErrorKind, *, forced: str | None = None) -> Plan:
    """Choose the core of a trimmed grammar, or take the forced one.

    Raises RefusedConstruct, LimitExceeded; RequestError for an unknown name.
    """
    if forced is not None and forced not in CORE_NAMES:
        raise RequestError(kind, "there is no such core", found=forced, allowed=", ".join(CORE_NAMES))
    if has_lexemes(grammar):
        return Plan(forced or LLGUIDANCE, grammar)
    facts = features(grammar)
    if facts.has_tokens:
        _refuse_competing_tokens(grammar, vocabulary, kind)
    if forced is not None:
        return Plan(forced, grammar)
    if facts.has_tokens:
        return Plan(XGRAMMAR, grammar)
    if _loop_depth(grammar) > LOOP_DEPTH:
        return Plan(_core_for_deep_loops(grammar, kind), grammar)
    if not facts.counted_repeats:
        looped = with_loops(grammar) if facts.recursive else grammar
        return Plan(XGRAMMAR if _is_cheap_to_build(looped) else XGRAMMAR_DYNAMIC, looped)
    return Plan(_core_for_counts(grammar, kind), grammar)


def _is_cheap_to_build(grammar: Grammar) -> bool:
    wide = narrow = 0
    for node in (node for expr in grammar.rules.values() for node in walk(expr)):
        if isinstance(node, Chars):
            wide += sum(high - low + 1 for low, high in node.ranges) > WIDE_CLASS
        elif isinstance(node, Bytes):
            narrow += len(node.data)
    return wide <= EAGER_STATES and narrow <= EAGER_BYTES


def _loop_depth(grammar: Grammar) -> int:
    """How deep repetitions stand inside repetitions, through rules too, once around a recursion."""
    depths: dict[str, int] = {}

    def visit(node: Expr, parts: list[int]) -> int:
        inside = max(parts, default=0)
        if isinstance(node, Ref):
            return depths.get(node.name, 0)
        return inside + (isinstance(node, Repeat) and node.max != 1)

    for name in (name for group in components(grammar) for name in group):
        depths[name] = fold(grammar.rules[name], visit)
    return depths[grammar.root]


def _core_for_deep_loops(grammar: Grammar, kind: ErrorKind) -> str:
    depth = _loop_depth(fuse(grammar))
    if depth <= LOOP_DEPTH:
        return LLGUIDANCE
    raise LimitExceeded(
        kind,
        "repetitions stand too deep inside each other",
        found=f"{depth} levels",
        allowed=f"at most {LOOP_DEPTH}",
        limit="loop_depth",
        value=depth,
        maximum=LOOP_DEPTH,
    )


def _core_for_counts(grammar: Grammar, kind: ErrorKind) -> str:
    fused = fuse(grammar)
    counted = [
        node
        for expr in fused.rules.values()
        for node in walk(expr)
        if isinstance(node, Repeat) and count_of(node) > 1
    ]
    wide = _with_wide_seams(fused, counted)
    if all(count_of(node) <= UNFUSED_COUNT for node in wide):
        return LLGUIDANCE
    copies = sum(count_of(node) for node in wide)
    if all(isinstance(node.body, Chars) for node in wide) and copies <= UNROLLED_CLASSES:
        return XGRAMMAR
    worst = max(count_of(node) for node in wide)
    raise LimitExceeded(
        kind,
        "a repetition counts too far for what may follow it: its end cannot be told from one more copy",
        found=f"a count of {worst}",
        allowed=f"at most {UNFUSED_COUNT}, or something after it that neither begins nor continues it",
        limit="unfused_repeat_count",
        value=worst,
        maximum=UNFUSED_COUNT,
    )


def _with_wide_seams(grammar: Grammar, counted: list[Repeat]) -> list[Repeat]:
    try:
        widths = boundary_widths(grammar, [node.body for node in counted])
    except TooLargeToProve:
        return counted
    return [node for node, width in zip(counted, widths, strict=True) if width > NARROW_SEAM]


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
