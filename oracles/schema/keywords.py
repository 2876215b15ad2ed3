"""What each keyword of JSON Schema asserts, one small function each: handler(frame, argument).

A handler looks at `frame.value`, records failures on the frame, and notes the members and items it evaluated
(which only unevaluatedProperties and unevaluatedItems read). A value of another type is never its business.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from oracles.schema import formats, regex
from oracles.schema.text import Number, Value, count, identity

if TYPE_CHECKING:
    from oracles.schema.validate import Frame

Handler = Callable[["Frame", Value], None]


def _is_type(value: Value, name: str) -> bool:
    if name == "integer":
        return value.kind == "number" and value.data.is_integer
    return value.kind == name


def _type(frame: "Frame", argument: Value) -> None:
    names = argument.data if argument.kind == "array" else (argument,)
    if not any(_is_type(frame.value, name.data) for name in names):
        frame.fail("type")


def _type_draft4(frame: "Frame", argument: Value) -> None:
    """Draft-04 calls a number an integer only when it is written without fraction and exponent."""
    names = {name.data for name in (argument.data if argument.kind == "array" else (argument,))}
    if frame.value.kind in names:
        return
    if "integer" not in names or not frame.value.spelling.lstrip("-").isdigit():
        frame.fail("type")


def _enum(frame: "Frame", argument: Value) -> None:
    if identity(frame.value) not in frame.run.choices(argument):
        frame.fail("enum")


def _const(frame: "Frame", argument: Value) -> None:
    if identity(argument) != identity(frame.value):
        frame.fail("const")


def _number(keyword: str, holds: Callable[[Value, Value], bool]) -> Handler:
    def handler(frame: "Frame", argument: Value) -> None:
        if frame.value.kind == "number" and not holds(frame.value, argument):
            frame.fail(keyword)

    return handler


def _bound_draft4(keyword: str, exclusive: str, sign: int) -> Handler:
    """Draft-04 makes a bound exclusive by a boolean beside it."""

    def handler(frame: "Frame", argument: Value) -> None:
        if frame.value.kind != "number":
            return
        flag = frame.place.value.get(exclusive)
        strict = flag is not None and flag.data is True
        low, high = (argument.data, frame.value.data)[::sign]
        if high < low or (strict and low == high):
            frame.fail(keyword)

    return handler


def _size(keyword: str, kind: str, holds: Callable[[Number, Number], bool]) -> Handler:
    def handler(frame: "Frame", argument: Value) -> None:
        if frame.value.kind == kind and not holds(count(len(frame.value.data)), argument.data):
            frame.fail(keyword)

    return handler


def _at_most(length: Number, bound: Number) -> bool:
    return length <= bound


def _at_least(length: Number, bound: Number) -> bool:
    return length >= bound


def _pattern(frame: "Frame", argument: Value) -> None:
    if frame.value.kind == "string" and not regex.search(argument.data, frame.value.data):
        frame.fail("pattern")


def _format(frame: "Frame", argument: Value) -> None:
    asserted = frame.run.assert_formats or "format-assertion" in frame.place.resource.dialect.keywords
    if asserted and frame.value.kind == "string" and formats.valid(argument.data, frame.value.data) is False:
        frame.fail("format")


def _unique_items(frame: "Frame", argument: Value) -> None:
    if frame.value.kind == "array" and argument.data is True:
        keys = [identity(item) for item in frame.value.data]
        if len(set(keys)) != len(keys):
            frame.fail("uniqueItems")


def _names(value: Value) -> set[str]:
    return {name for name, _ in value.data}


def _required(frame: "Frame", argument: Value) -> None:
    if frame.value.kind == "object" and not {name.data for name in argument.data} <= _names(frame.value):
        frame.fail("required")


def _dependent_required(frame: "Frame", argument: Value) -> None:
    _dependencies_of(frame, argument, "dependentRequired")


def _dependent_schemas(frame: "Frame", argument: Value) -> None:
    _dependencies_of(frame, argument, "dependentSchemas")


def _dependencies(frame: "Frame", argument: Value) -> None:
    _dependencies_of(frame, argument, "dependencies")


def _dependencies_of(frame: "Frame", argument: Value, keyword: str) -> None:
    if frame.value.kind != "object":
        return
    present = _names(frame.value)
    for name, wanted in argument.data:
        if name not in present:
            continue
        if wanted.kind != "array":
            frame.outcome.absorb(frame.here(wanted))
        elif not {other.data for other in wanted.data} <= present:
            frame.fail(keyword)


def _properties(frame: "Frame", argument: Value) -> None:
    if frame.value.kind == "object":
        schemas = dict(argument.data)
        for name, value in frame.value.data:
            if name in schemas:
                frame.below(schemas[name], name, value)
                frame.outcome.names.add(name)


def _pattern_properties(frame: "Frame", argument: Value) -> None:
    if frame.value.kind != "object":
        return
    for pattern, schema in argument.data:
        for name, value in frame.value.data:
            if regex.search(pattern, name):
                frame.below(schema, name, value)
                frame.outcome.names.add(name)


def _additional_properties(frame: "Frame", argument: Value) -> None:
    if frame.value.kind != "object":
        return
    properties = frame.sibling("properties")
    declared = set() if properties is None else _names(properties)
    patterns = frame.sibling("patternProperties")
    for name, value in frame.value.data:
        if name in declared:
            continue
        if patterns is not None and any(regex.search(pattern, name) for pattern, _ in patterns.data):
            continue
        frame.below(argument, name, value)
        frame.outcome.names.add(name)


def _property_names(frame: "Frame", argument: Value) -> None:
    if frame.value.kind == "object":
        for name, value in frame.value.data:
            if not frame.test(argument, Value("string", name, value.start, value.start)):
                frame.fail("propertyNames")


def _items_from(frame: "Frame", schema: Value, first: int) -> None:
    for index in range(first, len(frame.value.data)):
        frame.below(schema, str(index), frame.value.data[index])
        frame.outcome.items.add(index)


def _items_each(frame: "Frame", schemas: Value) -> None:
    for index, (schema, item) in enumerate(zip(schemas.data, frame.value.data, strict=False)):
        frame.below(schema, str(index), item)
        frame.outcome.items.add(index)


def _items_before_2020(frame: "Frame", argument: Value) -> None:
    if frame.value.kind != "array":
        return
    if argument.kind == "array":
        _items_each(frame, argument)
    else:
        _items_from(frame, argument, 0)


def _additional_items(frame: "Frame", argument: Value) -> None:
    first = frame.sibling("items")
    if frame.value.kind == "array" and first is not None and first.kind == "array":
        _items_from(frame, argument, len(first.data))


def _prefix_items(frame: "Frame", argument: Value) -> None:
    if frame.value.kind == "array":
        _items_each(frame, argument)


def _items(frame: "Frame", argument: Value) -> None:
    first = frame.sibling("prefixItems")
    if frame.value.kind == "array":
        _items_from(frame, argument, 0 if first is None else len(first.data))


def _contains(frame: "Frame", argument: Value) -> None:
    if frame.value.kind != "array":
        return
    found = {index for index, item in enumerate(frame.value.data) if frame.test(argument, item)}
    if frame.place.resource.dialect.draft == "2020-12":
        frame.outcome.items |= found
    least, most = frame.sibling("minContains"), frame.sibling("maxContains")
    if count(len(found)) < (count(1) if least is None else least.data):
        frame.fail("contains" if least is None else "minContains")
    if most is not None and count(len(found)) > most.data:
        frame.fail("maxContains")


def _all_of(frame: "Frame", argument: Value) -> None:
    for schema in argument.data:
        frame.outcome.absorb(frame.here(schema))


def _branches(frame: "Frame", argument: Value) -> int:
    """Apply every branch, take over what the holding ones evaluated; return how many hold."""
    holding = [
        outcome for outcome in [frame.here(schema) for schema in argument.data] if not outcome.failures
    ]
    for outcome in holding:
        frame.outcome.absorb(outcome)
    return len(holding)


def _any_of(frame: "Frame", argument: Value) -> None:
    if not _branches(frame, argument):
        frame.fail("anyOf")


def _one_of(frame: "Frame", argument: Value) -> None:
    if _branches(frame, argument) != 1:
        frame.fail("oneOf")


def _not(frame: "Frame", argument: Value) -> None:
    if not frame.here(argument).failures:
        frame.fail("not")


def _if(frame: "Frame", argument: Value) -> None:
    outcome = frame.here(argument)
    if not outcome.failures:
        frame.outcome.absorb(outcome)
    chosen = frame.sibling("else" if outcome.failures else "then")
    if chosen is not None:
        frame.outcome.absorb(frame.here(chosen))


def _ref(frame: "Frame", argument: Value) -> None:
    target, _ = frame.run.registry.resolve(frame.place.resource, argument.data)
    frame.outcome.absorb(frame.follow(target))


def _dynamic_ref(frame: "Frame", argument: Value) -> None:
    target, anchor = frame.run.registry.resolve(frame.place.resource, argument.data)
    if target.resource.dynamic_anchors.get(anchor) is target.value:
        outer = next(scope for scope in (*frame.scope, target.resource) if anchor in scope.dynamic_anchors)
        target, _ = frame.run.registry.resolve(outer, "#" + anchor)
    frame.outcome.absorb(frame.follow(target))


def _recursive_ref(frame: "Frame", argument: Value) -> None:
    target, _ = frame.run.registry.resolve(frame.place.resource, argument.data)
    if target.resource.recursive and target.value is target.resource.root:
        outer = next(scope for scope in (*frame.scope, target.resource) if scope.recursive)
        target = frame.run.registry.place(outer.root)
    frame.outcome.absorb(frame.follow(target))


def _unevaluated_properties(frame: "Frame", argument: Value) -> None:
    if frame.value.kind == "object":
        for name, value in frame.value.data:
            if name not in frame.outcome.names:
                frame.below(argument, name, value)
        frame.outcome.names |= _names(frame.value)


def _unevaluated_items(frame: "Frame", argument: Value) -> None:
    if frame.value.kind == "array":
        for index, item in enumerate(frame.value.data):
            if index not in frame.outcome.items:
                frame.below(argument, str(index), item)
        frame.outcome.items |= set(range(len(frame.value.data)))


HANDLERS: dict[str, Handler] = {
    "$ref": _ref,
    "$dynamicRef": _dynamic_ref,
    "$recursiveRef": _recursive_ref,
    "type": _type,
    "enum": _enum,
    "const": _const,
    "multipleOf": _number("multipleOf", lambda value, other: value.data.is_multiple_of(other.data)),
    "maximum": _number("maximum", lambda value, other: value.data <= other.data),
    "minimum": _number("minimum", lambda value, other: value.data >= other.data),
    "exclusiveMaximum": _number("exclusiveMaximum", lambda value, other: value.data < other.data),
    "exclusiveMinimum": _number("exclusiveMinimum", lambda value, other: value.data > other.data),
    "maxLength": _size("maxLength", "string", _at_most),
    "minLength": _size("minLength", "string", _at_least),
    "maxItems": _size("maxItems", "array", _at_most),
    "minItems": _size("minItems", "array", _at_least),
    "maxProperties": _size("maxProperties", "object", _at_most),
    "minProperties": _size("minProperties", "object", _at_least),
    "pattern": _pattern,
    "format": _format,
    "uniqueItems": _unique_items,
    "required": _required,
    "dependentRequired": _dependent_required,
    "dependentSchemas": _dependent_schemas,
    "dependencies": _dependencies,
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "propertyNames": _property_names,
    "prefixItems": _prefix_items,
    "items": _items,
    "additionalItems": _additional_items,
    "contains": _contains,
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
    "if": _if,
    "unevaluatedProperties": _unevaluated_properties,
    "unevaluatedItems": _unevaluated_items,
}
LAST = ("unevaluatedProperties", "unevaluatedItems")

# Where a draft means something else by the same keyword.
OF_DRAFT: dict[tuple[str, str], Handler] = {
    ("4", "type"): _type_draft4,
    ("4", "maximum"): _bound_draft4("maximum", "exclusiveMaximum", -1),
    ("4", "minimum"): _bound_draft4("minimum", "exclusiveMinimum", 1),
    **{(draft, "items"): _items_before_2020 for draft in ("4", "6", "7", "2019-09")},
}
