"""Does an output go on exactly where its prefix stops, and is a prefix refused that no output begins with?"""

import pytest

from engine.errors import DeadEnd, ErrorKind, RequestError
from engine.request import OutputConstraint, ToolDeclaration
from property_tests.tool_words import (
    EOS,
    IDS,
    TEXT_BYTES,
    accepts,
    call,
    language,
    legal,
    strict,
    take,
    tokens,
)

FREE = ToolDeclaration("go")
CALL = call("go", ("a", "b"))
OBJECT = OutputConstraint.json_object()


@pytest.mark.clause("CONT-1", "CONT-3", "CONT-4", "CONT-7", "TOOL-35")
@pytest.mark.parametrize(
    ("tools", "constraint", "text"),
    [
        ([], OBJECT, '{"a": [1, "é"]}'),
        ([], OutputConstraint.regex("(ab)*"), "abab"),
        ([], OutputConstraint.choice(["<tool_call>", "<to"]), "<tool_call>"),
        ([FREE], None, "a <tool_call"),
        ([FREE], OBJECT, '{"a": "<tool_call>"}'),
    ],
)
def test_a_prefix_and_the_rest_are_the_whole(tools, constraint, text):
    whole = language(tools, constraint)
    for size in range(len(text) + 1):
        found = language(tools, constraint, prefix=text[:size])
        assert found.key == whole.key and found.new_matcher().num_committed == 0
        matcher = found.new_matcher()
        for byte in text[size:].encode():
            token_id = TEXT_BYTES.index(bytes([byte]))
            assert token_id in legal(matcher)
            take(matcher, [token_id])
        assert EOS in legal(matcher)


@pytest.mark.clause("TOOL-35", "CONT-4", "TOOL-17")
def test_a_prefix_may_reach_into_the_first_call():
    begun = CALL[: -len("</function>\n</tool_call>")]
    for size in range(len("<tool_call>"), len(begun) + 1):
        found = language([FREE], prefix="a " + begun[:size])
        assert found.prefix[2] == IDS.tool_open
        assert accepts(found, CALL[size:])
    matcher = language([FREE], prefix=begun + "<parameter=a").new_matcher()
    assert not set(tokens(">")) & legal(matcher)
    union = language([FREE], OBJECT, prefix=begun)
    assert accepts(union, "</function>\n</tool_call>")


@pytest.mark.clause("TOOL-35")
@pytest.mark.parametrize("prefix", [CALL, "a" + CALL, CALL + "\n<tool_call>", "<tool_call><tool_call>"])
def test_a_completed_call_is_not_continued(prefix):
    with pytest.raises(RequestError) as error:
        language([FREE], prefix=prefix)
    assert error.value.kind is ErrorKind.INVALID_TOOL_CONSTRAINT and error.value.source == "request"


@pytest.mark.clause("CONT-6")
@pytest.mark.parametrize(
    ("tools", "constraint", "prefix"),
    [
        ([], OBJECT, '{"a": 1, "a"'),
        ([], OutputConstraint.regex("ab"), "ba"),
        ([FREE], None, "<tool_call>\n<function=put"),
        ([strict("get", {"n": {"type": "integer"}})], None, "<tool_call>\n<function=get>\n<parameter=n>\na"),
        ([FREE], OBJECT, "a"),
        ([FREE], None, "<tool_call>\n<function=go>\n<parameter=a>\n\n</parameter>\n<parameter=a>"),
    ],
)
def test_a_prefix_outside_the_language_is_refused(tools, constraint, prefix):
    with pytest.raises(DeadEnd) as error:
        language(tools, constraint, prefix=prefix)
    assert error.value.kind is ErrorKind.CONSTRAINT_DEAD_END and error.value.source == "request"
    assert 0 < error.value.position + 1 <= len(prefix)


@pytest.mark.clause("CONT-1")
def test_what_cannot_be_continued():
    with pytest.raises(RequestError):
        language([], OBJECT, thinking=True, prefix="{")
    with pytest.raises(RequestError) as error:
        language([FREE], prefix="€")
    assert "no token" in error.value.message
