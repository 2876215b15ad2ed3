"""Records of the training corpus: what kinds there are, which fields they have and how a sentence says them.

A field's value is kept as JSON text (`raw`), so a number is copied as it stands; `said` is the same value in
a sentence.
"""

import json
import random
from collections.abc import Callable, Sequence

import attrs

from experiments.training import words
from experiments.training.words import Make, number, one_of

TEXT, NUMBER, LIST, FLAG = "string", "number", "array", "boolean"
Ask = Callable[[random.Random], str]


@attrs.frozen
class Field:
    """One field of a kind: JSON key, type, generator of a plain value, and phrases with one gap."""

    key: str
    make: Make
    phrases: tuple[str, ...]
    type: str = TEXT
    description: str = ""


@attrs.frozen
class Value:
    """A field with its value: JSON text, and the words for it in a sentence."""

    field: Field
    raw: str
    said: str


@attrs.frozen
class Kind:
    """A kind of record: a name, ways to open a text about it, and its fields."""

    name: str
    openings: tuple[str, ...]
    fields: tuple[Field, ...]


def _text(key: str, make: Make, *phrases: str) -> Field:
    return Field(key, make, phrases)


def _number(key: str, make: Make, *phrases: str) -> Field:
    return Field(key, make, phrases, NUMBER)


def _list(key: str, make: Make, *phrases: str) -> Field:
    return Field(key, make, phrases, LIST)


def _flag(key: str, yes: str, no: str) -> Field:
    return Field(key, lambda _: "", (yes, no), FLAG)


NAME = _text("name", words.full_name, "the name is {}", "this is {}", "{} is the name")
EMAIL = _text("email", words.email, "mail goes to {}", "the email is {}", "write to {}")
CITY = _text("city", words.city, "lives in {}", "the city is {}", "is based in {}", "comes from {}")
PHONE = _text("phone", words.phone, "the phone number is {}", "call {}")
DATE = _text("date", words.date, "the date is {}", "it is on {}", "planned for {}")
ID = _text("id", words.code, "the id is {}", "id {}", "filed as {}")
TAGS = _list("tags", one_of(words.TOPICS), "the tags are {}", "tagged {}", "likes {}")

KINDS = (
    Kind(
        "person",
        ("Here is a person", "About a person", "We met someone", "A new person"),
        (
            NAME,
            _number("age", number(1, 99), "the age is {}", "is {} years old", "aged {}"),
            EMAIL,
            CITY,
            _flag("member", "is a member", "is not a member"),
            TAGS,
            PHONE,
            _text(
                "job",
                one_of(("teacher", "doctor", "cook", "driver", "nurse", "writer", "farmer")),
                "works as a {}",
            ),
            _text("address", words.street, "the address is {}", "the house is {}"),
        ),
    ),
    Kind(
        "order",
        ("A new order", "An order came in", "Order received", "About an order"),
        (
            _text("order_id", words.code, "the order id is {}", "order {}", "number {}"),
            _text("customer", words.full_name, "ordered by {}", "the customer is {}", "for {}"),
            _text("item", words.item, "the item is a {}", "one {}", "it contains a {}"),
            _number("quantity", number(1, 40), "the quantity is {}", "{} pieces"),
            _number("price", words.price, "the price is {}", "it costs {}"),
            _text("currency", one_of(words.CURRENCIES), "paid in {}", "the currency is {}"),
            _text("status", one_of(words.STATES), "the status is {}", "it is {}"),
            _flag("paid", "it is paid", "it is not paid"),
            _list("items", words.item, "the items are {}", "it holds {}"),
        ),
    ),
    Kind(
        "event",
        ("An event", "There is an event", "Save the date", "You are invited"),
        (
            _text("title", words.title, "the title is {}", "called {}", "it is named {}"),
            DATE,
            _text("time", words.time_of_day, "it starts at {}", "the time is {}"),
            _text("place", words.city, "the place is {}", "it takes place in {}", "in {}"),
            _text("host", words.full_name, "the host is {}", "{} is the host"),
            _number("guests", number(2, 400), "there are {} guests", "for {} guests"),
            _list("speakers", words.full_name, "the speakers are {}", "with {}"),
            _flag("public", "it is public", "it is not public"),
        ),
    ),
    Kind(
        "address",
        ("Send it here", "The address", "A place", "Where to go"),
        (
            _text("street", words.street, "the street is {}", "at {}"),
            _text("city", words.city, "the city is {}", "in {}"),
            _text("zip", number(10000, 99999), "the zip code is {}", "zip {}"),
            _text(
                "country", one_of(tuple(c for c, _ in words.COUNTRIES)), "the country is {}", "it is in {}"
            ),
        ),
    ),
    Kind(
        "measurement",
        ("A measurement", "Sensor report", "The sensor says", "New reading"),
        (
            _text("sensor", words.code, "the sensor is {}", "from sensor {}"),
            _text("quantity", one_of(words.QUANTITIES), "the quantity is {}", "it measures {}"),
            _number("value", words.decimal, "the value is {}", "it reads {}"),
            _text("unit", one_of(words.UNITS), "the unit is {}", "measured in {}"),
            _text("time", words.time_of_day, "taken at {}", "the time is {}"),
            _flag("ok", "it is ok", "it is not ok"),
            _list("values", words.decimal, "the values are {}"),
        ),
    ),
    Kind(
        "ticket",
        ("A ticket", "A problem was reported", "Support request", "New ticket"),
        (
            ID,
            _text("subject", words.title, "the subject is {}", "it is about {}"),
            _text("priority", one_of(words.LEVELS), "the priority is {}", "{} priority"),
            _text("status", one_of(words.STATES), "the status is {}", "it is {}"),
            _text("owner", words.first_name, "the owner is {}", "{} looks after it"),
            _number("votes", number(0, 200), "it has {} votes"),
            TAGS,
            _text("summary", words.sentence, "the summary is: {}", "they say: {}"),
        ),
    ),
    Kind(
        "product",
        ("A product", "For sale", "New in the shop", "On offer"),
        (
            _text("name", words.item, "the name is {}", "a {}", "it is called {}"),
            _text("sku", words.code, "the sku is {}", "sku {}"),
            _number("price", words.price, "the price is {}", "it costs {}"),
            _number("stock", number(0, 500), "there are {} in stock", "the stock is {}"),
            _text("color", one_of(words.ADJECTIVES), "the color is {}", "it comes in {}"),
            _number("weight", words.decimal, "the weight is {}", "it weighs {}"),
            _list("sizes", number(1, 60), "the sizes are {}"),
            _flag("available", "it is available", "it is not available"),
        ),
    ),
)


def fill(rng: random.Random, field: Field) -> Value:
    """Give a field a value."""
    if field.type == FLAG:
        yes = rng.random() < 0.5
        return Value(field, "true" if yes else "false", field.phrases[0 if yes else 1])
    phrase = rng.choice(field.phrases)
    if field.type == LIST:
        parts = [field.make(rng) for _ in range(rng.choice((1, 2, 2, 3, 3, 4)))]
        plain = all(part.replace(".", "", 1).isdigit() for part in parts)
        raw = [part if plain else _quoted(part) for part in parts]
        return Value(field, "[" + ", ".join(raw) + "]", phrase.format(joined(parts)))
    made = field.make(rng)
    return Value(field, made if field.type == NUMBER else _quoted(made), phrase.format(made))


def record(rng: random.Random, kind: Kind, most: int = 6) -> list[Value]:
    """Some fields of a kind with values, mostly in the kind's order; the first fields are the likeliest."""
    wanted = rng.randint(2, min(most, len(kind.fields)))
    if rng.random() < 0.5:
        chosen = list(kind.fields[:wanted])
    else:
        chosen = sorted(rng.sample(kind.fields, wanted), key=kind.fields.index)
    return [fill(rng, field) for field in chosen]


def joined(parts: Sequence[str]) -> str:
    """Words as a list in a sentence."""
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


def told(rng: random.Random, kind: Kind, values: Sequence[Value]) -> str:
    """A text that says every value, in any order."""
    order = list(values)
    if rng.random() < 0.5:
        rng.shuffle(order)
    style = rng.random()
    if style < 0.35:
        return f"{rng.choice(kind.openings)}: {joined([value.said for value in order])}."
    if style < 0.75:
        return " ".join([f"{rng.choice(kind.openings)}.", *(_sentence(value.said) for value in order)])
    return "\n".join(f"{value.field.key}: {plain(value)}" for value in order)


def _sentence(said: str) -> str:
    return said[0].upper() + said[1:] + ("" if said.endswith(".") else ".")


def plain(value: Value) -> str:
    """A value on a line of a form."""
    if value.field.type == FLAG:
        return "yes" if value.raw == "true" else "no"
    if value.field.type == LIST:
        return ", ".join(str(part) for part in json.loads(value.raw, parse_float=str, parse_int=str))
    return value.raw if value.field.type == NUMBER else json.loads(value.raw)


def schema(rng: random.Random, values: Sequence[Value]) -> str:
    """A JSON Schema of the values' fields as one line."""
    properties = {value.field.key: _type(value) for value in values}
    found: dict[str, object] = {"type": "object", "properties": properties}
    if rng.random() < 0.7:
        found["required"] = list(properties)
    return json.dumps(found, ensure_ascii=False)


def _type(value: Value) -> dict[str, object]:
    if value.field.type == LIST:
        inner = "string" if '"' in value.raw else "number"
        return {"type": "array", "items": {"type": inner}}
    if value.field.type == NUMBER:
        return {"type": "number" if "." in value.raw else "integer"}
    return {"type": value.field.type}


def write(pairs: Sequence[tuple[str, str]], style: str = "spaced") -> str:
    """A JSON object of keys and JSON texts: spaced, compact or indented."""
    if style == "compact":
        return "{" + ",".join(f'"{key}":{_tight(raw)}' for key, raw in pairs) + "}"
    if style == "indented":
        return "{\n" + ",\n".join(f'  "{key}": {raw}' for key, raw in pairs) + "\n}"
    return "{" + ", ".join(f'"{key}": {raw}' for key, raw in pairs) + "}"


def _tight(raw: str) -> str:
    return (
        raw.replace('", "', '","')
        if raw.startswith('["')
        else raw.replace(", ", ",")
        if raw[0] == "["
        else raw
    )


def pairs_of(values: Sequence[Value]) -> list[tuple[str, str]]:
    """Keys and JSON texts of values."""
    return [(value.field.key, value.raw) for value in values]


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
