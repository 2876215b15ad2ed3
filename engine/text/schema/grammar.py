"""JSON sources to the project's grammar: the whole way from text to rules (issue: exact or refused).

`schema_grammar` serves json_schema, `object_grammar` json_object. Both say whether the language has objects
with free names: their matchers must watch that no name stands twice.
"""

from engine.request import JsonOptions
from engine.text.schema.check import Occurrence, check
from engine.text.schema.lower.json import Lowered, Lowerer
from engine.text.schema.nodes import Document
from engine.text.schema.reduce.reducer import Reducer
from engine.text.schema.source import Value, parse

ANY_OBJECT = '{"type":"object"}'


def schema_grammar(source: str, options: JsonOptions) -> Lowered:
    """The texts of the values that a JSON Schema accepts. Raises RequestError with a pointer."""
    return lowered_schema(parse(source), options)


def lowered_schema(value: Value, options: JsonOptions) -> Lowered:
    """The same for a schema that is parsed already."""
    document = Document(value)
    check(document, options)
    reducer = Reducer(document, options)
    return Lowerer(reducer, options).lower(reducer.node([(document.root, True)]))


def object_grammar(options: JsonOptions) -> Lowered:
    """The texts of all objects."""
    return schema_grammar(ANY_OBJECT, options)


def ledger(source: str, options: JsonOptions) -> list[Occurrence]:
    """Every keyword occurrence of a schema with its fate. Raises RequestError."""
    return check(Document(parse(source)), options)
