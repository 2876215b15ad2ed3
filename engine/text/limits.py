"""The static limits on what a caller may send, in one table, and the one way to enforce them (SAFE-2).

A source at a limit is served; one past it is a LimitExceeded that names the limit. The numbers are set so
that the worst accepted source is parsed and compiled in under two seconds; nothing here depends on a clock.
"""

from collections.abc import Callable, Mapping

from engine.errors import NOWHERE, ErrorKind, LimitExceeded, Location, SyntaxFault

LIMITS: Mapping[str, int] = {
    "source_bytes": 256 * 1024,  # UTF-8 bytes of a grammar or an expression
    "nesting_depth": 64,  # groups inside groups
    "rules": 3000,  # rules of one grammar
    "symbols": 10_000,  # elements and class ranges of one source
    "repeat_count": 8192,  # a bound of one repetition
    "repeat_product": 65_536,  # counts of nested repetitions multiplied, through rules too
    "schema_bytes": 1024 * 1024,  # UTF-8 bytes of a JSON Schema
    "schema_depth": 256,  # values inside values of a schema
    "schema_positions": 50_000,  # schemas that the root reaches
    "schema_members": 6000,  # declared members of all its objects together
    "enum_members": 32_768,  # listed values of all its enums together, and the values in them
    "reference_chain": 256,  # references that lead to references
    "rule_chain": 1000,  # rules that refer to each other one below the other; a core's stack ends at 2000
    "schema_merges": 16_384,  # alternatives made in one reduction
    "schema_literals": 20_000,  # subschemas met in one reduction, once for each alternative
    "schema_rules": 10_000,  # rules of a lowered schema
    "object_states": 16_384,  # positions times counts of one object or array
    "object_steps": 24_576,  # ways between them
    "object_conditions": 6,  # conditions that some member of one object must meet
    "evaluation_depth": 2048,  # subschemas inside each other through which one listed value is checked
    "count": 2**31 - 1,  # a bound on lengths, items or members
    "number_characters": 1000,  # of one number in a schema
    "number_holes": 128,  # excluded ones in a set of numbers
    "number_residues": 128,  # that texts of numbers have to tell apart
    "number_modulus": 500_000,  # of their factors multiplied: a first multiple is sought among so many
    "number_scale": 20,  # fraction digits of a step
    "number_step_digits": 40,  # its digits: a core nests a last digit in the one before it, and stops early
    "choice_members": 16_384,  # distinct strings of a choice
    "choice_bytes": 1024 * 1024,  # their UTF-8 bytes together
    "automaton_states": 65_536,  # states in which string conditions are met together
    "automaton_length": 8192,  # a length bound that such states have to count
    "string_overlap": 64,  # readings of one string at different counts that are open at once
    "automaton_work": 1_000_000,  # positions and edges looked at for them
}
WHAT = {
    "source_bytes": "the source has too many bytes",
    "nesting_depth": "groups are nested too deeply",
    "rules": "the grammar has too many rules",
    "symbols": "the source has too many symbols",
    "repeat_count": "a repetition counts too far",
    "repeat_product": "nested repetitions multiply too far",
    "schema_bytes": "the schema has too many bytes",
    "schema_depth": "values are nested too deeply",
    "schema_positions": "the schema has too many subschemas",
    "schema_members": "the schema declares too many members",
    "enum_members": "the schema lists too many values",
    "reference_chain": "references lead to references too often",
    "rule_chain": "the rules refer to each other in too long a chain",
    "schema_merges": "the combinations of subschemas are too many",
    "schema_literals": "subschemas are combined too often",
    "schema_rules": "the schema needs too many rules",
    "object_states": "the counts of members or items combine in too many ways",
    "object_steps": "the counts of members or items combine in too many ways",
    "object_conditions": "too many conditions ask for some member",
    "evaluation_depth": "a listed value is checked through too many subschemas inside each other",
    "count": "a bound counts too far",
    "number_characters": "a number is too long",
    "number_holes": "too many numbers are excluded",
    "number_residues": "the multiples of numbers have too many residues",
    "number_modulus": "the multiples of numbers are too far apart",
    "number_scale": "the numbers' steps are too small",
    "number_step_digits": "the numbers' steps are too large",
    "choice_members": "the choice has too many members",
    "choice_bytes": "the choice's members have too many bytes",
    "automaton_states": "string conditions that hold together need too many states",
    "automaton_length": "a length bound beside other string conditions is too large",
    "string_overlap": "counted parts of a string condition overlap in too many ways",
    "automaton_work": "string conditions that hold together are too entangled",
}


def check_limit(
    name: str, value: int, kind: ErrorKind, location: Location | Callable[[], Location] = NOWHERE
) -> None:
    """Raise LimitExceeded (of `kind`) when `value` is past the limit called `name`.

    A callable `location` is asked only then: finding a line and column costs a pass over the source.
    """
    maximum = LIMITS[name]
    if value > maximum:
        location = location() if callable(location) else location
        raise LimitExceeded(
            kind,
            WHAT[name],
            location,
            str(value),
            f"at most {maximum}",
            limit=name,
            value=value,
            maximum=maximum,
        )


def check_source(source: str, kind: ErrorKind, limit: str = "source_bytes") -> None:
    """Check a source's size, and that UTF-8 can hold it, before anything else looks at it.

    Raises LimitExceeded, or SyntaxFault at a lone surrogate.
    """
    check_limit(limit, len(source), kind)
    try:
        data = source.encode()
    except UnicodeEncodeError as error:
        raise SyntaxFault(
            kind,
            "the source is not valid Unicode text: lone surrogate",
            position(source, error.start),
            f"U+{ord(source[error.start]):04X}",
            "Unicode scalar values (text that UTF-8 can hold)",
        ) from None
    check_limit(limit, len(data), kind)


def position(source: str, offset: int) -> Location:
    """Line and column (both from 1, in characters) of an offset; lines end with a line feed."""
    line_start = source.rfind("\n", 0, offset) + 1
    return Location(line=source.count("\n", 0, offset) + 1, column=offset - line_start + 1)


def read_count(digits: str) -> int:
    """The number a run of decimal digits stands for, capped far past every limit."""
    significant = digits.lstrip("0")
    return int(significant or "0") if len(significant) <= 12 else 10**12
