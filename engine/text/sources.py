"""A constraint's source as a trimmed grammar: which parser takes which kind.

JSON Schema is read in two steps, so that the cache can be asked between them: `parsed` gives the schema's
order-preserving form without insignificant white space, `grammar_of` lowers it.
"""

import attrs

from engine.errors import ErrorKind
from engine.request import ConstraintKind, OutputConstraint
from engine.text.choice import choice_grammar
from engine.text.gbnf import parse_gbnf
from engine.text.regex import regex_grammar
from engine.text.rules import Grammar, trim
from engine.text.schema.grammar import lowered_schema, object_grammar
from engine.text.schema.source import Value, parse, text_of
from engine.text.vocabulary import Vocabulary

ERROR_KINDS = {
    ConstraintKind.GRAMMAR: ErrorKind.INVALID_GRAMMAR,
    ConstraintKind.CHOICE: ErrorKind.INVALID_CHOICE,
    ConstraintKind.REGEX: ErrorKind.INVALID_REGEX,
    ConstraintKind.JSON_OBJECT: ErrorKind.UNSUPPORTED_JSON_SCHEMA,
    ConstraintKind.JSON_SCHEMA: ErrorKind.UNSUPPORTED_JSON_SCHEMA,
}


@attrs.frozen(eq=False)
class Parsed:
    """A constraint with what was read of its source; equal constraints in here have equal languages."""

    constraint: OutputConstraint
    schema: Value = None


@attrs.frozen
class SourceGrammar:
    """A trimmed grammar, and whether it has objects whose members' names are free."""

    grammar: Grammar
    has_free_names: bool = False


def parsed(constraint: OutputConstraint) -> Parsed:
    """The constraint with a schema in its parsed form, members in order (CACHE-4). Raises RequestError."""
    if constraint.kind is not ConstraintKind.JSON_SCHEMA:
        return Parsed(constraint)
    schema = parse(constraint.source)
    return Parsed(attrs.evolve(constraint, source=text_of(schema)), schema)


def grammar_of(source: Parsed, vocabulary: Vocabulary) -> SourceGrammar:
    """The trimmed grammar of a source. Raises RequestError."""
    constraint = source.constraint
    kind = ERROR_KINDS[constraint.kind]
    if constraint.kind is ConstraintKind.GRAMMAR:
        return SourceGrammar(trim(parse_gbnf(constraint.source, vocabulary), kind=kind))
    if constraint.kind is ConstraintKind.CHOICE:
        return SourceGrammar(trim(choice_grammar(constraint.choices), kind=kind))
    if constraint.kind is ConstraintKind.REGEX:
        return SourceGrammar(trim(regex_grammar(constraint.source), kind=kind))
    if constraint.kind is ConstraintKind.JSON_OBJECT:
        lowered = object_grammar(constraint.options)
    else:
        lowered = lowered_schema(source.schema, constraint.options)
    return SourceGrammar(lowered.grammar, lowered.has_free_names)
