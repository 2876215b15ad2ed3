"""Group G2: faults that make the spelling or the order of a schema matter where it has no meaning."""

from experiments.faults.planting import Fault, fault, replace

SCHEMA = "engine/text/schema"
BRANCHES = f"{SCHEMA}/reduce/branches.py"
OBJECTS = f"{SCHEMA}/reduce/objects.py"
STRINGS = f"{SCHEMA}/strings.py"
SETS = f"{SCHEMA}/numbers_set.py"
SAME = ("property_tests/test_schema_metamorphic.py",)


def _order(name: str, title: str, file: str, old: str, new: str, *clauses: str) -> Fault:
    return fault(name, title, replace(file, old, new), checks=SAME, clauses=clauses)


FAULTS: tuple[Fault, ...] = (
    _order(
        "G2-990",
        "listed strings share beginnings only with their neighbours",
        STRINGS,
        "words = sorted({text for text in texts if _is_text(text)})",
        "words = list(dict.fromkeys(text for text in texts if _is_text(text)))",
        "JSON-35",
    ),
    _order(
        "G2-991",
        "a oneOf branch is kept apart from earlier branches only, and the last is not",
        BRANCHES,
        "others = [p for p in parts if p is not part and not",
        "others = [p for p in parts[: parts.index(part)][:1] if p is not part and not",
        "JSON-37",
    ),
    _order(
        "G2-992",
        "required names come before declared ones, in the order of required",
        OBJECTS,
        "            _declare(fact.schema, draft)\n",
        "            _require(fact.schema, draft)\n            _declare(fact.schema, draft)\n",
        "JSON-28",
    ),
    _order(
        "G2-993",
        "only the first name of a list of types counts",
        BRANCHES,
        "for name in names if isinstance(names, list) else [names]:",
        "for name in names[:1] if isinstance(names, list) else [names]:",
        "JSON-34",
    ),
    _order(
        "G2-994",
        "of a type list with integer and number the last one wins",
        BRANCHES,
        "        bits |= TYPE_BITS[name]\n",
        "        bits = bits & ~NUMBER | TYPE_BITS[name] if TYPE_BITS[name] & NUMBER else bits | TYPE_BITS[name]\n",
        "JSON-34",
        "JSON-38",
    ),
    _order(
        "G2-995",
        "the last part of allOf is left out",
        BRANCHES,
        'for index in range(len(schema.get("allOf") or ())):',
        'for index in range(len(schema.get("allOf") or ()[:0]) - 1):',
        "JSON-39",
    ),
    _order(
        "G2-996",
        "only the first pattern that matches a name counts",
        OBJECTS,
        'own = [pattern for pattern in matched if pattern in (schema.get("patternProperties") or ())]',
        'own = [pattern for pattern in matched if pattern in (schema.get("patternProperties") or ())][:1]',
        "JSON-27",
    ),
    _order(
        "G2-997",
        "the fractional lower bound of an integer is rounded down",
        SETS,
        "else -(-self.low // step)",
        "else self.low // step",
        "JSON-22",
    ),
    _order(
        "G2-998",
        "of patterns in different places only the last counts",
        STRINGS,
        "tuple(dict.fromkeys(self.patterns + other.patterns)),",
        "other.patterns or self.patterns,",
        "JSON-13",
        "JSON-39",
    ),
    _order(
        "G2-999",
        "a branch forgets the facts of what it comes from",
        BRANCHES,
        "            state.facts + option.facts,\n",
        "            option.facts,\n",
        "JSON-36",
    ),
)
