"""Do the events of members rebuild the value that the whole text has, wherever the text is cut?"""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import IntegrityError
from engine.frontend.field_events import FieldReader, MemberCompleted, MemberStarted, StringDelta, released

NAMES = st.text('ab/~é😀"\\\n', max_size=3)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | NAMES
VALUES = st.recursive(
    LEAVES, lambda part: st.lists(part, max_size=3) | st.dictionaries(NAMES, part, max_size=3), max_leaves=8
)
CONTAINERS = {"{": dict, "[": list}


def read(text, cuts=()):
    """All events of a text that is cut at some places, and is complete."""
    reader, places = FieldReader(), [0, *sorted(cuts), len(text)]
    events = [e for low, high in pairwise(places) for e in reader.feed(text[low:high])]
    return events + list(reader.finish())


def rebuild(events):
    """The value that a client builds: containers from their members, strings from their pieces."""
    texts, root = {}, {}
    for event in events:
        if isinstance(event, MemberStarted):
            texts[event.pointer] = ""
            _put(root, event.pointer, CONTAINERS.get(event.opening, str)())
        elif isinstance(event, StringDelta):
            texts[event.pointer] += event.text
            _put(root, event.pointer, texts[event.pointer])
        elif isinstance(event, MemberCompleted) and event.json[0] not in '{["':
            _put(root, event.pointer, json.loads(event.json))
    return root[""]


def _put(root, pointer, value):
    holder, key = root, ""
    for token in pointer.split("/")[1:]:
        holder, key = holder[key], token.replace("~1", "/").replace("~0", "~")
        if isinstance(holder, list):
            key = int(key)
    if isinstance(holder, list) and key == len(holder):
        holder.append(value)
    else:
        holder[key] = value


def written(value, style):
    """A value as JSON in one of the styles that a text may have."""
    indent, ascii_only = style
    return json.dumps(value, indent=indent, ensure_ascii=ascii_only)


STYLES = st.tuples(st.sampled_from([None, 1]), st.booleans())


@pytest.mark.clause("STREAM-1", "STREAM-3")
@given(VALUES, STYLES, st.lists(st.integers(0, 200), max_size=5))
def test_replayed_events_are_the_value_of_the_whole_text(value, style, cuts):
    text = written(value, style)
    events = read(text, [cut for cut in cuts if cut <= len(text)])
    assert rebuild(events) == json.loads(text) == value
    assert rebuild(read(text, range(len(text)))) == value
    assert MemberCompleted("", text) in events


@pytest.mark.clause("STREAM-4", "STREAM-5")
@given(st.dictionaries(NAMES, VALUES, max_size=3), STYLES)
def test_after_any_cut_every_earlier_event_stays_true(value, style):
    text = written(value, style)
    whole, reader = read(text, range(len(text))), FieldReader()
    seen = []
    for size, character in enumerate(text, 1):
        seen += reader.feed(character)
        assert seen == whole[: len(seen)]
        for event in seen[-2:]:
            if isinstance(event, MemberCompleted):
                assert event.json in text[:size]
    members = {event.pointer: json.loads(event.json) for event in released(seen)}
    escaped = {"/" + name.replace("~", "~0").replace("/", "~1"): part for name, part in value.items()}
    assert members == escaped


@pytest.mark.clause("STREAM-5")
def test_what_is_cut_is_not_complete():
    for text in ("12", '{"a": 12', '{"a": "x', '{"a": {"b": 1', '{"a": tru', '{"a": [1, 2'):
        events = FieldReader().feed(text)
        assert not [e for e in events if isinstance(e, MemberCompleted) and e.pointer in ("", "/a")]


@pytest.mark.clause("STREAM-3")
def test_strings_come_in_pieces_and_escapes_whole():
    reader = FieldReader()
    assert reader.feed('{"a":') == (MemberStarted("", "{"),)
    assert reader.feed('"x') == (MemberStarted("/a", '"'), StringDelta("/a", "x"))
    assert reader.feed("y\\") == (StringDelta("/a", "y"),)
    assert reader.feed("n\\ud83d") == (StringDelta("/a", "\n"),)
    assert reader.feed("\\ude0") == ()
    assert reader.feed("0") == (StringDelta("/a", "😀"),)
    assert reader.feed('"') == (MemberCompleted("/a", '"xy\\n\\ud83d\\ude00"'),)


@pytest.mark.parametrize("text", ['{"a" 1', "{1", "[1}", '{"a":1]', "1 2", "{} {"])
def test_what_is_no_json_is_an_internal_error(text):
    with pytest.raises(IntegrityError):
        FieldReader().feed(text)
