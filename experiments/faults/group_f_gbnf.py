"""Group F, faults in reading grammars."""

from experiments.faults.planting import Fault, fault, replace

GBNF = "engine/text/gbnf.py"
LEXER = "engine/text/gbnf_lexer.py"
LIMITS = "engine/text/limits.py"
GRAMMARS = ("property_tests/test_gbnf.py", "property_tests/test_language.py", "gate:legal sets")


def _gbnf(name: str, title: str, file: str, old: str, new: str, *clauses: str) -> Fault:
    return fault(name, title, replace(file, old, new), checks=GRAMMARS, clauses=clauses)


FAULTS: tuple[Fault, ...] = (
    _gbnf(
        "F202",
        "a class range of a grammar leaves its last character out",
        LEXER,
        "ranges.append((low, high))",
        "ranges.append((low, high - (high > low)))",
        "GBNF-1",
    ),
    _gbnf(
        "F208",
        "a repetition binds the whole sequence",
        GBNF,
        "group.items[-1] = repeat(group.items[-1], minimum, maximum)",
        "group.items[:] = [repeat(seq(group.items), minimum, maximum)]",
        "GBNF-1",
    ),
    _gbnf(
        "F211",
        "{m,} of a grammar is {m}",
        GBNF,
        'maximum = None if self.peek().text == "}"',
        'maximum = minimum if self.peek().text == "}"',
        "GBNF-1",
    ),
    _gbnf("F213", "+ of a grammar may be left out", GBNF, '"+": (1, None)', '"+": (0, None)', "GBNF-1"),
    _gbnf("F125", "a comment runs to the end of the source", LEXER, r"\#[^\n]*)", r"\#[\s\S]*)", "GBNF-1"),
    _gbnf(
        "F240",
        "a rule ends with its line",
        LEXER,
        "    offset = 0\n    while offset < len(source):\n",
        '    source = source.replace("\\n|", "\\n").replace("\\n  |", "\\n")\n'
        "    offset = 0\n    while offset < len(source):\n",
        "GBNF-1",
    ),
    _gbnf(
        "F241",
        "a dot leaves line feeds out",
        GBNF,
        "ANY = negated(chars([]))",
        "ANY = negated(chars([(10, 10)]))",
        "GBNF-1",
    ),
    _gbnf(
        "F242",
        "a group's first alternative is the group",
        GBNF,
        "        return alt(group.alternatives)\n",
        "        return alt(group.alternatives if len(self.groups) == 1 else group.alternatives[:1])\n",
        "GBNF-1",
    ),
    _gbnf(
        "F243",
        "a hint adds to its rule",
        GBNF,
        '        elif not (self.peek().kind == "end" or self.starts_rule()):\n',
        '        elif self.peek().kind == "end" or self.starts_rule():\n'
        "            self.groups[-1].items = [alt([seq(self.groups[-1].items), expr])]\n"
        '        elif not (self.peek().kind == "end" or self.starts_rule()):\n',
        "GBNF-6",
    ),
    _gbnf(
        "F244",
        "rule options are ignored",
        GBNF,
        '        if self.peek().kind == "class":\n            raise',
        '        if self.peek().kind == "class":\n            self.take()\n'
        '        if self.peek().kind == "class":\n            raise',
        "GBNF-3",
    ),
    _gbnf(
        "F245",
        "a token terminal may name any id of the vocabulary",
        GBNF,
        "token_id >= size or self.vocabulary.classes[token_id] is not TokenClass.TEXT",
        "token_id >= size",
        "GBNF-4",
    ),
    _gbnf(
        "F246",
        "a token terminal may name the first id past the vocabulary",
        GBNF,
        "        if token_id >= size or self.vocabulary",
        "        if token_id > size or token_id < size and self.vocabulary",
        "GBNF-4",
    ),
    _gbnf(
        "F247",
        "a dispatch macro is a rule's name",
        GBNF,
        'REFUSED_MACROS = ("TagDispatch", "TokenTagDispatch", ',
        'REFUSED_MACROS = ("TokenTagDispatch", ',
        "GBNF-5",
    ),
    _gbnf(
        "F248",
        "a rule defined twice keeps its last body",
        GBNF,
        "        if lexeme.text in self.rules:\n",
        "        if lexeme.text in self.rules and not lexeme.text:\n",
        "GBNF-2",
    ),
    _gbnf(
        "F249",
        "lines are counted from 0",
        LIMITS,
        'line=source.count("\\n", 0, offset) + 1',
        'line=source.count("\\n", 0, offset)',
        "GBNF-2",
    ),
    _gbnf(
        "F250",
        "columns are counted from the line feed",
        LIMITS,
        "column=offset - line_start + 1",
        "column=offset - line_start + 2",
        "GBNF-2",
    ),
    _gbnf(
        "F251",
        "a limit refuses what it allows",
        LIMITS,
        "    if value > maximum:\n",
        "    if value >= maximum:\n",
        "SAFE-2",
    ),
    _gbnf(
        "F252",
        "a limit allows one more",
        LIMITS,
        "    if value > maximum:\n",
        "    if value > maximum + 1:\n",
        "SAFE-2",
    ),
    _gbnf(
        "F253",
        "an escape in a class range ends at its letter",
        LEXER,
        "            yield named[other], True\n",
        "            yield ord(other), True\n",
        "GBNF-1",
    ),
    _gbnf(
        "F254",
        "a negated class of a grammar is not negated",
        LEXER,
        "(negated(chars(ranges)) if is_negated else chars(ranges))",
        "chars(ranges)",
        "GBNF-1",
    ),
)
