"""A model directory's token domain, from its own files (VOC-1, VOC-2, VOC-5 to VOC-7).

Tokens: tokenizer.json, or one tiktoken rank file, or one SentencePiece file; vocabulary_settings reads what
stands beside them. Classes follow the files' flags, never a spelling: an added token that is special, or has
a number that no token of the model has, is a control id; the unknown and padding tokens, unused pieces and
the ids of images, video and sound are never generated. Files that do not tell, or that contradict one
another, are an error.
"""

from collections.abc import Mapping
from pathlib import Path

from engine.errors import Location
from engine.frontend.token_files import (
    AddedToken,
    Named,
    Token,
    TokenFile,
    fault,
    read_rank_file,
    read_sentencepiece_file,
    read_tokenizer_file,
)
from engine.frontend.vocabulary_settings import Settings, read_settings
from engine.text.vocabulary import TokenClass, Vocabulary

ALLOWED_FILES = "tokenizer.json, or one tiktoken rank file or SentencePiece file (*.tiktoken, *.model)"
EOS_PLACES = "eos_token_id in generation_config.json or config.json, or eos_token in tokenizer_config.json"
Tokens = Mapping[int, Token]


def load_vocabulary(directory: Path) -> Vocabulary:
    """The vocabulary of a model directory, under the directory's name.

    Raises VocabularyFileError for files that do not tell one vocabulary, and MissingDependency without the
    library that reads the tokens' file.
    """
    path = _token_path(directory)
    settings, read = read_settings(directory), read_token_file(path)
    tokens = with_added(read.tokens, (*read.added, *settings.added))
    eos_ids = _eos_ids(tokens, settings.eos or read.eos)
    _check_numbers(tokens, path.name)
    kinds = {i: token.kind for i, token in tokens.items()} | _never_generated(tokens, settings)
    kinds |= dict.fromkeys(eos_ids, TokenClass.EOS)
    return Vocabulary.build(
        directory.resolve().name,
        [tokens[i].data for i in range(len(tokens))],
        control={i: tokens[i].spelling for i, kind in kinds.items() if kind is TokenClass.CONTROL},
        eos_ids=eos_ids,
        ungenerable=[i for i, kind in kinds.items() if kind is TokenClass.UNGENERABLE],
        logits_width=_width(settings, len(tokens)),
    )


def _token_path(directory: Path) -> Path:
    """The one file that holds the tokens."""
    if not directory.is_dir():
        raise fault(directory.name, "there is no such directory", "nothing", "a model directory")
    if (directory / "tokenizer.json").is_file():
        return directory / "tokenizer.json"
    found = sorted([*directory.glob("*.tiktoken"), *directory.glob("*.model")])
    if len(found) != 1:
        message = "several files could hold the tokens" if found else "no file holds the tokens"
        raise fault(directory.name, message, ", ".join(f.name for f in found) or "none", ALLOWED_FILES)
    return found[0]


def read_token_file(path: Path) -> TokenFile:
    """What the file of tokens says, by its kind."""
    if path.name == "tokenizer.json":
        return read_tokenizer_file(path)
    with path.open("rb") as file:
        begins_as_protocol_buffer = file.read(1) == b"\n"  # a line of ranks begins with base64
    return read_sentencepiece_file(path) if begins_as_protocol_buffer else read_rank_file(path)


def with_added(tokens: Tokens, added: tuple[AddedToken, ...]) -> dict[int, Token]:
    """`tokens` with the added ones; those that stay text are tokens of the model and not special.

    Raises VocabularyFileError when one number has two spellings.
    """
    merged = dict(tokens)
    for one in added:
        known = merged.get(one.token_id)
        if known is not None and known.spelling != one.content:
            found = f"{known.spelling!r} and {one.content!r} at number {one.token_id}"
            raise fault(one.file, "two tokens have one number", found, "one token for each id", one.where)
        if known is None or (one.special and known.kind is TokenClass.TEXT):
            merged[one.token_id] = Token(one.content.encode(), one.content, TokenClass.CONTROL)
    return merged


def _check_numbers(tokens: Tokens, file: str) -> None:
    """Ids are 0, 1, 2, ... without a hole."""
    missing = next(i for i in range(len(tokens) + 1) if i not in tokens)
    if missing < len(tokens):
        found = f"no token {missing}, though the largest id is {max(tokens)}"
        raise fault(file, "the ids have a hole", found, "ids 0, 1, 2, ...", Location(index=missing))


def _eos_ids(tokens: Tokens, claims: tuple[Named, ...]) -> frozenset[int]:
    """The completion ids that the files name, at least one."""
    if not claims:
        raise fault("generation_config.json", "no file names a completion id", "none", EOS_PLACES)
    return frozenset(_completion_id(tokens, claim) for claim in claims)


def _completion_id(tokens: Tokens, claim: Named) -> int:
    special = {i: token.spelling for i, token in tokens.items() if token.kind is not TokenClass.TEXT}
    by_spelling = [i for i, spelling in special.items() if spelling == claim.token]
    token_id = claim.token if isinstance(claim.token, int) else next(iter(by_spelling), None)
    if token_id in special:
        return token_id
    is_text = token_id in tokens
    problem = "is ordinary text" if is_text else "is not in the vocabulary"
    allowed = "a special token: " + (_listed(special) or "the files name none")
    raise fault(claim.file, f"a completion id {problem}", repr(claim.token), allowed, claim.where)


def _listed(special: Mapping[int, str], most: int = 8) -> str:
    shown = [f"{i} {spelling}" for i, spelling in sorted(special.items())[:most]]
    return ", ".join([*shown, "..."] if len(special) > most else shown)


def _never_generated(tokens: Tokens, settings: Settings) -> dict[int, TokenClass]:
    """The ids of other media, and the padding token where it is a special one."""
    control = {i: token.spelling for i, token in tokens.items() if token.kind is TokenClass.CONTROL}
    padding = {i for i, spelling in control.items() if spelling == settings.padding}
    return dict.fromkeys(padding | (settings.media_ids & set(control)), TokenClass.UNGENERABLE)


def _width(settings: Settings, size: int) -> int:
    """The width of the logits: the configuration's, else as many as there are tokens."""
    if settings.logits_width is None:
        return size
    if settings.logits_width < size:
        found, where = str(settings.logits_width), Location(pointer="/vocab_size")
        raise fault("config.json", "the logits are narrower than the vocabulary", found, f">= {size}", where)
    return settings.logits_width
