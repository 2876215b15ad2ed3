"""The verdict: the one record every gate returns and every table, report and case file is made from.

A verdict says what was compared (`check` on `path`), how often (`n`), what the comparison could have seen
(`visible`) and what it saw (`worst_error`). No gate says PASS without saying what it would have seen.
"""

import enum
from typing import Any

from attrs import evolve, field, frozen
from attrs.validators import instance_of


class Status(enum.StrEnum):
    """How a check ended; only PASS and SKIPPED leave the run green."""

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    SKIPPED = "SKIPPED"


@frozen
class Visible:
    """The smallest discrepancy a check could have noticed: a number with the words that give it a unit."""

    text: str
    amount: float = 0.0


EVERY_DIFFERENCE = Visible("any difference", 0.0)


@frozen(kw_only=True)
class Verdict:
    """One check of one gate on one path.

    `seconds` is wall time, `worst_error` is in the unit `visible` names, `reason` is set for SKIPPED and
    INCONCLUSIVE, `case` is a JSON-ready record for `counterproof replay`, `series` are numbers for plots.
    """

    name: str
    path: str = "all"
    check: str
    status: Status = field(converter=Status)
    n: int = 0
    visible: Visible = field(default=EVERY_DIFFERENCE, validator=instance_of(Visible))
    worst_error: float = 0.0
    seconds: float = 0.0
    detail: str = ""
    reason: str = ""
    case: dict[str, Any] | None = None
    series: dict[str, Any] | None = None
    clauses: tuple[str, ...] = field(default=(), converter=tuple)

    @property
    def ok(self) -> bool:
        """True when this verdict leaves the run green."""
        return self.status in (Status.PASS, Status.SKIPPED)

    def timed(self, seconds: float) -> "Verdict":
        """The same verdict with its wall time in seconds."""
        return evolve(self, seconds=seconds)


def passed(name: str, check: str, **facts: Any) -> Verdict:
    """A PASS verdict; `facts` are the other fields of `Verdict`."""
    return Verdict(name=name, check=check, status=Status.PASS, **facts)


def failed(name: str, check: str, *, case: dict[str, Any], **facts: Any) -> Verdict:
    """A FAIL verdict; a failure always carries the case that shows it."""
    return Verdict(name=name, check=check, status=Status.FAIL, case=case, **facts)


def inconclusive(name: str, check: str, reason: str, **facts: Any) -> Verdict:
    """An INCONCLUSIVE verdict: the run held too little evidence, which fails too."""
    return Verdict(name=name, check=check, status=Status.INCONCLUSIVE, reason=reason, **facts)


def skipped(name: str, check: str, reason: str, **facts: Any) -> Verdict:
    """A SKIPPED verdict with the reason a reader needs to enable it."""
    return Verdict(name=name, check=check, status=Status.SKIPPED, reason=reason, **facts)
