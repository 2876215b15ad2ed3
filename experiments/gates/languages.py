"""Random small languages and vocabularies from a seeded generator: the subjects of the legal-set gates.

Each `Source` holds what the engine is given (GBNF text, a pattern, a list of choices) and what the oracle is
given (rules over the neutral syntax tree). Each `PlainVocabulary` cuts characters in the middle, has tokens
that span several symbols, fragments of UTF-8, duplicates, text twins of control ids, several completion ids,
ids that are never generated, and a width that is no multiple of 32.
"""

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from experiments.gates import spelling
from oracles import enumerate_regex
from oracles.expressions import (
    Alt,
    CharClass,
    Expression,
    Literal,
    Ref,
    Repeat,
    Seq,
    TokenSet,
    to_byte_grammar,
)
from oracles.grammar_prefix import productive_names

ALPHABETS = (
    "ab",
    "abc",
    "ab0",
    "aé",
    "a中b",
    "é中",
    "a😀",
    "😀é",
    'a"',
    "a\\",
    "a\n",
    "a b",
    "01-",
    "a]^",
    "()",
    "a\0",
)
RULE_NAMES = ("root", "a", "b-1", "Rest", "root-0", "x_y")
CONTROL_SPELLINGS = ("<think>", "</think>", "<call>")
ROOT = "root"


@dataclass(frozen=True)
class PlainVocabulary:
    """A vocabulary as plain lists: `token_bytes` of every id, and the ids that are not ordinary text."""

    token_bytes: tuple[bytes, ...]
    control: Mapping[int, str]
    eos_ids: tuple[int, ...]
    ungenerable: tuple[int, ...]
    logits_width: int

    @property
    def size(self) -> int:
        """Return the token domain V."""
        return len(self.token_bytes)

    @property
    def text_ids(self) -> tuple[int, ...]:
        """Return the ids that byte rules may see, ascending."""
        special = {*self.control, *self.eos_ids, *self.ungenerable}
        return tuple(i for i in range(self.size) if i not in special)

    @property
    def oracle_bytes(self) -> list[bytes | None]:
        """Return the bytes a byte rule sees for each id: None for everything that is not text."""
        text = set(self.text_ids)
        return [data if i in text else None for i, data in enumerate(self.token_bytes)]


@dataclass(frozen=True)
class Source:
    """One constraint in two forms: what the engine reads, and the rules the oracle expands."""

    kind: str
    text: str = ""
    choices: tuple[str, ...] = ()
    rules: Mapping[str, Expression] = field(default_factory=dict)


def random_vocabulary(rng: random.Random, alphabet: str, *, complete: bool = False) -> PlainVocabulary:
    """Return 40 to 80 ids over `alphabet`; now and then a byte has no token, unless `complete`."""
    entries = [("text", data) for data in _text_tokens(rng, alphabet, complete)]
    words = ["".join(rng.choices(alphabet, k=length)) for length in (1, 2)]  # spelled like the language
    for label in (*CONTROL_SPELLINGS[: rng.randint(1, 3)], *words):
        entries += [("control", label.encode()), ("text", label.encode())]
    for index in range(rng.randint(1, 3)):
        entries += [("eos", b"<eos%d>" % index)]
    entries += [("eos", rng.choice(alphabet).encode())]
    entries += [("text", b"<eos0>"), ("ungenerable", b""), ("ungenerable", alphabet[0].encode())]
    rng.shuffle(entries)
    ids = {kind: tuple(i for i, (k, _) in enumerate(entries) if k == kind) for kind, _ in entries}
    return PlainVocabulary(
        tuple(data for _, data in entries),
        {i: entries[i][1].decode() for i in ids["control"]},
        ids["eos"],
        ids["ungenerable"],
        len(entries) + rng.choice((0, 1, 5, 31, 40)),
    )


def _text_tokens(rng: random.Random, alphabet: str, complete: bool) -> list[bytes]:
    characters = [c.encode() for c in alphabet]
    single_bytes = sorted({bytes([b]) for data in characters for b in data})
    if not complete and len(single_bytes) > 3 and rng.random() < 0.3:
        single_bytes.remove(rng.choice(single_bytes))  # so that dead ends exist
    found = [*single_bytes, *(c for c in characters if len(c) > 1)]
    strings = [b"".join(rng.choices(characters, k=rng.randint(2, 4))) for _ in range(rng.randint(14, 26))]
    cut = [b"".join(rng.choices(characters, k=3)) for _ in range(8)]
    fragments = [data[rng.randint(0, 2) : len(data) - rng.randint(0, 2)] for data in cut]
    foreign = [b"z", b"za", characters[0] + b"z", b"<", b"\xff", b"\xed\xa0\x80", b"\xc3", "ß".encode()]
    found += strings + [f for f in fragments if f] + foreign
    return found + rng.choices(found, k=2)


def random_grammar(
    rng: random.Random, alphabet: str, vocabulary: PlainVocabulary, *, depth: int = 3
) -> Source:
    """Return a random grammar, spelled at random, with an entry rule `root`."""
    names = list(RULE_NAMES[: rng.randint(1, 4)]) if rng.random() < 0.9 else list(RULE_NAMES)
    text_ids = vocabulary.text_ids if rng.random() < 0.2 else ()
    make = _Maker(rng, alphabet, tuple(names), text_ids)
    rules = {name: make.body(depth, deep=name == ROOT) for name in names}
    if rng.random() < 0.25:  # recursion that always has a way out
        name = rng.choice(names)
        rules[name] = Alt((make.leaf(), make.recursion(name)))
    if rng.random() < 0.85 and ROOT not in productive_names(to_byte_grammar(rules, text_ids)):
        rules[ROOT] = Alt((rules[ROOT], make.leaf()))  # some empty languages are kept: they must be refused
    if rng.random() < 0.1:  # a branch that can never finish
        rules["dead"] = Seq((make.leaf(), Ref("dead")))
        rules[ROOT] = Alt((rules[ROOT], Seq((make.leaf(), Ref("dead")))))
    order = list(rules)
    rng.shuffle(order)
    rules = {name: rules[name] for name in order}
    return Source("grammar", spelling.gbnf(rules, _maybe(rng)), rules=rules)


def random_regex(rng: random.Random, alphabet: str) -> Source:
    """Return a random regular expression in a random spelling."""
    make = _Maker(rng, alphabet, (), (), regex=True)
    node = make.body(3, deep=True)
    pattern = enumerate_regex.render(node, _maybe(rng))
    return Source("regex", pattern, rules={ROOT: node})


def random_choices(rng: random.Random, alphabet: str) -> Source:
    """Return a list of strings with shared prefixes, duplicates and sometimes the empty string."""
    pieces = [*alphabet, "z", "\0", '"', "\\", "\n", "ß"]
    weights = [8] * len(alphabet) + [1] * 6
    options = ["".join(rng.choices(pieces, weights, k=rng.randint(1, 6))) for _ in range(rng.randint(1, 6))]
    options += [option[: rng.randint(1, len(option))] + rng.choice(alphabet) for option in options[:3]]
    options += [option[:-1] for option in options[:2] if len(option) > 1]
    if rng.random() < 0.15:
        options.append("")
    if rng.random() < 0.3:
        options.append(rng.choice(options))
    rng.shuffle(options)
    return Source("choice", choices=tuple(options), rules=choice_rules(options))


def choice_rules(options: list[str]) -> dict[str, Expression]:
    """Return the rules of a list of choices."""
    return {ROOT: Alt(tuple(Literal(option) for option in options))}


def respell(
    source: Source, rules: Mapping[str, Expression], maybe: spelling.Maybe = spelling.never
) -> Source:
    """Return a source of the same kind for other rules, spelled plainly unless `maybe` says otherwise."""
    if source.kind == "grammar":
        return Source("grammar", spelling.gbnf(rules, maybe), rules=rules)
    root = rules[ROOT]
    if source.kind == "regex":
        return Source("regex", enumerate_regex.render(root, maybe), rules=rules)
    options = root.options if isinstance(root, Alt) else (root,)
    texts = [option.text for option in options if isinstance(option, Literal)]
    return Source("choice", choices=tuple(texts), rules=choice_rules(texts))


def features(source: Source) -> Counter[str]:
    """Count 1 for each feature of a source that the sweeps must meet often enough."""
    nodes = [node for body in source.rules.values() for node in _nodes(body)]
    reached = {name: _reached(source.rules, name) for name in source.rules}
    return Counter(
        {
            "recursive": any(name in reached[name] for name in {ROOT, *reached[ROOT]}),
            "nullable": any((isinstance(n, Repeat) and n.low == 0) or n == Literal("") for n in nodes),
            "token terminals": any(isinstance(n, TokenSet) for n in nodes),
        }
    )


def _nodes(node: Expression) -> Iterator[Expression]:
    yield node
    parts = node.parts if isinstance(node, Seq) else node.options if isinstance(node, Alt) else ()
    for part in (node.body,) if isinstance(node, Repeat) else parts:
        yield from _nodes(part)


def _reached(rules: Mapping[str, Expression], start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for node in _nodes(rules.get(waiting.pop(), Literal(""))):
            if isinstance(node, Ref) and node.name not in found:
                found.add(node.name)
                waiting.append(node.name)
    return found


def _maybe(rng: random.Random) -> spelling.Maybe:
    return lambda share: rng.random() >= 1 - share  # so that a shrinking generator ends at the plain spelling


@dataclass
class _Maker:
    """Draws expressions; `names` may be referred to, `text_ids` (if any) may stand in token terminals."""

    rng: random.Random
    alphabet: str
    names: tuple[str, ...]
    text_ids: tuple[int, ...]
    regex: bool = False

    def body(self, depth: int, *, deep: bool = False) -> Expression:
        draw = self.rng.uniform(0.45 if deep else 0.0, 1.0)
        if depth == 0 or draw < 0.25:
            return self.leaf()
        if draw < 0.45 and self.names:
            return Ref(self.rng.choice(self.names))
        if draw < 0.65:
            return Seq(
                tuple(self.body(depth - 1) for _ in range(self.rng.randint(0 if draw < 0.47 else 2, 3)))
            )
        if draw < 0.85:
            return Alt(tuple(self.body(depth - 1) for _ in range(self.rng.randint(2, 3))))
        return self.repeat(self.body(depth - 1))

    def leaf(self) -> Expression:
        draw = self.rng.random()
        if self.text_ids and draw < 0.3:
            ids = self.rng.sample(self.text_ids, self.rng.randint(1, 4))
            return TokenSet(tuple(ids), exclude=self.rng.random() < 0.4)
        if draw < 0.7:
            return Literal("".join(self.rng.choices(self.alphabet, k=self.rng.choice((0, 1, 1, 1, 2, 2, 3)))))
        return self.char_class()

    def char_class(self) -> CharClass:
        if self.regex and self.rng.random() < 0.3:
            shorthand = self.rng.choice(("digit", "word", "space", "dot"))
            return getattr(enumerate_regex, shorthand.upper())
        codes = [ord(c) for c in self.rng.sample(self.alphabet, self.rng.randint(1, len(self.alphabet)))]
        ranges = {(code, code + self.rng.choice((0, 0, 0, 1, 3))) for code in codes}
        if self.regex and self.rng.random() < 0.1:
            ranges |= set(enumerate_regex.WORD.ranges)
        return CharClass(tuple(sorted(ranges)), negated=self.rng.random() < 0.25)

    def repeat(self, body: Expression) -> Repeat:
        low, high = self.rng.choice(
            (
                (0, None),
                (0, None),
                (1, None),
                (0, 1),
                (0, 1),
                (2, 2),
                (0, 2),
                (1, 3),
                (2, None),
                (0, 0),
                (3, 5),
            )
        )
        return Repeat(body, low, high, lazy=self.regex and self.rng.random() < 0.3)

    def recursion(self, name: str) -> Expression:
        """Left, right, middle, doubled or nullable recursion on `name`, or a bracket pair."""
        call, part = Ref(name), self.leaf()
        options = (
            Seq((call, part)),
            Seq((part, call)),
            Seq((part, call, self.leaf())),
            Seq((call, call)),
            Seq((Repeat(part, 0, 1), call)),
            Alt((call, Seq(()))),
        )
        return self.rng.choice(options)
