"""The chat template of the Qwen3.5 family as text: turns, thinking, tools, tool calls, tool results."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

START, END, DOCUMENT_END = "<|im_start|>", "<|im_end|>", "<|endoftext|>"
TOOL_CALL, TOOL_CALL_END = "<tool_call>", "</tool_call>"
TOOL_RESPONSE, TOOL_RESPONSE_END = "<tool_response>", "</tool_response>"
THINK, THINK_END, MASK = "<think>", "</think>", "<|mask|>"
CONTROL = (
    DOCUMENT_END,
    START,
    END,
    TOOL_CALL,
    TOOL_CALL_END,
    TOOL_RESPONSE,
    TOOL_RESPONSE_END,
    THINK,
    THINK_END,
    MASK,
)
NO_THINKING = f"{THINK}\n\n{THINK_END}\n\n"
TOOLS_OPENING = "# Tools\n\nYou have access to the following functions:\n\n<tools>"
TOOLS_CLOSING = (
    f"\n</tools>\n\nCall a function in this form:\n\n{TOOL_CALL}\n<function=NAME>\n<parameter=KEY>\nVALUE\n"
    f"</parameter>\n</function>\n{TOOL_CALL_END}"
)


def turn(role: str, content: str) -> str:
    """One finished turn."""
    return f"{START}{role}\n{content.strip()}{END}\n"


def opening(thinking: bool | None) -> str:
    """The start of an answer: thinking begun, thinking empty, or (None) no word of thinking."""
    head = f"{START}assistant\n"
    return head if thinking is None else head + (f"{THINK}\n" if thinking else NO_THINKING)


def tools_turn(tools: Sequence[Mapping[str, Any]], system: str = "") -> str:
    """The system turn that declares tools."""
    listed = "".join("\n" + json.dumps(tool, ensure_ascii=False) for tool in tools)
    return turn("system", TOOLS_OPENING + listed + TOOLS_CLOSING + (f"\n\n{system}" if system else ""))


def tool_call(name: str, arguments: Mapping[str, str]) -> str:
    """A call as text; the arguments are written as they are."""
    inner = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in arguments.items())
    return f"{TOOL_CALL}\n<function={name}>\n{inner}</function>\n{TOOL_CALL_END}"


def tool_result(content: str) -> str:
    """The turn that carries a tool's answer."""
    return turn("user", f"{TOOL_RESPONSE}\n{content}\n{TOOL_RESPONSE_END}")
