"""The token domain: raw bytes and an explicit class for every id (VOC-1 to VOC-7).

V = `size` is the one number every mask and operation uses; ids from V to `logits_width` are padding and
never legal. Classes are passed in, never guessed. A control or completion id is reached by its number only:
a core sees it under bytes that no UTF-8 text contains, so no byte rule, dot or negated class can match it.
Bytes enter unchanged: no display decoding, no normalisation, no replacement characters.
"""

import enum
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import attrs

from engine.errors import ErrorKind, Location, RequestError

UNREACHABLE_PREFIX = b"\xff"  # never a byte of UTF-8, so what follows can only be reached by id


class TokenClass(enum.IntEnum):
    """What an id is for: text, a control id, a completion id, or never generated at all."""

    TEXT = 0
    CONTROL = 1
    EOS = 2
    UNGENERABLE = 3


@attrs.frozen(eq=False)
class Vocabulary:
    """Raw bytes and class of every id below V; two vocabularies are equal iff their fingerprints are.

    `token_bytes` holds the bytes of TEXT ids and, for display only, the spelling of all others.
    """

    name: str
    token_bytes: tuple[bytes, ...]
    classes: tuple[TokenClass, ...]
    logits_width: int

    @classmethod
    def build(
        cls,
        name: str,
        tokens: Sequence[bytes],
        *,
        control: Mapping[int, str] | None = None,
        eos_ids: Iterable[int],
        ungenerable: Iterable[int] = (),
        logits_width: int | None = None,
    ) -> "Vocabulary":
        """Classify `tokens`; ids named nowhere are TEXT. The spelling of a control id comes from `control`.

        Raises RequestError for ids out of range or named twice, no EOS id, an empty TEXT token, or a
        logits width below V.
        """
        control = control or {}
        token_bytes, classes = list(tokens), [TokenClass.TEXT] * len(tokens)
        for token_id, token_class in _named_ids(control, tuple(eos_ids), tuple(ungenerable)):
            if not 0 <= token_id < len(tokens):
                raise _invalid("a named id is outside the vocabulary", token_id, f"0..{len(tokens) - 1}")
            if classes[token_id] is not TokenClass.TEXT:
                raise _invalid("an id is named in two classes", token_id, "one class for each id")
            classes[token_id] = token_class
        for token_id, spelling in control.items():
            token_bytes[token_id] = spelling.encode()
        width = len(tokens) if logits_width is None else logits_width
        vocabulary = cls(name, tuple(map(bytes, token_bytes)), tuple(classes), width)
        vocabulary._check()
        return vocabulary

    def _check(self) -> None:
        if self.logits_width < self.size:
            raise _invalid(
                "the logits are narrower than the vocabulary", self.logits_width, f">= {self.size}"
            )
        if not self.eos_ids:
            raise _invalid("a vocabulary needs a completion id", "no EOS id", "at least one EOS id")
        for token_id, (data, token_class) in enumerate(zip(self.token_bytes, self.classes, strict=True)):
            if token_class is TokenClass.TEXT and not data:
                raise _invalid("a text token has no bytes", token_id, "class it as ungenerable")

    @property
    def size(self) -> int:
        """V: the number of ids; every id at or past it is illegal."""
        return len(self.token_bytes)

    @property
    def num_words(self) -> int:
        """The number of int32 words of one packed mask row."""
        return (self.size + 31) // 32

    @cached_property
    def eos_ids(self) -> tuple[int, ...]:
        """All completion ids, ascending."""
        return self.ids_of(TokenClass.EOS)

    def ids_of(self, token_class: TokenClass) -> tuple[int, ...]:
        """All ids of one class, ascending."""
        return tuple(i for i, c in enumerate(self.classes) if c is token_class)

    def control_id(self, spelling: str) -> int:
        """The control id with this spelling; raises RequestError when there is none."""
        token_id = self._control_ids.get(spelling.encode())
        if token_id is None:
            known = ", ".join(s.decode(errors="backslashreplace") for s in self._control_ids)
            raise _invalid(f"vocabulary {self.name} has no such control token", spelling, known)
        return token_id

    @cached_property
    def _control_ids(self) -> dict[bytes, int]:
        return {self.token_bytes[i]: i for i in self.ids_of(TokenClass.CONTROL)}

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) over the width and every id's class and bytes; the name has no part in it."""
        digest = hashlib.sha256(b"vocabulary-1 %d %d\n" % (self.size, self.logits_width))
        digest.update(bytes(self.classes))
        digest.update(b",".join(b"%d" % len(data) for data in self.token_bytes))
        digest.update(b"".join(self.token_bytes))
        return digest.hexdigest()

    def core_bytes(self, token_id: int) -> bytes:
        """The bytes a matching core knows an id by.

        TEXT: its own. CONTROL and EOS: an impossible byte and the spelling. UNGENERABLE: none.
        """
        token_class = self.classes[token_id]
        if token_class is TokenClass.TEXT:
            return self.token_bytes[token_id]
        if token_class is TokenClass.UNGENERABLE:
            return b""
        return UNREACHABLE_PREFIX + self.token_bytes[token_id]

    def render(self, token_id: int) -> str:
        """A readable one-line form: text as a Python literal (bytes when cut), others as `<id: spelling>`."""
        if not 0 <= token_id < self.size:
            return f"<{token_id}: padding>"
        data, token_class = self.token_bytes[token_id], self.classes[token_id]
        if token_class is not TokenClass.TEXT:
            return f"<{token_id}: {token_class.name.lower()} {data.decode(errors='backslashreplace')}>"
        try:
            return repr(data.decode())
        except UnicodeDecodeError:
            return repr(data)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"Vocabulary({self.name!r}, {self.size} ids, {self.fingerprint[:12]})"


def _named_ids(
    control: Mapping[int, str], eos_ids: tuple[int, ...], ungenerable: tuple[int, ...]
) -> list[tuple[int, TokenClass]]:
    return (
        [(i, TokenClass.CONTROL) for i in control]
        + [(i, TokenClass.EOS) for i in eos_ids]
        + [(i, TokenClass.UNGENERABLE) for i in ungenerable]
    )


def _invalid(message: str, found: object, allowed: str) -> RequestError:
    return RequestError(
        ErrorKind.INVALID_REQUEST, message, Location(), repr(found), allowed, source="request"
    )


TOY_ALPHABET = 'abcxyzé€😀 \n"\\{}[]():,.-+0123456789<>/'
TOY_MERGES: tuple[bytes, ...] = (
    *(b"ab", b"bc", b"abc", b"ca", b"aab", b"xy", b"12", b"127", b"7y", b"true", b"null", b"\n\n", b"\n\n\n"),
    *(b'",', b'":', b'{"', b'"}', b'","', b'["', b"}\n", b"a,b", b'a"', b'")', b"\\n", b"  ", b"0.", b"-1"),
    *("éa".encode(), "aé".encode(), b"\xe2\x82", b"\x82\xac", b"\xf0\x9f", b"\x98\x80", b"\xa9a", b"b\xc3"),
)
TOY_CONTROL = ("<think>", "</think>", "<call>", "</call>")


def toy_vocabulary(
    alphabet: str = TOY_ALPHABET,
    merges: Sequence[bytes] = TOY_MERGES,
    *,
    control: Sequence[str] = TOY_CONTROL,
    num_eos: int = 2,
    num_ungenerable: int = 2,
    num_padding: int = 5,
    name: str = "toy",
) -> Vocabulary:
    """A small vocabulary that is awkward on purpose.

    Every byte of `alphabet` is a token, so characters are cut in the middle; whole characters and `merges`
    come beside them; each control and EOS spelling also exists as an ordinary text token; special ids stand
    between text ids; the logits are wider than V. The default has 95 ids.
    """
    tokens = list(dict.fromkeys(bytes([b]) for b in alphabet.encode()))
    tokens += [c.encode() for c in alphabet if len(c.encode()) > 1]
    specials: dict[int, str] = {}
    for spelling in control:
        specials[len(tokens)] = spelling
        tokens += [spelling.encode()] * 2  # the id, then its spelled twin
    tokens += list(merges)
    eos_ids = range(len(tokens), len(tokens) + num_eos)
    tokens += [b"<eos%d>" % i for i in range(num_eos)] + [b"<eos%d>" % i for i in range(num_eos)]
    ungenerable = range(len(tokens), len(tokens) + num_ungenerable)
    tokens += [b"<image%d>" % i for i in range(num_ungenerable)]
    return Vocabulary.build(
        name,
        tokens,
        control=specials,
        eos_ids=eos_ids,
        ungenerable=ungenerable,
        logits_width=len(tokens) + num_padding,
    )
