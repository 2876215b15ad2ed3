"""Formats that name a host or a mailbox: hostname, idn-hostname, ipv4, ipv6, email, idn-email."""

import string
import unicodedata

from oracles.schema.idna import is_a_label, is_bidi_domain, label_text, u_label

_LETTER_DIGIT = set(string.ascii_letters + string.digits)
_HEX = set(string.hexdigits)
_ATOM = _LETTER_DIGIT | set("!#$%&'*+-/=?^_`{|}~")
MAX_LABEL = 63
MAX_NAME = 253
_FULL_STOPS = "\u3002\uff0e\uff61"


def is_digits(text: str) -> bool:
    """Whether the text is one or more ASCII digits."""
    return text.isascii() and text.isdigit()


def is_ldh_label(text: str) -> bool:
    """Letters, digits and hyphens, no hyphen at either end, at most 63 of them (RFC 1123 section 2.1)."""
    inside = set(text) <= _LETTER_DIGIT | {"-"}
    return 1 <= len(text) <= MAX_LABEL and inside and "-" not in (text[0], text[-1])


def is_hostname(text: str) -> bool:
    """RFC 1123 labels; one that begins with xn-- must be a true A-label (RFC 5890)."""
    labels = text.split(".")
    if len(text) > MAX_NAME or not all(map(is_ldh_label, labels)):
        return False
    return _are_true(labels)


def _are_true(labels: list[str]) -> bool:
    coded = [label for label in labels if label[:4].lower() == "xn--"]
    return all(map(is_a_label, coded)) and is_bidi_domain([label_text(label) for label in labels])


def is_idn_hostname(text: str) -> bool:
    """Labels of RFC 5890: plain ones, A-labels and U-labels; the lengths are those of the ASCII form."""
    for stop in _FULL_STOPS:
        text = text.replace(stop, ".")
    coded = [label if label.isascii() else u_label(label) for label in text.split(".")]
    labels = [label for label in coded if label is not None and is_ldh_label(label)]
    return len(labels) == len(coded) and len(".".join(labels)) <= MAX_NAME and _are_true(labels)


def is_ipv4(text: str) -> bool:
    """Four decimal numbers up to 255, no leading zeros (the dotted quad of RFC 2673)."""
    parts = text.split(".")
    return len(parts) == 4 and all(
        is_digits(part) and len(part) <= 3 and int(part) <= 255 and str(int(part)) == part for part in parts
    )


def is_ipv6(text: str) -> bool:
    """RFC 4291 section 2.2: eight groups, a dotted quad counting as the last two, at most one `::`."""
    if text.count("::") > 1 or ":::" in text:
        return False
    head, gap, tail = text.partition("::")
    groups = [half.split(":") if half else [] for half in (head, tail)]
    count = 0
    for place, part in enumerate(groups):
        for index, group in enumerate(part):
            last = index == len(part) - 1 and (place == 1 or not gap)
            if last and "." in group and is_ipv4(group):
                count += 2
            elif 1 <= len(group) <= 4 and set(group) <= _HEX:
                count += 1
            else:
                return False
    return count <= 7 if gap else count == 8


def is_email(text: str) -> bool:
    """RFC 5321 Mailbox: a dotted or quoted local part, and a domain or an address literal."""
    return _is_mailbox(text, international=False)


def is_idn_email(text: str) -> bool:
    """RFC 6531: the same with characters beyond ASCII in the atoms, the quoted text and the domain."""
    return _is_mailbox(text, international=True)


def _is_mailbox(text: str, international: bool) -> bool:
    quoted = text.startswith('"')
    split = _end_of_quote(text) if quoted else text.find("@")
    if split < 1 or text[split : split + 1] != "@":
        return False
    local, domain = text[:split], text[split + 1 :]
    right = _is_quoted(local, international) if quoted else _is_dotted(local, international)
    return right and _is_mail_domain(domain, international)


def _end_of_quote(text: str) -> int:
    """Return the index after the closing quote, or -1."""
    at = 1
    while at < len(text) and text[at] != '"':
        at += 2 if text[at] == "\\" else 1
    return at + 1 if at < len(text) else -1


def _is_quoted(text: str, international: bool) -> bool:
    after_backslash = False
    for character in text[1:-1]:
        if not (" " <= character <= "~" or (international and character > "\x7f" and not after_backslash)):
            return False
        after_backslash = character == "\\" and not after_backslash
    return not after_backslash


def _is_dotted(text: str, international: bool) -> bool:
    return all(
        atom and all(one in _ATOM or (international and one > "\x7f") for one in atom)
        for atom in text.split(".")
    )


def _is_mail_domain(text: str, international: bool) -> bool:
    if text.startswith("[") and text.endswith("]"):
        return _is_address_literal(text[1:-1])
    if international and not text.isascii():
        return is_idn_hostname(
            unicodedata.normalize("NFC", text)
        )  # the receiver may compose what came in pieces
    labels = text.split(".")
    return all(
        label and set(label) <= _LETTER_DIGIT | {"-"} and "-" not in (label[0], label[-1]) for label in labels
    )


def _is_address_literal(text: str) -> bool:
    """RFC 5321 section 4.1.3: an IPv4 quad, or a registered tag, of which there is one: IPv6."""
    tag, colon, rest = text.partition(":")
    return _is_mail_ipv6(rest) if colon and tag.lower() == "ipv6" else _is_mail_ipv4(text)


def _is_mail_ipv4(text: str) -> bool:
    """RFC 5321 has its own numbers: leading zeros may stand in them."""
    parts = text.split(".")
    return len(parts) == 4 and all(is_digits(part) and len(part) <= 3 and int(part) <= 255 for part in parts)


def _is_mail_ipv6(text: str) -> bool:
    """Reduce to the common form: a quad is two groups, and a gap stands for at least two."""
    head, colon, quad = text.rpartition(":")
    if "." in quad:
        if not _is_mail_ipv4(quad):
            return False
        text = head + colon + "0:0"
    if "::" not in text:
        return is_ipv6(text)
    return is_ipv6(text) and sum(1 for group in text.split(":") if group) <= 6
