"""What the caller asks, as token ids: a raw text, or turns of a chat in the Qwen3.5 template.

Control tokens of the template stand by their ids; whatever a message spells stays text. A vocabulary without
`<think>` gets turns without a word of thinking.
"""

from collections.abc import Mapping, Sequence

import attrs

from engine.commands.flags import read_json
from engine.errors import ErrorKind, Location, RequestError
from engine.frontend.text_codec import Part, TextCodec

ROLES = ("system", "user", "assistant")
START, END, THINK, THINK_END = "<|im_start|>", "<|im_end|>", "<think>", "</think>"


@attrs.frozen
class Message:
    """One turn of a chat."""

    role: str
    content: str


def read_messages(text: str, name: str) -> tuple[Message, ...]:
    """Read a JSON array of messages, or an object with one under "messages". Raises RequestError."""
    document = read_json(text, name)
    base = ""
    if isinstance(document, Mapping):
        document, base = document.get("messages"), "/messages"
    if not isinstance(document, list) or not document:
        raise _refused(base, document, "a list of at least one message")
    messages = tuple(_message(entry, f"{base}/{i}") for i, entry in enumerate(document))
    late = next((i for i, message in enumerate(messages) if i and message.role == "system"), None)
    if late is not None:
        raise _refused(f"{base}/{late}/role", "system", "a system message at the beginning only")
    return messages


def _message(entry: object, pointer: str) -> Message:
    if not isinstance(entry, Mapping):
        raise _refused(pointer, entry, "an object with role and content")
    role, content = entry.get("role"), entry.get("content")
    if role not in ROLES:
        raise _refused(f"{pointer}/role", role, ", ".join(ROLES))
    if not isinstance(content, str):
        raise _refused(f"{pointer}/content", content, "a text")
    return Message(role, content)


def chat_ids(codec: TextCodec, messages: Sequence[Message], *, thinking: bool) -> list[int]:
    """Return the ids of a chat with the answer opened. Raises VocabularyFileError without the turn tokens."""
    start, end = codec.special_id(START), codec.special_id(END)
    parts: list[Part] = []
    for message in messages:
        parts += [start, f"{message.role}\n{message.content.strip()}", end, "\n"]
    parts += [start, "assistant\n"]
    if codec.knows(THINK):
        opened: list[Part] = [codec.special_id(THINK), "\n"]
        parts += (
            opened if thinking else [codec.special_id(THINK), "\n\n", codec.special_id(THINK_END), "\n\n"]
        )
    return codec.encode_parts(parts)


def _refused(pointer: str, found: object, allowed: str) -> RequestError:
    return RequestError(
        ErrorKind.INVALID_REQUEST,
        "these are no messages of a chat",
        Location(pointer=pointer),
        "nothing" if found is None else repr(found)[:80],
        allowed,
        source="request",
    )
