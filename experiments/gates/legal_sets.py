"""Gate: is every bit of every mask right, for random grammars, regular expressions, choices, and chosen ones?

Each random source is compiled and walked on the core the engine chooses, and again on the other core
wherever that core takes it. A sweep stops at its first failure and shrinks it. A sweep that met too few of
the hard cases (cut characters, bad tails, recursion, empty languages) is inconclusive, which fails.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from experiments.gates import languages, mask_replay
from experiments.gates.fixed_checks import fixed_verdicts
from experiments.gates.languages import PlainVocabulary, Source
from experiments.gates.look_ahead import sweep_windows
from experiments.gates.mask_walk import Mismatch, Outcome, check
from experiments.gates.shrink import shrink
from experiments.gates.subjects import Subject, random_subjects
from experiments.verdict import Verdict, failed, inconclusive, passed

NAME = "legal sets"
Progress = Callable[[int, int], None]

# The least share, per source, of what a sweep has to have met.
FLOORS: Mapping[str, Mapping[str, float]] = {
    "grammars": {"recursive": 0.3, "nullable": 0.2, "empty": 0.01, "with token terminals": 0.02},
    "regexes": {"nullable": 0.1},
    "choices": {},
}
COMMON_FLOORS = {
    "tokens over several bytes open": 1.0,
    "tokens with a bad tail closed": 5.0,
    "positions inside a character": 0.1,
    "ends": 0.5,
    "dead ends": 0.005,
}
CLAUSES = ("GBNF-1", "MASK-1", "SERV-4", "SERV-19", "TEST2-4", "TEST2-7", "VOC-3", "VOC-4", "VOC-5", "VOC-6")


def gate(
    *,
    seed: int,
    num_grammars: int = 300,
    num_regexes: int = 300,
    num_choices: int = 300,
    num_windows: int = 600,
    shard: int = 0,
    shards: int = 1,
) -> list[Verdict]:
    """Run every sweep; a shard does its own part of the random sources, and the first the fixed ones too."""
    sizes = {"grammars": num_grammars, "regexes": num_regexes, "choices": num_choices}
    verdicts = [
        verdict
        for kind, n in sizes.items()
        for verdict in sweep(kind, -(-n // shards), seed * shards + shard)
    ]
    verdicts.append(sweep_windows(-(-num_windows // shards), seed * shards + shard))
    return verdicts if shard else verdicts + fixed_verdicts()


def sweep_grammars(
    n: int, seed: int, core: str | None = None, progress: Progress | None = None
) -> list[Verdict]:
    """Sweep random grammars; with `core` on that one alone."""
    return sweep("grammars", n, seed, core, progress)


def sweep_regexes(
    n: int, seed: int, core: str | None = None, progress: Progress | None = None
) -> list[Verdict]:
    """Sweep random regular expressions; with `core` on that one alone."""
    return sweep("regexes", n, seed, core, progress)


def sweep_choices(
    n: int, seed: int, core: str | None = None, progress: Progress | None = None
) -> list[Verdict]:
    """Sweep random lists of choices; with `core` on that one alone."""
    return sweep("choices", n, seed, core, progress)


def sweep(
    kind: str, n: int, seed: int, core: str | None = None, progress: Progress | None = None
) -> list[Verdict]:
    """Check `n` random sources of one kind: one verdict for the chosen core, one for the other cores."""
    chosen, other = _Tally(f"{kind}, chosen core"), _Tally(f"{kind}, the other cores")
    for index, (subject, source) in enumerate(random_subjects(kind, n, seed)):
        outcome = chosen.add(subject, source, core, index)
        chosen.counts.update(languages.features(source))
        if core is None and outcome.taken and outcome.mismatch is None:
            for name in other_cores(outcome.core, index):
                other.add(subject, source, name, index)
        if progress is not None:
            progress(index + 1, n)
        if chosen.case or other.case:
            break
    floors = {**COMMON_FLOORS, **FLOORS[kind]} if n >= 100 else {}
    verdicts = [chosen.verdict({"taken": 0.8 * n} | {name: share * n for name, share in floors.items()})]
    return verdicts if core else [*verdicts, other.verdict({"taken": 0.5 * n})]


def other_cores(name: str, index: int) -> list[str]:
    """Return the cores that source number `index`, on core `name`, is compared with."""
    other = "xgrammar" if name == "llguidance" else "llguidance"
    return [other, "xgrammar-dynamic"] if index % 4 == 0 else [other]


class _Tally:
    """What one sweep has seen on one core, and its first failure."""

    def __init__(self, check_name: str) -> None:
        self.check_name = check_name
        self.counts: Counter[str] = Counter()
        self.case: dict[str, Any] | None = None

    def add(self, subject: Subject, source: Source, core: str | None, seed: int) -> Outcome:
        outcome = check(subject, source, core=core, seed=seed)
        self.counts["sources"] += 1
        self.counts["taken"] += outcome.taken
        self.counts[f"on {outcome.core or 'none'}"] += 1
        self.counts.update(outcome.counts)
        if outcome.mismatch is not None:
            self.case = shrunk_case(subject.plain, source, outcome.mismatch, core, seed)
        return outcome

    def verdict(self, floors: Mapping[str, float]) -> Verdict:
        facts = {
            "n": self.counts["ids compared"],
            "detail": f"{self.counts['taken']} of {self.counts['sources']} sources, "
            f"{self.counts['prefixes']} prefixes",
            "series": {"counts": dict(sorted(self.counts.items()))},
            "clauses": CLAUSES,
        }
        if self.case is not None:
            return failed(NAME, self.check_name, case=self.case, **facts)
        missing = [
            f"{name}: {self.counts[name]} < {floor:.0f}"
            for name, floor in floors.items()
            if self.counts[name] < floor
        ]
        if missing:
            return inconclusive(NAME, self.check_name, "; ".join(missing), **facts)
        return passed(NAME, self.check_name, **facts)


def shrunk_case(
    plain: PlainVocabulary, source: Source, mismatch: Mismatch, core: str | None, seed: int
) -> dict[str, Any]:
    """Return a JSON-ready record of the smallest case found that fails in the same way."""

    def fails(vocabulary: PlainVocabulary, candidate: Source) -> bool:
        found = check(Subject.of(vocabulary), candidate, core=core, seed=seed).mismatch
        return found is not None and found.what == mismatch.what

    plain, source = shrink(plain, source, fails)
    final = check(Subject.of(plain), source, core=core, seed=seed).mismatch or mismatch
    return {
        "kind": source.kind,
        "source": source.text,
        "choices": list(source.choices),
        "core": core,
        "what": final.what,
        "prefix": list(final.prefix),
        "prefix_bytes": [repr(plain.token_bytes[i]) for i in final.prefix],
        "detail": final.detail,
        "tokens": [repr(data) for data in plain.token_bytes],
        "eos_ids": list(plain.eos_ids),
        "control": {str(i): text for i, text in plain.control.items()},
        "ungenerable": list(plain.ungenerable),
        "logits_width": plain.logits_width,
        "rules": mask_replay.encode_rules(source.rules),
        "replay": mask_replay.ENTRY,
    }
