"""What unevaluatedProperties and unevaluatedItems apply to, where that is the same for every instance.

They look at what the schema itself and the schemas it joins in place (references, allOf) evaluate. Where
anyOf, oneOf, if, dependentSchemas or contains take part, it depends on which of them an instance satisfies:
then the keyword is refused. JSON Schema 2019-09 and 2020-12, core 11.
"""

import attrs

from engine.text.automaton import matches
from engine.text.schema.keywords import NEWEST
from engine.text.schema.nodes import Document, Schema
from engine.text.schema.strings import search_language

CONDITIONAL = frozenset(("anyOf", "oneOf", "if", "dependentSchemas", "dependencies"))
MEMBERS, ITEMS = "unevaluatedProperties", "unevaluatedItems"


@attrs.frozen
class Evaluated:
    """What the joined schemas evaluate: names and patterns of members, leading items; or all of them."""

    names: frozenset[str]
    patterns: tuple[str, ...]
    all_members: bool
    num_items: int
    all_items: bool

    def leaves(self, name: str) -> bool:
        """Whether a member of this name is left unevaluated."""
        return not (
            self.all_members
            or name in self.names
            or any(matches(search_language(pattern), name) for pattern in self.patterns)
        )


def depends_on_instance(document: Document, schema: Schema, keyword: str) -> bool:
    """Whether what the keyword applies to is decided by the instance."""
    conditional = CONDITIONAL | ({"contains"} if keyword == ITEMS else set())
    return any(not conditional.isdisjoint(part.active) for part in _joined(document, schema))


def evaluated(document: Document, schema: Schema) -> Evaluated:
    """What is evaluated beside the unevaluated keywords of a schema that do not depend on the instance."""
    parts = _joined(document, schema)
    others = parts[1:]
    lists = [part.get("prefixItems" if part.dialect is NEWEST else "items") for part in parts]
    return Evaluated(
        frozenset(name for part in parts for name in part.get("properties") or ()),
        tuple(dict.fromkeys(p for part in parts for p in part.get("patternProperties") or ())),
        any(part.has("additionalProperties") for part in parts) or any(part.has(MEMBERS) for part in others),
        max((len(items) for items in lists if isinstance(items, list)), default=0),
        any(map(_has_tail, parts)) or any(part.has(ITEMS) for part in others),
    )


def _has_tail(schema: Schema) -> bool:
    items = schema.get("items")
    return schema.has("items") if not isinstance(items, list) else schema.has("additionalItems")


def _joined(document: Document, schema: Schema) -> list[Schema]:
    """The schema and all it joins in place, each once."""
    found = {schema.index: schema}
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        joined = document.targets(part)
        joined += [document.child(part, "allOf", index) for index in range(len(part.get("allOf") or ()))]
        fresh = [other for other in joined if other.index not in found]
        found.update((other.index, other) for other in fresh)
        waiting += fresh
    return list(found.values())
