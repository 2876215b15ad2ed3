"""The number set and the string set of a branch: every local assertion of every fact, and every denial."""

from collections.abc import Callable, Iterable
from fractions import Fraction

from engine.errors import RefusedConstruct
from engine.text.schema.formats import SERVED_FORMATS, format_language
from engine.text.schema.keywords import Dialect
from engine.text.schema.nodes import UNSUPPORTED, Schema
from engine.text.schema.numbers import NumberSet
from engine.text.schema.reduce.branches import FRACTION, INTEGER, Branch, Denied, Plain
from engine.text.schema.source import Number, Value
from engine.text.schema.strings import StringSet, literal_language, search_language

Asserts = Callable[[Schema, str], bool]


def numbers(branch: Branch, asserts: Asserts) -> NumberSet:
    """The numbers of a branch; its types say whether integers, others, or both."""
    result = NumberSet(
        integer=not branch.types & FRACTION,
        not_multiples_of=() if branch.types & INTEGER else (Fraction(1),),
    )
    for fact in branch.facts:
        if isinstance(fact, Plain):
            for keyword, make in _HELD_NUMBERS.items():
                if fact.schema.has(keyword) and asserts(fact.schema, keyword):
                    result = result.intersect(make(fact.schema, _value(fact.schema, keyword)))
        elif isinstance(fact, Denied) and fact.keyword in ("enum", "const"):
            listed = [v.value for v in listed_values(fact) if isinstance(v, Number)]
            result = result.intersect(NumberSet(excluded=frozenset(listed)))
        elif isinstance(fact, Denied) and fact.keyword in _DENIED_NUMBERS:
            make = _DENIED_NUMBERS[fact.keyword]
            result = result.intersect(make(fact.schema, _value(fact.schema, fact.keyword)))
    return result


def strings(branch: Branch, asserts: Asserts) -> StringSet:
    """The strings of a branch."""
    result = StringSet()
    for fact in branch.facts:
        if isinstance(fact, Plain):
            for part in _held_strings(fact.schema, asserts):
                result = result.intersect(part)
        elif isinstance(fact, Denied):
            for part in _denied_strings(fact):
                result = result.intersect(part)
    return result


def listed_values(fact: Denied) -> list[Value]:
    """The values of an enum or const."""
    argument = fact.schema.value[fact.keyword]
    return argument if fact.keyword == "enum" else [argument]


def _value(schema: Schema, keyword: str) -> Fraction:
    return schema.value[keyword].value


def _is_open(schema: Schema, keyword: str) -> bool:
    """Draft 4: whether a flag makes the bound beside it exclusive."""
    flag = {"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"}[keyword]
    return schema.dialect is Dialect.DRAFT_4 and schema.get(flag) is True


_HELD_NUMBERS: dict[str, Callable[[Schema, Fraction], NumberSet]] = {
    "minimum": lambda schema, bound: NumberSet(low=bound, low_open=_is_open(schema, "minimum")),
    "maximum": lambda schema, bound: NumberSet(high=bound, high_open=_is_open(schema, "maximum")),
    "exclusiveMinimum": lambda _, bound: NumberSet(low=bound, low_open=True),
    "exclusiveMaximum": lambda _, bound: NumberSet(high=bound, high_open=True),
    "multipleOf": lambda _, step: NumberSet(multiples_of=(step,)),
}
_DENIED_NUMBERS: dict[str, Callable[[Schema, Fraction], NumberSet]] = {
    "minimum": lambda schema, bound: NumberSet(high=bound, high_open=not _is_open(schema, "minimum")),
    "maximum": lambda schema, bound: NumberSet(low=bound, low_open=not _is_open(schema, "maximum")),
    "exclusiveMinimum": lambda _, bound: NumberSet(high=bound),
    "exclusiveMaximum": lambda _, bound: NumberSet(low=bound),
    "multipleOf": lambda _, step: NumberSet(not_multiples_of=(step,)),
}
NO_STRING = StringSet(min_length=1, max_length=0)


def _held_strings(schema: Schema, asserts: Asserts) -> Iterable[StringSet]:
    if schema.has("minLength"):
        yield StringSet(min_length=int(_value(schema, "minLength")))
    if schema.has("maxLength"):
        yield StringSet(max_length=int(_value(schema, "maxLength")))
    if schema.has("pattern"):
        yield StringSet(patterns=(search_language(schema.value["pattern"]),))
    if schema.has("format") and asserts(schema, "format"):
        yield _format(schema.value["format"])


def _format(name: str) -> StringSet:
    """The strings of a format that is enforced."""
    language = format_language(name)
    assert language is not None, "only known formats are asserted"
    return StringSet(patterns=(language,), max_length=SERVED_FORMATS[name].max_length)


def _not_format(fact: Denied, name: str) -> StringSet:
    """The strings outside a format. Raises RefusedConstruct where not all of the format is served."""
    language = format_language(name)
    assert language is not None, "only known formats are denied"
    if SERVED_FORMATS[name].narrower or SERVED_FORMATS[name].max_length is not None:
        raise RefusedConstruct(
            UNSUPPORTED,
            "the opposite of this format is needed, and not every string of the format is known here",
            fact.schema.location("format"),
            name,
            ", ".join(n for n, served in SERVED_FORMATS.items() if not served.narrower),
        )
    return StringSet(excluded=(language,))


def _denied_strings(fact: Denied) -> Iterable[StringSet]:
    argument = fact.schema.value[fact.keyword]
    if fact.keyword == "minLength":
        bound = int(argument.value)
        yield StringSet(max_length=bound - 1) if bound else NO_STRING
    elif fact.keyword == "maxLength":
        yield StringSet(min_length=int(argument.value) + 1)
    elif fact.keyword == "pattern":
        yield StringSet(excluded=(search_language(argument),))
    elif fact.keyword == "format":
        yield _not_format(fact, argument)
    elif fact.keyword in ("enum", "const"):
        texts = [value for value in listed_values(fact) if isinstance(value, str)]
        yield StringSet(excluded=(literal_language(texts),) if texts else ())
