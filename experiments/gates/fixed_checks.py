"""The chosen languages: known faults on both cores, one language written many ways with bit-equal masks."""

import random
from collections import deque
from collections.abc import Sequence
from typing import Any

import torch

from engine.text.matcher import Matcher
from experiments.gates import fixed_languages
from experiments.gates.fixed_languages import DIFFERENT_EVERYWHERE, KNOWN_FAULTS, SAME_LANGUAGE
from experiments.gates.languages import Source, random_vocabulary
from experiments.gates.mask_walk import advanced, check
from experiments.gates.subjects import Subject, constraint_of
from experiments.verdict import Verdict, failed, passed
from oracles.masks import num_words, unpack

NAME = "legal sets"
CLAUSES = (
    "CHOICE-2",
    "CHOICE-3",
    "CHOICE-4",
    "GBNF-6",
    "GBNF-7",
    "MASK-13",
    "REGEX-2",
    "REGEX-3",
    "SERV-5",
    "SERV-6",
)
CORES = (None, "xgrammar", "xgrammar-dynamic", "llguidance")


def fixed_verdicts() -> list[Verdict]:
    """Check every chosen language on every core, and every group of equal languages against each other."""
    subject = Subject.of(random_vocabulary(random.Random(7), fixed_languages.ALPHABET, complete=True))
    sources = {name: fixed_languages.grammar_source(rules) for name, rules in KNOWN_FAULTS.items()}
    sources |= DIFFERENT_EVERYWHERE
    return [_each_core(subject, sources), _equal_masks(subject)]


def _each_core(subject: Subject, sources: dict[str, Source]) -> Verdict:
    num_compared = 0
    for name, source in sources.items():
        for core in CORES:
            outcome = check(subject, source, core=core, seed=1, num_prefixes=40)
            num_compared += outcome.counts["ids compared"]
            if outcome.mismatch is not None:
                case = {"language": name, "source": source.text, "core": core}
                case |= {"what": outcome.mismatch.what, "detail": outcome.mismatch.detail}
                case |= {"prefix": [repr(subject.plain.token_bytes[i]) for i in outcome.mismatch.prefix]}
                return failed(NAME, "chosen languages", case=case, n=num_compared, clauses=CLAUSES)
    detail = f"{len(sources)} languages on {len(CORES)} cores"
    return passed(NAME, "chosen languages", n=num_compared, detail=detail, clauses=CLAUSES)


def _equal_masks(subject: Subject) -> Verdict:
    num_rows = 0
    for name, sources in SAME_LANGUAGE.items():
        rows, case = compare_masks(subject, sources)
        num_rows += rows
        if case is not None:
            case["language"] = name
            return failed(NAME, "one language many ways", case=case, n=num_rows, clauses=CLAUSES)
    detail = f"{sum(map(len, SAME_LANGUAGE.values()))} spellings of {len(SAME_LANGUAGE)} languages"
    return passed(NAME, "one language many ways", n=num_rows, detail=detail, clauses=CLAUSES)


def compare_masks(
    subject: Subject, sources: Sequence[Source], max_prefixes: int = 60
) -> tuple[int, dict[str, Any] | None]:
    """Walk all sources side by side; return how many rows were equal and the first place where not."""
    matchers = [subject.compiler.compile(constraint_of(source))[0].new_matcher() for source in sources]
    waiting: deque[tuple[list[Matcher], tuple[int, ...]]] = deque([(matchers, ())])
    num_rows = num_prefixes = 0
    while waiting and num_prefixes < max_prefixes:
        matchers, prefix = waiting.popleft()
        num_prefixes += 1
        rows = [_words(matcher, subject.plain.size) for matcher in matchers]
        for source, row in zip(sources, rows, strict=True):
            if not torch.equal(row, rows[0]):
                texts = [source.text or source.choices, sources[0].text or sources[0].choices]
                return num_rows, {"what": "masks differ", "prefix": list(prefix), "sources": texts}
            num_rows += 1
        for token_id in sorted(unpack(rows[0].numpy()) - set(subject.plain.eos_ids)):
            waiting.append(([advanced(matcher, token_id) for matcher in matchers], (*prefix, token_id)))
    return num_rows, None


def _words(matcher: Matcher, vocab_size: int) -> torch.Tensor:
    row = torch.empty(num_words(vocab_size), dtype=torch.int32)
    matcher.fill(row)
    return row
