"""Where schemas are: documents, the resources inside them, anchors, and what a reference points at.

A `Place` is one schema at its position in a document, inside the resource whose `$id` is its base.
Identifiers count only at schema positions, never inside enum, const or an unknown keyword; a reference may
still point into an unknown keyword, which makes a schema position of what it finds there. References resolve
by RFC 3986; nothing is fetched: documents come from the caller or are the published metaschemas.
"""

import functools
import importlib.resources
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from oracles.schema.dialects import (
    DIALECTS,
    HOLDS_LIST,
    HOLDS_MAP,
    HOLDS_ONE,
    META_FOLDERS,
    META_URIS,
    VOCABULARIES,
    Dialect,
    normal_uri,
)
from oracles.schema.text import Path, TextError, Value, parse, pointer, repeated_names


class SchemaError(ValueError):
    """The schema is malformed, or a reference in it leads nowhere."""


@dataclass(eq=False)
class Resource:
    """A schema with an identity: its base URI, its dialect, and the anchors declared directly in it."""

    uri: str
    dialect: Dialect
    root: Value
    anchors: dict[str, Value] = field(default_factory=dict)
    dynamic_anchors: dict[str, Value] = field(default_factory=dict)
    recursive: bool = False
    ambiguous: bool = False
    twice: set[str] = field(default_factory=set)

    def declare(self, anchor: str, schema: Value) -> None:
        """Note an anchor; two schemas of one name make it useless."""
        if self.anchors.setdefault(anchor, schema) is not schema:
            self.twice.add(anchor)


@dataclass(frozen=True, eq=False)
class Place:
    """One schema: its value, its resource, and its path in the document it was written in."""

    value: Value
    resource: Resource
    document: str
    path: Path

    def location(self, keyword: str = "") -> str:
        """Write the JSON Pointer of the schema, or of its keyword; after `URI#` outside the main document."""
        path = (self.path, keyword) if keyword else self.path
        return (self.document and self.document + "#") + pointer(path)


_URI = re.compile(r"(?:([^:/?#]+):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL)


def resolve_uri(base: str, reference: str) -> tuple[str, str]:
    """Resolve by RFC 3986 section 5.2; return the URI without its fragment, and the fragment."""
    scheme, authority, path, query, fragment = _URI.fullmatch(reference).groups()  # type: ignore[union-attr]
    if scheme is None:
        b_scheme, b_authority, b_path, b_query, _ = _URI.fullmatch(base).groups()  # type: ignore[union-attr]
        scheme = b_scheme
        if authority is None:
            authority = b_authority
            if not path:
                path, query = b_path, query if query is not None else b_query
            elif not path.startswith("/"):
                path = _merge(b_authority, b_path, path)
    bare = "" if scheme is None else scheme.lower() + ":"
    bare += "" if authority is None else "//" + authority.lower()
    bare += _without_dots(path) if scheme != "urn" else path
    return bare + ("" if query is None else "?" + query), fragment or ""


def _merge(authority: str | None, base_path: str, path: str) -> str:
    if authority is not None and not base_path:
        return "/" + path
    return base_path[: base_path.rfind("/") + 1] + path


def _without_dots(path: str) -> str:
    segments = path.split("/")
    kept: list[str] = []
    for index, segment in enumerate(segments):
        last = index == len(segments) - 1
        if segment == "..":
            if len(kept) > 1 or (kept and kept[0]):
                kept.pop()
            kept += [""] * last
        elif segment == ".":
            kept += [""] * last
        else:
            kept.append(segment)
    return "/".join(kept)


@functools.cache
def _published() -> dict[str, str]:
    """Read the published metaschemas, by URI."""
    found = {}
    root = importlib.resources.files("jsonschema_specifications") / "schemas"
    for uri, draft in META_URIS.items():
        folder = root / META_FOLDERS[draft]
        found[uri] = (folder / "metaschema.json").read_text(encoding="utf-8")
        vocabularies = folder / "vocabularies"
        if vocabularies.is_dir():
            for part in vocabularies.iterdir():
                name = part.name.removesuffix(".json")
                found[f"{uri.removesuffix('schema')}meta/{name}"] = part.read_text(encoding="utf-8")
    return found


class Registry:
    """All schemas in reach of one schema text.

    schema: the schema's text. default: the draft of a document without `$schema`. remotes: texts by URI.

    Raises: SchemaError.
    """

    def __init__(self, schema: str, default: str = "2020-12", remotes: Mapping[str, str] | None = None):
        self.default = default
        self.remotes = remotes or {}
        self.resources: dict[str, Resource] = {}
        self.places: dict[int, Place] = {}
        self.root = self._add("", _read(schema))

    def place(self, value: Value) -> Place:
        """Return the place of a subschema. Raises: SchemaError where no schema can stand."""
        found = self.places.get(id(value))
        if found is None:
            raise SchemaError(f"a {value.kind} stands where a schema is wanted")
        return found

    def resolve(self, base: Resource, reference: str) -> tuple[Place, str]:
        """Return what a reference written inside `base` points at, and its decoded fragment."""
        uri, fragment = resolve_uri(base.uri, reference)
        fragment = unquote(fragment)
        resource = base if uri == base.uri else self.resource(uri)
        if not fragment:
            return self.place(resource.root), ""
        if fragment.startswith("/"):
            return self._at_pointer(resource, fragment), fragment
        target = resource.anchors.get(fragment)
        if target is None or fragment in resource.twice:
            raise SchemaError(f"no single anchor {fragment!r} in {uri!r}")
        return self.place(target), fragment

    def resource(self, uri: str) -> Resource:
        """Return the resource of that URI, reading its document if need be."""
        found = self.resources.get(uri)
        if found is not None and found.ambiguous:
            raise SchemaError(f"two schemas are called {uri!r}")
        if found is None:
            source = self.remotes.get(uri, _published().get(normal_uri(uri)))
            if source is None:
                raise SchemaError(f"nothing known at {uri!r}")
            self._add(uri, _read(source))
        return self.resources[uri]

    def _add(self, uri: str, document: Value) -> Place:
        resource = Resource(uri, self._dialect(document, DIALECTS[self.default]), document)
        self.resources[uri] = resource
        self._index(Place(document, resource, uri, None))
        return self.places[id(document)]

    def _index(self, start: Place) -> None:
        """Give every schema in `start` its place and note the identifiers on the way."""
        waiting = [start]
        while waiting:
            place = waiting.pop()
            if id(place.value) in self.places:
                continue
            if place.value.kind == "object":
                place = Place(place.value, self._identified(place), place.document, place.path)
                waiting += [
                    Place(value, place.resource, place.document, functools.reduce(_step, steps, place.path))
                    for steps, value in subschemas(place.value, place.resource.dialect.draft)
                ]
            self.places[id(place.value)] = place

    def _identified(self, place: Place) -> Resource:
        """Return the resource the schema belongs to, which may be one that begins with it."""
        schema, resource = place.value, place.resource
        if resource.dialect.before_2019 and schema.get("$ref") is not None:
            return resource
        # What counts as an identifier is the surrounding dialect's word; `$schema` speaks only after it.
        name = _text(schema, resource.dialect.id_keyword)
        if name is not None:
            uri, fragment = resolve_uri(resource.uri, name)
            if uri != resource.uri or schema is resource.root:
                if schema is not resource.root:
                    resource = Resource(uri, self._dialect(schema, resource.dialect), schema)
                resource.uri = uri
                known = self.resources.setdefault(uri, resource)
                known.ambiguous = known.ambiguous or known is not resource
            if fragment and resource.dialect.before_2019:
                resource.declare(fragment, schema)
        self._note_anchors(schema, resource)
        return resource

    def _note_anchors(self, schema: Value, resource: Resource) -> None:
        draft = resource.dialect.draft
        anchor = _text(schema, "$anchor") if not resource.dialect.before_2019 else None
        dynamic = _text(schema, "$dynamicAnchor") if draft == "2020-12" else None
        if anchor is not None:
            resource.declare(anchor, schema)
        if dynamic is not None:
            resource.declare(dynamic, schema)
            resource.dynamic_anchors[dynamic] = schema
        if draft == "2019-09" and schema is resource.root:
            flag = schema.get("$recursiveAnchor")
            resource.recursive = flag is not None and flag.data is True

    def _dialect(self, schema: Value, inherited: Dialect) -> Dialect:
        name = _text(schema, "$schema")
        if name is None:
            return inherited
        uri = normal_uri(name)
        return DIALECTS[META_URIS[uri]] if uri in META_URIS else self._custom(uri)

    def _custom(self, uri: str) -> Dialect:
        """Read the vocabularies of a metaschema that is not one of the five."""
        if uri not in self.remotes:
            raise SchemaError(f"unknown dialect {uri!r}")
        meta = _read(self.remotes[uri])
        base = DIALECTS[META_URIS.get(normal_uri(_text(meta, "$schema") or ""), self.default)]
        listed = meta.get("$vocabulary")
        if base.before_2019 or listed is None:
            return base
        words: set[str] = set()
        for name, needed in listed.data:
            if name not in VOCABULARIES and needed.data is True:
                raise SchemaError(f"unknown vocabulary {name!r}")
            words |= set(VOCABULARIES.get(name, []))
        return Dialect(base.draft, frozenset(words))

    def _at_pointer(self, resource: Resource, fragment: str) -> Place:
        around = self.place(resource.root)
        value, path = resource.root, around.path
        for token in fragment.split("/")[1:]:
            name = token.replace("~1", "/").replace("~0", "~")
            value, path = _inside(value, name, fragment), (path, name)
            around = self.places.get(id(value), around)
        if id(value) not in self.places:
            self._index(Place(value, around.resource, around.document, path))
        return self.place(value)


def _read(source: str) -> Value:
    try:
        document = parse(source)
    except TextError as error:
        raise SchemaError(f"the schema is not JSON: {error}") from error
    repeated = repeated_names(document)
    if repeated:
        raise SchemaError(f"the schema repeats a name at {repeated[0]}")
    return document


def _step(path: Path, token: str) -> Path:
    return (path, token)


def _text(schema: Value, name: str) -> str | None:
    value = schema.get(name)
    return value.data if value is not None and value.kind == "string" else None


def _inside(value: Value, name: str, fragment: str) -> Value:
    found = value.get(name)
    if value.kind == "array" and re.fullmatch("0|[1-9][0-9]*", name) and int(name) < len(value.data):
        found = value.data[int(name)]
    if found is None:
        raise SchemaError(f"nothing at {fragment!r}")
    return found


def subschemas(schema: Value, draft: str) -> Iterator[tuple[tuple[str, ...], Value]]:
    """List the schemas directly inside a schema object, each with the steps to it."""
    for name, value in schema.data:
        if name in HOLDS_ONE[draft] and value.kind in ("object", "boolean"):
            yield (name,), value
        if name in HOLDS_LIST[draft] and value.kind == "array":
            yield from (((name, str(index)), item) for index, item in enumerate(value.data))
        if name in HOLDS_MAP[draft] and value.kind == "object":
            yield from (((name, key), item) for key, item in value.data if item.kind in ("object", "boolean"))
