"""What the schema bench runs over: schemas with labelled instances, as source text.

Two forms of data: a file of JSON lines `{"name", "schema", "tests": [{"valid", "data"}]}` (plain or gzip),
and the official suite, a folder per draft. Schemas keep their text byte for byte. An instance is written as
`json.dumps(data, ensure_ascii=False)` writes it, except that numbers keep their own spelling.
"""

import gzip
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = "maskbench-sample.jsonl.gz"
SUITE = "json-schema-test-suite"
DIALECTS = {
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}


class Number(str):
    """A number of an instance, as it was spelled."""

    __slots__ = ()


@frozen
class Instance:
    """One JSON text with its label; `what` says what it shows."""

    text: str
    valid: bool
    what: str = ""


@frozen
class Case:
    """One schema with its instances. `group` is the row of the tables; `formats` the option it runs under."""

    name: str
    group: str
    source: str
    instances: tuple[Instance, ...]
    formats: str = "assert"

    @property
    def satisfiable(self) -> bool:
        """Whether an instance is known to be valid."""
        return any(instance.valid for instance in self.instances)


def data_folder() -> Path:
    """Where the data lies: COUNTERPROOF_DATA, else `../shared/data` beside the project."""
    return Path(os.environ.get("COUNTERPROOF_DATA", ROOT.parent / "shared" / "data"))


def parse(text: str) -> Any:
    """A JSON text as Python values, every number as a `Number`."""
    return json.loads(text, parse_int=Number, parse_float=Number)


def write(value: Any) -> str:
    """The text of a value of `parse`: `, ` and `: ` between its parts, only controls and quotes escaped."""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{quoted(name)}: {write(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(write, value)) + "]"
    return quoted(value)


def quoted(value: str | bool | None) -> str:
    """A string, boolean or null as JSON text."""
    return json.dumps(value, ensure_ascii=False)


# --- the text of a value inside a JSON text ---------------------------------------------------------------

_DECODER = json.JSONDecoder()


def _after_space(text: str, place: int) -> int:
    while text[place] in " \t\n\r":
        place += 1
    return place


def members(text: str) -> dict[str, str]:
    """The members of the object that `text` is, each as its own source text."""
    found, place = {}, _after_space(text, 0) + 1
    while text[place := _after_space(text, place)] != "}":
        name, place = _DECODER.raw_decode(text, place)
        start = _after_space(text, _after_space(text, place) + 1)
        _, end = _DECODER.raw_decode(text, start)
        found[name] = text[start:end]
        place = _after_space(text, end)
        place += text[place] == ","
    return found


def items(text: str) -> list[str]:
    """The items of the array that `text` is, each as its own source text."""
    found, place = [], _after_space(text, 0) + 1
    while text[place := _after_space(text, place)] != "]":
        _, end = _DECODER.raw_decode(text, place)
        found.append(text[place:end])
        place = _after_space(text, end)
        place += text[place] == ","
    return found


def _instances(tests: Sequence[str]) -> tuple[Instance, ...]:
    """The tests that are text; one with a lone surrogate cannot be tokens of any vocabulary."""
    found = []
    for test in tests:
        parts = members(test)
        text = write(parse(parts["data"]))
        if text.isprintable() or _is_text(text):
            found.append(Instance(text, parts["valid"] == "true", json.loads(parts.get("description", '""'))))
    return tuple(found)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# --- the two forms ----------------------------------------------------------------------------------------


def sample(path: Path) -> Iterator[Case]:
    """The cases of a file of JSON lines; the group is the first part of a name."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            parts = members(line)
            name = json.loads(parts["name"])
            yield Case(name, set_of(name), parts["schema"], _instances(items(parts["tests"])))


def set_of(name: str) -> str:
    """The set that a schema of the sample comes from: `Github_easy---o123` and `BFCL_java_0` alike."""
    head = name.split("---")[0]
    return head if head != name else name.split("_")[0]


CONTENT = "optional/content"


def suite(folder: Path, drafts: Mapping[str, str] = DIALECTS) -> Iterator[Case]:
    """The groups of the official suite; the group is the draft, with its optional files and formats apart.

    Formats, and what strings contain, are asserted in their optional files only: in the main files they are
    annotations. A schema that names no dialect gets the one of its folder.
    """
    for draft, dialect in drafts.items():
        for path in sorted((folder / draft).rglob("*.json")):
            stem = path.relative_to(folder / draft).with_suffix("").as_posix()
            kind = re.match(r"(?:optional/(format/)?)?", stem).group()
            formats = "assert" if kind == "optional/format/" or stem == CONTENT else "annotate"
            for index, group in enumerate(items(path.read_text(encoding="utf-8"))):
                parts = members(group)
                source = with_dialect(parts["schema"], dialect)
                name = f"{draft}/{stem}#{index} {json.loads(parts['description'])}"
                yield Case(
                    name, f"{draft} {kind}".strip("/ "), source, _instances(items(parts["tests"])), formats
                )


def with_dialect(source: str, dialect: str) -> str:
    """The schema with `$schema` in front, unless it is a boolean or has one."""
    if not source.startswith("{") or "$schema" in members(source):
        return source
    rest = source[1:].lstrip()
    return f'{{"$schema": {quoted(dialect)}{"" if rest.startswith("}") else ", "}{rest}'


def chosen(cases: Iterator[Case], names: frozenset[str] | None, limit: int | None) -> list[Case]:
    """The cases with these names, of these at most `limit`, spread over all of them."""
    found = [case for case in cases if names is None or case.name in names]
    if limit is None or limit >= len(found):
        return found
    return [found[index * len(found) // limit] for index in range(limit)]
