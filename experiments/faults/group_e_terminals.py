"""Group E, the project's own: faults of numbers, strings, white space, the source, its check and its key."""

from experiments.faults.planting import Fault, fault, replace

SCHEMA = "engine/text/schema"
NUMBERS = f"{SCHEMA}/numbers.py"
BINARY = f"{SCHEMA}/numbers_binary64.py"
STRINGS = f"{SCHEMA}/strings.py"
LAYOUT = f"{SCHEMA}/lower/layout.py"
SOURCE = f"{SCHEMA}/source.py"
CHECK = f"{SCHEMA}/check.py"
SCALARS = f"{SCHEMA}/reduce/scalars.py"
ANCHORS = "engine/text/regex_anchors.py"
CHARS = "engine/text/regex_chars.py"


def _tests(*names: str) -> tuple[str, ...]:
    return tuple(f"property_tests/test_schema_{name}.py" for name in names)


def _number(name: str, title: str, file: str, old: str, new: str, *clauses: str) -> Fault:
    checks = _tests("numbers", "pairs", "multiples")
    return fault(name, title, replace(file, old, new), checks=checks, clauses=clauses)


def _string(name: str, title: str, old: str, new: str, *clauses: str) -> Fault:
    checks = _tests("metamorphic", "strings", "terminals", "pairs")
    return fault(name, title, replace(STRINGS, old, new), checks=checks, clauses=clauses)


def _layout(name: str, title: str, old: str, new: str, *clauses: str) -> Fault:
    return fault(name, title, replace(LAYOUT, old, new), checks=_tests("masks"), clauses=clauses)


def _source(name: str, title: str, file: str, old: str, new: str, *clauses: str) -> Fault:
    checks = _tests("source", "keywords", "nodes", "pairs")
    return fault(name, title, replace(file, old, new), checks=checks, clauses=clauses)


def _pattern(name: str, title: str, file: str, old: str, new: str, *clauses: str) -> Fault:
    return fault(name, title, replace(file, old, new), checks=_tests("patterns"), clauses=clauses)


FAULTS: tuple[Fault, ...] = (
    _number(
        "E960",
        "a lower bound is not tightened where reading rounds",
        BINARY,
        "return max(tightened, _rank_from(low, is_open)) if low > 0 else tightened",
        "return _rank_from(low, is_open) if low > 0 else tightened",
        "JSON-24",
    ),
    _number(
        "E961",
        "a tie at an upper bound goes to the wrong side",
        BINARY,
        "return min(_rank_to(_middle(value), not _is_even(value)), _rank_to(high, is_open))",
        "return min(_rank_to(_middle(value), _is_even(value)), _rank_to(high, is_open))",
        "JSON-24",
    ),
    _number(
        "E962",
        "integers reach one past 64 bits",
        NUMBERS,
        "INT64 = (-(2**63), 2**63 - 1)",
        "INT64 = (-(2**63), 2**63)",
        "JSON-22",
    ),
    _number(
        "E963",
        "an excluded number is refused only as it is written",
        BINARY,
        "    if value == 0 or written_again(value) != number:",
        "    if number:",
        "JSON-24",
    ),
    _number(
        "E964",
        "multiples of integers are not looked at",
        f"{SCHEMA}/numbers_filter.py",
        "also=multiples(step, False) if step != 1 else ()",
        "also=()",
        "JSON-7",
    ),
    _number(
        "E965",
        "a listed integer loses the spelling of a decimal",
        NUMBERS,
        '        return decimal_text, f"{decimal_text}.0"',
        "        return (decimal_text,)",
        "JSON-35",
    ),
    _number(
        "E966",
        "zero is a member of every set",
        NUMBERS,
        "if numbers.contains(Fraction(0)) else []),\n        *([seq([SIGN",
        "if numbers else []),\n        *([seq([SIGN",
        "JSON-21",
    ),
    _number(
        "E967",
        "18 digits may be published",
        f"{SCHEMA}/numbers_digits.py",
        "DIGITS = 17",
        "DIGITS = 18",
        "JSON-23",
    ),
    _number(
        "E968",
        "exclusive bounds of draft 4 are inclusive",
        SCALARS,
        "schema.get(flag) is True",
        "schema.get(flag) is None",
        "JSON-21",
        "JSON-3",
    ),
    _string(
        "E969",
        "control characters are written with capital digits",
        "code:04x}",
        "code:04X}",
        "JSON-17",
    ),
    _string(
        "E970",
        "half of a surrogate pair may stand alone",
        '    pair = seq([high, literal("\\\\u"), low])',
        '    pair = alt([high, seq([high, literal("\\\\u"), low])])',
        "JSON-14",
        "JSON-16",
    ),
    _string(
        "E971",
        "a pattern without an end is a pattern up to the end",
        "    if not alternative.anchored_end:",
        "    if not alternative:",
        "JSON-15",
    ),
    _string(
        "E972",
        "a largest length is lost where it is put into a pattern",
        "bounded = of_length(pattern, low, high)",
        "bounded = of_length(pattern, low, None)",
        "JSON-13",
    ),
    _string(
        "E973",
        "of two patterns the stricter one is left out",
        "if any(automaton.is_plainly_empty((other,), (pattern,)) for other in others):",
        "if any(automaton.is_plainly_empty((pattern,), (other,)) for other in others):",
        "JSON-13",
    ),
    _string(
        "E974",
        "what a string must not be is left out",
        "never = (quoted(json_text(excluded)),) if excluded != NOTHING else ()",
        "never: tuple[Expr, ...] = ()",
        "JSON-13",
    ),
    _string(
        "E975",
        "the second terminal of a search is longer than its length",
        "return seq([repeat(PLAIN, 0, room), literal(mark + end)])",
        "return seq([repeat(PLAIN, 0, None), literal(mark + end)])",
        "JSON-13",
        "JSON-19",
    ),
    _layout("E976", "33 white-space characters may stand", "LONGEST_RUN = 32", "LONGEST_RUN = 33", "JSON-10"),
    _layout(
        "E977",
        "fixed separators have no spaces",
        'cls(literal(", "), literal(": "), EPSILON)',
        'cls(literal(","), literal(":"), EPSILON)',
        "SERV-18",
    ),
    _layout(
        "E978",
        "no white space after an opening bracket",
        "return Lexeme(seq([literal(bracket), self.inside]))",
        "return Lexeme(literal(bracket))",
        "JSON-10",
        "JSON-11",
    ),
    _layout(
        "E979",
        "no white space between empty brackets",
        "return Lexeme(seq([literal(brackets[0]), self.inside, literal(brackets[1])]))",
        "return Lexeme(literal(brackets))",
        "JSON-10",
    ),
    _source(
        "E980",
        "a name that stands twice in the schema counts once",
        SOURCE,
        "        if len(members) < len(pairs):",
        "        if len(members) > len(pairs):",
        "JSON-2",
    ),
    _source(
        "E981",
        "a number that reading rounds is served",
        SOURCE,
        "return math.isfinite(binary) and Fraction(repr(binary)) == self.value",
        "return math.isfinite(binary)",
        "JSON-26",
    ),
    _source(
        "E982",
        "lone surrogates pass",
        SOURCE,
        '    if "\\\\ud" in source or "\\\\uD" in source:',
        '    if "\\\\ud" in source and "\\\\uD" in source:',
        "JSON-16",
    ),
    _source(
        "E983",
        "unknown keywords are annotations unless asked otherwise",
        CHECK,
        "    if options.unknown_keywords is UnknownKeywords.ANNOTATE:\n        return\n",
        "    if options.unknown_keywords:\n        return\n",
        "JSON-7",
    ),
    _source(
        "E984",
        "an asserted format is not asserted",
        SCALARS,
        'if schema.has("format") and asserts(schema, "format"):',
        'if schema.has("format") and not asserts(schema, "format"):',
        "JSON-6",
    ),
    _source(
        "E985",
        "draft 7 enforces what stands beside a reference",
        f"{SCHEMA}/nodes.py",
        'dialect <= Dialect.DRAFT_7 and isinstance(value.get("$ref"), str)',
        'dialect < Dialect.DRAFT_7 and isinstance(value.get("$ref"), str)',
        "JSON-44",
    ),
    _source(
        "E986",
        "words inside listed values are read as schemas",
        f"{SCHEMA}/nodes.py",
        "if row is None or row.shape not in SUBSCHEMA_SHAPES:",
        'if row is None or (row.shape not in SUBSCHEMA_SHAPES and name != "const"):',
        "JSON-8",
    ),
    fault(
        "E987",
        "the cache's key leaves the options out",
        replace(
            "engine/text/compiler.py",
            "parts += [*attrs.astuple(constraint.options), *choices]",
            "parts += choices",
        ),
        checks=_tests("pairs"),
        clauses=("CACHE-2", "SERV-18"),
    ),
    fault(
        "E994",
        "a length is written out, character by character",
        replace(
            STRINGS,
            "patterns = (*patterns, repeat(ANY, low, high))",
            "patterns = (*patterns, seq([ANY] * low + [repeat(ANY, 0, 1)] * ((high or 0) - low)))",
        ),
        checks=_tests("strings", "masks"),
        clauses=("JSON-18", "JSON-47"),
    ),
    fault(
        "E995",
        "an array's items are a rule each",
        replace(
            f"{SCHEMA}/lower/arrays.py",
            "    return repeat(item, max(0, clause.min_items - done), most)\n",
            "    rest = repeat(item, 0, None) if most is None else EPSILON\n"
            "    for _ in range(most or 0):\n"
            "        rest = lowerer.rule(alt([EPSILON, seq([item, rest])]))\n"
            "    return rest\n",
        ),
        checks=_tests("arrays"),
        clauses=("JSON-18",),
    ),
    _layout(
        "E996",
        "beside a comma two runs of white space may follow each other",
        'cls(seq([run, literal(","), run]), seq([run, literal(":"), run]), run)',
        'cls(seq([run, literal(","), run, run]), seq([run, run, literal(":"), run]), run)',
        "JSON-20",
        "JSON-10",
    ),
    fault(
        "E997",
        "the last token inside a counted terminal is not taken back",
        replace(
            "engine/text/cores/llguidance_core.py",
            "if num_tokens > ended and not self._inner.rollback(num_tokens - ended):",
            "if num_tokens > ended + 1 and not self._inner.rollback(num_tokens - ended):",
        ),
        checks=_tests("masks"),
        clauses=("JSON-20",),
    ),
    fault(
        "E998",
        "a plain length is asked of an automaton",
        replace(
            "engine/text/automaton.py",
            "if question.impossible or (not question.never and len(question.also) <= 1):",
            "if question.impossible:",
        ),
        checks=("property_tests/test_automaton.py",),
        clauses=("JSON-47",),
    ),
    fault(
        "E999",
        "the limits of automata bind plain lengths",
        replace(
            "engine/text/automaton.py",
            "        if also or never:\n            check",
            "        if True:\n            check",
        ),
        checks=("property_tests/test_automaton.py",),
        clauses=("JSON-47",),
    ),
    _pattern(
        "E1001",
        "text may stand before an inner anchor of the start",
        ANCHORS,
        "before = _empty_part(before) if other[0] else before",
        "before = before",
        "JSON-16",
    ),
    _pattern(
        "E1002",
        "text may stand after an inner anchor of the end",
        ANCHORS,
        "after = _empty_part(after) if one[1] else after",
        "after = after",
        "JSON-16",
    ),
    _pattern(
        "E1003",
        "only the first part of a sequence can ask for the start of the text",
        ANCHORS,
        "one[0] or other[0], one[1]",
        "one[0], one[1]",
        "JSON-16",
    ),
    _pattern(
        "E1004",
        "an optional part with an anchor must be there",
        ANCHORS,
        "_gathered([(NOWHERE, EPSILON), *parts[0].items()])",
        "_gathered(parts[0].items())",
        "JSON-16",
    ),
    _pattern(
        "E1005",
        "an escaped mark is a backslash",
        CHARS,
        "in MARKS and reader.lenient:\n        return ord(letter)",
        'in MARKS and reader.lenient:\n        return ord("\\\\")',
        "JSON-16",
    ),
    _pattern(
        "E1006",
        "the regex entry takes what only schema patterns take",
        CHARS,
        "in MARKS and reader.lenient:",
        "in MARKS:",
        "REGEX-7",
    ),
)
