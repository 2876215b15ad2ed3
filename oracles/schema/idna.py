"""IDNA2008 labels: which Unicode strings may stand in a host name (RFC 5890 to 5893).

The derived property of a code point is computed by the rules of RFC 5892 from the Unicode data at hand.
Python's data has no scripts and no joining types: scripts are read off the character names, joining types off
the presentation forms, which cover the letters of the rules concerned.
"""

import functools
import string
import unicodedata

_LETTER_DIGIT_HYPHEN = set(string.ascii_lowercase + string.digits + "-")
_PVALID = {0xDF, 0x3C2, 0x6FD, 0x6FE, 0xF0B, 0x3007}
_DISALLOWED = {0x640, 0x7FA, 0x302E, 0x302F, *range(0x3031, 0x3036), 0x303B}
_ARABIC_DIGITS = {chr(code) for code in range(0x660, 0x66A)}
_EXTENDED_DIGITS = {chr(code) for code in range(0x6F0, 0x6FA)}
_IGNORABLE_BLOCKS = ((0x20D0, 0x20FF), (0x1D100, 0x1D1FF), (0x1D200, 0x1D24F))
_OLD_JAMO = ((0x1100, 0x11FF), (0xA960, 0xA97F), (0xD7B0, 0xD7FF))
# Default_Ignorable_Code_Point among letters, digits and marks; the rest is out by its category.
_IGNORABLE = (
    (0x34F, 0x34F),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFFA0, 0xFFA0),
    (0xE0100, 0xE01EF),
)
_NON_JOINER, _JOINER = "\u200c", "\u200d"
_VIRAMA_CLASS = 9


def _within(character: str, ranges: tuple[tuple[int, int], ...]) -> bool:
    return any(low <= ord(character) <= high for low, high in ranges)


@functools.lru_cache(maxsize=65536)
def _is_pvalid(character: str) -> bool:
    """RFC 5892 section 3, for what no contextual rule governs."""
    code = ord(character)
    if code in _PVALID or character in _LETTER_DIGIT_HYPHEN:
        return True
    if code in _DISALLOWED or unicodedata.normalize("NFKC", _folded(character)) != character:
        return False
    if any(_within(character, ranges) for ranges in (_IGNORABLE_BLOCKS, _OLD_JAMO, _IGNORABLE)):
        return False
    return unicodedata.category(character) in ("Ll", "Lu", "Lo", "Nd", "Lm", "Mn", "Mc")


def _folded(character: str) -> str:
    return unicodedata.normalize("NFKC", character).casefold()


def _named(character: str, *scripts: str) -> bool:
    return unicodedata.name(character, "").startswith(scripts)


_HAN_MARKS = "\u3005\u3007\u3021\u3022\u3023\u3024\u3025\u3026\u3027\u3028\u3029\u3038\u3039\u303a\u303b"


def _is_kana_or_han(character: str) -> bool:
    return character in _HAN_MARKS or (
        character != "\u30fb"
        and _named(character, "HIRAGANA", "KATAKANA", "CJK UNIFIED", "CJK COMPATIBILITY")
    )


def _context_holds(label: str, at: int) -> bool | None:
    """RFC 5892 appendix A; None for a character that no contextual rule governs."""
    character = label[at]
    before, after = label[at - 1 : at] if at else "", label[at + 1 : at + 2]
    if character in (_NON_JOINER, _JOINER):
        if before and unicodedata.combining(before) == _VIRAMA_CLASS:
            return True
        return character == _NON_JOINER and _joins(label, at)
    if character == "\u00b7":
        return before == after == "l"
    if character == "\u0375":
        return bool(after) and _named(after, "GREEK")
    if character in "\u05f3\u05f4":
        return bool(before) and _named(before, "HEBREW")
    if character == "\u30fb":
        return any(map(_is_kana_or_han, label))
    if character in _ARABIC_DIGITS:
        return not set(label) & _EXTENDED_DIGITS
    if character in _EXTENDED_DIGITS:
        return not set(label) & _ARABIC_DIGITS
    return None


def _joins(label: str, at: int) -> bool:
    """A letter that joins on before, and one after; marks between them are skipped."""
    before = [one for one in label[:at] if unicodedata.category(one) not in ("Mn", "Me", "Cf")]
    after = [one for one in label[at + 1 :] if unicodedata.category(one) not in ("Mn", "Me", "Cf")]
    forms = _joining_forms()
    return (
        bool(before and after)
        and "initial" in forms.get(before[-1], ())
        and "final" in forms.get(after[0], ())
    )


@functools.cache
def _joining_forms() -> dict[str, set[str]]:
    """Read which Arabic letters have initial and final forms off their presentation forms."""
    found: dict[str, set[str]] = {}
    for code in [*range(0xFB50, 0xFE00), *range(0xFE70, 0xFF00)]:
        form, _, letter = unicodedata.decomposition(chr(code)).partition(" ")
        if letter and " " not in letter:
            found.setdefault(chr(int(letter, 16)), set()).add(form.strip("<>"))
    return found


def is_u_label(label: str) -> bool:
    """Whether the label is a valid U-label by its characters (RFC 5891 section 4.2); no lengths, no Bidi."""
    if not label or label[0] == "-" or label[-1] == "-" or label[2:4] == "--":
        return False
    if unicodedata.normalize("NFC", label) != label or unicodedata.category(label[0]).startswith("M"):
        return False
    for at, character in enumerate(label):
        holds = _context_holds(label, at)
        if not (_is_pvalid(character) if holds is None else holds):
            return False
    return True


def u_label(label: str) -> str | None:
    """Return the A-label of a valid U-label, or None."""
    return "xn--" + label.encode("punycode").decode("ascii") if is_u_label(label) else None


def is_a_label(label: str) -> bool:
    """Whether a label that begins with xn-- is the A-label of a valid U-label."""
    text = label_text(label)
    return not text.isascii() and is_u_label(text) and u_label(text) == label.lower()


def label_text(label: str) -> str:
    """Return what an A-label stands for; any other label, and an undecodable one, as it is."""
    if label[:4].lower() != "xn--":
        return label
    try:
        return label[4:].lower().encode("ascii").decode("punycode")
    except (UnicodeError, ValueError, OverflowError):
        return label


def is_bidi_domain(labels: list[str]) -> bool:
    """Whether the labels obey the Bidi rule of RFC 5893, which binds all once one is right-to-left."""
    right = any(unicodedata.bidirectional(one) in ("R", "AL", "AN") for label in labels for one in label)
    return not right or all(map(_obeys_bidi, labels))


def _obeys_bidi(label: str) -> bool:
    kinds = [unicodedata.bidirectional(one) for one in label]
    solid = [kind for kind in kinds if kind != "NSM"]
    if kinds[0] in ("R", "AL"):
        allowed = {"R", "AL", "AN", "EN", "ES", "CS", "ET", "ON", "BN", "NSM"}
        return (
            set(kinds) <= allowed and solid[-1] in ("R", "AL", "EN", "AN") and not {"EN", "AN"} <= set(kinds)
        )
    allowed = {"L", "EN", "ES", "CS", "ET", "ON", "BN", "NSM"}
    return kinds[0] == "L" and set(kinds) <= allowed and solid[-1] in ("L", "EN")
