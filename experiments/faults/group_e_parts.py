"""Group E, the project's own: faults of the reduction of schemas and of the lowering of objects and arrays."""

from experiments.faults.planting import Fault, fault, replace

REDUCE = "engine/text/schema/reduce"
BRANCHES = f"{REDUCE}/branches.py"
OBJECTS = f"{REDUCE}/objects.py"
ARRAYS = f"{REDUCE}/arrays.py"
REDUCER = f"{REDUCE}/reducer.py"
MEMBERS = "engine/text/schema/lower/objects.py"
ITEMS = "engine/text/schema/lower/arrays.py"
TESTS = "property_tests/test_schema_"
SAME, PAIRS, SIBLINGS = (f"{TESTS}{name}.py" for name in ("metamorphic", "pairs", "keywords"))
REDUCED = (PAIRS, f"{TESTS}reduce.py", f"{TESTS}language.py")
OF_OBJECTS = (PAIRS, f"{TESTS}objects.py", f"{TESTS}language.py")
OF_ARRAYS = (PAIRS, f"{TESTS}arrays.py", f"{TESTS}language.py")


def _branch(name: str, title: str, file: str, old: str, new: str, *clauses: str) -> Fault:
    return fault(name, title, replace(file, old, new), checks=(SAME, *REDUCED), clauses=clauses)


def _object(name: str, title: str, file: str, old: str, new: str, *clauses: str) -> Fault:
    return fault(name, title, replace(file, old, new), checks=OF_OBJECTS, clauses=clauses)


def _array(name: str, title: str, file: str, old: str, new: str, *clauses: str) -> Fault:
    return fault(name, title, replace(file, old, new), checks=OF_ARRAYS, clauses=clauses)


FAULTS: tuple[Fault, ...] = (
    _branch(
        "E930",
        "that two branches exclude each other is proved in one place and believed in all",
        REDUCER,
        "        return self._conjunction_is_empty(one, other, context)\n\n",
        "        self._exclusive[key] = self._conjunction_is_empty(one, other, context)\n"
        "        return self._exclusive[key]\n\n",
        "JSON-37",
    ),
    _branch(
        "E931",
        "a proof that needs itself is believed",
        REDUCER,
        "            self._exclusive[key] = False  # a",
        "            self._exclusive[key] = True  # a",
        "JSON-45",
        "JSON-37",
    ),
    _branch(
        "E932",
        "the opposite of oneOf forgets that two branches may hold",
        BRANCHES,
        "                if not self._exclusive(part, other, nothing):",
        "                if part is other:",
        "JSON-37",
    ),
    _branch(
        "E933",
        "the opposite of anyOf asks for one branch that fails",
        BRANCHES,
        "            yield Option(literals=tuple((part, False) for part in parts))",
        "            yield from (Option(literals=((part, False),)) for part in parts)",
        "JSON-36",
    ),
    _branch(
        "E934",
        "without else a condition that holds asks for nothing",
        BRANCHES,
        "                options.append(Option(literals=((condition, holds),)))",
        "                options.append(Option())",
        "JSON-7",
    ),
    _branch(
        "E935",
        "of the names that a member needs only the first is asked for",
        BRANCHES,
        "for other in (name, *needed))",
        "for other in (name, *needed[:1]))",
        "JSON-7",
    ),
    _branch(
        "E936",
        "not of a list says nothing about its arrays and objects",
        BRANCHES,
        '        if keyword not in ("enum", "const"):\n            return ()',
        "        if keyword:\n            return ()",
        "JSON-35",
    ),
    _branch(
        "E937",
        "the opposite of several keywords leaves out the types",
        BRANCHES,
        "            yield Option(ANY_TYPE & ~types_of(schema))",
        "            yield Option(0)",
        "JSON-34",
    ),
    _branch(
        "E938",
        "a branch forgets the types of what it comes from",
        BRANCHES,
        "            state.types & option.types,\n",
        "            option.types,\n",
        "JSON-36",
        "JSON-34",
    ),
    _branch(
        "E939",
        "listed values are not asked about the keywords beside them",
        REDUCER,
        "if branch.types & type_of(value) and (only_lists or self._all_hold(branch, value)):",
        "if branch.types & type_of(value):",
        "JSON-35",
    ),
    _branch(
        "E940",
        "number holds no integers",
        BRANCHES,
        "(NULL, BOOLEAN, OBJECT, ARRAY, NUMBER, STRING, INTEGER)",
        "(NULL, BOOLEAN, OBJECT, ARRAY, FRACTION, STRING, INTEGER)",
        "JSON-38",
        "JSON-34",
    ),
    _object(
        "E941",
        "free members may take declared names",
        MEMBERS,
        "    if group.taken:\n",
        "    if not group.names:\n",
        "JSON-30",
        "JSON-28",
    ),
    _object(
        "E942",
        "one member too few is enough",
        MEMBERS,
        "least = max(0, self._minimum - count)",
        "least = max(0, self._minimum - count - 1)",
        "JSON-27",
    ),
    _object(
        "E943",
        "declared members do not count towards the largest number",
        MEMBERS,
        "most = None if self._maximum is None else self._maximum - count",
        "most = self._maximum",
        "JSON-27",
    ),
    _object(
        "E944",
        "an object ends before some member failed as it must",
        MEMBERS,
        "        if len(met) < len(self._clause.witnesses):\n            return\n",
        "",
        "JSON-39",
    ),
    _object(
        "E945",
        "the empty object meets what some member must meet",
        MEMBERS,
        "needs_member = clause.min_members or clause.witnesses or",
        "needs_member = clause.min_members or",
        "JSON-39",
    ),
    _object(
        "E946",
        "additionalProperties speaks about names that a pattern matches",
        OBJECTS,
        '        if not own and schema.has("additionalProperties"):',
        '        if schema.has("additionalProperties"):',
        "JSON-27",
    ),
    _object(
        "E947",
        "a closed branch is reopened by the names of another one",
        OBJECTS,
        '    if not declared and not matched and schema.has("additionalProperties"):',
        '    if False and not matched and schema.has("additionalProperties"):',
        "JSON-40",
    ),
    _object(
        "E948",
        "propertyNames does not speak about declared names",
        OBJECTS,
        "            if not reducer.evaluator.schema(child, name):",
        "            if not child:",
        "JSON-39",
    ),
    _object(
        "E949",
        "a member that is required and must be absent may come",
        OBJECTS,
        "    if any(draft.names[name] for name in draft.absent):\n        return []\n",
        "",
        "JSON-41",
    ),
    _object(
        "E950",
        "far members of a wide object change their order",
        MEMBERS,
        "self._lowerer.rule(seq([tree, self._trees.pop()[1]]))",
        "self._lowerer.rule(seq([self._trees.pop()[1], tree]))",
        "JSON-28",
    ),
    _object(
        "E951",
        "names that run out are taken for names that never do",
        OBJECTS,
        "        if names.is_free or names.every_prefix_stays_open():",
        "        if names.is_free or not names.is_empty():",
        "JSON-28",
        "SERV-4",
    ),
    _array(
        "E952",
        "an array ends without the items it must contain",
        ITEMS,
        "return index >= self._clause.min_items and all(count >= special.minimum for count, special in enough)",
        "return index >= self._clause.min_items and bool(list(enough))",
        "JSON-31",
    ),
    _array(
        "E953",
        "one item too many may be contained",
        ITEMS,
        "if count < special.maximum else []",
        "if count <= special.maximum else []",
        "JSON-31",
    ),
    _array(
        "E954",
        "items that must differ may be equal",
        ITEMS,
        "            if key not in used:\n",
        "            if key not in used or len(used) > 1:\n",
        "JSON-31",
    ),
    _array(
        "E955",
        "items that must differ are compared as they are written",
        ITEMS,
        "keys = [equality_key(value) for value in values]",
        "keys: list[object] = [repr(value) for value in values]",
        "JSON-31",
    ),
    _array(
        "E956",
        "one item of the tail too few is enough",
        ITEMS,
        "return repeat(item, max(0, clause.min_items - done), most)",
        "return repeat(item, max(0, clause.min_items - done - 1), most)",
        "JSON-32",
    ),
    _array(
        "E957",
        "an intersection forgets where each schema's tail begins",
        ARRAYS,
        "draft.everywhere(tail, (document.child(schema, keyword), True))",
        "draft.everywhere(0, (document.child(schema, keyword), True))",
        "JSON-42",
        "JSON-32",
    ),
    _array(
        "E958",
        "the opposite of items is asked of the prefix too",
        ARRAYS,
        "draft.counted.append(Counted(((child, False),), 1, None, start))",
        "draft.counted.append(Counted(((child, False),), 1, None, 0))",
        "JSON-32",
    ),
)
