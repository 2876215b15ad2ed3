"""Model directories that do not tell one vocabulary: each an error with file, place, found and allowed."""

import json

import pytest

from engine.errors import RequestError, VocabularyFileError
from engine.frontend.vocabulary_files import load_vocabulary
from engine.text.vocabulary import TokenClass
from property_tests import model_directories as made

pytest.importorskip("tokenizers")
pytest.importorskip("sentencepiece")


def refused(directory):
    with pytest.raises(VocabularyFileError) as caught:
        load_vocabulary(directory)
    error = caught.value
    assert isinstance(error, RequestError)
    assert error.source == "request"
    assert error.file
    assert error.found
    assert error.allowed
    assert str(directory.parent) not in str(error)  # a place in the files, not on this machine
    return error


def changed(directory, change):
    """A byte-level directory whose tokenizer.json has been changed in place."""
    made.byte_level(directory)
    content = json.loads(made.byte_level_text())
    change(content)
    made.write(directory, tokenizer=content)
    return directory


# --- the files ----------------------------------------------------------------------------------------


def test_a_directory_that_is_not_there(tmp_path):
    assert "no such directory" in refused(tmp_path / "absent").message


def test_a_directory_without_a_file_of_tokens_names_the_allowed_ones(tmp_path):
    made.write(tmp_path, config={"vocab_size": 3})
    error = refused(tmp_path)
    assert "no file holds the tokens" in error.message
    assert "tokenizer.json" in error.allowed


def test_two_files_that_could_hold_the_tokens(tmp_path):
    made.rank_directory(tmp_path)
    made.pieces(tmp_path, "bpe")
    assert refused(tmp_path).found == "tiny.tiktoken, tokenizer.model"


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b"\xff\xfe", b'{"model": {"type": "BPE"}}'])
def test_a_broken_tokenizer_file(data, tmp_path):
    (tmp_path / "tokenizer.json").write_bytes(data)
    assert refused(tmp_path).file == "tokenizer.json"


def test_a_broken_piece_file(tmp_path):
    (tmp_path / "tokenizer.model").write_bytes(b"\n\x07not so much")
    assert refused(tmp_path).file == "tokenizer.model"


@pytest.mark.parametrize("line", [b"YQ==", b"YQ== x", b"Y 3", b"Y*Q== 3", b"=YQ= 3", b"YQ== 3 4", b"garbage"])
def test_a_broken_line_of_ranks(line, tmp_path):
    made.rank_directory(tmp_path)
    (tmp_path / "tiny.tiktoken").write_bytes(b"".join(made.rank_lines()[:2]) + line)
    error = refused(tmp_path)
    assert (error.file, error.location.line) == ("tiny.tiktoken", 3)


@pytest.mark.parametrize("name", ["config", "generation_config", "tokenizer_config", "added_tokens"])
@pytest.mark.parametrize("text", ["", "{", "[]", "null"])
def test_a_broken_file_of_settings(name, text, tmp_path):
    made.byte_level(tmp_path)
    (tmp_path / f"{name}.json").write_text(text, encoding="utf-8")
    assert refused(tmp_path).file == f"{name}.json"


@pytest.mark.parametrize(
    ("file", "content", "pointer"),
    [
        ("config", {"vocab_size": "many"}, "/vocab_size"),
        ("config", {"text_config": [1]}, "/text_config"),
        ("generation_config", {"eos_token_id": "300"}, "/eos_token_id"),
        ("generation_config", {"eos_token_id": [300, True]}, "/eos_token_id"),
        ("tokenizer_config", {"added_tokens_decoder": []}, None),
        ("tokenizer_config", {"added_tokens_decoder": {"x": "<a>"}}, "/added_tokens_decoder/x"),
        (
            "tokenizer_config",
            {"added_tokens_decoder": {"304": {"special": True}}},
            "/added_tokens_decoder/304",
        ),
        ("added_tokens", {"<a/b>": "304"}, "/<a~1b>"),
    ],
)
def test_settings_of_another_type(file, content, pointer, tmp_path):
    made.byte_level(tmp_path)
    made.write(tmp_path, **{file: content})
    error = refused(tmp_path)
    assert error.file == f"{file}.json"
    assert pointer is None or error.pointer == pointer


# --- ids ----------------------------------------------------------------------------------------------


@pytest.mark.clause("VOC-1")
def test_a_hole_in_the_ids(tmp_path):
    made.rank_directory(tmp_path)
    lines = made.rank_lines()
    (tmp_path / "tiny.tiktoken").write_bytes(b"".join(lines[:200] + lines[201:]))
    error = refused(tmp_path)
    assert "hole" in error.message
    assert error.location.index == 200


@pytest.mark.clause("VOC-1")
def test_two_tokens_of_the_model_with_one_number(tmp_path):
    def change(content):
        content["model"]["vocab"]["zz"] = 5

    error = refused(changed(tmp_path, change))
    assert "one number" in error.message
    assert "'zz'" in error.found


@pytest.mark.clause("VOC-1")
def test_two_ranks_with_one_number(tmp_path):
    made.rank_directory(tmp_path)
    (tmp_path / "tiny.tiktoken").write_bytes(b"".join(made.rank_lines()) + b"enp6 17\n")
    error = refused(tmp_path)
    assert "b'zzz'" in error.found
    assert error.location.line == len(made.ranks()) + 1


@pytest.mark.clause("VOC-1")
@pytest.mark.parametrize("number", [7, 303, 500])
def test_an_added_token_whose_number_the_library_would_change_silently(number, tmp_path):
    def change(content):
        content["added_tokens"][2]["id"] = number

    assert refused(changed(tmp_path, change)).pointer == "/added_tokens/2/id"


@pytest.mark.clause("VOC-1")
@pytest.mark.parametrize("kind", ["byte-level", "ranks", "pieces bpe"])
def test_an_added_token_beside_the_file_with_a_number_that_is_taken(kind, tmp_path):
    made.directory_of(kind, tmp_path)
    made.write(tmp_path, added_tokens={"<mine>": 9})
    error = refused(tmp_path)
    assert (error.file, error.pointer) == ("added_tokens.json", "/<mine>")


# --- completion ids and width -------------------------------------------------------------------------


@pytest.mark.clause("VOC-5")
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"generation_config": {"eos_token_id": [300, 304]}}, "not in the vocabulary"),
        ({"generation_config": {"eos_token_id": -1}}, "not in the vocabulary"),
        ({"generation_config": {"eos_token_id": 44}}, "ordinary text"),
        ({"tokenizer_config": {"eos_token": "</s>"}}, "not in the vocabulary"),
        ({"tokenizer_config": {"eos_token": {"content": "a"}}}, "not in the vocabulary"),
        ({"generation_config": {}, "config": {"vocab_size": 304}}, "no file names a completion id"),
    ],
)
def test_completion_ids_that_are_none(settings, words, tmp_path):
    made.byte_level(tmp_path)
    made.write(tmp_path, **settings)
    assert words in refused(tmp_path).message


@pytest.mark.clause("VOC-5")
def test_completion_ids_are_those_of_the_first_configuration_and_the_tokenizers_own(tmp_path):
    made.byte_level(tmp_path)
    made.write(tmp_path, tokenizer_config={"eos_token": "<|turn|>"})
    assert load_vocabulary(tmp_path).eos_ids == (300, 302)
    made.write(tmp_path, generation_config={"eos_token_id": None}, tokenizer_config={"eos_token": None})
    assert load_vocabulary(tmp_path).eos_ids == (302,)  # config.json, in its text part
    made.write(tmp_path, tokenizer_config={"eos_token": "<|image|>", "pad_token": "<|image|>"})
    assert load_vocabulary(tmp_path).eos_ids == (301, 302)  # also where another file closes it


@pytest.mark.clause("VOC-5")
def test_a_piece_files_own_end_gives_way_to_that_of_a_configuration(tmp_path):
    made.pieces(tmp_path, "bpe")
    assert load_vocabulary(tmp_path).eos_ids == (2,)
    made.write(tmp_path, generation_config={"eos_token_id": 4})
    vocabulary = load_vocabulary(tmp_path)
    assert vocabulary.eos_ids == (4,)
    assert vocabulary.classes[2] is TokenClass.CONTROL


@pytest.mark.clause("VOC-1")
def test_logits_narrower_than_the_vocabulary(tmp_path):
    made.byte_level(tmp_path)
    made.write(tmp_path, config={"vocab_size": 303})
    error = refused(tmp_path)
    assert (error.file, error.pointer, error.found, error.allowed) == (
        "config.json",
        "/vocab_size",
        "303",
        ">= 304",
    )


# --- what a token is ----------------------------------------------------------------------------------


@pytest.mark.clause("VOC-2")
def test_a_token_that_stands_for_no_bytes(tmp_path):
    def change(content):
        vocab = content["model"]["vocab"]
        spelling = next(spelling for spelling, number in vocab.items() if number == 290)
        content["model"]["merges"] = []
        del vocab[spelling]
        vocab["中"] = 290

    error = refused(changed(tmp_path, change))
    assert "'中' with number 290" in error.found


@pytest.mark.clause("VOC-2")
@pytest.mark.parametrize(
    ("path", "value", "pointer"),
    [
        (("decoder",), None, "/decoder"),
        (("decoder",), {"type": "WordPiece", "prefix": "##", "cleanup": True}, "/decoder"),
        (("decoder",), {"type": "Strip", "content": " ", "start": 1, "stop": 0}, "/decoder"),
        (("decoder",), {"type": "Replace", "pattern": {"Regex": "x+"}, "content": ""}, "/decoder"),
        (
            ("decoder",),
            {"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "BPEDecoder", "suffix": "</w>"}]},
            "/decoder/decoders/1",
        ),
        (("model", "end_of_word_suffix"), "</w>", "/model/end_of_word_suffix"),
        (("model", "unk_token"), "[?]", "/model/unk_token"),
        (("model",), {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}, "/model/type"),
    ],
)
def test_a_kind_of_tokenizer_that_is_not_served(path, value, pointer, tmp_path):
    def change(content):
        *outer, last = path
        for key in outer:
            content = content[key]
        content[last] = value

    assert refused(changed(tmp_path, change)).pointer == pointer


@pytest.mark.clause("VOC-7")
def test_an_added_token_that_is_not_special_is_text_only_where_the_model_has_it(tmp_path):
    def change(content):
        number = content["model"]["vocab"]["he"]
        own = {"id": number, "content": "he", "special": False, "normalized": False}
        flags = {"single_word": False, "lstrip": False, "rstrip": False}
        content["added_tokens"].insert(0, own | flags)

    vocabulary = load_vocabulary(changed(tmp_path, change))
    number = json.loads(made.byte_level_text())["model"]["vocab"]["he"]
    assert vocabulary.classes[number] is TokenClass.TEXT
    assert vocabulary.classes[303] is TokenClass.CONTROL
