"""Endless synthetic chat: answers copy values of the prompt into JSON, forms, tool calls and short sentences.

`documents(seed)` yields the same documents for the same seed. A document knows where its answers begin, so
that a trainer can weigh them: `pieces` alternates given text and answers. Field values come from lists, from
made-up words and from random digits; nothing is arithmetic.
"""

import json
import random
from collections.abc import Callable, Iterator

import attrs

from experiments.training import chat, words
from experiments.training.records import (
    FLAG,
    KINDS,
    LIST,
    TEXT,
    Kind,
    Value,
    fill,
    joined,
    pairs_of,
    plain,
    record,
    schema,
    told,
    write,
)

STYLES = ("spaced",) * 7 + ("compact",) * 2 + ("indented",)
SYSTEMS = (
    "You are a helpful assistant.",
    "Answer with JSON only.",
    "Be brief.",
    "You extract data from text.",
    "Copy values exactly.",
)


@attrs.frozen
class Exchange:
    """One question with its answer, and the turns of a tool before a second answer where there is one."""

    question: str
    answer: str
    thought: str = ""


@attrs.frozen
class Document:
    """The task's name, and text in turns: given, answer, given, answer, ..."""

    task: str
    pieces: tuple[str, ...]

    @property
    def text(self) -> str:
        """The whole document."""
        return "".join(self.pieces)


def _style_words(rng: random.Random, style: str) -> str:
    if style == "compact":
        return rng.choice((" Write compact JSON.", " Use no spaces in the JSON."))
    if style == "indented":
        return rng.choice((" Indent the JSON.", " Write indented JSON."))
    return rng.choice(("", "", "", " Answer with JSON.", " Write JSON.", " JSON only."))


def _styled(rng: random.Random, order: str, style: str) -> str:
    """An order with words about the style; a colon stays at its end."""
    said = _style_words(rng, style)
    return f"{said[1:]} {order}" if said and order.endswith(":") else order + said


def _field_list(rng: random.Random, values: list[Value]) -> str:
    keys = [value.field.key for value in values]
    return rng.choice((", ".join(keys), joined(keys), " ".join(f'"{key}"' for key in keys)))


def _asked(rng: random.Random, values: list[Value]) -> list[Value]:
    """Which fields to answer with: usually all, sometimes some of them in another order."""
    if rng.random() < 0.6:
        return values
    return rng.sample(values, rng.randint(1, len(values)))


def extract(rng: random.Random) -> Exchange:
    """A text about a record; the answer is an object of the named fields."""
    kind = rng.choice(KINDS)
    values = record(rng, kind)
    asked, style = _with_unknown(rng, kind, values, _asked(rng, values)), rng.choice(STYLES)
    text = told(rng, kind, values)
    order = rng.choice(
        (
            f"Extract the {kind.name} as JSON with {_field_list(rng, asked)}:",
            f"Give {_field_list(rng, asked)} of this {kind.name} as JSON.",
            f"Make a JSON object with the fields {_field_list(rng, asked)}.",
            f"Return the {kind.name} as a JSON object. Fields: {_field_list(rng, asked)}.",
        )
    )
    question = _around(rng, _styled(rng, order, style), text)
    thought = f"The fields are {joined([value.field.key for value in asked])}."
    return Exchange(question, write(pairs_of(asked), style), thought)


def _with_unknown(rng: random.Random, kind: Kind, values: list[Value], asked: list[Value]) -> list[Value]:
    """The asked fields, now and then with one that the text does not tell: its answer is null."""
    told_keys = {value.field.key for value in values}
    untold = [field for field in kind.fields if field.key not in told_keys]
    if not untold or rng.random() > 0.1:
        return asked
    return [*asked, Value(rng.choice(untold), "null", "")]


def _around(rng: random.Random, order: str, text: str) -> str:
    return f"{order}\n{text}" if rng.random() < 0.6 else f"{text}\n{order}"


def by_schema(rng: random.Random) -> Exchange:
    """A text and a JSON Schema; the answer fits the schema."""
    kind = rng.choice(KINDS)
    values = record(rng, kind, most=5)
    asked, style = _asked(rng, values), rng.choice(STYLES)
    order = rng.choice(
        (
            "Answer with JSON by this schema:",
            "Fill this JSON Schema:",
            f"Extract the {kind.name} by the schema.",
            "Schema:",
        )
    )
    stated = f"{order}\n{schema(rng, asked)}{_style_words(rng, style) if style != 'spaced' else ''}"
    return Exchange(
        _around(rng, stated, told(rng, kind, values)),
        write(pairs_of(asked), style),
        f"The schema asks for {joined([value.field.key for value in asked])}.",
    )


def invent(rng: random.Random) -> Exchange:
    """A record that nobody described: the values are free."""
    kind = rng.choice(KINDS[:1] * 3 + KINDS)
    values = record(rng, kind)
    style = rng.choice(STYLES)
    what = ("an " if kind.name[0] in "aeio" else "a ") + kind.name
    named = f" with {_field_list(rng, values)}" if rng.random() < 0.7 else ""
    order = rng.choice(
        (
            f"Make up {what}{named}.",
            f"Invent {what}{named}.",
            f"Give me {what} as JSON{named}.",
            f"Write an example {kind.name}{named}.",
        )
    )
    if rng.random() < 0.3:
        order = f"Make up {what} by this schema:\n{schema(rng, values)}"
    return Exchange(
        order + _style_words(rng, style), write(pairs_of(values), style), "I can choose the values."
    )


def rows(rng: random.Random) -> Exchange:
    """Lines of comma-separated values; the answer is an array of objects."""
    kind = rng.choice(KINDS)
    fields = [field for field in kind.fields if field.type not in (LIST, FLAG)]
    fields = sorted(rng.sample(fields, rng.randint(2, min(3, len(fields)))), key=kind.fields.index)
    table = [[fill(rng, field) for field in fields] for _ in range(rng.randint(2, 4))]
    lines = [",".join(field.key for field in fields)]
    lines += [",".join(plain(value) for value in row) for row in table]
    style = "compact" if rng.random() < 0.2 else "spaced"
    gap = "," if style == "compact" else ", "
    answer = "[" + gap.join(write(pairs_of(row), style) for row in table) + "]"
    order = rng.choice(("Turn this CSV into JSON.", "Write these rows as a JSON array.", "CSV to JSON:"))
    return Exchange(
        f"{_styled(rng, order, style)}\n" + "\n".join(lines), answer, f"There are {len(table)} rows."
    )


def form(rng: random.Random) -> Exchange:
    """A text or an object; the answer is a form of `Key: value` lines."""
    kind = rng.choice(KINDS)
    values = record(rng, kind)
    asked = _asked(rng, values)
    source = told(rng, kind, values) if rng.random() < 0.6 else write(pairs_of(values))
    order = rng.choice(
        (
            f"Fill the form with {_field_list(rng, asked)}.",
            f"Write lines for {_field_list(rng, asked)}.",
            f"Make a form: {_field_list(rng, asked)}.",
        )
    )
    lines = [f"{value.field.key.replace('_', ' ').capitalize()}: {plain(value)}" for value in asked]
    return Exchange(_around(rng, order, source), "\n".join(lines), "One line for each field.")


def question(rng: random.Random) -> Exchange:
    """A text and a question about one value; the answer is a short sentence or only the value."""
    kind = rng.choice(KINDS)
    values = record(rng, kind)
    wanted = rng.choice([value for value in values if value.field.type != FLAG] or values)
    key = wanted.field.key.replace("_", " ")
    order, answer = f"What is the {key}?", f"The {key} is {plain(wanted)}."
    if wanted.field.type == FLAG:
        order, answer = f"Is it {key}? Yes or no?", plain(wanted)
    elif rng.random() < 0.3:
        order, answer = f"What is the {key}? Only the value.", plain(wanted)
    elif rng.random() < 0.3:
        order, answer = f"Quote the {key} as JSON.", write([(wanted.field.key, wanted.raw)])
    return Exchange(_around(rng, order, told(rng, kind, values)), answer, f"I look for the {key}.")


def repeat(rng: random.Random) -> Exchange:
    """A free text to be copied, whole or as a list."""
    if rng.random() < 0.5:
        text = " ".join(words.sentence(rng) for _ in range(rng.randint(1, 3)))
        order = rng.choice(("Repeat this text:", "Copy this:", "Say again:"))
        return Exchange(f"{order} {text}", text, "I copy the text.")
    make = rng.choice((words.first_name, words.city, words.item, words.code, words.made_up, words.date))
    parts = [make(rng) for _ in range(rng.randint(2, 6))]
    listed = joined(parts) if rng.random() < 0.5 else "\n".join(f"- {part}" for part in parts)
    if rng.random() < 0.7:
        order, answer = "List these as a JSON array:", json.dumps(parts, ensure_ascii=False)
    else:
        order, answer = "One on each line:", "\n".join(parts)
    return Exchange(f"{order}\n{listed}", answer, f"There are {len(parts)} entries.")


def talk(rng: random.Random) -> Exchange:
    """Small talk and a few facts that the model may know by heart."""
    country, capital = rng.choice(words.COUNTRIES)
    choices = [rng.choice(words.ADJECTIVES), rng.choice(words.TOPICS), rng.choice(words.NOUNS)]
    name = words.first_name(rng)
    return rng.choice(
        (
            Exchange(f"What is the capital of {country}?", f"The capital of {country} is {capital}."),
            Exchange(f"Which country has the capital {capital}?", f"{capital} is the capital of {country}."),
            Exchange(f"Which comes first: {joined(choices)}?", choices[0]),
            Exchange(f"Which comes last: {joined(choices)}?", choices[-1]),
            Exchange(
                "Tell me a short story.", " ".join(words.sentence(rng) for _ in range(rng.randint(2, 4)))
            ),
            Exchange("Write a sentence.", words.sentence(rng)),
            Exchange(f"Hello, I am {name}.", f"Hello {name}, how can I help you?"),
            Exchange("Hello!", "Hello! How can I help you?"),
            Exchange(f"Write a sentence about {name}.", f"{name}{_after(words.sentence(rng))}"),
            Exchange("Give me a date.", words.date(rng)),
            Exchange("Give me a phone number.", words.phone(rng)),
            Exchange("Give me an email address.", words.email(rng)),
        )
    )


def _after(text: str) -> str:
    """A free sentence without who does it."""
    verb = next(word for word in text.split() if word in words.VERBS)
    return text[text.index(f" {verb} ") :]


TASKS: dict[str, tuple[int, Callable[[random.Random], Exchange]]] = {
    "extract": (30, extract),
    "schema": (16, by_schema),
    "invent": (10, invent),
    "rows": (7, rows),
    "form": (8, form),
    "question": (8, question),
    "repeat": (7, repeat),
    "talk": (4, talk),
}
TOOLS_WEIGHT = 14


def chat_document(rng: random.Random, task: str, make: Callable[[random.Random], Exchange]) -> Document:
    """One or two exchanges of a task in the chat template."""
    given = chat.turn("system", rng.choice(SYSTEMS)) if rng.random() < 0.25 else ""
    pieces: list[str] = []
    for _ in range(2 if rng.random() < 0.12 else 1):
        exchange = make(rng)
        style = rng.random()
        thinking = None if style < 0.12 else style < 0.27 and bool(exchange.thought)
        given += chat.turn("user", exchange.question) + chat.opening(thinking)
        thought = f"{exchange.thought}\n{chat.THINK_END}\n\n" if thinking else ""
        pieces += [given, f"{thought}{exchange.answer}{chat.END}"]
        given = "\n"
    return Document(task, (*pieces, chat.DOCUMENT_END))


def tool_document(rng: random.Random) -> Document:
    """Declared tools, a wish, a call, mostly the tool's result and a last answer."""
    kinds = rng.sample(KINDS, rng.choice((1, 1, 2)))
    chosen = kinds[0]
    values = [v for v in record(rng, chosen, most=5)]
    verb = rng.choice(("add", "find", "save", "update", "check"))
    declared = [(f"{verb}_{chosen.name}", values)]
    if len(kinds) == 2:
        declared.insert(
            rng.randint(0, 1), (f"{rng.choice(('get', 'list'))}_{kinds[1].name}", record(rng, kinds[1], 2))
        )
    tools = [_tool(rng, name, fields) for name, fields in declared]
    given = chat.tools_turn(tools, rng.choice(SYSTEMS) if rng.random() < 0.15 else "")
    wish = rng.choice((f"{verb.capitalize()} this {chosen.name}.", f"Please {verb} the {chosen.name}."))
    thinking = rng.random() < 0.2
    given += chat.turn("user", _around(rng, wish, told(rng, chosen, values))) + chat.opening(thinking)
    call = chat.tool_call(f"{verb}_{chosen.name}", {v.field.key: _argument(v) for v in values})
    thought = f"I call {verb}_{chosen.name}.\n{chat.THINK_END}\n\n" if thinking else ""
    pieces = [given, thought + call + chat.END]
    if rng.random() < 0.6:
        found = words.code(rng)
        state = rng.choice(words.STATES)
        result = write([("id", json.dumps(found)), ("status", json.dumps(state))])
        pieces += ["\n" + chat.tool_result(result) + chat.opening(False)]
        pieces += [f"Done. The {chosen.name} has the id {found} and is {state}.{chat.END}"]
    return Document("tools", (*pieces, chat.DOCUMENT_END))


def _argument(value: Value) -> str:
    return json.loads(value.raw) if value.field.type == TEXT else value.raw


def _tool(rng: random.Random, name: str, values: list[Value]) -> dict[str, object]:
    function: dict[str, object] = {"name": name, "parameters": json.loads(schema(rng, values))}
    return {"type": "function", "function": function}


def documents(seed: int | str) -> Iterator[Document]:
    """Yield documents without end."""
    rng = random.Random(seed)
    names, weights = [*TASKS, "tools"], [weight for weight, _ in TASKS.values()] + [TOOLS_WEIGHT]
    while True:
        (task,) = rng.choices(names, weights)
        yield tool_document(rng) if task == "tools" else chat_document(rng, task, TASKS[task][1])
