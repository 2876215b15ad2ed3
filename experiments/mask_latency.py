"""Study: what do compile, fill, look-ahead and rollback cost on the Qwen3.5 vocabulary, beside the raw cores?

Question: how much does the project add to the core that it chose, and was the choice right?
Method: every grammar goes through the engine and, as the same text, straight into xgrammar and llguidance.
One sample text is walked token by token; at each token the engine and the raw core that it uses fill the same
new state one after the other, in turns, each with warm code, then the other core. A look-ahead is seven
drafts and the bonus row.
Expected: at most 20 % or 5 us above the raw core at the median, whichever is larger; counted repetition under
1 ms a mask on the chosen core, tens of milliseconds to seconds on the other.
Run: python -m experiments.mask_latency [--quick] [--out reports]
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
import xgrammar
from rich.progress import track

from engine.frontend.tokenizer import qwen3_5_vocabulary
from engine.request import OutputConstraint
from engine.text.compiler import ConstraintCompiler
from engine.text.cores.llguidance_core import LlguidanceCore
from engine.text.cores.select import CORE_NAMES, LLGUIDANCE, XGRAMMAR
from engine.text.cores.xgrammar_core import tokenizer_info
from engine.text.masks import fill_window, words_for
from engine.text.matcher import Matcher
from engine.text.rules import Grammar
from engine.text.vocabulary import TokenClass, Vocabulary
from experiments.provenance import machine, versions
from experiments.raw_cores import RawLlguidance, RawXgrammar

Raw = RawXgrammar | RawLlguidance
NUM_DRAFTS = 7
MAX_PEER_SECONDS = 2.0  # a core that needs longer for a walk is cut there
TIMED = ("fill", "raw fill", "other fill", "look-ahead", "raw look-ahead", "rollback", "raw rollback")
BARS = {
    "fill p50 us": "engine",
    "raw fill p50 us": "same core, raw",
    "other fill p50 us": "the other core, raw",
}
JSON = r"""root ::= value
value ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" ws (pair ("," ws pair)*)? "}" ws
pair ::= string ":" ws value
array ::= "[" ws (value ("," ws value)*)? "]" ws
string ::= "\"" char%s "\"" ws
char ::= [^"\\\x00-\x1f] | "\\" ["\\/bfnrt] | "\\u" [0-9a-fA-F]{4}
number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [+-]? [0-9]+)? ws
ws ::= [ \t\n]*
"""
SAID = 'The quick brown fox said \\"hello\\" and jumped over \\u00fcber-lazy dogs, twice.\\n '
DATA = f'{{"name": "{SAID}", "tags": ["a", "bc"], "size": 12.5, "nested": {{"ok": true}}}}'
DATE = r"(19|20)\d\d-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
CLASS = r'"[^"\\\x00-\x1f]{0,160}"'
ESCAPES = r'"([^"\\\x00-\x1f]|\\["\\/bfnrtu]){0,%d}"'
WORDS = tuple(f"option {n * 7919 % 10007:05d} of {n % 13}" for n in range(1000))


@attrs.frozen
class Subject:
    """One language and a text in it; `budget_us` is what a mask may cost at the median, if promised.

    `unrolls`: xgrammar would write the count out and compile for half a minute and more.
    """

    name: str
    constraint: OutputConstraint
    text: str
    budget_us: float | None = None
    unrolls: bool = False


SUBJECTS = (
    Subject("digits", OutputConstraint.regex("[0-9]+"), "31415926535897932384626433"),
    Subject("choice of 1,000", OutputConstraint.choice(WORDS), WORDS[500]),
    Subject("date", OutputConstraint.regex(DATE), "2026-02-28"),
    Subject("JSON", OutputConstraint.grammar(JSON % "*"), DATA),
    Subject("class {0,160}", OutputConstraint.regex(CLASS), '"' + "a plain string of words " * 6, 1000, True),
    Subject("string {0,50}", OutputConstraint.regex(ESCAPES % 50), '"' + SAID[:46], 1000),
    Subject("string {0,400}", OutputConstraint.regex(ESCAPES % 400), '"' + SAID * 4, 1000),
    Subject("string {0,8192}", OutputConstraint.regex(ESCAPES % 8192), '"' + SAID * 6, 1000),
    Subject("words {0,8192}", OutputConstraint.regex("([a-z]+ ){0,8192}"), "some words in a row " * 8, 1000),
    Subject("JSON, strings {0,400}", OutputConstraint.grammar(JSON % "{0,400}"), DATA, 1000),
)


def encode(vocabulary: Vocabulary, text: str) -> list[int]:
    """The text as ids by greedy longest match; good enough to walk a grammar with."""
    ids = {vocabulary.token_bytes[i]: i for i in vocabulary.ids_of(TokenClass.TEXT)}
    longest = max(map(len, ids))
    data, found = text.encode(), []
    while data:
        size = next(n for n in range(min(longest, len(data)), 0, -1) if data[:n] in ids)
        found.append(ids[data[:size]])
        data = data[size:]
    return found


@attrs.define
class Times:
    """Measurements in microseconds, by what was timed."""

    series: dict[str, list[float]] = attrs.field(factory=dict)

    def add(self, name: str, action: Callable[[], object]) -> None:
        """Call the action once and note how long it took."""
        begin = time.perf_counter()
        action()
        self.series.setdefault(name, []).append((time.perf_counter() - begin) * 1e6)

    def percentile(self, name: str, share: float) -> float:
        """A percentile of one series; NaN where nothing was measured."""
        return float(np.percentile(self.series[name], share)) if name in self.series else float("nan")


@attrs.frozen
class Bench:
    """The engine and both raw cores over one vocabulary."""

    compiler: ConstraintCompiler
    info: xgrammar.TokenizerInfo
    llguidance: LlguidanceCore

    @classmethod
    def over(cls, vocabulary: Vocabulary) -> "Bench":
        """Build all three indexes."""
        bench = cls(ConstraintCompiler(vocabulary), tokenizer_info(vocabulary), LlguidanceCore(vocabulary))
        for core in CORE_NAMES:  # start every core of the engine before anything is timed
            bench.compiler.compile(OutputConstraint.choice(["a"]), core=core)
        return bench

    def raw(self, name: str, grammar: Grammar) -> Raw:
        """A raw core with a grammar."""
        if name == LLGUIDANCE:
            return RawLlguidance(self.compiler.vocabulary, grammar, self.llguidance)
        return RawXgrammar(self.compiler.vocabulary, self.info, grammar)

    def measure(self, subject: Subject, rounds: int) -> dict[str, object]:
        """One row of the table: the subject through the engine, its core raw, and the other core."""
        compiled, _ = self.compiler.compile(subject.constraint)
        mine = LLGUIDANCE if compiled.core_name == LLGUIDANCE else XGRAMMAR
        other = XGRAMMAR if mine == LLGUIDANCE else LLGUIDANCE
        token_ids, times = encode(self.compiler.vocabulary, subject.text), Times()
        own, still = self.raw(mine, compiled.grammar), self.raw(mine, compiled.grammar)
        peer = None if other == XGRAMMAR and subject.unrolls else self.raw(other, compiled.grammar)
        for _ in range(rounds):
            own.restart()
            matchers = compiled.new_matcher(), compiled.new_matcher()
            walk_both(matchers, (own, still), token_ids, times)
            if peer is not None:
                peer.restart()
                walk_peer(peer, token_ids, times)
        return {
            "subject": subject.name,
            "core": compiled.core_name,
            "compile ms": compiled.compile_seconds * 1e3,
            "raw compile ms": own.compile_seconds * 1e3,
            "other compile ms": float("nan") if peer is None else peer.compile_seconds * 1e3,
            **{f"{name} p50 us": times.percentile(name, 50) for name in TIMED},
            **{f"{name} p99 us": times.percentile(name, 99) for name in TIMED},
            "over raw us": float(np.median(np.subtract(times.series["fill"], times.series["raw fill"]))),
            "budget us": subject.budget_us,
        }


def walk_both(
    matchers: tuple[Matcher, Matcher], raws: tuple[Raw, Raw], token_ids: Sequence[int], times: Times
) -> None:
    """Walk a text in the engine and in its own core, in turns; look-ahead and rollback at every token.

    The second of each pair stands still: it is filled just before every measurement, so that both sides find
    their own code in the processor's caches, and the state that is measured is still a new one.
    """
    (matcher, still), (raw, still_raw) = matchers, raws
    window = torch.zeros((NUM_DRAFTS + 1, words_for(matcher.vocab_size)), dtype=torch.int32).numpy()
    for index, token_id in enumerate(token_ids):
        drafts = token_ids[index : index + NUM_DRAFTS]
        for ours in (True, False) if index % 2 else (False, True):
            if ours:
                fill_window(still, (), window[:1])
                times.add("fill", lambda row=window[:1]: fill_window(matcher, (), row))
            else:
                still_raw.fill()
                times.add("raw fill", raw.fill)
        times.add("look-ahead", lambda d=drafts: fill_window(matcher, d, window[: len(d) + 1]))
        times.add("raw look-ahead", lambda d=drafts: raw_look_ahead(raw, d))
        matcher.preview(drafts)
        times.add("rollback", matcher.discard)
        for draft in drafts:
            raw.accept(draft)
        times.add("raw rollback", lambda d=drafts: raw.rollback(len(d)))
        matcher.preview((token_id,))
        matcher.confirm()
        raw.accept(token_id)


def raw_look_ahead(raw: Raw, drafts: Sequence[int]) -> None:
    """The same window on a raw core: fill, accept, one rollback."""
    for draft in drafts:
        raw.fill()
        raw.accept(draft)
    raw.fill()
    raw.rollback(len(drafts))


def walk_peer(peer: Raw, token_ids: Sequence[int], times: Times) -> None:
    """Walk a text in the core that was not chosen, for as long as it is bearable."""
    give_up = time.perf_counter() + MAX_PEER_SECONDS
    for token_id in token_ids:
        times.add("other fill", peer.fill)
        peer.accept(token_id)
        if time.perf_counter() > give_up:
            break


def verdict(table: pd.DataFrame) -> list[str]:
    """One line for each promise, with what was seen."""
    allowed = np.maximum(5.0, 0.2 * table["raw fill p50 us"])
    slow = table[table["over raw us"] > allowed]["subject"].tolist()
    promised = table.dropna(subset=["budget us"])
    late = promised[promised["fill p50 us"] > promised["budget us"]]["subject"].tolist()
    worst = table.loc[table["compile ms"].idxmax()]
    return [
        f"- Overhead over the raw core at the median at most 20 % or 5 us: {_seen(slow)}.",
        f"- Counted repetition at most 1 ms a mask at the median: {_seen(late)}.",
        f"- Slowest compile: {worst['subject']}, {worst['compile ms']:.0f} ms.",
    ]


def _seen(failing: list[str]) -> str:
    return f"not met by {', '.join(failing)}" if failing else "met by every subject"


def write(table: pd.DataFrame, out: Path, rounds: int) -> None:
    """Write mask_latency.csv, .png and .md under `out`."""
    out.mkdir(parents=True, exist_ok=True)
    table.to_csv(out / "mask_latency.csv", index=False, float_format="%.2f")
    draw(table, out / "mask_latency.png")
    shown = table[
        ["subject", "core", *(c for c in table.columns if c.endswith(("p50 us", "ms", "over raw us")))]
    ]
    facts = {**machine(), **{name: versions()[name] for name in ("xgrammar", "llguidance", "torch")}}
    lines = [
        "# Mask latency on the Qwen3.5 vocabulary\n",
        f"`python -m experiments.mask_latency`, {rounds} walks of each text, one thread; times are medians,",
        "the 99th percentiles stand in the CSV. 'raw' is the chosen core called directly with the same text,",
        "'other' the core not chosen (cut after 2 s of walking; left out where it would unroll for minutes).",
        f"{'; '.join(f'{key} {value}' for key, value in facts.items())}.\n",
        *verdict(table),
        "\n![medians](mask_latency.png)\n",
        _markdown(shown),
    ]
    (out / "mask_latency.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _markdown(table: pd.DataFrame) -> str:
    rows = [list(table.columns), ["---"] * len(table.columns)]
    rows += [
        [f"{v:.1f}" if isinstance(v, float) else str(v) for v in row] for row in table.to_numpy().tolist()
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def draw(table: pd.DataFrame, path: Path) -> None:
    """Bars of the median mask: engine, raw core, the other core, on a logarithmic axis."""
    figure, axes = plt.subplots(figsize=(9, 5), layout="constrained")
    places = np.arange(len(table))
    for shift, (column, label) in enumerate(BARS.items()):
        axes.barh(places + (1 - shift) * 0.27, table[column], height=0.25, label=label)
    axes.set_yticks(places, [f"{s} ({c})" for s, c in zip(table["subject"], table["core"], strict=True)])
    axes.set_xscale("log")
    axes.set_xlabel("microseconds for one mask, median")
    axes.axvline(1000, color="grey", linestyle=":", label="1 ms")
    axes.invert_yaxis()
    axes.legend()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, write the three files and print the verdict lines."""
    parser = argparse.ArgumentParser(prog="python -m experiments.mask_latency", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one walk of each text")
    parser.add_argument("--out", type=Path, default=Path("reports"), help="folder of the three files")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(1)
    rounds = 1 if arguments.quick else 5
    bench = Bench.over(qwen3_5_vocabulary())
    rows = [bench.measure(subject, rounds) for subject in track(SUBJECTS, "measuring")]
    table = pd.DataFrame(rows)
    write(table, arguments.out, rounds)
    print("\n".join(verdict(table)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
