"""The five dialects of JSON Schema: their keywords, their vocabularies, where they nest schemas.

Taken from the specifications: draft-04 (zyp), draft-06 and draft-07 (handrews/wright), 2019-09, 2020-12.
"""

from dataclasses import dataclass

DRAFTS = ("4", "6", "7", "2019-09", "2020-12")
META_URIS = {
    "http://json-schema.org/draft-04/schema": "4",
    "http://json-schema.org/draft-06/schema": "6",
    "http://json-schema.org/draft-07/schema": "7",
    "https://json-schema.org/draft/2019-09/schema": "2019-09",
    "https://json-schema.org/draft/2020-12/schema": "2020-12",
}
META_FOLDERS = {
    "4": "draft4",
    "6": "draft6",
    "7": "draft7",
    "2019-09": "draft201909",
    "2020-12": "draft202012",
}

_ASSERTIONS = [
    "type",
    "enum",
    "multipleOf",
    "maximum",
    "minimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "maxProperties",
    "minProperties",
    "required",
]
_EXCLUSIVE = ["exclusiveMaximum", "exclusiveMinimum"]
_LISTS = ["allOf", "anyOf", "oneOf"]
_OBJECTS = ["properties", "patternProperties", "additionalProperties"]
_CONDITIONS = ["if", "then", "else"]

_DRAFT4 = [
    *_ASSERTIONS,
    *_LISTS,
    "not",
    *_OBJECTS,
    "items",
    "additionalItems",
    "dependencies",
    "$ref",
    "format",
]
_DRAFT6 = [*_DRAFT4, *_EXCLUSIVE, "const", "contains", "propertyNames"]
_DRAFT7 = [*_DRAFT6, "if"]
_APPLICATORS = [*_LISTS, "not", "if", *_OBJECTS, "dependentSchemas", "propertyNames", "items", "contains"]
_VALIDATION = [*_ASSERTIONS, *_EXCLUSIVE, "const", "dependentRequired", "minContains", "maxContains"]
_UNEVALUATED = ["unevaluatedItems", "unevaluatedProperties"]

_VOCABULARIES = {
    "https://json-schema.org/draft/2019-09/vocab/": {
        "core": ["$ref", "$recursiveRef"],
        "applicator": [*_APPLICATORS, "additionalItems", *_UNEVALUATED],
        "validation": _VALIDATION,
        "meta-data": [],
        "format": ["format"],
        "content": [],
    },
    "https://json-schema.org/draft/2020-12/vocab/": {
        "core": ["$ref", "$dynamicRef"],
        "applicator": [*_APPLICATORS, "prefixItems"],
        "unevaluated": _UNEVALUATED,
        "validation": _VALIDATION,
        "meta-data": [],
        "format-annotation": ["format"],
        "format-assertion": ["format", "format-assertion"],
        "content": [],
    },
}
VOCABULARIES = {base + name: words for base, part in _VOCABULARIES.items() for name, words in part.items()}
_DEFAULT_2019 = ["core", "applicator", "validation", "meta-data", "format", "content"]
_DEFAULT_2020 = [
    "core",
    "applicator",
    "unevaluated",
    "validation",
    "meta-data",
    "format-annotation",
    "content",
]


@dataclass(frozen=True)
class Dialect:
    """A draft and the keywords that act under it (a metaschema may leave vocabularies out)."""

    draft: str
    keywords: frozenset[str]

    @property
    def before_2019(self) -> bool:
        """Whether `$ref` hides its siblings and an `$id` may be a plain fragment."""
        return self.draft in ("4", "6", "7")

    @property
    def id_keyword(self) -> str:
        """The keyword that names a schema."""
        return "id" if self.draft == "4" else "$id"


def _words(base: str, names: list[str]) -> frozenset[str]:
    return frozenset(word for name in names for word in VOCABULARIES[base + name])


DIALECTS = {
    "4": Dialect("4", frozenset(_DRAFT4)),
    "6": Dialect("6", frozenset(_DRAFT6)),
    "7": Dialect("7", frozenset(_DRAFT7)),
    "2019-09": Dialect("2019-09", _words("https://json-schema.org/draft/2019-09/vocab/", _DEFAULT_2019)),
    "2020-12": Dialect("2020-12", _words("https://json-schema.org/draft/2020-12/vocab/", _DEFAULT_2020)),
}

# Where a schema object holds further schemas: the value itself, each element of a list, each member of a map.
_ONE = {
    "4": ["not", "additionalItems", "additionalProperties", "items"],
    "6": ["contains", "propertyNames"],
    "7": _CONDITIONS,
    "2019-09": ["contentSchema", *_UNEVALUATED],
    "2020-12": [],
}
_MANY = {"4": [*_LISTS, "items"], "6": [], "7": [], "2019-09": [], "2020-12": ["prefixItems"]}
_NAMED = {
    "4": ["properties", "patternProperties", "definitions", "dependencies"],
    "6": [],
    "7": [],
    "2019-09": ["$defs", "dependentSchemas"],
    "2020-12": [],
}


def _up_to(table: dict[str, list[str]], draft: str) -> frozenset[str]:
    return frozenset(word for each in DRAFTS[: DRAFTS.index(draft) + 1] for word in table[each])


HOLDS_ONE = {draft: _up_to(_ONE, draft) for draft in DRAFTS}
HOLDS_LIST = {draft: _up_to(_MANY, draft) for draft in DRAFTS}
HOLDS_MAP = {draft: _up_to(_NAMED, draft) for draft in DRAFTS}
HOLDS_ONE["2020-12"] -= {"additionalItems"}
HOLDS_LIST["2020-12"] -= {"items"}


def normal_uri(uri: str) -> str:
    """Write a `$schema` the way the table has it: no empty fragment, the draft's own scheme."""
    bare = uri.removesuffix("#")
    for scheme in ("http://", "https://"):
        known = scheme + bare.partition("://")[2]
        if known in META_URIS:
            return known
    return bare
