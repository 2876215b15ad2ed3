"""Events add up to the final result, joined or not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.frontend.events import (
    CallArguments,
    CallEnd,
    CallStart,
    Collector,
    Content,
    Finish,
    Reasoning,
    merged,
)
from engine.request import FinishReason, ToolCall

PIECES = st.lists(st.sampled_from(["", "a", "é"]), max_size=4)


def collected(events):
    collector = Collector()
    collector.add(events)
    return collector.reasoning, collector.content, collector.calls


@pytest.mark.clause("STREAM-1", "TOOL-29", "TOOL-32")
@given(PIECES, PIECES, PIECES, st.booleans())
def test_joined_events_say_the_same(thoughts, words, fragments, is_cut):
    calls = [CallArguments(0, piece) for piece in fragments]
    arguments = "".join(fragments)
    end = [] if is_cut else [CallEnd(0, ToolCall("f", arguments))]
    events = [*map(Reasoning, thoughts), *map(Content, words), CallStart(0, "f"), *calls, *end]
    events.append(Finish(FinishReason.LENGTH if is_cut else FinishReason.COMPLETED))
    made = () if is_cut else (ToolCall("f", arguments),)
    assert collected(events) == collected(merged(events)) == ("".join(thoughts), "".join(words), made)
    assert len(merged(events)) <= 5 + (not is_cut)


def test_fragments_of_two_calls_are_not_joined():
    events = (CallArguments(0, "a"), CallArguments(1, "b"))
    assert merged(events) == events
