"""The verdict: the one record every gate returns and every table, report and case file is made from.

A verdict says what was compared (`check` on `path`), how often (`n`), what the comparison could have seen
(`visible`) and what it saw (`worst_error`). No gate says PASS without saying what it would have seen.
"""

import enum
from collections.abc import Iterable, Sequence
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

    def __str__(self) -> str:
        return f"{self.text} {self.amount:.2g}" if self.amount and not _has_digit(self.text) else self.text


def _has_digit(text: str) -> bool:
    return any(character.isdigit() for character in text)


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


SEVERITY = (Status.SKIPPED, Status.PASS, Status.INCONCLUSIVE, Status.FAIL)


def worst_status(verdicts: Iterable[Verdict]) -> Status:
    """The worst status among `verdicts`; a pass outranks a skipped check."""
    return max((verdict.status for verdict in verdicts), key=SEVERITY.index)


def explanation(verdict: Verdict) -> str:
    """What a reader needs to see first about a verdict that is no pass."""
    parts = [verdict.reason or verdict.detail]
    case = verdict.case or {}
    parts += [str(case[name]) for name in ("what", "detail", "wrong") if case.get(name)]
    return "; ".join(dict.fromkeys(part for part in parts if part))


def merge_shards(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """One verdict per gate, path and check: shards of one piece of work are counted together.

    The worst shard gives status, case and reason; n and seconds are summed, details are joined.
    """
    groups: dict[tuple[str, str, str], list[Verdict]] = {}
    for verdict in verdicts:
        groups.setdefault((verdict.name, verdict.path, verdict.check), []).append(verdict)
    return [_merged(members) for members in groups.values()]


def _merged(members: Sequence[Verdict]) -> Verdict:
    worst = next(verdict for verdict in members if verdict.status is worst_status(members))
    return evolve(
        worst,
        n=sum(verdict.n for verdict in members),
        seconds=sum(verdict.seconds for verdict in members),
        worst_error=max(verdict.worst_error for verdict in members),
        detail="; ".join(dict.fromkeys(verdict.detail for verdict in members if verdict.detail)),
    )


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
