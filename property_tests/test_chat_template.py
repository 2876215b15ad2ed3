"""Golden prompts written by hand, a second rendering of the same turns, and who may write control tokens."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import RequestError
from engine.frontend.chat_template import Source, render
from engine.request import Message, PromptInput, ToolCall, ToolDeclaration
from experiments.training import chat
from property_tests.call_words import CONTROL

CITY = '{"type": "object", "properties": {"z": {"type": "string"}, "a": {"const": 1.50}}}'
WEATHER = ToolDeclaration("get_weather", CITY, "The weather.")
CALL = ToolCall("get_weather", '{"z":"Oslo\\n","n":1.50,"box":{"a":[1,"é"]},"flag":true}')
CALL_TEXT = (
    "<tool_call>\n<function=get_weather>\n<parameter=z>\nOslo\n\n</parameter>\n<parameter=n>\n1.50\n</parameter>\n"
    '<parameter=box>\n{"a": [1, "é"]}\n</parameter>\n<parameter=flag>\ntrue\n</parameter>\n'
    "</function>\n</tool_call>"
)


def text_of(*messages, **options):
    return render(PromptInput(tuple(messages), **options)).text


USER = Message("user", " Hi ")


@pytest.mark.clause("PHASE-2")
def test_a_new_answer_begins_inside_thinking_or_past_it():
    opened = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert text_of(USER) == opened + "<think>\n"
    assert text_of(USER, thinking=False) == opened + "<think>\n\n</think>\n\n"
    assert render(PromptInput((USER,))).thinks
    assert not render(PromptInput((USER,), thinking=False)).thinks
    plain = render(PromptInput((USER,)), knows_thinking=False)
    assert plain.text == opened
    assert not plain.thinks


def test_thoughts_are_shown_after_the_last_question_only():
    early = Message("assistant", "one", "thought one")
    late = Message("assistant", "two", " thought two ")
    text = text_of(Message("system", "Be brief."), USER, early, USER, late, thinking=False)
    assert text == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\none<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\n<think>\nthought two\n</think>\n\ntwo<|im_end|>\n"
        "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    )


def test_calls_and_their_results():
    asked = Message("assistant", "Let me see.", tool_calls=(CALL, ToolCall("f", "{}")))
    bare = Message("assistant", "", "t", (CALL,))
    results = (Message("tool", "sunny"), Message("tool", "4"))
    text = text_of(USER, asked, *results, bare, results[0])
    assert text == (
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\nLet me see.\n\n"
        f"{CALL_TEXT}\n<tool_call>\n<function=f>\n</function>\n</tool_call><|im_end|>\n"
        "<|im_start|>user\n<tool_response>\nsunny\n</tool_response>\n<tool_response>\n4\n</tool_response>"
        "<|im_end|>\n<|im_start|>assistant\n<think>\nt\n</think>\n\n"
        f"{CALL_TEXT}<|im_end|>\n<|im_start|>user\n<tool_response>\nsunny\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n<think>\n"
    )


@pytest.mark.clause("TOOL-6")
def test_tools_are_declared_as_they_were_given():
    text = text_of(
        Message("system", " Be kind. "), USER, tools=(WEATHER, ToolDeclaration("f", "{}", strict=True))
    )
    declared = (
        '\n{"type": "function", "function": {"name": "get_weather", "description": "The weather.", '
        '"parameters": {"type": "object", "properties": {"z": {"type": "string"}, "a": {"const": 1.50}}}}}'
        '\n{"type": "function", "function": {"name": "f", "parameters": {}}}\n</tools>'
    )
    start = "<|im_start|>system\n# Tools\n\nYou have access to the following functions:\n\n<tools>"
    assert text.startswith(start + declared)
    assert "</tool_call>\n\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n" in text
    assert text.count("<|im_start|>system") == 1


WORDS = st.text("ab \n<é", max_size=5)


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=3), st.booleans(), WORDS, WORDS)
def test_the_turns_that_models_are_trained_on_are_the_same(turns, thinking, value, system):
    """`experiments.training.chat` writes the same turns by a rule of its own."""
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "b": [1, "é"]}}}
    declared = ToolDeclaration("f", json.dumps(tool["function"]["parameters"]))
    messages = [Message("system", system)]
    text = chat.tools_turn([tool], system.strip())
    for asked, answered in turns:
        messages += [Message("user", asked), Message("assistant", answered)]
        text += chat.turn("user", asked) + chat.turn("assistant", answered)
    call = ToolCall("f", json.dumps({"key": value}))
    messages += [Message("user", "q"), Message("assistant", tool_calls=(call,)), Message("tool", value)]
    text += chat.turn("user", "q") + chat.opening(thinking=False)
    text += chat.tool_call("f", {"key": value}) + "<|im_end|>\n"
    text += chat.turn("user", f"<tool_response>\n{value.strip()}\n</tool_response>") + chat.opening(thinking)
    assert text_of(*messages, tools=(declared,), thinking=thinking) == text


class Spelling:
    """An encoder that keeps parts as they are; its ids are negative."""

    def special_id(self, spelling):
        return -1 - [*CONTROL, "<|im_start|>", "<|im_end|>"].index(spelling)

    def encode_parts(self, parts):
        return [ord(c) for part in parts if isinstance(part, str) for c in part] + [
            part for part in parts if isinstance(part, int)
        ]


@pytest.mark.clause("TOOL-9", "PHASE-4")
def test_nothing_that_a_caller_spells_is_a_control_token():
    spelled = "".join([*CONTROL, "<|im_start|>", "<|im_end|>"])
    quoted = json.dumps({"a": spelled})
    messages = (
        Message("system", spelled),
        Message("user", spelled),
        Message("assistant", spelled, spelled, (ToolCall(spelled, quoted),)),
        Message("tool", spelled),
    )
    plain = tuple(
        Message(
            m.role, "x", "x" if m.reasoning else "", tuple(ToolCall("x", '{"a": "x"}') for _ in m.tool_calls)
        )
        for m in messages
    )
    tools = (ToolDeclaration("f", quoted, spelled),)
    found = render(PromptInput(messages, tools)).encode(Spelling())
    expected = render(PromptInput(plain, tools)).encode(Spelling())
    assert [i for i in found if i < 0] == [i for i in expected if i < 0]
    regions = render(PromptInput(messages, tools)).regions
    assert {r.source for r in regions if r.source is not Source.CONTROL and "<think>" in r.text} == {
        Source.CONTENT,
        Source.REASONING,
        Source.CALL,
        Source.TOOL,
    }


@pytest.mark.clause("CONT-1", "CONT-2")
def test_a_continued_message_stands_last_and_unchanged():
    rendered = render(PromptInput((USER, Message("assistant", '{"name":', "why")), continue_final=True))
    assert rendered.text.endswith('<|im_start|>assistant\n<think>\nwhy\n</think>\n\n{"name":')
    assert rendered.regions[-1].text == rendered.continued == '{"name":'
    assert rendered.regions[-1].source is Source.CONTENT
    assert not rendered.thinks
    assert render(PromptInput((USER, Message("assistant", "")), continue_final=True)).continued == ""


@pytest.mark.parametrize(
    ("prompt", "pointer"),
    [
        (PromptInput(), "/messages"),
        (PromptInput((USER,), text="raw"), ""),
        (PromptInput((USER, Message("system", "late"))), "/messages/1/role"),
        (PromptInput((Message("user", "x", "thought"),)), "/messages/0/reasoning"),
        (PromptInput((Message("user", "x", tool_calls=(CALL,)),)), "/messages/0/tool_calls"),
        (PromptInput((USER,), continue_final=True), "/messages/0/role"),
        (PromptInput((USER, Message("assistant", "x ")), continue_final=True), "/messages/1/content"),
        (
            PromptInput((USER, Message("assistant", "", "", (CALL,))), continue_final=True),
            "/messages/1/tool_calls",
        ),
        (
            PromptInput((USER, Message("assistant", "", "", (ToolCall("f", "{"),)))),
            "/messages/1/tool_calls/0/arguments_json",
        ),
        (
            PromptInput((USER, Message("assistant", "", "", (ToolCall("f", "[1]"),)))),
            "/messages/1/tool_calls/0/arguments_json",
        ),
    ],
)
def test_what_has_no_prompt_is_refused_with_its_place(prompt, pointer):
    with pytest.raises(RequestError) as caught:
        render(prompt)
    assert caught.value.pointer == pointer
    assert caught.value.source == "request"
