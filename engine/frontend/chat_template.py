"""Messages and tool declarations to the Qwen prompt, as regions that know where their text comes from.

Control tokens are regions of the template alone and are encoded by their ids; whatever a message or a tool
spells is text. The choice of calls has no part in a prompt (TOOL-6). Contents are trimmed; a message that is
continued has to be in the prompt exactly as it was given (CONT-2). Format: models 7.3.
"""

import enum
import json
from collections.abc import Iterator, Sequence
from typing import NoReturn, Protocol

import attrs

from engine.errors import ErrorKind, Location, RequestError
from engine.frontend.framing import (
    BETWEEN_CALLS,
    FUNCTION_CLOSE,
    FUNCTION_OPEN,
    NAME_END,
    PARAMETER_CLOSE,
    PARAMETER_OPEN,
    REASONING_END,
    RESULT_CLOSE,
    RESULT_OPEN,
    SEPARATOR,
    THINK_CLOSE,
    THINK_OPEN,
    TOOL_CLOSE,
    TOOL_OPEN,
    TURN_CLOSE,
    TURN_OPEN,
)
from engine.request import Message, PromptInput, Role, ToolCall, ToolDeclaration
from engine.text.schema.source import Number, Value, parse

TOOLS_OPENING = "# Tools\n\nYou have access to the following functions:\n\n<tools>"
TOOLS_CLOSING = "\n</tools>\n\nCall a function in this form:\n\n"
SAMPLE = f"{FUNCTION_OPEN}NAME{NAME_END}{PARAMETER_OPEN}KEY{NAME_END}VALUE{PARAMETER_CLOSE}{FUNCTION_CLOSE}"


class Source(enum.StrEnum):
    """Whose words a region holds."""

    CONTROL = "control"
    TEMPLATE = "template"
    CONTENT = "content"
    REASONING = "reasoning"
    CALL = "call"
    TOOL = "tool"


@attrs.frozen
class Region:
    """A piece of a prompt; `index` is the message's, or the tool's, whose text it is."""

    text: str
    source: Source = Source.TEMPLATE
    index: int | None = None


class Encoder(Protocol):
    """What turns texts and control ids into the ids of a prompt; texts that touch are encoded as one."""

    def special_id(self, spelling: str) -> int:
        """The control or completion id with this spelling."""

    def encode_parts(self, parts: Sequence[str | int]) -> list[int]:
        """The ids of texts and control ids in order."""


@attrs.frozen
class Rendered:
    """A prompt; `thinks`: the output begins inside thinking; `continued`: the content it goes on with."""

    regions: tuple[Region, ...]
    thinks: bool = False
    continued: str | None = None

    @property
    def text(self) -> str:
        """The prompt with control tokens spelled."""
        return "".join(region.text for region in self.regions)

    def encode(self, encoder: Encoder) -> list[int]:
        """The prompt's ids. Raises RequestError where the vocabulary lacks a token of the template."""
        parts = [
            encoder.special_id(region.text) if region.source is Source.CONTROL else region.text
            for region in self.regions
        ]
        return encoder.encode_parts(parts)


def render(prompt: PromptInput, *, knows_thinking: bool = True) -> Rendered:
    """The prompt of a chat; without `knows_thinking` it has no word of thinking.

    Raises RequestError: no messages, a raw text or ids beside them, a system message that is not the first,
    calls or reasoning of someone else than the assistant, arguments that are no JSON object, a last message
    that cannot be continued.
    """
    _check(prompt)
    writer = _Writer(prompt, knows_thinking)
    writer.write()
    last = prompt.messages[-1].content if prompt.continue_final else None
    thinks = knows_thinking and prompt.thinking and not prompt.continue_final
    return Rendered(tuple(region for region in writer.regions if region.text), thinks, last)


class _Writer:
    """Writes turn after turn."""

    def __init__(self, prompt: PromptInput, knows_thinking: bool) -> None:
        self.regions: list[Region] = []
        self._prompt = prompt
        self._knows_thinking = knows_thinking
        asked = [i for i, message in enumerate(prompt.messages) if message.role is Role.USER]
        self._last_question = asked[-1] if asked else -1

    def write(self) -> None:
        messages = self._prompt.messages
        if self._prompt.tools:
            self._tools(messages[0] if messages[0].role is Role.SYSTEM else None)
        for index, message in enumerate(messages):
            if message.role is Role.TOOL:
                self._result(index)
            elif not (message.role is Role.SYSTEM and self._prompt.tools):
                self._open(message.role)
                self._body(index, message)
                if not (self._prompt.continue_final and index == len(messages) - 1):
                    self._close()
        if not self._prompt.continue_final:
            self._open(Role.ASSISTANT)
            self._opening()

    def _body(self, index: int, message: Message) -> None:
        if message.role is Role.ASSISTANT and self._knows_thinking and index > self._last_question:
            self._thought(message.reasoning.strip(), index)
        content = message.content.strip()
        self._add(content, Source.CONTENT, index)
        for place, call in enumerate(message.tool_calls):
            lead = BETWEEN_CALLS if place else SEPARATOR if content else ""
            self._add(lead)
            self._call(call, index, f"/messages/{index}/tool_calls/{place}/arguments_json")

    def _opening(self) -> None:
        if not self._knows_thinking:
            return
        if self._prompt.thinking:
            self._control(THINK_OPEN)
            self._add("\n")
        else:
            self._thought("", None)

    def _thought(self, reasoning: str, index: int | None) -> None:
        self._control(THINK_OPEN)
        self._add("\n")
        self._add(reasoning, Source.REASONING, index)
        self._add(REASONING_END)
        self._control(THINK_CLOSE)
        self._add(SEPARATOR)

    def _tools(self, system: Message | None) -> None:
        self._open(Role.SYSTEM)
        self._add(TOOLS_OPENING)
        for index, tool in enumerate(self._prompt.tools):
            self._add("\n")
            self._add(tool_text(tool), Source.TOOL, index)
        self._add(TOOLS_CLOSING)
        self._control(TOOL_OPEN)
        self._add(SAMPLE)
        self._control(TOOL_CLOSE)
        if system is not None and system.content.strip():
            self._add("\n\n")
            self._add(system.content.strip(), Source.CONTENT, 0)
        self._close()

    def _call(self, call: ToolCall, index: int, pointer: str) -> None:
        self._control(TOOL_OPEN)
        self._add(FUNCTION_OPEN)
        self._add(call.name, Source.CALL, index)
        self._add(NAME_END)
        for name, value in _arguments(call, pointer).items():
            self._add(PARAMETER_OPEN)
            self._add(name, Source.CALL, index)
            self._add(NAME_END)
            self._add(value if isinstance(value, str) else spaced(value), Source.CALL, index)
            self._add(PARAMETER_CLOSE)
        self._add(FUNCTION_CLOSE)
        self._control(TOOL_CLOSE)

    def _result(self, index: int) -> None:
        """A tool's answer: neighbours share one turn of the user."""
        messages = self._prompt.messages
        if index == 0 or messages[index - 1].role is not Role.TOOL:
            self._control(TURN_OPEN)
            self._add(Role.USER.value)
        self._add("\n")
        self._control(RESULT_OPEN)
        self._add("\n")
        self._add(messages[index].content.strip(), Source.CONTENT, index)
        self._add("\n")
        self._control(RESULT_CLOSE)
        if index == len(messages) - 1 or messages[index + 1].role is not Role.TOOL:
            self._close()

    def _open(self, role: Role) -> None:
        self._control(TURN_OPEN)
        self._add(f"{role.value}\n")

    def _close(self) -> None:
        self._control(TURN_CLOSE)
        self._add("\n")

    def _control(self, spelling: str) -> None:
        self._add(spelling, Source.CONTROL)

    def _add(self, text: str, source: Source = Source.TEMPLATE, index: int | None = None) -> None:
        self.regions.append(Region(text, source, index))


def tool_text(tool: ToolDeclaration) -> str:
    """A declaration as the prompt shows it: one line of JSON, its schema in the order it was given."""
    function: dict[str, Value] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = parse(tool.parameters)
    return spaced({"type": "function", "function": function})


def spaced(value: Value) -> str:
    """A value as JSON text with `, ` and `: `, members in order, numbers as written."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{spaced(name)}: {spaced(part)}" for name, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(spaced, value)) + "]"
    return value.text if isinstance(value, Number) else json.dumps(value, ensure_ascii=False)


def _arguments(call: ToolCall, pointer: str) -> dict[str, Value]:
    try:
        arguments = parse(call.arguments_json)
    except RequestError as error:
        _refuse("the arguments of a call are not JSON", pointer, error.found, "a JSON object")
    if not isinstance(arguments, dict):
        _refuse("the arguments of a call are not an object", pointer, type(arguments).__name__, "an object")
    return arguments


def _check(prompt: PromptInput) -> None:
    if prompt.text is not None or prompt.token_ids is not None:
        _refuse("a raw prompt has no template", "", "raw text or ids", "messages alone")
    if not prompt.messages:
        _refuse("a chat needs a message", "/messages", "none", "at least one message")
    for index, message in enumerate(prompt.messages):
        _check_message(index, message)
    if prompt.continue_final:
        _check_continued(len(prompt.messages) - 1, prompt.messages[-1])


def _check_message(index: int, message: Message) -> None:
    place = f"/messages/{index}"
    if message.role is Role.SYSTEM and index:
        _refuse("a system message stands after the first", f"{place}/role", "system", "at the beginning only")
    for name, value in _of_the_assistant(message):
        if value and message.role is not Role.ASSISTANT:
            _refuse(f"only the assistant has {name}", f"{place}/{name}", message.role, "assistant")


def _of_the_assistant(message: Message) -> Iterator[tuple[str, object]]:
    yield "reasoning", message.reasoning
    yield "tool_calls", message.tool_calls


def _check_continued(index: int, message: Message) -> None:
    place = f"/messages/{index}"
    if message.role is not Role.ASSISTANT:
        _refuse("the last message is not the assistant's", f"{place}/role", message.role, "assistant")
    if message.tool_calls:
        _refuse("a message with calls is not continued", f"{place}/tool_calls", "calls", "plain text")
    if message.content != message.content.strip():
        allowed = "content without white space at its ends"
        _refuse("the template would trim what is continued", f"{place}/content", "white space", allowed)


def _refuse(message: str, pointer: str, found: str, allowed: str) -> NoReturn:
    place = Location(pointer=pointer)
    raise RequestError(ErrorKind.INVALID_REQUEST, message, place, found[:60], allowed, source="request")
