"""What an output continues: the last message's content, as tokens for a matcher (CONT-1 to CONT-7, TOOL-35).

The prompt's own tokens are never fed: they may hold bytes from before the content. Content is taken byte by
byte; where calls are possible each spelled `<tool_call>` is its id, as the decoder reads it. A call that is
complete already is refused, so that no past call is published again.
"""

from collections.abc import Sequence

from engine.errors import DeadEnd, ErrorKind, RequestError
from engine.frontend.framing import TOOL_CLOSE, TOOL_OPEN
from engine.frontend.tool_grammar import OutputFrame
from engine.text.companion import Companion
from engine.text.cores.base import CoreMatcher
from engine.text.vocabulary import TokenClass, Vocabulary


def prefix_tokens(prefix: str, vocabulary: Vocabulary, frame: OutputFrame) -> tuple[int, ...]:
    """The tokens that a prefix stands for in an output language. Raises RequestError."""
    contract, tool_open = frame.contract, frame.ids.tool_open
    if contract is None or not contract.is_active or tool_open is None:
        return _bytes(prefix, vocabulary)
    if frame.has_content and not prefix.startswith(TOOL_OPEN):
        return _bytes(prefix, vocabulary)  # JSON content: a mark inside a string is text (TOOL-14)
    content, *calls = prefix.split(TOOL_OPEN)
    if any(TOOL_CLOSE in call for call in calls) or len(calls) > 1:
        raise RequestError(
            ErrorKind.INVALID_TOOL_CONSTRAINT,
            "the message to continue holds a call that is complete, or more than one",
            found=repr(prefix[-40:]),
            allowed="text, and at most the beginning of one call",
            source="request",
        )
    tokens = list(_bytes(content, vocabulary))
    for call in calls:
        tokens += [tool_open, *_bytes(call, vocabulary)]
    return tuple(tokens)


def _bytes(text: str, vocabulary: Vocabulary) -> tuple[int, ...]:
    """The single-byte tokens of a text. Raises RequestError where a byte is no token."""
    if not text:
        return ()
    single = {
        vocabulary.token_bytes[i]: i
        for i in vocabulary.ids_of(TokenClass.TEXT)
        if len(vocabulary.token_bytes[i]) == 1
    }
    pieces = [bytes([byte]) for byte in text.encode()]
    missing = next((piece for piece in pieces if piece not in single), None)
    if missing is not None:
        raise RequestError(
            ErrorKind.INVALID_REQUEST,
            "the message to continue has a byte that is no token of the model",
            found=repr(missing),
            allowed="text in the model's bytes",
            source="request",
        )
    return tuple(single[piece] for piece in pieces)


def accept_prefix(
    core: CoreMatcher, companion: Companion | None, tokens: Sequence[int], vocabulary: Vocabulary
) -> None:
    """Advance a fresh matcher's parts by a prefix; no budget and no coin is spent (CONT-5).

    Raises DeadEnd where the language has no output that begins so.
    """
    for index, token_id in enumerate(tokens):
        if not core.accept(token_id) or (companion is not None and not companion.accept(token_id)):
            taken = b"".join(vocabulary.token_bytes[i] for i in tokens[:index])
            raise DeadEnd(
                ErrorKind.CONSTRAINT_DEAD_END,
                "the message to continue is no beginning of the output that is asked for",
                found=f"{vocabulary.render(token_id)} behind {taken[-40:].decode(errors='replace')!r}",
                allowed="a beginning that some complete output has",
                source="request",
                position=index,
            )
    if companion is not None:
        companion.confirm()
