"""Tool declarations and the choice of calls, read once: what may be called, and how each value is written.

Grammar and reader both work from a `ToolContract`, so neither interprets a type by itself (TOOL-23). A strict
tool's schema is reduced here; a schema of any other tool only hints how the values of its parameters are
read (TOOL-15, TOOL-16). Faults are RequestErrors of source `tools` with a JSON Pointer: `/tools/<i>/...` or
`/tool_choice/...`.
"""

import enum
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NoReturn

import attrs

from engine.errors import ErrorKind, Location, RefusedConstruct, RequestError
from engine.frontend.framing import VALUE_END, is_name
from engine.request import (
    ConstraintKind,
    JsonOptions,
    OutputConstraint,
    ToolChoice,
    ToolConstraints,
    ToolDeclaration,
    ToolMode,
    Whitespace,
)
from engine.text.schema.check import check
from engine.text.schema.nodes import UNSUPPORTED, Document
from engine.text.schema.reduce.clauses import Expansion, ObjectClause, Slot
from engine.text.schema.reduce.reducer import Reducer
from engine.text.schema.source import Value, join, parse

KIND = ErrorKind.INVALID_TOOL_CONSTRAINT
ARGUMENT_OPTIONS = JsonOptions(whitespace=Whitespace.FIXED)  # the template's separators, in every value
LONGEST_NAME = 256  # characters of a tool's name
PRIMITIVES = ("string", "boolean", "integer", "number", "null", "array", "object")


class Reading(enum.StrEnum):
    """How the text of a parameter becomes JSON.

    TEXT: a string, as it stands. JSON: a JSON value, as it stands. TYPED (declared, not a string): JSON where
    it is JSON, left out where it is blank, else a string. BOOLEAN: as TYPED, and `true` and `false` in any
    case. GUESSED (nothing declared): JSON where it is JSON, else a string.
    """

    TEXT = "text"
    JSON = "json"
    TYPED = "typed"
    BOOLEAN = "boolean"
    GUESSED = "guessed"

    @property
    def flows(self) -> bool:
        """Whether a value's JSON is known piece by piece, before all of it is there (TOOL-30)."""
        return self in (Reading.TEXT, Reading.JSON)


@attrs.frozen(eq=False)
class StrictArguments:
    """A strict tool's argument object in reduced form: its slots in declared order, and no free names."""

    reducer: Reducer
    clause: ObjectClause

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The parameters, in the order in which a call has them."""
        return self.clause.slots


@attrs.frozen(eq=False)
class Tool:
    """A declared tool; `arguments` is None unless it is strict."""

    index: int
    declaration: ToolDeclaration
    schema: Value
    readings: Mapping[str, Reading]
    arguments: StrictArguments | None = None

    @property
    def name(self) -> str:
        """What a call names."""
        return self.declaration.name

    @property
    def strict(self) -> bool:
        """Whether its arguments satisfy its schema."""
        return self.arguments is not None

    @property
    def pointer(self) -> str:
        """Where its schema stands in the request."""
        return f"/tools/{self.index}/parameters"

    def reading(self, parameter: str) -> Reading | None:
        """How a parameter's text is read; None for one that a strict tool does not have."""
        default = None if self.strict else Reading.GUESSED
        return self.readings.get(parameter, default)


@attrs.frozen(eq=False, slots=False)
class ToolContract:
    """The declared tools in order and the choice among them."""

    tools: tuple[Tool, ...]
    choice: ToolChoice

    @cached_property
    def callable(self) -> tuple[Tool, ...]:
        """The tools that a call of this turn may name, in declared order."""
        allowed = self.choice.allowed_names
        if self.choice.mode is ToolMode.NONE:
            return ()
        return tuple(tool for tool in self.tools if allowed is None or tool.name in allowed)

    @property
    def is_active(self) -> bool:
        """Whether calls are possible."""
        return bool(self.callable)

    @property
    def is_required(self) -> bool:
        """Whether this turn has to call."""
        return self.choice.mode is ToolMode.REQUIRED

    @property
    def is_enforced(self) -> bool:
        """Whether a request without a content constraint needs a matcher for its tools (TOOL-2, TOOL-3)."""
        if not self.tools:
            return False
        choice = self.choice
        is_plain = choice.mode is ToolMode.AUTO and choice.parallel and choice.allowed_names is None
        is_lax = choice.constraints is ToolConstraints.AUTOMATIC
        return not (is_plain and is_lax and not any(tool.strict for tool in self.callable))

    @property
    def has_free_names(self) -> bool:
        """Whether some call may have parameters of any name, each only once (TOOL-17)."""
        return any(not tool.strict for tool in self.callable)

    def find(self, name: str) -> Tool | None:
        """The tool that a call may name so."""
        return self._by_name.get(name)

    @cached_property
    def _by_name(self) -> dict[str, Tool]:
        return {tool.name: tool for tool in self.callable}


def tool_contract(
    declarations: Sequence[ToolDeclaration],
    choice: ToolChoice,
    constraint: OutputConstraint | None = None,
) -> ToolContract:
    """Read the tools of a request, its choice, and whether its content constraint goes with them.

    Raises RequestError: a name that no call can have or that stands twice, an undeclared name, no tool to
    call where one is required, a strict schema that the text format cannot carry, GBNF, regex or choice
    beside tools that can be called.
    """
    _check_names(declarations)
    _check_choice(declarations, choice)
    contract = ToolContract(tuple(_tool(i, tool) for i, tool in enumerate(declarations)), choice)
    _check_constraint(contract, constraint)
    return contract


def _check_names(declarations: Sequence[ToolDeclaration]) -> None:
    seen: set[str] = set()
    for index, tool in enumerate(declarations):
        place = f"/tools/{index}/name"
        if not isinstance(tool.name, str) or not is_name(tool.name) or not tool.name.isprintable():
            _refuse("a tool cannot be called so", place, repr(tool.name), "printable text without < and >")
        if len(tool.name) > LONGEST_NAME:
            _refuse("the name of a tool is too long", place, f"{len(tool.name)}", f"at most {LONGEST_NAME}")
        if tool.name in seen:
            _refuse("two tools have one name", place, repr(tool.name), "every tool's name once")
        seen.add(tool.name)


def _check_choice(declarations: Sequence[ToolDeclaration], choice: ToolChoice) -> None:
    declared = {tool.name for tool in declarations}
    for index, name in enumerate(choice.allowed_names or ()):
        if name not in declared:
            place = f"/tool_choice/allowed_names/{index}"
            _refuse("no tool has this name", place, repr(name), _some(sorted(declared)))
    has_none = not declared or choice.allowed_names == ()
    if choice.mode is ToolMode.REQUIRED and has_none:
        _refuse("a call is required and no tool can be called", "/tool_choice", "no tool", "at least one")


def _check_constraint(contract: ToolContract, constraint: OutputConstraint | None) -> None:
    if constraint is None or not contract.is_active:
        return
    if constraint.kind not in (ConstraintKind.JSON_OBJECT, ConstraintKind.JSON_SCHEMA):
        allowed = "json_object or json_schema beside tools, or tool_choice none"
        _refuse("this content constraint does not go with tools", "/tool_choice", constraint.kind, allowed)


def _tool(index: int, declaration: ToolDeclaration) -> Tool:
    try:
        schema = parse(declaration.parameters)
        if declaration.strict:
            arguments = _strict_arguments(schema)
            return Tool(index, declaration, schema, _strict_readings(arguments), arguments)
        _check_hints(schema)
        return Tool(index, declaration, schema, _hinted_readings(schema))
    except RequestError as error:
        raise _in_tool(error, index, declaration.name) from None


def _in_tool(error: RequestError, index: int, name: str) -> RequestError:
    """The same error with its place in the whole list of tools."""
    place = attrs.evolve(error.location, pointer=f"/tools/{index}/parameters{error.pointer}")
    message = f"parameters of tool {name!r}: {error.message}"
    return attrs.evolve(error, location=place, message=message, source="tools")


def _check_hints(schema: Value) -> None:
    """The shapes that a template and the hints rely on: an object, whose properties are one."""
    for place, part in (("", schema), ("/properties", _members(schema).get("properties", {}))):
        if not isinstance(part, dict):
            _refuse("the parameters of a tool are not an object schema", place, _shown(part), "an object")


def _hinted_readings(schema: Value) -> dict[str, Reading]:
    properties = _members(schema).get("properties", {})
    return {name: _hinted(set(_declared_types(part))) for name, part in properties.items()}


def _hinted(types: set[str]) -> Reading:
    if not types:
        return Reading.GUESSED
    if "string" in types:
        return Reading.TEXT
    return Reading.BOOLEAN if "boolean" in types else Reading.TYPED


def _declared_types(schema: Value) -> Iterator[str]:
    """The primitive types that a schema names, directly or in its alternatives."""
    waiting = [schema]
    while waiting:
        members = _members(waiting.pop())
        named = members.get("type", [])
        for name in named if isinstance(named, list) else [named]:
            if isinstance(name, str) and name in PRIMITIVES:
                yield name
        for keyword in ("anyOf", "oneOf"):
            branches = members.get(keyword)
            waiting += branches if isinstance(branches, list) else []


def _strict_arguments(schema: Value) -> StrictArguments:
    document = Document(schema)
    check(document, ARGUMENT_OPTIONS)
    reducer = Reducer(document, ARGUMENT_OPTIONS)
    clause = _only_object(reducer.expand(reducer.node([(document.root, True)])))
    for slot in clause.slots:
        if not is_name(slot.name):
            place = join(clause.pointer, "properties", slot.name)
            _unsupported("an argument cannot be called so", place, repr(slot.name), "no <, > or line break")
    return StrictArguments(reducer, clause)


def _only_object(expansion: Expansion) -> ObjectClause:
    others = (expansion.null, expansion.booleans, expansion.numbers, expansion.strings, expansion.arrays)
    if any(others) or expansion.values or len(expansion.objects) != 1:
        found = "several alternatives, listed values, or another type"
        _unsupported("strict arguments are not one object", "", found, "one schema of type object")
    clause = expansion.objects[0]
    if clause.groups:
        allowed = '"additionalProperties": false, and no free names'
        _unsupported("strict arguments have free names", clause.pointer, "an open object", allowed)
    return clause


def _strict_readings(arguments: StrictArguments) -> dict[str, Reading]:
    return {slot.name: _strict_reading(slot, arguments) for slot in arguments.slots}


def _strict_reading(slot: Slot, arguments: StrictArguments) -> Reading:
    """Whether a parameter is raw text or JSON: its domain must be one of the two (TOOL-26)."""
    domain = arguments.reducer.expand(slot.node)
    listed = [value for value in domain.values if isinstance(value, str)]
    pointer = join(arguments.clause.pointer, "properties", slot.name)
    if slot.node:
        pointer = slot.node[0][0].pointer
    for text in listed:
        if VALUE_END in text:
            allowed = "values without a line that begins with </parameter>"
            _unsupported(
                "a listed value holds what ends an argument", pointer, json.dumps(text)[:40], allowed
            )
    has_text = bool(domain.strings or listed) or not slot.node
    others = (domain.null, domain.booleans, domain.numbers, domain.arrays, domain.objects)
    has_others = any(others) or len(listed) < len(domain.values)
    if has_text and has_others:
        allowed = "strings alone, or no strings"
        _unsupported("text cannot tell a string from another type here", pointer, "both", allowed)
    return Reading.TEXT if has_text else Reading.JSON


def _members(schema: Value) -> dict[str, Value]:
    return schema if isinstance(schema, dict) else {}


def _shown(value: Value) -> str:
    return type(value).__name__


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:8])
    return f"{shown}, ..." if len(names) > 8 else shown or "no tool is declared"


def _refuse(message: str, pointer: str, found: str, allowed: str) -> NoReturn:
    raise RequestError(KIND, message, Location(pointer=pointer), found[:60], allowed, source="tools")


def _unsupported(message: str, pointer: str, found: str, allowed: str) -> NoReturn:
    raise RefusedConstruct(UNSUPPORTED, message, Location(pointer=pointer), found, allowed, source="tools")
