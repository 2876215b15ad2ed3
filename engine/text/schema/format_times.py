"""Dates, times and durations of RFC 3339, with month lengths, leap years and leap seconds.

A second 60 exists only at 23:59:60 UTC, and in a date-time only at the end of June or December (RFC 3339,
5.7), so the offset fixes the local time. Leap seconds are served with offsets of whole quarters of an hour;
no place has had another since there are leap seconds, and all 2,879 offsets make a slow expression.
"""

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
_LEAP_HERE = f"23:59:60{_FRACTION}(?:[Zz]|\\+00:00)"  # no offset: the local day is the day in UTC


def _leap_seconds(sign: int) -> str:
    """Every local time of 23:59:60 UTC under offsets of one sign, with its offset (0 only as -00:00)."""
    by_hour: dict[int, list[str]] = {}
    sign_text = "-" if sign < 0 else r"\+"
    for offset in range(0 if sign < 0 else 15, 24 * 60, 15):
        hour, minute = divmod((23 * 60 + 59 + sign * offset) % (24 * 60), 60)
        zone = f"{sign_text}{offset // 60:02}:{offset % 60:02}"
        by_hour.setdefault(hour, []).append(f"{minute:02}:60{_FRACTION}{zone}")
    return one_of(f"{hour:02}:{one_of(times)}" for hour, times in sorted(by_hour.items()))


_LEAP_SAME_DAY = one_of([_LEAP_HERE, _leap_seconds(-1)])  # west of Greenwich it is earlier on the same day
_LEAP_NEXT_DAY = _leap_seconds(1)
TIME = one_of([_ORDINARY, _LEAP_SAME_DAY, _LEAP_NEXT_DAY])
DATE_TIME = one_of(
    [
        f"{DATE}[Tt]{_ORDINARY}",
        f"{_YEAR}-(?:06-30|12-31)[Tt]{_LEAP_SAME_DAY}",
        f"{_YEAR}-(?:07-01|01-01)[Tt]{_LEAP_NEXT_DAY}",
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
