"""The marks of the Qwen output language, one place for template, grammar, decoder and reader (models 7.3).

THINK_*, TOOL_*, RESULT_* and TURN_* are ids of the vocabulary, never recognised by their spelling; all else
is text. One call is TOOL_OPEN, `<function=NAME>` on a line, for each argument the lines `<parameter=KEY>`,
VALUE and `</parameter>`, then the line `</function>` and TOOL_CLOSE. The next call follows after a line feed.
"""

import attrs

from engine.errors import RequestError
from engine.text.vocabulary import Vocabulary

THINK_OPEN, THINK_CLOSE = "<think>", "</think>"
TOOL_OPEN, TOOL_CLOSE = "<tool_call>", "</tool_call>"
RESULT_OPEN, RESULT_CLOSE = "<tool_response>", "</tool_response>"
TURN_OPEN, TURN_CLOSE = "<|im_start|>", "<|im_end|>"

SEPARATOR = "\n\n"  # stands between the end of thinking and the content, as bytes
REASONING_END = "\n"  # directly before the close id it is framing, not reasoning
BETWEEN_CALLS = "\n"
FUNCTION_OPEN, NAME_END, FUNCTION_CLOSE = "\n<function=", ">\n", "</function>\n"
PARAMETER_OPEN, PARAMETER_CLOSE = "<parameter=", "\n</parameter>\n"
VALUE_END = "\n</parameter>"  # ends every value and cannot occur in one
NOT_IN_NAMES = "<>\r\n"  # what no name of a tool or of an argument may hold


def is_name(text: str) -> bool:
    """Whether a tool or an argument can be called so in this format."""
    return bool(text) and not any(mark in text for mark in NOT_IN_NAMES)


@attrs.frozen
class OutputIds:
    """The ids that steer the output; None where a vocabulary lacks the token, so that nothing is ever it."""

    think_close: int | None
    tool_open: int | None
    tool_close: int | None

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> "OutputIds":
        """Look the control tokens of a vocabulary up by their spelling."""
        return cls(*(_control_id(vocabulary, mark) for mark in (THINK_CLOSE, TOOL_OPEN, TOOL_CLOSE)))


def _control_id(vocabulary: Vocabulary, spelling: str) -> int | None:
    try:
        return vocabulary.control_id(spelling)
    except RequestError:
        return None
