"""Is a string valid under a JSON Schema format? Small parsers, each after the document that defines it.

RFC 3339 (times, durations), RFC 5321/6531 (email), RFC 1123 and 5890-5893 (host names), RFC 2673 and 4291
(addresses), RFC 3986/3987 (URIs), RFC 6570 (templates), RFC 6901 and the relative-pointer draft, RFC 9562
(UUIDs), ECMA-262 (regex). Everything is ASCII unless a format says otherwise; nothing is trimmed.
"""

from collections.abc import Callable

from oracles.schema import hosts, regex, uris
from oracles.schema.hosts import is_digits

_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_HEX = set("0123456789abcdefABCDEF")


def valid(name: str, text: str) -> bool | None:
    """Whether the text is valid under the format; None for a format no specification defines.

    Raises: regex.Unsupported for format "regex" on a property this oracle does not know.
    """
    check = FORMATS.get(name)
    return None if check is None else check(text)


def is_date(text: str) -> bool:
    """RFC 3339 full-date: four, two and two digits, a day the month has in that year."""
    parts = text.split("-")
    if [len(part) for part in parts] != [4, 2, 2] or not all(map(is_digits, parts)):
        return False
    year, month, day = (int(part) for part in parts)
    if not 1 <= month <= 12:
        return False
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 1 <= day <= _DAYS[month - 1] + (month == 2 and leap)


def is_time(text: str) -> bool:
    """RFC 3339 full-time; second 60 only where the offset makes it 23:59:60 UTC."""
    clock, shift = _clock_and_offset(text)
    if clock is None or shift is None:
        return False
    hour, minute, second = clock
    if hour > 23 or minute > 59 or second > 60:
        return False
    return second < 60 or (hour * 60 + minute - shift) % 1440 == 1439


def _clock_and_offset(text: str) -> tuple[tuple[int, int, int] | None, int | None]:
    head, rest = text[:8], text[8:]
    digits = head[:2], head[3:5], head[6:8]
    if len(head) < 8 or head[2] != ":" or head[5] != ":" or not all(map(is_digits, digits)):
        return None, None
    if rest.startswith("."):
        fraction = rest[1:]
        kept = fraction.lstrip("0123456789")
        if len(kept) == len(fraction):
            return None, None
        rest = kept
    hour, minute, second = (int(part) for part in digits)
    return (hour, minute, second), _offset(rest)


def _offset(text: str) -> int | None:
    """Read `Z` or a numeric offset as minutes ahead of UTC."""
    if text in ("Z", "z"):
        return 0
    if len(text) != 6 or text[0] not in "+-" or text[3] != ":" or not is_digits(text[1:3] + text[4:]):
        return None
    hours, minutes = int(text[1:3]), int(text[4:])
    if hours > 23 or minutes > 59:
        return None
    return (hours * 60 + minutes) * (1 if text[0] == "+" else -1)


def is_date_time(text: str) -> bool:
    """RFC 3339 date-time: a date, T or t, a time."""
    return text[10:11] in ("T", "t") and is_date(text[:10]) and is_time(text[11:])


def is_duration(text: str) -> bool:
    """RFC 3339 appendix A: weeks alone, or adjacent units, largest first, time units after T."""
    if not text.startswith("P"):
        return False
    date, mark, time = text[1:].partition("T")
    if date.endswith("W"):
        return not mark and is_digits(date[:-1])
    if mark and not _units(time, "HMS"):
        return False
    return _units(date, "YMD") if date else bool(mark)


def _units(text: str, order: str) -> bool:
    """Whether the text is number-unit pairs whose units stand side by side in `order`."""
    found, digits = "", ""
    for character in text:
        if is_digits(character):
            digits += character
        elif not digits:
            return False
        else:
            found, digits = found + character, ""
    return bool(found) and not digits and found in order


def is_uuid(text: str) -> bool:
    """RFC 9562: groups of 8, 4, 4, 4 and 12 hexadecimal digits."""
    groups = text.split("-")
    return [len(group) for group in groups] == [8, 4, 4, 4, 12] and set("".join(groups)) <= _HEX


def is_json_pointer(text: str) -> bool:
    """RFC 6901: empty, or a slash before every token; a tilde only in ~0 and ~1."""
    if text and not text.startswith("/"):
        return False
    return all(text[at + 1 : at + 2] in ("0", "1") for at, character in enumerate(text) if character == "~")


def is_relative_json_pointer(text: str) -> bool:
    """A number without leading zeros, then a pointer or a single #."""
    length = len(text) - len(text.lstrip("0123456789"))
    number, rest = text[:length], text[length:]
    if not number or (number[0] == "0" and number != "0"):
        return False
    return rest == "#" or is_json_pointer(rest)


FORMATS: dict[str, Callable[[str], bool]] = {
    "date-time": is_date_time,
    "date": is_date,
    "time": is_time,
    "duration": is_duration,
    "email": hosts.is_email,
    "idn-email": hosts.is_idn_email,
    "hostname": hosts.is_hostname,
    "idn-hostname": hosts.is_idn_hostname,
    "ipv4": hosts.is_ipv4,
    "ipv6": hosts.is_ipv6,
    "uri": uris.is_uri,
    "uri-reference": uris.is_uri_reference,
    "iri": uris.is_iri,
    "iri-reference": uris.is_iri_reference,
    "uri-template": uris.is_uri_template,
    "uuid": is_uuid,
    "json-pointer": is_json_pointer,
    "relative-json-pointer": is_relative_json_pointer,
    "regex": regex.is_pattern,
}
