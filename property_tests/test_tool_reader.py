"""Does the reader see in every stream what the oracle sees in the whole text?"""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.frontend.decoder import OutputDecoder, OutputForm
from engine.frontend.events import CallArguments, CallEnd, CallStart, Collector
from engine.frontend.tool_reader import MalformedCall, ToolReader
from engine.request import FinishReason, ToolCall
from experiments.schema_data import data_folder
from oracles.tool_text import NotCalls, read_calls, write_call, write_calls
from property_tests.call_words import (
    SCHEMAS,
    VOCABULARY,
    byte_ids,
    calls,
    calls_ids,
    contract,
    declaration,
)

CONTRACT = contract()
FORM = OutputForm(VOCABULARY, contract=CONTRACT)
MARK = "\n</parameter>"


def published(pieces, form=FORM, *, reason=FinishReason.COMPLETED):
    """All events of a stream of token lists, and the finished calls by adding them up."""
    decoder, collector = OutputDecoder(form), Collector()
    events = [event for piece in pieces for event in decoder.feed(piece)] + list(decoder.finish(reason))
    collector.add(events)
    assert collector.calls == tuple(event.call for event in events if isinstance(event, CallEnd))
    return events, collector


def pairs(found):
    """Calls as the oracle shows them."""
    return [(call.name, json.loads(call.arguments_json, object_pairs_hook=list)) for call in found]


def expected(text, declared=SCHEMAS, **options):
    """The oracle's calls with nested objects as pairs too."""
    read = read_calls(text, declared, **options)
    return [(name, [(key, _as_pairs(value)) for key, value in found]) for name, found in read]


def _as_pairs(value):
    return json.loads(json.dumps(value), object_pairs_hook=list)


def normal(found):
    """Pairs as JSON has them: tuples are lists."""
    return json.loads(json.dumps(found))


@pytest.mark.clause("TOOL-23", "TOOL-27", "TOOL-29", "TOOL-31")
@given(calls(), st.integers(0, 2**32))
def test_any_tokens_read_as_the_oracle_reads_the_text(made, seed):
    written = [write_call(*call) for call in made]
    rng = random.Random(seed)
    ids = calls_ids(written, rng)
    cuts = sorted(rng.choices(range(len(ids) + 1), k=4))
    pieces = [ids[low:high] for low, high in zip([0, *cuts], [*cuts, len(ids)], strict=True)]
    events, collector = published(pieces)
    text = write_calls(made)
    assert normal(pairs(collector.calls)) == normal(expected(text))
    starts = [event.name for event in events if isinstance(event, CallStart)]
    assert starts == [name for name, _ in made]
    assert collector.content == ""


@pytest.mark.clause("TOOL-29", "STREAM-1")
@given(calls(), st.integers(0, 2**32))
def test_every_cut_in_three_gives_the_same_calls(made, seed):
    ids = calls_ids([write_call(*call) for call in made[:1]], random.Random(seed))
    whole = published([ids])[1].calls
    each = published([[token_id] for token_id in ids])[1].calls
    assert each == whole
    for first in range(0, len(ids), max(1, len(ids) // 12)):
        for second in range(first, len(ids), max(1, len(ids) // 12)):
            assert published([ids[:first], ids[first:second], ids[second:]])[1].calls == whole


def test_every_cut_in_three_of_a_short_call():
    text = write_call("loose", {"city": 'é"\n', "days": "3"})
    ids = calls_ids([text])
    whole = published([ids])[1].calls
    assert whole == (ToolCall("loose", '{"city": "é\\"\\n", "days": 3}'),)
    for first in range(len(ids) + 1):
        for second in range(first, len(ids) + 1):
            assert published([ids[:first], ids[first:second], ids[second:]])[1].calls == whole


@pytest.mark.clause("TOOL-32", "STREAM-5")
def test_a_cut_at_any_byte_keeps_the_finished_calls():
    made = [
        ("strict", {"city": "é\n", "box": {"a": "</parameter>"}}),
        ("loose", {"any": " 1 "}),
        ("empty", {}),
    ]
    ids = calls_ids([write_call(*call) for call in made])
    done = 0
    for size in range(len(ids) + 1):
        events, collector = published([ids[:size]], reason=FinishReason.LENGTH)
        done += size > 0 and ids[size - 1] == 3
        assert len(collector.calls) == done
        assert collector.content == ""
        assert [event.index for event in events if isinstance(event, CallEnd)] == list(range(done))


@pytest.mark.clause("TOOL-32")
@given(calls())
def test_a_cut_text_reads_as_the_oracle_reads_it(made):
    text = "\n".join(write_call(*call) for call in made)
    ids = calls_ids([write_call(*call) for call in made])
    for size in {*range(0, len(ids) + 1, 97), *(len(ids) - back for back in range(14))}:
        marks = "".join(_spelled(token_id) for token_id in ids[:size])
        assert text.encode("utf-8").decode("latin-1").startswith(marks)
        whole = marks.encode("latin-1").decode(errors="ignore")
        collector = published([ids[:size]], reason=FinishReason.LENGTH)[1]
        assert normal(pairs(collector.calls)) == normal(expected(whole, cut=True))


def _spelled(token_id):
    return VOCABULARY.token_bytes[token_id].decode("latin-1")


@pytest.mark.clause("TOOL-30")
def test_strings_and_strict_json_flow_and_other_values_come_whole():
    decoder = OutputDecoder(FORM)
    decoder.feed(calls_ids([write_call("strict", {"city": "x"})]))
    decoder.feed(byte_ids("\n"))
    decoder.feed([2, *byte_ids("\n<function=strict>\n")])
    assert decoder.feed(byte_ids("<parameter=city>\n")) == (CallArguments(1, '{"city": "'),)
    assert decoder.feed(byte_ids('a"')) == (CallArguments(1, 'a\\"'),)
    assert decoder.feed(byte_ids("\n</para")) == ()
    assert decoder.feed(byte_ids("b")) == (CallArguments(1, "\\n</parab"),)
    assert decoder.feed(byte_ids(f"{MARK}\n<parameter=days>\n1")) == (CallArguments(1, '", "days": 1'),)
    assert decoder.feed(byte_ids("2")) == (CallArguments(1, "2"),)
    assert decoder.feed(byte_ids(f"{MARK}\n</function>\n")) == (CallArguments(1, "}"),)
    assert decoder.feed([3]) == (CallEnd(1, ToolCall("strict", _ARGUMENTS)),)
    loose = OutputDecoder(FORM)
    assert loose.feed([2, *byte_ids("\n<function=loose>\n<parameter=days>\n12")]) == (CallStart(0, "loose"),)
    assert loose.feed(byte_ids(f"3{MARK}")) == (CallArguments(0, '{"days": 123'),)


_ARGUMENTS = '{"city": "a\\"\\n</parab", "days": 12}'


@pytest.mark.clause("TOOL-33")
@pytest.mark.parametrize(
    "text",
    [
        "\n<function=undeclared>\n",
        "<function=loose>\n",
        "\n\n<function=loose>\n",
        "\n<function=loose>\n\n",
        "\n<function=loose >\n",
        "\n<function=>\n",
        "\n<function=loose>\n<parameter=>\n",
        "\n<function=loose>\n<parameter=a<b>\n",
        f"\n<function=loose>\n<parameter=a>\nx{MARK} \n",
        f"\n<function=loose>\n<parameter=a>\nx{MARK}\n<parameter=a>\n",
        "\n<function=loose>\n</function>\n ",
        f"\n<function=strict>\n<parameter=days>\n1{MARK}\n<parameter=city>\n",
        "\n<function=strict>\n<parameter=other>\n",
        "\n<function=strict>\n</function>\n",
    ],
)
def test_what_no_grammar_lets_through_is_an_internal_error(text):
    for cut in range(len(text) + 1):
        reader = ToolReader(CONTRACT)
        reader.open()
        with pytest.raises(MalformedCall):  # noqa: PT012 - the fault comes with the first or the second piece
            reader.feed(text[:cut])
            reader.feed(text[cut:])


@pytest.mark.clause("TOOL-33")
def test_calls_that_close_early_or_hold_no_json_are_internal_errors():
    for text in ("", "\n<function=loose>\n", "\n<function=loose>\n</function>"):
        reader = ToolReader(CONTRACT)
        reader.open()
        reader.feed(text)
        with pytest.raises(MalformedCall):
            reader.close()
    reader = ToolReader(CONTRACT)
    reader.open()
    body = f"<parameter=city>\nx{MARK}\n<parameter=days>\n1 2{MARK}\n"
    reader.feed(f"\n<function=strict>\n{body}</function>\n")
    with pytest.raises(MalformedCall):
        reader.close()
    with pytest.raises(MalformedCall):
        reader.open()


@given(
    st.lists(st.sampled_from(["\n", "<", ">", "a", "=", "</parameter>", "<parameter=a>", MARK]), max_size=9)
)
def test_bodies_of_any_shape_are_read_or_refused_as_the_oracle_does(parts):
    body = "".join(parts)
    text = f"<tool_call>\n<function=loose>\n{body}</function>\n</tool_call>"
    try:
        wanted = expected(text)
    except NotCalls:
        wanted = None
    ids = calls_ids([text])
    try:
        found = published([ids])[1].calls
    except MalformedCall:
        assert wanted is None
    else:
        assert wanted is not None
        assert normal(pairs(found)) == normal(wanted)


@pytest.mark.data
@pytest.mark.clause("TOOL-16")
@pytest.mark.skipif(not data_folder().exists(), reason="the real tools are not here (COUNTERPROOF_DATA)")
def test_real_calls_read_back_to_their_arguments():
    rng, num_calls = random.Random(5), 0
    for line in (data_folder() / "bfcl-tools.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        form = OutputForm(
            VOCABULARY, contract=contract({t["name"]: (t["parameters"], False) for t in row["tools"]})
        )
        named = [(call["name"], call["arguments"]) for call in row["calls"]]
        ids = calls_ids([write_call(*call) for call in named], rng)
        found = published([ids[:9], ids[9:]], form)[1].calls
        assert [(call.name, json.loads(call.arguments_json)) for call in found] == named
        num_calls += len(found)
    assert num_calls == 494


def test_five_hundred_tools_are_told_apart():
    schemas = {f"tool_{i}": ({"type": "object"}, False) for i in range(500)}
    form = OutputForm(VOCABULARY, contract=contract(schemas))
    assert [c.name for c in published([calls_ids([write_call("tool_499", {})])], form)[1].calls] == [
        "tool_499"
    ]
    assert declaration("f", {"type": "object"}).parameters == '{"type": "object"}'
