"""Group E: faults between a JSON Schema and its rules that the catalogue names (JSON-1 to JSON-48)."""

from experiments.faults.planting import Fault, fault, replace

SCHEMA = "engine/text/schema"
SCALARS = f"{SCHEMA}/reduce/scalars.py"
BRANCHES = f"{SCHEMA}/reduce/branches.py"
OBJECTS = f"{SCHEMA}/reduce/objects.py"
MEMBERS = f"{SCHEMA}/lower/objects.py"
JSON = f"{SCHEMA}/lower/json.py"
LAYOUT = f"{SCHEMA}/lower/layout.py"
SAME = "property_tests/test_schema_metamorphic.py"
PAIRS = "property_tests/test_schema_pairs.py"
SIBLINGS = "property_tests/test_schema_keywords.py::test_every_pair_of_siblings_is_enforced_together"
LANGUAGE = "property_tests/test_schema_language.py"
MASKS = "property_tests/test_schema_masks.py"


def _tests(*names: str) -> tuple[str, ...]:
    return tuple(f"property_tests/test_schema_{name}.py" for name in names)


FAULTS: tuple[Fault, ...] = (
    fault(
        "E92",
        "lengths are dropped beside a pattern",
        replace(
            SCALARS, 'if schema.has("minLength"):', 'if schema.has("minLength") > schema.has("pattern"):'
        ),
        replace(
            SCALARS, 'if schema.has("maxLength"):', 'if schema.has("maxLength") > schema.has("pattern"):'
        ),
        checks=(SAME, SIBLINGS),
        clauses=("JSON-13", "JSON-7"),
    ),
    fault(
        "E93",
        "anyOf and $ref drop their siblings",
        replace(
            BRANCHES,
            "        state.facts += _facts(schema)\n        for literal",
            '        state.facts += () if schema.has("anyOf") or schema.has("$ref") else _facts(schema)\n'
            "        for literal",
        ),
        checks=(SAME, SIBLINGS),
        clauses=("JSON-36", "JSON-44", "JSON-7"),
    ),
    fault(
        "E94",
        "required names that nobody declares are dropped",
        replace(
            OBJECTS,
            '    for name in schema.get("required") or ():\n        draft.declare',
            '    for name in set(schema.get("required") or ()) & set(schema.get("properties") or ()):\n'
            "        draft.declare",
        ),
        checks=_tests("objects"),
        clauses=("JSON-27",),
    ),
    fault(
        "E96",
        "keywords that are not served pass in silence",
        replace(
            f"{SCHEMA}/check.py",
            "    dialects = KEYWORDS[keyword].since if keyword in KEYWORDS else None\n",
            "    return\n    dialects = None\n",
        ),
        checks=(
            f"{_tests('keywords')[0]}::test_unknown_keywords_are_refused_unless_the_caller_says_otherwise",
        ),
        clauses=("JSON-6", "JSON-7", "JSON-48"),
    ),
    fault(
        "E97",
        "a reference that leads nowhere admits everything",
        replace(
            f"{SCHEMA}/nodes.py",
            '    raise SyntaxFault(KIND, "a reference leads nowhere", place, text,',
            "    return True\n    raise SyntaxFault(KIND, text, place, text,",
        ),
        checks=_tests("nodes"),
        clauses=("JSON-43", "JSON-2"),
    ),
    fault(
        "E99",
        "listed strings are not escaped",
        replace(JSON, "[quoted(text)[1:-1] for text in texts]", "texts"),
        checks=(SAME, *_tests("language"), MASKS),
        clauses=("JSON-35", "JSON-12"),
    ),
    fault(
        "E100",
        "an exclusive bound includes its number",
        replace(
            SCALARS,
            '"exclusiveMinimum": lambda _, bound: NumberSet(low=bound, low_open=True)',
            '"exclusiveMinimum": lambda _, bound: NumberSet(low=bound)',
        ),
        checks=(SAME, SIBLINGS),
        clauses=("JSON-21",),
    ),
    fault(
        "E103",
        "bounded numbers lose their exponents",
        replace(
            f"{SCHEMA}/numbers.py",
            "for other, size in kept.with_exponent]",
            "for other, size in kept.with_exponent[:0]]",
        ),
        checks=_tests("numbers"),
        clauses=("JSON-23",),
    ),
    fault(
        "E105",
        "only ASCII characters count as one in a length",
        replace(
            f"{SCHEMA}/strings.py",
            "patterns = (*patterns, repeat(ANY, low, high))",
            "patterns = (*patterns, repeat(chars([(0, 0x7F)]), low, high))",
        ),
        checks=_tests("strings", "keywords", "masks"),
        clauses=("JSON-14",),
    ),
    fault(
        "E106",
        "control characters stand raw in strings",
        replace(
            f"{SCHEMA}/strings.py",
            "raw = negated(chars([*negated(characters).ranges, *ESCAPED.ranges]))",
            "raw = negated(chars([*negated(characters).ranges, (0x22, 0x22), (0x5C, 0x5C)]))",
        ),
        checks=_tests("strings", "masks"),
        clauses=("JSON-14", "JSON-17"),
    ),
    fault(
        "E108",
        "a later member has no comma",
        replace(MEMBERS, "more = seq([lowerer.comma, member, rest])", "more = seq([member, rest])"),
        checks=_tests("objects", "language"),
        clauses=("JSON-27", "JSON-28"),
    ),
    fault(
        "E110",
        "member names may be spelled with any escape",
        replace(MEMBERS, "string_lexeme(names, canonical=True)", "string_lexeme(names)"),
        checks=_tests("objects"),
        clauses=("JSON-30", "JSON-17"),
    ),
    fault(
        "E111",
        "nobody watches that free names are different",
        replace(
            "engine/text/compiler.py",
            "if lowered.has_free_names else",
            "if lowered.has_free_names is None else",
        ),
        checks=(*_tests("objects"), "gate:JSON schema masks"),
        clauses=("JSON-28", "JSON-30"),
    ),
    fault(
        "E114",
        "patternProperties do not speak about declared names",
        replace(
            OBJECTS, "    for pattern in matched:\n", "    for pattern in () if declared else matched:\n"
        ),
        checks=(SAME, *_tests("objects"), SIBLINGS),
        clauses=("JSON-27", "JSON-39"),
    ),
    fault(
        "E115",
        "oneOf is anyOf",
        replace(
            BRANCHES,
            "Option(literals=((part, True), *((other, False) for other in others)))",
            "Option(literals=((part, True),))",
        ),
        checks=(SAME, *_tests("reduce")),
        clauses=("JSON-37", "JSON-38"),
    ),
    fault(
        "E116",
        "a reference of an inner resource is looked up in the outer one",
        replace(
            f"{SCHEMA}/nodes.py",
            "            return self._at_pointer(schema.resource, text[1:], place, text)\n"
            "        return self._identified(schema.resource.uri, place, text)\n\n    def _dynamic",
            "            return self._at_pointer(self.root.resource, text[1:], place, text)\n"
            "        return self._identified(schema.resource.uri, place, text)\n\n    def _dynamic",
        ),
        checks=_tests("nodes"),
        clauses=("JSON-4", "JSON-43"),
    ),
    fault(
        "F129",
        "white space has no end",
        replace(LAYOUT, "run = Repeat(SPACE, 0, LONGEST_RUN)", "run = Repeat(SPACE, 0, None)"),
        checks=(MASKS,),
        clauses=("JSON-10", "SERV-18"),
    ),
    fault(
        "H147",
        "the cache's key sorts the schema's members",
        replace(
            "engine/text/schema/source.py",
            'for name, part in value.items()) + "}"',
            'for name, part in sorted(value.items())) + "}"',
        ),
        checks=_tests("source", "objects"),
        clauses=("CACHE-4", "JSON-28"),
    ),
    fault(
        "E988",
        "json_object admits every value",
        replace(f"{SCHEMA}/grammar.py", """ANY_OBJECT = '{"type":"object"}'""", 'ANY_OBJECT = "{}"'),
        checks=("property_tests/test_json_paths.py::test_exact_checks", "gate:JSON schema masks"),
        clauses=("JSON-1",),
    ),
    fault(
        "E989",
        "a default is no annotation",
        replace(f"{SCHEMA}/keywords.py", '("title", "description", "default", ', '("title", "description", '),
        checks=(SAME, *_tests("source", "nodes", "served")),
        clauses=("JSON-5",),
    ),
    fault(
        "E990",
        "a missing additionalProperties closes the object",
        replace(
            OBJECTS, "            groups.append(Group(names, taken, node))\n", "            groups += []\n"
        ),
        checks=(SAME, *_tests("objects")),
        clauses=("JSON-29",),
    ),
    fault(
        "E991",
        "an array may not stop before a position that nothing satisfies",
        replace(
            f"{SCHEMA}/lower/arrays.py",
            "rest = lowerer.rule(more if index < clause.min_items else alt([EPSILON, more]))",
            "rest = lowerer.rule(more)",
        ),
        checks=_tests("arrays"),
        clauses=("JSON-33", "JSON-32"),
    ),
    fault(
        "E992",
        "a range that holds no number and one that holds none to publish are one error",
        replace(
            f"{SCHEMA}/numbers.py",
            '        ErrorKind.UNSUPPORTED_JSON_SCHEMA,\n        "no number that satisfies',
            '        ErrorKind.UNSATISFIABLE_JSON_SCHEMA,\n        "no number that satisfies',
        ),
        checks=_tests("numbers"),
        clauses=("JSON-25",),
    ),
    fault(
        "E993",
        "one more length is counted than the limit says",
        replace("engine/text/limits.py", '"automaton_length": 8192', '"automaton_length": 8193'),
        checks=("property_tests/test_automaton.py",),
        clauses=("JSON-46",),
    ),
)
