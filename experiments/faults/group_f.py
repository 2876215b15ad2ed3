"""Group F, faults in reading regular expressions and choices."""

from experiments.faults.planting import Fault, fault, replace

REGEX = "engine/text/regex.py"
CHARS = "engine/text/regex_chars.py"
EXPR = "engine/text/expr.py"
CHOICE = "engine/text/choice.py"
REGEXES = ("property_tests/test_regex.py", "property_tests/test_language.py", "gate:legal sets")
CHOICES = ("property_tests/test_choice.py", "gate:legal sets")


def _regex(name: str, title: str, file: str, old: str, new: str, *clauses: str) -> Fault:
    return fault(name, title, replace(file, old, new), checks=REGEXES, clauses=clauses)


def _choice(name: str, title: str, old: str, new: str, *clauses: str) -> Fault:
    return fault(name, title, replace(CHOICE, old, new), checks=CHOICES, clauses=clauses)


FAULTS: tuple[Fault, ...] = (
    _regex(
        "F118",
        "a regex is searched for instead of matched whole",
        REGEX,
        "    alternatives = [alternative.expr for alternative in parse_pattern(pattern)]\n",
        "    _any = repeat(DOT, 0, None)\n"
        "    alternatives = [seq([_any, a.expr, _any]) for a in parse_pattern(pattern)]\n",
        "REGEX-1",
        "REGEX-8",
    ),
    _regex(
        "F200",
        "an anchor is a character of the text",
        REGEX,
        "            self.anchors[-1] = (True, False)\n",
        '            self.anchors[-1] = (True, False)\n            self.groups[-1].items.append(literal("^"))\n',
        "REGEX-6",
    ),
    _regex(
        "F201",
        "an anchor may stand in the middle",
        REGEX,
        'elif character == "$" and at_top and self.reader.peek() in ("", "|"):',
        'elif character == "$" and at_top:',
        "REGEX-6",
    ),
    _regex(
        "F120",
        "a class range leaves its last character out",
        CHARS,
        "else [(low, high)]",
        "else [(low, high - (high > low))]",
        "REGEX-3",
    ),
    _regex(
        "F203",
        "a negated class holds ASCII only",
        EXPR,
        "chars([*gaps, (start, MAX_SCALAR)])",
        "chars([*gaps, (start, 0x7F)])",
        "REGEX-5",
        "GBNF-1",
    ),
    _regex(
        "F204",
        "a negated class keeps the end of each range",
        EXPR,
        "        start = high + 1\n",
        "        start = high\n",
        "REGEX-3",
    ),
    _regex(
        "F205",
        "a character set holds the first surrogate",
        EXPR,
        "(low, min(high, SURROGATES[0] - 1))",
        "(low, min(high, SURROGATES[0]))",
        "REGEX-5",
    ),
    _regex(
        "F206", "characters end with the BMP", EXPR, "MAX_SCALAR = 0x10FFFF", "MAX_SCALAR = 0xFFFF", "REGEX-5"
    ),
    _regex(
        "F207",
        "a dash at the end of a class makes a range",
        CHARS,
        'not in ("]", ""):',
        'not in ("",):',
        "REGEX-3",
    ),
    _regex(
        "F122",
        "a quantifier binds the whole sequence",
        REGEX,
        "group.items[-1] = repeat(group.items[-1], minimum, maximum)",
        "group.items[:] = [repeat(seq(group.items), minimum, maximum)]",
        "REGEX-3",
    ),
    _regex(
        "F209",
        "{m,n} stops one short of n",
        REGEX,
        'maximum = None if self.reader.peek() == "}" else self.bound(start)',
        'maximum = None if self.reader.peek() == "}" else max(minimum, self.bound(start) - 1)',
        "REGEX-3",
    ),
    _regex(
        "F210",
        "{m,} is {m}",
        REGEX,
        'maximum = None if self.reader.peek() == "}"',
        'maximum = minimum if self.reader.peek() == "}"',
        "REGEX-3",
    ),
    _regex("F212", "+ may be left out", REGEX, '"+": (1, None)', '"+": (0, None)', "REGEX-3"),
    _regex("F214", "? repeats", REGEX, '"?": (0, 1)', '"?": (0, None)', "REGEX-3"),
    _regex(
        "F215",
        "nested counts are multiplied where they leave gaps",
        EXPR,
        "isinstance(body, Repeat) and body.min <= 1",
        "isinstance(body, Repeat) and body.min <= 3",
        "REGEX-3",
    ),
    _regex(
        "F216",
        "a laziness mark makes its quantifier optional",
        REGEX,
        '        self.reader.skip("?")  # lazy: the same language\n',
        '        minimum = 0 if self.reader.skip("?") else minimum\n',
        "REGEX-3",
    ),
    _regex(
        "F217",
        "the last alternative of a group is lost",
        REGEX,
        "self.groups[-1].add(alt(group.alternatives))",
        "self.groups[-1].add(alt(group.alternatives[: max(1, len(group.alternatives) - 1)]))",
        "REGEX-3",
    ),
    _regex(
        "F218",
        "\\d leaves 9 out",
        CHARS,
        "DIGIT = chars([(0x30, 0x39)])",
        "DIGIT = chars([(0x30, 0x38)])",
        "REGEX-4",
    ),
    _regex(
        "F219",
        "\\d holds other scripts' digits",
        CHARS,
        "DIGIT = chars([(0x30, 0x39)])",
        "DIGIT = chars([(0x30, 0x39), (0x660, 0x669)])",
        "REGEX-4",
    ),
    _regex("F220", "\\w leaves the underscore out", CHARS, "(0x5F, 0x5F), (0x61", "(0x61", "REGEX-4"),
    _regex(
        "F221",
        "\\w holds letters outside ASCII",
        CHARS,
        "(0x61, 0x7A)])",
        "(0x61, 0x7A), (0xC0, 0xD6)])",
        "REGEX-4",
    ),
    _regex("F222", "\\s is ASCII", CHARS, ", *_SPACE_SEPARATORS]", ", (0x20, 0x20)]", "REGEX-4"),
    _regex("F223", "\\s leaves the byte order mark out", CHARS, "(0xFEFF, 0xFEFF), ", "", "REGEX-4"),
    _regex(
        "F224", "\\s holds U+180E", CHARS, "(0x1680, 0x1680)", "(0x1680, 0x1680), (0x180E, 0x180E)", "REGEX-4"
    ),
    _regex(
        "F225",
        "a dot leaves LF out alone",
        CHARS,
        "DOT = negated(LINE_TERMINATORS)",
        "DOT = negated(chars([(10, 10)]))",
        "REGEX-4",
    ),
    _regex(
        "F226",
        "a dot holds line feeds",
        CHARS,
        "DOT = negated(LINE_TERMINATORS)",
        "DOT = negated(chars([]))",
        "REGEX-4",
    ),
    _regex("F227", "\\S is \\W", CHARS, '"S": negated(SPACE)', '"S": negated(WORD)', "REGEX-4"),
    _regex("F228", "\\v is a v", CHARS, '"v": 0x0B, ', '"v": 0x76, ', "REGEX-5"),
    _regex(
        "F229",
        "\\xNN reads four digits",
        CHARS,
        '2 if letter == "x" else 4',
        '4 if letter == "x" else 4',
        "REGEX-5",
    ),
    _regex(
        "F230",
        "surrogate escapes are taken",
        CHARS,
        "    if 0xD800 <= code <= 0xDFFF:\n",
        "    if 0xD800 <= code < 0xD800:\n",
        "REGEX-5",
        "REGEX-7",
    ),
    _regex(
        "F231",
        "a back-reference is a digit",
        CHARS,
        '**dict.fromkeys("123456789k", "back-references are not served"),',
        '**dict.fromkeys("k", "back-references are not served"),\n}\nCONTROL_ESCAPES |= {\n    **{d: ord(d) for d in "123456789"},',
        "REGEX-7",
    ),
    _regex(
        "F232",
        "look-ahead is read as a group",
        REGEX,
        'not self.reader.skip("?:"):',
        'not (self.reader.skip("?:") or self.reader.skip("?=")):',
        "REGEX-7",
    ),
    _regex(
        "F233",
        "an escape that is not served is its letter",
        CHARS,
        '    raise reader.fault("an escape that is not served", ESCAPES_HELP, start)\n',
        "    return ord(letter)\n",
        "REGEX-7",
    ),
    _choice(
        "F123",
        "choices are stripped",
        "            return choice.encode()\n",
        "            return choice.strip().encode()\n",
        "CHOICE-1",
    ),
    _choice(
        "F234",
        "the empty choice is dropped",
        "        if data not in encoded:\n",
        "        if data and data not in encoded:\n",
        "CHOICE-2",
    ),
    _choice(
        "F236",
        "choices ignore case",
        "            return choice.encode()\n",
        "            return choice.lower().encode()\n",
        "CHOICE-1",
    ),
    _choice(
        "F237",
        "shared beginnings are one character too long",
        "    return low\n",
        "    return min(low + 1, len(first), len(second))\n",
        "CHOICE-1",
        "CHOICE-4",
    ),
    _choice(
        "F238",
        "a choice that begins another one is lost",
        "        branch.options.append(seq([literal(word[branch.depth : depth]), expr]))\n",
        "        option = seq([literal(word[branch.depth : depth]), expr])\n"
        "        branch.options += [option] if option != EPSILON else []\n",
        "CHOICE-4",
    ),
    _choice(
        "F239",
        "an empty list of choices is the empty string",
        "    if isinstance(choices, str) or not choices:\n",
        '    choices = choices or [""]\n    if isinstance(choices, str) or not choices:\n',
        "CHOICE-2",
    ),
    _regex(
        "F255",
        "an empty expression matches anything",
        REGEX,
        "    alternatives = [alternative.expr for alternative in parse_pattern(pattern)]\n",
        '    alternatives = [a.expr for a in parse_pattern(pattern or "[^]*")]\n',
        "REGEX-2",
        "REGEX-1",
    ),
)
