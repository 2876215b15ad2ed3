"""Addresses and names of hosts, and mailboxes: RFC 1123, RFC 4291, RFC 5321.

A decimal octet is written without leading zeros everywhere: some readers take them for octal.
Labels that begin with `xn--` stand for Unicode text and are valid only under the tables of IDNA, which no
regular expression over their Punycode can check; no host name is served with one.
"""

from engine.text.schema.format_parts import one_of, optional

_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
IPV4 = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
_GROUP = "[0-9A-Fa-f]{1,4}"
_NUM_GROUPS = 8


def ipv6(most_beside_gap: int) -> str:
    """An address of eight groups, or of at most `most_beside_gap` groups around a `::`.

    The last two groups may be an IPv4 address. The part after the first i groups is built from the one after
    the first i + 1, so that reading it never has to guess where the gap will come.
    """
    rest = ""
    for num_read in reversed(range(1, _NUM_GROUPS)):
        ways = [f":{_GROUP}{rest}"]
        if num_read == _NUM_GROUPS - 2:
            ways.append(f":{IPV4}")
        if num_read <= most_beside_gap:
            ways.append(f"::{_at_most(most_beside_gap - num_read)}")
        rest = one_of(ways)
    return one_of([f"{_GROUP}{rest}", f"::{_at_most(most_beside_gap)}"])


def _at_most(num_groups: int) -> str:
    """From none to `num_groups` groups, an IPv4 address at the end counting as two."""
    ways = []
    if num_groups >= 1:
        ways.append(f"{_GROUP}(?::{_GROUP}){{0,{num_groups - 1}}}")
    if num_groups >= 2:
        ways.append(f"(?:{_GROUP}:){{0,{num_groups - 2}}}{IPV4}")
    return optional("|".join(ways)) if ways else ""


IPV6 = ipv6(most_beside_gap=7)

HOSTNAME_MAX_LENGTH = 253  # 255 octets on the wire: one length octet a label, and the root
_LABEL_MAX_LENGTH = 63
_LETTER_DIGIT = "[A-Za-z0-9]"


def _label_end(num_read: int) -> str:
    """What may follow the first characters of a label up to its end, the last being no hyphen."""
    return f"[A-Za-z0-9-]{{0,{_LABEL_MAX_LENGTH - num_read - 1}}}{_LETTER_DIGIT}"


def _label() -> str:
    """A label of letters, digits and inner hyphens that does not begin with `xn--` in any case."""
    third = one_of([f"[A-Za-z0-9]{optional(_label_end(3))}", f"-[A-Za-z0-9]{optional(_label_end(4))}"])
    second = one_of(
        [f"[A-MO-Za-mo-z0-9]{optional(_label_end(2))}", f"-{_label_end(2)}", f"[Nn]{optional(third)}"]
    )
    return one_of([f"[A-WYZa-wyz0-9]{optional(_label_end(1))}", f"[Xx]{optional(second)}"])


HOSTNAME = rf"{_label()}(?:\.{_label()})*"

_ATOM = r"[A-Za-z0-9!#$%&'*+/=?\^_`{|}~-]+"
_QUOTED = r'"(?:[ !#-\[\]-~]|\\[ -~])*"'
_SUB_DOMAIN = r"[A-Za-z0-9]+(?:-+[A-Za-z0-9]+)*"
_ADDRESS = rf"\[(?:{IPV4}|[Ii][Pp][Vv]6:{ipv6(most_beside_gap=6)})\]"
EMAIL = rf"(?:{_ATOM}(?:\.{_ATOM})*|{_QUOTED})@(?:{_SUB_DOMAIN}(?:\.{_SUB_DOMAIN})*|{_ADDRESS})"
