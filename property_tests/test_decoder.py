"""What is published of an output: by ids, without framing, in whole characters, the same however it comes."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import IntegrityError
from engine.frontend.decoder import OutputDecoder, OutputForm
from engine.frontend.events import CallEnd, CallStart, Collector, Content, Finish, Reasoning
from engine.frontend.framing import OutputIds
from engine.frontend.tokenizer import qwen3_5_vocabulary
from engine.request import Branch, FinishReason, ToolCall
from oracles.tool_text import write_call
from property_tests.call_words import (
    BY_BYTES,
    CONTROL,
    EOS,
    IDS,
    VOCABULARY,
    byte_ids,
    call_ids,
    calls,
    calls_ids,
    contract,
    random_ids,
)

CLOSE, OPEN_CALL, CLOSE_CALL = IDS["</think>"], IDS["<tool_call>"], IDS["</tool_call>"]
THINKING = OutputForm(VOCABULARY, starts_thinking=True)
TOOLS = contract()
AUTO = OutputForm(VOCABULARY, contract=TOOLS)
FREE = OutputForm(VOCABULARY, contract=TOOLS, is_enforced=False)
UNION = OutputForm(VOCABULARY, contract=TOOLS, has_constraint=True)
CALL = write_call("loose", {"city": "x"})
READ = ToolCall("loose", '{"city": "x"}')


def text_token(text):
    return BY_BYTES[text.encode()]


def published(ids, form, *, size=1, reason=FinishReason.COMPLETED):
    """The output of ids in pieces of some size: reasoning, content, calls, branch."""
    decoder, collector = OutputDecoder(form), Collector()
    for place in range(0, len(ids), size):
        collector.add(decoder.feed(ids[place : place + size]))
    events = decoder.finish(reason)
    assert events[-1] == Finish(reason)
    collector.add(events)
    return collector.reasoning, collector.content, collector.calls, decoder.branch


@pytest.mark.clause("PHASE-5", "PHASE-6", "PHASE-7")
@pytest.mark.parametrize(
    "separator", [["\n\n"], ["\n", "\n"], ["\n\nab"], ["\n", "\n", "ab"], ["\n\n\n"], ["\n", "\n\n"]]
)
def test_a_token_may_hold_the_end_of_the_separator_and_content(separator):
    ids = [*byte_ids("why\n\n"), CLOSE, *map(text_token, separator), *byte_ids(" c"), EOS]
    content = "".join(separator)[2:] + " c"
    for size in (1, 2, 3, len(ids)):
        assert published(ids, THINKING, size=size) == ("why\n", content, (), Branch.CONTENT)


@pytest.mark.clause("PHASE-4", "TOOL-9")
@pytest.mark.parametrize("mark", CONTROL)
def test_marks_in_ordinary_tokens_are_text(mark):
    twin = text_token(mark)
    for spelled in ([twin], byte_ids(mark)):
        ids = [*spelled, *byte_ids("x\n"), CLOSE, text_token("\n\n"), *spelled, EOS]
        assert published(ids, OutputForm(VOCABULARY, True, TOOLS)) == (f"{mark}x", mark, (), Branch.CONTENT)
    assert VOCABULARY.token_bytes[twin] == mark.encode()


@pytest.mark.clause("PHASE-6")
def test_control_tokens_are_never_published():
    others = [i for i in IDS.values() if i not in (CLOSE, OPEN_CALL)]
    ids = [
        *others,
        *byte_ids("r"),
        *others,
        OPEN_CALL,
        CLOSE,
        text_token("\n\n"),
        *byte_ids("c"),
        *others,
        EOS,
    ]
    assert published(ids, OutputForm(VOCABULARY, True, None)) == ("r", "c", (), Branch.CONTENT)
    assert published([OPEN_CALL, *byte_ids("c"), EOS], OutputForm(VOCABULARY))[1] == "c"


def test_characters_come_out_whole():
    decoder = OutputDecoder(OutputForm(VOCABULARY))
    data = [BY_BYTES[bytes([byte])] for byte in "é😀".encode()]
    assert [decoder.feed([i]) for i in data] == [(), (Content("é"),), (), (), (), (Content("😀"),)]
    decoder.feed(data[2:4])
    assert decoder.finish(FinishReason.LENGTH) == (Content("\ufffd"), Finish(FinishReason.LENGTH))


@pytest.mark.clause("PHASE-7", "STREAM-1")
@given(st.lists(st.sampled_from(["\n", "\n\n", "a", "é", " ", "</think>"]), max_size=6), st.integers(0, 99))
def test_reasoning_loses_one_line_break_before_its_end_and_nothing_else(parts, seed):
    text, rng = "".join(parts), random.Random(seed)
    ids = [*random_ids(text, rng), CLOSE, *random_ids("\n\n " + text, rng), EOS]
    for size in (1, 3, len(ids)):
        assert published(ids, THINKING, size=size)[:2] == (text.removesuffix("\n"), " " + text)
    cut = published(random_ids(text, rng), THINKING, reason=FinishReason.LENGTH)
    assert cut == (text, "", (), Branch.UNDECIDED)


@pytest.mark.clause("PHASE-5")
def test_another_separator_is_an_internal_error_or_content():
    for ids in ([text_token("a")], [text_token("\n"), text_token("a")], [text_token("\n"), OPEN_CALL]):
        with pytest.raises(IntegrityError):
            published([CLOSE, *ids], OutputForm(VOCABULARY, True, TOOLS))
    free = OutputForm(VOCABULARY, True, TOOLS, is_enforced=False)
    assert published([CLOSE, text_token("\n"), text_token("ab"), EOS], free)[1] == "ab"
    assert published([CLOSE, text_token("\n"), *call_ids(CALL), EOS], free)[2] == (READ,)


@pytest.mark.clause("TOOL-8", "TOOL-31")
@given(
    st.sampled_from(["", "é ", "a\n", "ab \n\n", " <tool_call>"]),
    calls(),
    st.integers(0, 999),
    st.integers(1, 9),
)
def test_content_then_calls_lose_only_the_space_between(text, made, seed, size):
    rng = random.Random(seed)
    ids = random_ids(text, rng) + calls_ids([write_call(*call) for call in made], rng) + [EOS]
    reasoning, content, found, branch = published(ids, AUTO, size=size)
    assert (reasoning, content, branch) == ("", text.rstrip(), Branch.TOOLS)
    assert [call.name for call in found] == [name for name, _ in made]
    assert published(ids, FREE, size=size) == (reasoning, content, found, branch)


def test_space_at_the_end_of_content_is_content():
    assert published([*byte_ids("a \n"), EOS], AUTO)[1] == "a \n"
    assert published(call_ids(CALL) + byte_ids("\n"), AUTO, reason=FinishReason.LENGTH)[1] == ""


@pytest.mark.clause("TOOL-13", "TOOL-14")
def test_the_first_content_token_decides_between_json_and_calls():
    text = json.dumps({"a": "<tool_call>\n<function=loose>"})
    for spelled in (byte_ids(text), random_ids(text, random.Random(1))):
        assert published([*spelled, EOS], UNION) == ("", text, (), Branch.CONTENT)
    assert published([*call_ids(CALL), EOS], UNION) == ("", "", (READ,), Branch.TOOLS)
    thinking = OutputForm(VOCABULARY, True, TOOLS, has_constraint=True)
    decoder = OutputDecoder(thinking)
    for token_id in (*byte_ids("{"), OPEN_CALL, CLOSE, text_token("\n"), text_token("\n")):
        decoder.feed([token_id])
        assert decoder.branch is Branch.UNDECIDED
    assert not decoder.is_thinking
    assert decoder.feed([text_token("1")]) == (Content("1"),)
    assert decoder.branch is Branch.CONTENT
    crossing = OutputDecoder(thinking)
    assert crossing.feed([CLOSE, text_token('\n\n{"')]) == (Content('{"'),)
    assert crossing.branch is Branch.CONTENT


@pytest.mark.clause("TOOL-33")
def test_a_malformed_call_is_an_error_or_content_as_it_was_written():
    wrong = CALL.replace("loose", "undeclared")
    ids = [*byte_ids("a \n"), *call_ids(wrong), EOS]
    with pytest.raises(IntegrityError):
        published(ids, AUTO)
    for size in (1, 7, len(ids)):
        content = f"a \n{wrong}".removesuffix("</tool_call>")
        assert published(ids, FREE, size=size) == ("", content, (), Branch.TOOLS)
    again = [OPEN_CALL, *byte_ids("\n<func"), *call_ids(CALL), EOS]
    assert published(again, FREE) == ("", "<tool_call>\n<func", (READ,), Branch.TOOLS)
    stopped = [OPEN_CALL, *byte_ids("\n<func"), EOS]
    assert published(stopped, FREE)[1:3] == ("<tool_call>\n<func", ())
    for late in (
        [*call_ids(CALL), *byte_ids("\nx")],
        [OPEN_CALL, EOS],
        [OPEN_CALL, OPEN_CALL],
        [OPEN_CALL, CLOSE_CALL],
    ):
        with pytest.raises(IntegrityError):
            published(late, AUTO)
    assert published([*call_ids(CALL), *byte_ids("\nx"), EOS], FREE)[1:3] == ("\nx", (READ,))


@pytest.mark.clause("TOOL-5")
def test_without_callable_tools_no_call_is_read():
    form = OutputForm(VOCABULARY, contract=contract(mode="none"), is_enforced=False)
    assert published([*byte_ids("a "), *call_ids(CALL), EOS], form)[2] == ()


@pytest.mark.clause("CONT-7", "CONT-4", "TOOL-35")
def test_of_a_continued_output_only_the_suffix_is_published():
    decoder = OutputDecoder(OutputForm(VOCABULARY, contract=TOOLS))
    decoder.resume([b"Hello \n"])
    assert decoder.branch is Branch.CONTENT
    assert decoder.feed(byte_ids("x")) == (Content("x"),)
    decoder = OutputDecoder(AUTO)
    inside = CALL.removeprefix("<tool_call>").removesuffix("</tool_call>").encode()
    decoder.resume([b"Hello", OPEN_CALL, inside[:40]])
    assert decoder.branch is Branch.TOOLS
    rest = decoder.feed([*(BY_BYTES[bytes([byte])] for byte in inside[40:]), CLOSE_CALL])
    assert rest[0] == CallStart(0, "loose")
    assert rest[-1] == CallEnd(0, READ)
    collector = Collector()
    collector.add(rest)
    assert (collector.content, collector.calls) == ("", (READ,))
    json_only = OutputDecoder(UNION)
    json_only.resume([b'{"a'])
    assert json_only.branch is Branch.CONTENT


@pytest.mark.clause("PHASE-1")
def test_ids_come_from_the_vocabulary():
    assert OutputIds.of(VOCABULARY) == OutputIds(1, 2, 3)
    assert OutputIds.of(qwen3_5_vocabulary()) == OutputIds(248_069, 248_058, 248_059)


def test_reasoning_and_content_are_told_apart_in_one_piece():
    decoder = OutputDecoder(THINKING)
    ids = [*byte_ids("r\n"), CLOSE, text_token("\n\n"), *byte_ids("c"), EOS]
    assert decoder.feed(ids) == (Reasoning("r"), Content("c"))
