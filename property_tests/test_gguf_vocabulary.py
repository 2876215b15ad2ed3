"""Vocabularies and encoders from GGUF metadata: bytes against the library, classes by token types."""

import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.errors import MissingDependency, VocabularyFileError
from engine.frontend.gguf_vocabulary import gguf_tokenizer, gguf_vocabulary
from engine.text.vocabulary import TokenClass
from property_tests import model_directories as made
from property_tests.gguf_words import tokens_metadata

tokenizers = pytest.importorskip("tokenizers")
METADATA = tokens_metadata()
TEXTS = st.text(
    st.one_of(st.sampled_from(" \n\té́😀👩‍👧中ab{<>'123½"), st.characters(exclude_categories=("Cs",))),
    max_size=24,
)
SPECIALS = ("<|end|>", "<|image|>", "<|turn|>", "<think>")
PREFIX = "tokenizer.ggml."
END = METADATA[PREFIX + "eos_token_id"]
SIZE = len(METADATA[PREFIX + "tokens"])


def _ids(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False).ids


@pytest.mark.clause("VOC-2", "VOC-3")
@pytest.mark.parametrize("cut", ["gpt-2", "smollm"])
@given(text=TEXTS)
@example("  two leading spaces")
@example("�\0 e\u0301 \u202e\ufeff")
def test_the_bytes_of_the_ids_of_a_text_are_the_text(cut, text):
    vocabulary = gguf_vocabulary(METADATA, "tiny.gguf")
    tokenizer = gguf_tokenizer(METADATA | {PREFIX + "pre": cut}, "tiny.gguf")
    ids = _ids(tokenizer, text)
    assert b"".join(vocabulary.token_bytes[i] for i in ids) == text.encode()
    assert all(vocabulary.classes[i] is TokenClass.TEXT for i in ids)
    assert tokenizer.decode(ids) == text


@given(text=TEXTS)
@example("<|turn|>a <think>b<|end|>")
def test_the_encoder_is_the_one_that_the_file_was_made_of(text):
    """Its special tokens are spelled as text, the user's own token is read."""
    theirs = tokenizers.Tokenizer.from_str(made.byte_level_text())
    theirs.encode_special_tokens = True
    assert _ids(gguf_tokenizer(METADATA, "tiny.gguf"), text) == _ids(theirs, text)


def test_a_byte_without_a_token_is_the_unknown_token_never_nothing():
    tokens = [token if token != "Ġ" else "zqz" for token in METADATA[PREFIX + "tokens"]]
    merges = [merge for merge in METADATA[PREFIX + "merges"] if "Ġ" not in merge]
    poor = METADATA | {PREFIX + "tokens": tokens, PREFIX + "merges": merges}
    with pytest.raises(VocabularyFileError, match="1 bytes without a token, the least 0x20"):
        gguf_tokenizer(poor, "tiny.gguf")
    tokenizer = gguf_tokenizer(poor | {PREFIX + "unknown_token_id": END}, "tiny.gguf")
    assert _ids(tokenizer, "a b") == [tokens.index("a"), END, tokens.index("b")]


def test_digits_are_cut_one_by_one_where_the_file_says_so():
    metadata = METADATA | {
        PREFIX + "tokens": ["1", "2", "Ġ", "12", "Ġ1", "<?>"],
        PREFIX + "token_type": [1, 1, 1, 1, 1, 2],
        PREFIX + "unknown_token_id": 5,
        PREFIX + "merges": ["Ġ 1", "1 2"],
    }
    for cut, wanted in (("gpt-2", ["12", "Ġ1", "2"]), ("smollm", ["1", "2", "Ġ", "1", "2"])):
        tokenizer = gguf_tokenizer(metadata | {PREFIX + "pre": cut}, "tiny.gguf")
        assert tokenizer.encode("12 12").tokens == wanted


@pytest.mark.clause("VOC-5", "VOC-6", "VOC-7")
def test_classes_follow_the_types_and_roles():
    tokens, vocabulary = METADATA[PREFIX + "tokens"], gguf_vocabulary(METADATA, "tiny.gguf")
    end, image, turn, think = (tokens.index(spelling) for spelling in SPECIALS)
    assert vocabulary.eos_ids == (end,)
    assert vocabulary.ids_of(TokenClass.CONTROL) == (turn,)
    assert vocabulary.ids_of(TokenClass.UNGENERABLE) == (image,)
    assert (vocabulary.classes[think], vocabulary.token_bytes[think]) == (TokenClass.TEXT, b"<think>")
    assert vocabulary.size == vocabulary.logits_width == len(tokens)
    roles = {PREFIX + "eot_token_id": turn, PREFIX + "unknown_token_id": end, PREFIX + "bos_token_id": 0}
    other = gguf_vocabulary(
        METADATA | roles | {"general.architecture": "llama", "llama.vocab_size": 320}, "tiny.gguf"
    )
    assert other.eos_ids == tuple(sorted((end, turn)))
    assert other.ids_of(TokenClass.CONTROL) == ()
    assert other.logits_width == 320


def test_unused_and_unknown_types_are_never_generated():
    types = list(METADATA[PREFIX + "token_type"])
    types[5], types[6] = 2, 5
    vocabulary = gguf_vocabulary(METADATA | {PREFIX + "token_type": types}, "tiny.gguf")
    assert set(vocabulary.ids_of(TokenClass.UNGENERABLE)) >= {5, 6}


REFUSED = [
    ({"model": "llama"}, "model"),
    ({"tokens": []}, "token_type"),
    ({"token_type": [1]}, "token_type"),
    ({"token_type": [6] * SIZE}, "token_type"),
    ({"tokens": ["a"] * SIZE}, "tokens"),
    ({"tokens": ["中", *METADATA[PREFIX + "tokens"][1:]]}, "tokens"),
    ({"eos_token_id": SIZE}, "eos_token_id"),
    ({"eos_token_id": "2"}, "eos_token_id"),
    ({"eos_token_id": 5}, "eos_token_id"),
    ({"eos_token_id": None}, "eos_token_id"),
]


@pytest.mark.parametrize(("change", "key"), REFUSED)
def test_what_is_not_told_is_refused_by_its_key(change, key):
    changed = METADATA | {PREFIX + name: value for name, value in change.items()}
    changed = {name: value for name, value in changed.items() if value is not None}
    with pytest.raises(VocabularyFileError) as caught:
        gguf_vocabulary(changed, "tiny.gguf")
    assert (caught.value.pointer, caught.value.file) == (f"/{PREFIX}{key}", "tiny.gguf")


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"pre": "llama-bpe"}, "pre"),
        ({"pre": None}, "pre"),
        ({"add_bos_token": True}, "add_bos_token"),
        ({"merges": ["zz top"]}, "merges"),
        ({"merges": ["a b c"]}, "merges"),
    ],
)
def test_what_is_not_encoded_exactly_is_refused(change, key):
    changed = METADATA | {PREFIX + name: value for name, value in change.items()}
    with pytest.raises(VocabularyFileError) as caught:
        gguf_tokenizer(changed, "tiny.gguf")
    assert caught.value.pointer == f"/{PREFIX}{key}"


def test_without_the_library_only_the_encoder_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert gguf_vocabulary(METADATA, "tiny.gguf").size == SIZE
    with pytest.raises(MissingDependency, match="tokenizers"):
        gguf_tokenizer(METADATA, "tiny.gguf")
