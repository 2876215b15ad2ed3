"""What a text of tool calls says, read whole from the format alone, with no state and no stream.

A call is the line `<tool_call>`, the line `<function=NAME>`, for each argument the line `<parameter=KEY>`,
the value and the line `</parameter>`, then the lines `</function>` and `</tool_call>`; calls are one line
feed apart. A value runs to the first line that begins with `</parameter>`. Its type comes from a declaration:
the parameter's own JSON Schema, or the fact that the tool is strict.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

CALL = re.compile(
    r"<tool_call>\n<function=(?P<name>[^<>\r\n]+)>\n"
    r"(?P<body>(?:<parameter=[^<>\r\n]+>\n(?:(?!\n</parameter>)[\s\S])*\n</parameter>\n)*)"
    r"</function>\n</tool_call>"
)
PARAMETER = re.compile(r"<parameter=([^<>\r\n]+)>\n((?:(?!\n</parameter>)[\s\S])*)\n</parameter>\n")
BLANK = " \t\r\n"


Pairs = list[tuple[str, Any]]


class NotCalls(Exception):
    """The text is no sequence of calls."""


def write_call(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a call as text: strings as they are, all else as JSON with `, ` and `: `."""
    lines = "".join(
        f"<parameter={key}>\n{value if isinstance(value, str) else _json(value)}\n</parameter>\n"
        for key, value in arguments.items()
    )
    return f"<tool_call>\n<function={name}>\n{lines}</function>\n</tool_call>"


def write_calls(calls: Iterable[tuple[str, Mapping[str, Any]]]) -> str:
    """Return (name, arguments) pairs as one text."""
    return "\n".join(write_call(name, arguments) for name, arguments in calls)


def read_calls(
    text: str, declarations: Mapping[str, tuple[Any, bool]], *, cut: bool = False
) -> list[tuple[str, Pairs]]:
    """Return the calls of a text as (name, arguments) pairs, arguments as a list of (key, value) pairs.

    `declarations` maps a tool's name to (its schema, whether it is strict). With `cut` the text may stop
    anywhere: what is not finished is left out. Raises NotCalls.
    """
    calls: list[tuple[str, Pairs]] = []
    place = 0
    while place < len(text):
        if calls and text[place] == "\n":
            place += 1
        found = CALL.match(text, place)
        if not found:
            if cut:
                return calls
            raise NotCalls(text[place : place + 40])
        if found["name"] not in declarations:
            raise NotCalls(found["name"])
        schema, strict = declarations[found["name"]]
        calls.append((found["name"], _arguments(found["body"], schema, strict)))
        place = found.end()
    return calls


def _arguments(body: str, schema: Any, strict: bool) -> Pairs:
    pairs: Pairs = []
    written = PARAMETER.findall(body)
    if len({key for key, _ in written}) < len(written):
        raise NotCalls("an argument stands twice")
    for key, text in written:
        part = schema.get("properties", {}).get(key, {})
        value = _strict_value(text, part) if strict else _loose_value(text, _types(part))
        if value is not None:
            pairs.append((key, value[0]))
    return pairs


def _strict_value(text: str, schema: Any) -> tuple[Any]:
    """The oracle's strict schemas say `type`, or list their values."""
    listed = schema.get("enum", [schema["const"]] if "const" in schema else [])
    is_text = "string" in _types(schema) or any(isinstance(value, str) for value in listed)
    return (text,) if is_text else (json.loads(text),)


def _loose_value(text: str, types: set[str]) -> tuple[Any] | None:
    """A value of a tool that is not strict, in a tuple; None where it is left out."""
    if "string" in types:
        return (text,)
    trimmed = text.strip(BLANK)
    if types and not trimmed:
        return None
    if "boolean" in types and trimmed.lower() in ("true", "false"):
        return (trimmed.lower() == "true",)
    try:
        return (json.loads(trimmed, parse_constant=_no_constant),)
    except (ValueError, RecursionError):
        return (text,)


def _types(schema: Any) -> set[str]:
    if not isinstance(schema, dict):
        return set()
    named = schema.get("type", [])
    types = {named} if isinstance(named, str) else {name for name in named if isinstance(name, str)}
    for keyword in ("anyOf", "oneOf"):
        for branch in schema.get(keyword, []):
            types |= _types(branch)
    return types & {"string", "boolean", "integer", "number", "null", "array", "object"}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _no_constant(text: str) -> NoReturn:
    raise ValueError(text)
