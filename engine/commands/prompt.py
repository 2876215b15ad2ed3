"""The messages of a chat as a command's user gives them, and their ids in the Qwen3.5 template.

A vocabulary without `<think>` gets turns without a word of thinking.
"""

from collections.abc import Mapping, Sequence

from engine.commands.flags import read_json
from engine.errors import ErrorKind, Location, RequestError
from engine.frontend.chat_template import render
from engine.frontend.framing import THINK_OPEN
from engine.frontend.text_codec import TextCodec
from engine.request import Message, PromptInput, Role, ToolDeclaration

ROLES = (Role.SYSTEM, Role.USER, Role.ASSISTANT)


def read_messages(text: str, name: str) -> tuple[Message, ...]:
    """Read a JSON array of messages, or an object with one under "messages". Raises RequestError."""
    document = read_json(text, name)
    base = ""
    if isinstance(document, Mapping):
        document, base = document.get("messages"), "/messages"
    if not isinstance(document, list) or not document:
        raise _refused(base, document, "a list of at least one message")
    messages = tuple(_message(entry, f"{base}/{i}") for i, entry in enumerate(document))
    late = next((i for i, message in enumerate(messages) if i and message.role is Role.SYSTEM), None)
    if late is not None:
        raise _refused(f"{base}/{late}/role", "system", "a system message at the beginning only")
    return messages


def _message(entry: object, pointer: str) -> Message:
    if not isinstance(entry, Mapping):
        raise _refused(pointer, entry, "an object with role and content")
    role, content = entry.get("role"), entry.get("content")
    if role not in list(ROLES):
        raise _refused(f"{pointer}/role", role, ", ".join(ROLES))
    if not isinstance(content, str):
        raise _refused(f"{pointer}/content", content, "a text")
    return Message(Role(role), content)


def chat_ids(
    codec: TextCodec,
    messages: Sequence[Message],
    *,
    thinking: bool,
    tools: Sequence[ToolDeclaration] = (),
) -> list[int]:
    """Return the ids of a chat with the answer opened. Raises RequestError without the turn tokens."""
    prompt = PromptInput(tuple(messages), tuple(tools), thinking)
    return render(prompt, knows_thinking=codec.knows(THINK_OPEN)).encode(codec)


def _refused(pointer: str, found: object, allowed: str) -> RequestError:
    return RequestError(
        ErrorKind.INVALID_REQUEST,
        "these are no messages of a chat",
        Location(pointer=pointer),
        "nothing" if found is None else repr(found)[:80],
        allowed,
        source="request",
    )
