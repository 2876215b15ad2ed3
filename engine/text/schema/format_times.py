"""Dates, times and durations of RFC 3339, with month lengths, leap years and leap seconds.

A second 60 exists only at 23:59:60 UTC, and in a date-time only at the end of June or December (RFC 3339,
5.7), so the offset fixes the local time. Leap seconds are served with offsets of whole quarters of an hour;
no place has had another since there are leap seconds, and all 2,879 offsets make a slow expression.
"""

from collections.abc import Iterable, Iterator

from engine.text.schema.format_parts import one_of

_YEAR = "[0-9]{4}"
_MONTH_DAY = one_of(
    [
        "(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])",
        "(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)",
        "02-(?:0[1-9]|1[0-9]|2[0-8])",
    ]
)
_FOURTHS = "(?:0[48]|[2468][048]|[13579][26])"  # two digits that four divides, but 00
_LEAP_YEAR = f"(?:[0-9]{{2}}{_FOURTHS}|(?:00|{_FOURTHS})00)"
DATE = f"(?:{_YEAR}-{_MONTH_DAY}|{_LEAP_YEAR}-02-29)"

_HOUR_MINUTE = "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_FRACTION = r"(?:\.[0-9]+)?"
_ORDINARY = rf"{_HOUR_MINUTE}:[0-5][0-9]{_FRACTION}(?:[Zz]|[+\-]{_HOUR_MINUTE})"


def _zones() -> Iterator[tuple[str, int]]:
    """The offsets of served leap seconds, as written and in minutes east of UTC."""
    yield from [("[Zz]", 0), (r"[+\-]00:00", 0)]
    for offset in range(15, 24 * 60, 15):
        written = f"{offset // 60:02}:{offset % 60:02}"
        yield from [(rf"\+{written}", offset), (f"-{written}", -offset)]


def _leap_seconds(zones: Iterable[tuple[str, int]]) -> str:
    """The local times of 23:59:60 UTC, each with its offset."""
    hours: dict[str, dict[str, list[str]]] = {}
    for written, offset in zones:
        hour, minute = divmod((23 * 60 + 59 + offset) % (24 * 60), 60)
        hours.setdefault(f"{hour:02}", {}).setdefault(f"{minute:02}", []).append(written)
    return one_of(
        f"{hour}:{one_of(f'{minute}:60{_FRACTION}{one_of(written)}' for minute, written in minutes.items())}"
        for hour, minutes in hours.items()
    )


_SAME_DAY = _leap_seconds(zone for zone in _zones() if zone[1] <= 0)  # the local day is the day in UTC
_NEXT_DAY = _leap_seconds(zone for zone in _zones() if zone[1] > 0)
TIME = one_of([_ORDINARY, _leap_seconds(_zones())])
DATE_TIME = one_of(
    [
        f"{DATE}[Tt]{_ORDINARY}",
        f"{_YEAR}-(?:06-30|12-31)[Tt]{_SAME_DAY}",
        f"{_YEAR}-(?:07-01|01-01)[Tt]{_NEXT_DAY}",
    ]
)

_SECONDS = "[0-9]+S"
_MINUTES = f"[0-9]+M(?:{_SECONDS})?"
_HOURS = f"[0-9]+H(?:{_MINUTES})?"
_TIME_PART = f"T{one_of([_HOURS, _MINUTES, _SECONDS])}"
_DAYS = "[0-9]+D"
_MONTHS = f"[0-9]+M(?:{_DAYS})?"
_YEARS = f"[0-9]+Y(?:{_MONTHS})?"
_DATE_PART = f"{one_of([_DAYS, _MONTHS, _YEARS])}(?:{_TIME_PART})?"
DURATION = f"P{one_of([_DATE_PART, _TIME_PART, '[0-9]+W'])}"
