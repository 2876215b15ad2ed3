"""The schema document as a graph: every schema position with its pointer, and what references lead to.

Positions are made on demand and once, so equal references give the same object. Base URIs, `$id` (draft 4:
`id`), anchors and JSON Pointers are resolved inside the document; nothing is ever fetched.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from urllib.parse import unquote, urldefrag, urljoin

import attrs

from engine.errors import ErrorKind, Location, RefusedConstruct, SyntaxFault
from engine.text.schema.keywords import (
    IDENTIFIERS,
    NEWEST,
    REFERENCES,
    SUBSCHEMA_SHAPES,
    Dialect,
    Shape,
    find,
    shape_in,
)
from engine.text.schema.source import KIND, Number, Value, join, text_of

UNSUPPORTED = ErrorKind.UNSUPPORTED_JSON_SCHEMA


@attrs.frozen(eq=False)
class Resource:
    """A schema with an identity of its own: base URI, place, dialect."""

    uri: str
    pointer: str
    value: Value
    dialect: Dialect


@attrs.frozen(eq=False)
class Schema:
    """One schema position: `index` numbers positions in the order in which they were first met."""

    index: int
    pointer: str
    value: Value
    resource: Resource
    active: Mapping[str, Value]  # the keywords that the dialect knows and does not ignore
    is_written: bool = True  # it stands in the document; false for what stands for a listed value

    @property
    def dialect(self) -> Dialect:
        """The dialect that gives its keywords their meaning."""
        return self.resource.dialect

    def get(self, keyword: str) -> Value:
        """The argument of a keyword that counts here, else None."""
        return self.active.get(keyword)

    def has(self, keyword: str) -> bool:
        """Whether the keyword stands here and counts: siblings of `$ref` count from 2019-09 on."""
        return keyword in self.active

    @property
    def is_only_reference(self) -> bool:
        """Whether the dialect ignores everything beside this schema's `$ref`."""
        return _is_only_reference(self.value, self.dialect)

    def location(self, *keys: str | int) -> Location:
        """Where a part of this schema stands."""
        return Location(pointer=join(self.pointer, *keys))


class Document:
    """A parsed schema with all its positions."""

    def __init__(self, value: Value) -> None:
        self.positions: list[Schema] = []
        self._by_pointer: dict[str, Schema] = {}
        self._children: dict[tuple[int, tuple[str | int, ...]], Schema] = {}
        self._identities: dict[str, Schema] | None = None
        self._ambiguous: set[str] = set()  # of the identities, those that several schemas claim
        self._targets: dict[tuple[int, str], Schema] = {}
        dialect = _dialect(value, "", NEWEST)
        resource = Resource(_own_id("", value, dialect, ""), "", value, dialect)
        self.root = self._add("", value, resource)
        self.never = Schema(-1, "", False, resource, {})  # stands for conditions that no keyword spells

    def child(self, parent: Schema, *keys: str | int) -> Schema:
        """The subschema of a position under these keys."""
        place = (parent.index, keys)
        known = self._children.get(place)
        if known is None:
            known = self._children[place] = self._made_child(parent, keys)
        return known

    def _made_child(self, parent: Schema, keys: tuple[str | int, ...]) -> Schema:
        value = parent.value
        for key in keys:
            value = value[key]
        if not parent.is_written:
            return self._made(parent.pointer, value, parent.resource, is_written=False)
        pointer = join(parent.pointer, *keys)
        known = self._by_pointer.get(pointer)
        return known or self._add(pointer, value, self._resource(pointer, value, parent.resource))

    def exactly(self, schema: Schema, keyword: str, index: int, value: Value) -> Schema:
        """A schema that only one listed array or object satisfies, written with simple keywords.

        It stands for its value where the opposite of a list is needed, and has the list's place.
        """
        place = (schema.index, (keyword, index))
        if place not in self._children:
            resource = attrs.evolve(schema.resource, dialect=NEWEST)
            pointer = join(schema.pointer, keyword)
            self._children[place] = self._made(pointer, _only(value), resource, is_written=False)
        return self._children[place]

    def subschemas(self, schema: Schema) -> Iterator[tuple[str, Schema]]:
        """The subschemas that stand directly inside a schema, each with its keyword; definitions too."""
        if not isinstance(schema.value, dict):
            return
        for name, argument in schema.value.items():
            row = find(name, schema.dialect)
            if row is None or row.shape not in SUBSCHEMA_SHAPES:
                continue
            for keys in _places(shape_in(name, schema.dialect), argument):
                yield name, self.child(schema, name, *keys)

    def targets(self, schema: Schema) -> list[Schema]:
        """What the references of a schema lead to. Raises as `target` does."""
        return [self.target(schema, keyword) for keyword in REFERENCES if schema.has(keyword)]

    def target(self, schema: Schema, keyword: str = "$ref") -> Schema:
        """What a reference leads to. Raises RefusedConstruct, SyntaxFault at the reference."""
        place = (schema.index, keyword)
        if place not in self._targets:
            self._targets[place] = self._found_target(schema, keyword)
        return self._targets[place]

    def _found_target(self, schema: Schema, keyword: str) -> Schema:
        text = schema.value[keyword]
        place = schema.location(keyword)
        if keyword != "$ref":
            return self._dynamic_target(schema, keyword, place)
        if text == "#" or text.startswith("#/"):
            return self._at_pointer(schema.resource, text[1:], place, text)
        return self._identified(schema.resource.uri, place, text)

    def _dynamic_target(self, schema: Schema, keyword: str, place: Location) -> Schema:
        """A dynamic reference that can only lead to one place is a plain one; others are refused."""
        text = schema.value[keyword]
        anchor = "$recursiveAnchor" if keyword == "$recursiveRef" else "$dynamicAnchor"
        resources = self._anchored[anchor]
        if len(resources) > 1 or (resources and len(self._resources) > 1):
            raise _refusal("a dynamic reference that may lead to several places is not served", place, text)
        if text == "#" or text.startswith("#/"):
            return self._at_pointer(schema.resource, text[1:], place, text)
        return self._identified(schema.resource.uri, place, text)

    @cached_property
    def _anchored(self) -> dict[str, set[str]]:
        """The resources that have dynamic anchors, by the keyword that sets them."""
        return {
            anchor: {s.resource.pointer for s in self._everywhere if s.has(anchor) and s.value[anchor]}
            for anchor in ("$recursiveAnchor", "$dynamicAnchor")
        }

    @cached_property
    def _resources(self) -> set[str]:
        return {schema.resource.pointer for schema in self._everywhere}

    def _identified(self, outer: str, place: Location, text: str) -> Schema:
        base, fragment = _resolved(outer, text, place)
        identities = self._all_identities()
        if not self._ambiguous.isdisjoint((base, f"{base}#{fragment}")):
            raise SyntaxFault(KIND, "a reference leads to two schemas of one identity", place, text, "one")
        if fragment.startswith("/") or not fragment:
            owner = identities.get(base)
            if owner is not None:
                return self._at_pointer(owner.resource, fragment, place, text) if fragment else owner
        elif f"{base}#{fragment}" in identities:
            return identities[f"{base}#{fragment}"]
        if base and base not in identities:
            raise _refusal("a reference leads out of the document, and nothing is fetched", place, text)
        raise SyntaxFault(
            KIND, "a reference leads nowhere", place, text, "a schema position of this document"
        )

    def _at_pointer(self, resource: Resource, fragment: str, place: Location, text: str) -> Schema:
        schema = self._by_pointer.get(resource.pointer) or self._add(
            resource.pointer, resource.value, resource
        )
        tokens = [_unescape(token) for token in unquote(fragment).split("/")[1:]]
        value, owner, pointer = schema.value, resource, resource.pointer
        for token in tokens:
            value = _step(value, token, place, text)
            pointer = join(pointer, token)
            known = self._by_pointer.get(pointer)
            owner = known.resource if known is not None else self._resource(pointer, value, owner)
        if not isinstance(value, dict | bool):
            raise SyntaxFault(KIND, "a reference leads to no schema", place, text, "an object, true or false")
        return self._by_pointer.get(pointer) or self._add(pointer, value, owner)

    def _add(self, pointer: str, value: Value, resource: Resource) -> Schema:
        if not isinstance(value, dict | bool):
            place = Location(pointer=pointer)
            raise SyntaxFault(KIND, "this is no schema", place, _shown(value), "an object, true or false")
        in_draft_4 = isinstance(value, bool) and resource.dialect is Dialect.DRAFT_4
        if in_draft_4 and not re.search(r"/additional(Items|Properties)$", pointer):
            place = Location(pointer=pointer)
            raise SyntaxFault(KIND, "this is no schema of draft 4", place, _shown(value), "an object")
        schema = self._by_pointer[pointer] = self._made(pointer, value, resource)
        return schema

    def _made(self, pointer: str, value: Value, resource: Resource, *, is_written: bool = True) -> Schema:
        active = _active(value, resource.dialect) if isinstance(value, dict) else {}
        schema = Schema(len(self.positions), pointer, value, resource, active, is_written)
        self.positions.append(schema)
        return schema

    def _resource(self, pointer: str, value: Value, outer: Resource) -> Resource:
        if not isinstance(value, dict):
            return outer
        dialect = _dialect(value, pointer, outer.dialect) if "$schema" in value else outer.dialect
        own = _own_id(outer.uri, value, dialect, pointer)
        return Resource(own, pointer, value, dialect) if own else outer

    @cached_property
    def _everywhere(self) -> list[Schema]:
        """Every schema position, referenced or not."""
        found: list[Schema] = []
        waiting = [self.root]
        while waiting:
            schema = waiting.pop()
            found.append(schema)
            waiting += [part for _, part in self.subschemas(schema)]
        return found

    def _all_identities(self) -> dict[str, Schema]:
        """Absolute URIs, and URIs with an anchor, of everything in the document that has one."""
        if self._identities is None:
            found = {self.root.resource.uri: self.root, "": self.root}
            for schema in self._everywhere:
                for uri in _identities(schema):
                    if found.setdefault(uri, schema) is not schema:
                        self._ambiguous.add(uri)
            self._identities = found
        return self._identities


def _only(value: Value) -> dict[str, Value]:
    if isinstance(value, dict):
        members = {name: {"const": part} for name, part in value.items()}
        return {
            "type": "object",
            "required": list(value),
            "properties": members,
            "additionalProperties": False,
        }
    size = Number(str(len(value)))
    return {
        "type": "array",
        "minItems": size,
        "maxItems": size,
        "prefixItems": [{"const": part} for part in value],
    }


def _is_only_reference(value: Value, dialect: Dialect) -> bool:
    return isinstance(value, dict) and dialect <= Dialect.DRAFT_7 and isinstance(value.get("$ref"), str)


def _active(value: dict[str, Value], dialect: Dialect) -> Mapping[str, Value]:
    if _is_only_reference(value, dialect):
        return {"$ref": value["$ref"]}
    return {keyword: argument for keyword, argument in value.items() if find(keyword, dialect) is not None}


def _identities(schema: Schema) -> Iterator[str]:
    if not isinstance(schema.value, dict) or schema.is_only_reference:
        return
    if schema.resource.pointer == schema.pointer:
        yield schema.resource.uri
    own = schema.value.get("id" if schema.dialect is Dialect.DRAFT_4 else "$id")
    if isinstance(own, str) and own.startswith("#") and schema.dialect <= Dialect.DRAFT_7:
        yield f"{schema.resource.uri}{own}"
    if schema.dialect >= Dialect.DRAFT_2019_09:
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(schema.value.get(keyword), str):
                yield f"{schema.resource.uri}#{schema.value[keyword]}"


def _own_id(outer: str, value: Value, dialect: Dialect, pointer: str) -> str:
    """The absolute URI a schema gives itself, without fragment; empty for none, or a bare fragment."""
    if not isinstance(value, dict) or _is_only_reference(value, dialect):
        return ""
    keyword = "id" if dialect is Dialect.DRAFT_4 else "$id"
    own = value.get(keyword)
    if not isinstance(own, str) or not own or own.startswith("#"):
        return ""
    return _resolved(outer, own, Location(pointer=join(pointer, keyword)))[0]


def _resolved(outer: str, reference: str, place: Location) -> tuple[str, str]:
    """A URI reference against its base: the absolute URI and the fragment. Raises SyntaxFault."""
    if reference.startswith("#"):  # any base: `urljoin` knows none that is a urn
        return outer, reference[1:]
    try:
        base, fragment = urldefrag(urljoin(outer, reference))
    except ValueError:
        raise SyntaxFault(KIND, "this is no URI reference", place, reference[:40], "RFC 3986") from None
    return base, fragment


def _dialect(value: Value, pointer: str, default: Dialect) -> Dialect:
    if not isinstance(value, dict) or "$schema" not in value:
        return default
    text = value["$schema"]
    place = Location(pointer=join(pointer, "$schema"))
    if not isinstance(text, str):
        raise SyntaxFault(KIND, "a dialect is named by a string", place, _shown(text))
    dialect = IDENTIFIERS.get(text.removesuffix("#"))
    if dialect is None:
        allowed = ", ".join(uri for uri in IDENTIFIERS if uri.startswith("https"))
        raise RefusedConstruct(UNSUPPORTED, "the dialect is not served", place, text[:80], allowed)
    return dialect


def _places(shape: Shape, argument: Value) -> list[tuple[str | int, ...]]:
    """Under which keys of an argument its subschemas stand."""
    if shape is Shape.SCHEMA or (shape is Shape.ITEMS and not isinstance(argument, list)):
        return [()]
    if shape in (Shape.SCHEMAS, Shape.ITEMS):
        return [(i,) for i in range(len(argument))] if isinstance(argument, list) else []
    if not isinstance(argument, dict):
        return []
    return [(name,) for name, part in argument.items() if not isinstance(part, list)]


def _step(value: Value, token: str, place: Location, text: str) -> Value:
    if isinstance(value, dict) and token in value:
        return value[token]
    if isinstance(value, list) and re.fullmatch("0|[1-9][0-9]{0,8}", token) and int(token) < len(value):
        return value[int(token)]
    raise SyntaxFault(KIND, "a reference leads nowhere", place, text, "a schema position of this document")


def _unescape(token: str) -> str:
    return token.replace("~1", "/").replace("~0", "~")


def _shown(value: Value) -> str:
    return text_of(value)[:40]


def _refusal(message: str, place: Location, found: str) -> RefusedConstruct:
    return RefusedConstruct(UNSUPPORTED, message, place, found, "references inside the document")
