"""The verdict on every instance of a case, and the record of one case on one engine.

A valid instance that the walk refuses is looked at again: in another member order, in the contract's
spellings, at a number out of the contract's range; what is left is a false refusal. An invalid instance must
be refused in every order that the search finds.
"""

import bisect
import enum
import json
import re
from collections.abc import Sequence

import numpy as np
from attrs import field, frozen

from experiments.schema_data import Case, Instance, parse
from experiments.schema_engines import Engine, Language, Refused
from experiments.schema_walk import (
    Budget,
    Encode,
    accepted_in_some_order,
    declared_order,
    out_of_range,
    rewritten,
    walk,
)

SECONDS = 3.0  # for one search
PUSHES_VALID, PUSHES_INVALID = 6000, 1500
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*')


class Kind(enum.StrEnum):
    """What became of an instance. Only the first is right; the six after it are the contract's own."""

    RIGHT = "right"
    ORDER = "member order"
    FLOAT = "integral float"
    DIGITS = "more than 17 digits"
    INT64 = "integer past int64"
    BINARY64 = "past binary64"
    PUNYCODE = "host name in punycode"
    REFUSED = "schema refused"
    CUT = "schema slow or died"
    UNDECIDED = "undecided"
    FALSE_REFUSAL = "false refusal"
    FALSE_ACCEPT = "false accept"
    REORDERED = "false accept, reordered"


FORGIVEN = (Kind.ORDER, Kind.FLOAT, Kind.DIGITS, Kind.INT64, Kind.BINARY64, Kind.PUNYCODE)
FALSE_ACCEPTS = (Kind.FALSE_ACCEPT, Kind.REORDERED)


@frozen
class Verdict:
    """One instance. `detail` shows where it was refused; `narrow`: mask and matcher disagreed there."""

    kind: Kind
    detail: str = ""
    narrow: bool = False


@frozen
class Refusal:
    """Why a schema was not taken."""

    kind: str
    reason: str
    pointer: str = ""
    message: str = ""


@frozen(eq=False)
class Result:
    """One case on one engine; `outcome` is compiled, refused, slow (the time guard) or died.

    `slowest_at`: the end of the text whose mask took the longest.
    """

    name: str
    group: str
    outcome: str
    verdicts: tuple[Verdict, ...]
    refusal: Refusal | None = None
    core: str = ""
    compile_seconds: float = float("nan")
    hit_seconds: float | None = None
    slowest_at: str = ""
    mask_seconds: np.ndarray = field(factory=lambda: np.zeros(0, np.float32))


@frozen
class Judge:
    """An engine with the encoder and the completion ids that its instances are walked with."""

    engine: Engine
    encode: Encode
    eos_ids: tuple[int, ...]

    def compile(self, case: Case) -> Language | Refusal:
        """The compiled schema, or why not."""
        try:
            return self.engine.compile(case)
        except Refused as refused:
            return Refusal(refused.kind, refused.reason, refused.pointer, refused.message)

    def judge(self, case: Case, language: Language) -> Result:
        """Walk every instance of a compiled case."""
        seconds: list[float] = []
        ranks = declared_order(json.loads(case.source))
        verdicts, walked = [], [0]
        for instance in case.instances:
            verdicts.append(self._verdict(case, language, instance, ranks, seconds))
            walked.append(len(seconds))
        return Result(
            case.name,
            case.group,
            "compiled",
            tuple(verdicts),
            core=language.core,
            compile_seconds=language.compile_seconds,
            hit_seconds=language.hit_seconds,
            slowest_at=self._place(case, walked, int(np.argmax(seconds))) if seconds else "",
            mask_seconds=np.array(seconds, np.float32),
        )

    def _place(self, case: Case, walked: Sequence[int], index: int) -> str:
        """The text in front of a mask; `walked` counts the masks before each instance and after all."""
        which = bisect.bisect_right(walked, index) - 1
        text = case.instances[which].text
        data = self.engine.vocabulary.token_bytes
        raw = b"".join(data[token_id] for token_id in self.encode(text)[: index - walked[which]])
        return raw.decode(errors="replace")[-60:]

    def _verdict(
        self,
        case: Case,
        language: Language,
        instance: Instance,
        ranks: dict[str, int],
        seconds: list[float],
    ) -> Verdict:
        token_ids = self.encode(instance.text)
        walked = walk(self.engine, language, token_ids, self.eos_ids, seconds)
        if walked.index is None:
            detail = "" if instance.valid else instance.text[:200]
            return Verdict(Kind.RIGHT if instance.valid else Kind.FALSE_ACCEPT, detail, walked.narrow)
        before, token = self._around(instance.text, token_ids, walked.index)
        detail = f"{before[-60:]}⟂{instance.text[len(before) :][:40]}"
        if not instance.valid:
            kind = self._of_invalid(language, instance, ranks)
            return Verdict(kind, detail if kind is not Kind.RIGHT else "", walked.narrow)
        if case.formats == "assert" and '"hostname"' in case.source and "xn--" in instance.text:
            return Verdict(Kind.PUNYCODE, detail, walked.narrow)  # the table of formats says so
        return Verdict(self._of_valid(language, instance, ranks, token), detail, walked.narrow)

    def _around(self, text: str, token_ids: Sequence[int], index: int) -> tuple[str, str]:
        """The text before the token that was refused, and the string or number that it is part of."""
        data = self.engine.vocabulary.token_bytes
        start = sum(len(data[token_id]) for token_id in token_ids[:index])
        end = start + (len(data[token_ids[index]]) if index < len(token_ids) else 0)
        raw = text.encode()
        first, last = (len(raw[:place].decode(errors="ignore")) for place in (start, end))
        hit = [m.group() for m in TOKEN.finditer(text) if m.start() <= last and m.end() >= first]
        return text[:first], hit[-1] if hit else ""

    def _of_invalid(self, language: Language, instance: Instance, ranks: dict[str, int]) -> Kind:
        budget = Budget(PUSHES_INVALID, SECONDS)
        if accepted_in_some_order(language, parse(instance.text), ranks, self.encode, budget):
            return Kind.REORDERED
        return Kind.RIGHT

    def _of_valid(self, language: Language, instance: Instance, ranks: dict[str, int], token: str) -> Kind:
        value, undecided = parse(instance.text), False
        for name, other in ((Kind.ORDER, value), *rewritten(value)):
            budget = Budget(PUSHES_VALID, SECONDS)
            if accepted_in_some_order(language, other, ranks, self.encode, budget):
                return Kind(name)
            undecided = undecided or budget.spent
        if not token.startswith('"') and token and (name := out_of_range(token)):
            return Kind(name)
        return Kind.UNDECIDED if undecided else Kind.FALSE_REFUSAL


def not_compiled(case: Case, outcome: str, refusal: Refusal, seconds: float = float("nan")) -> Result:
    """The record of a case that never came to a walk: refused, slow or died.

    That no value at all is valid is a statement about the schema: right without a valid instance, else wrong.
    """
    if refusal.kind == "unsatisfiable":
        wrong = Verdict(Kind.FALSE_REFUSAL, f"{refusal.pointer} {refusal.message}")
        verdicts = tuple(wrong if i.valid else Verdict(Kind.RIGHT) for i in case.instances)
    else:
        verdicts = (Verdict(Kind.REFUSED if outcome == "refused" else Kind.CUT),) * len(case.instances)
    return Result(case.name, case.group, outcome, verdicts, refusal, compile_seconds=seconds)
