"""The token domain that a GGUF file's metadata tells, and the encoder of texts into it (VOC-1, VOC-2, VOC-5).

Byte-level BPE only. Classes follow the file's token types and its numbered roles, never a spelling: control
tokens are control ids, unused and unknown ones are never generated, and the ends of text, turn and message
are completion ids. Bytes of a user-defined token are its spelling, of a normal one its byte-level reading.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from engine.errors import Location, VocabularyFileError
from engine.frontend.token_decoders import BYTE_LEVEL, byte_level
from engine.frontend.token_files import fault, library
from engine.text.vocabulary import TokenClass, Vocabulary

PREFIX = "tokenizer.ggml."
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED = 1, 2, 3, 4, 5  # token types that are served
CLASSES = {
    NORMAL: TokenClass.TEXT,
    UNKNOWN: TokenClass.UNGENERABLE,
    CONTROL: TokenClass.CONTROL,
    USER_DEFINED: TokenClass.TEXT,
    UNUSED: TokenClass.UNGENERABLE,
}
EOS_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")
NEVER_GENERATED_KEYS = ("unknown_token_id", "padding_token_id")  # where they are special tokens
DIGITS_APART = {"gpt-2": False, "smollm": True}  # how texts are cut before they are merged
Metadata = Mapping[str, Any]


def gguf_vocabulary(metadata: Metadata, file: str) -> Vocabulary:
    """The vocabulary of a file's metadata, under the file's name. Raises VocabularyFileError."""
    tokens, types = _tokens(metadata, file)
    classes = {i: CLASSES[kind] for i, kind in enumerate(types)}
    for token_id in _named(metadata, NEVER_GENERATED_KEYS, len(tokens), file):
        if classes[token_id] is TokenClass.CONTROL:
            classes[token_id] = TokenClass.UNGENERABLE
    eos_ids = _named(metadata, EOS_KEYS, len(tokens), file)
    if not eos_ids:
        raise _fault(file, "no key names a completion id", "none", ", ".join(EOS_KEYS), EOS_KEYS[0])
    for token_id in eos_ids:
        if classes[token_id] is TokenClass.TEXT:
            found = f"{token_id} {tokens[token_id]!r}"
            raise _fault(file, "a completion id is ordinary text", found, "a control token", EOS_KEYS[0])
    classes |= dict.fromkeys(eos_ids, TokenClass.EOS)
    return Vocabulary.build(
        file,
        [_data(i, tokens[i], kind, file) for i, kind in enumerate(types)],
        control={i: tokens[i] for i, kind in classes.items() if kind is TokenClass.CONTROL},
        eos_ids=eos_ids,
        ungenerable=[i for i, kind in classes.items() if kind is TokenClass.UNGENERABLE],
        logits_width=metadata.get(f"{metadata.get('general.architecture')}.vocab_size"),
    )


def gguf_tokenizer(metadata: Metadata, file: str) -> Any:
    """The file's encoder and decoder, a `tokenizers.Tokenizer`; a spelled control token is ordinary text.

    A byte without a token becomes the unknown token. Raises VocabularyFileError for what it does not encode
    exactly, MissingDependency without the library.
    """
    tokens, types = _tokens(metadata, file)
    tokenizers = library("tokenizers")
    cut = metadata.get(PREFIX + "pre")
    if cut not in DIGITS_APART:
        raise _fault(file, "this way to cut texts is not served", repr(cut), ", ".join(DIGITS_APART), "pre")
    for key in ("add_bos_token", "add_eos_token"):
        if metadata.get(PREFIX + key):
            raise _fault(file, "tokens that are added to every text are not served", "True", "False", key)
    unknown = _unknown(metadata, tokens, file)
    merges = [tuple(merge.split(" ")) for merge in metadata.get(PREFIX + "merges", ())]
    try:
        numbers = {token: i for i, token in enumerate(tokens)}
        model = tokenizers.models.BPE(vocab=numbers, merges=merges, unk_token=unknown)
    except Exception as error:  # the library raises nothing narrower
        raise _fault(file, "the library cannot read the merges", str(error), "pairs", "merges") from None
    tokenizer = tokenizers.Tokenizer(model)
    cutter = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    if DIGITS_APART[cut]:
        digits = tokenizers.pre_tokenizers.Digits(individual_digits=True)
        cutter = tokenizers.pre_tokenizers.Sequence([digits, cutter])
    tokenizer.pre_tokenizer, tokenizer.decoder = cutter, tokenizers.decoders.ByteLevel()
    whole = [tokens[i] for i, kind in enumerate(types) if kind == USER_DEFINED]
    tokenizer.add_tokens([tokenizers.AddedToken(token, normalized=False) for token in whole])
    return tokenizer


def _tokens(metadata: Metadata, file: str) -> tuple[Sequence[str], Sequence[int]]:
    """The spelling and the type of every id; without types all are normal."""
    model = metadata.get(PREFIX + "model")
    if model != "gpt2":
        raise _fault(file, "this kind of tokens is not served", repr(model), "'gpt2', byte-level", "model")
    tokens = metadata.get(PREFIX + "tokens", ())
    types = metadata.get(PREFIX + "token_type", [NORMAL] * len(tokens))
    if not tokens or len(types) != len(tokens):
        found = f"{len(tokens)} tokens, {len(types)} types"
        raise _fault(file, "tokens and types do not match", found, "one type for each token", "token_type")
    if len(set(tokens)) != len(tokens):
        twice = next(token for i, token in enumerate(tokens) if token in tokens[:i])
        raise _fault(file, "two ids have one spelling", repr(twice), "one id for each spelling", "tokens")
    for i, kind in enumerate(types):
        if kind not in CLASSES:
            allowed = ", ".join(map(str, CLASSES))
            raise _fault(file, "this type of token is not served", f"{kind} at {i}", allowed, "token_type")
    return tokens, types


def _unknown(metadata: Metadata, tokens: Sequence[str], file: str) -> str | None:
    """The token of bytes that have none of their own; without such bytes there may be none."""
    named = _named(metadata, ("unknown_token_id",), len(tokens), file)
    missing = BYTE_LEVEL.keys() - set(tokens)
    if missing and not named:
        found = f"{len(missing)} bytes without a token, the least {min(BYTE_LEVEL[m] for m in missing):#04x}"
        raise _fault(file, "texts would lose bytes", found, "an unknown token", "unknown_token_id")
    return tokens[named[0]] if named else None


def _data(token_id: int, spelling: str, kind: int, file: str) -> bytes:
    """The bytes that an id adds to the output; of one that is not text, its spelling."""
    data = byte_level(spelling) if kind == NORMAL else spelling.encode()
    if data is None:
        found, allowed = f"{spelling!r} with number {token_id}", "characters of the byte-level alphabet"
        raise _fault(file, "a token stands for no bytes", found, allowed, "tokens")
    return data


def _named(metadata: Metadata, keys: Sequence[str], size: int, file: str) -> list[int]:
    """The ids that these keys name, each once."""
    found = {key: metadata[PREFIX + key] for key in keys if PREFIX + key in metadata}
    for key, token_id in found.items():
        if not isinstance(token_id, int) or not 0 <= token_id < size:
            raise _fault(file, "a named id is no token", repr(token_id), f"0..{size - 1}", key)
    return sorted(set(found.values()))


def _fault(file: str, message: str, found: str, allowed: str, key: str) -> VocabularyFileError:
    return fault(file, message, found, allowed, Location(pointer=f"/{PREFIX}{key}"))
