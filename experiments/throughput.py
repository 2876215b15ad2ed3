"""Study: how fast is decoding with the bundled weights, beside `transformers.generate` and path beside path?

Question: tokens a second of ordinary decoding at batch 1 and 8 over those of the peer on the same weights; of
constrained over free decoding; of every drafter over ordinary decoding on JSON and tool calls, with the
accepted length, the most there could be (K + 1) and what a round costs against a step.
Method: both sides of a ratio are run in turns, repetition by repetition, on the same prompts, greedily and in
float32; a ratio is that of one turn, so that a slower minute of the machine falls on both. The peer and the
free runs are made to write a fixed number of tokens. Prefill is no part of any rate.
Expected: 1.6 times the peer; constrained 0.95; DFlash2 1.5, DFlash and MTP 1.2, n-gram 0.95 times ordinary.
Run: python -m experiments.throughput [--quick] [--model bundled] [--out reports]
"""

import argparse
import importlib.util
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import attrs
import numpy as np
import pandas as pd
import torch
from rich.progress import track

from engine.commands.measure import Measurement, Request, Watch, run
from engine.commands.model import Model, open_model
from engine.commands.workloads import WORKLOADS
from engine.request import OutputConstraint, RequestOptions, SamplingSettings
from engine.runtime.loading import ProgramOptions
from experiments import throughput_pages

DRAFTERS = ("mtp", "dflash", "dflash2", "ngram")
TASKS = ("json", "schema", "tools")
NEEDED = {"none": 1.6, "constrained": 0.95, "mtp": 1.2, "dflash": 1.2, "dflash2": 1.5, "ngram": 0.95}
PROMPT_TOKENS = 48  # of the requests that the peer runs too: a batch without padding
FREE_TOKENS = 128
ABSENT = "transformers is not installed (pip install transformers): the peer was left out"


@attrs.frozen
class Comparison:
    """Two ways to do the same work, each a function that returns tokens a second; `most` is K + 1."""

    what: str
    case: str
    batch: int
    needed: float | None
    ours: Callable[[], "Rate"]
    base: Callable[[], "Rate"]
    most: int | None = None


@attrs.frozen
class Rate:
    """Decoding in one run: tokens a second, seconds of the median round, tokens a round."""

    tokens_per_second: float
    round_seconds: float = float("nan")
    accepted_length: float = float("nan")

    @classmethod
    def of(cls, measured: Measurement) -> "Rate":
        """The rate of a run. Raises what ended a request."""
        for result in measured.results:
            if isinstance(result, Exception):
                raise result
        rate = measured.num_decode_tokens / measured.decode_seconds
        return cls(rate, float(np.median(measured.round_gaps)), measured.accepted_length)


@attrs.frozen(eq=False)
class Bench:
    """One model; programs are built once for each drafter and batch size."""

    model: Model
    max_tokens: int
    programs: dict = attrs.field(factory=dict)

    def runner(self, spec: str, requests: Sequence[Request]) -> Callable[[], Rate]:
        """A function that runs requests together on a drafter's path."""

        def measure() -> Rate:
            watch = Watch()
            engine = self.model.engine(self.program(spec, len(requests)), watch)
            return Rate.of(run(engine, watch, requests))

        return measure

    def program(self, spec: str, num_lanes: int):
        """The program of a path."""
        if (spec, num_lanes) not in self.programs:
            options = ProgramOptions(spec=spec, num_lanes=num_lanes)
            self.programs[spec, num_lanes], plan = self.model.program(options)
            self.programs[spec, "drafts"] = plan.num_drafts
        return self.programs[spec, num_lanes]

    def num_drafts(self, spec: str) -> int:
        """The most drafts of a round."""
        self.program(spec, 1)
        return self.programs[spec, "drafts"]

    def asked(self, kind: str, batch: int, *, constrained: bool = True) -> list[Request]:
        """Greedy requests of a workload."""
        workload = WORKLOADS[kind]
        options = RequestOptions(
            self.max_tokens, workload.constraint if constrained else None, SamplingSettings(temperature=0.0)
        )
        return [(workload.prompt(self.model.codec, i), options) for i in range(batch)]

    def endless(self, batch: int, constraint: OutputConstraint | None = None) -> list[Request]:
        """Greedy requests of one prompt length that write `max_tokens` tokens whatever comes."""
        banned = frozenset(self.model.vocabulary.eos_ids)
        settings = SamplingSettings(temperature=0.0, banned_token_ids=banned)
        prompts = [WORKLOADS["free"].prompt(self.model.codec, i)[-PROMPT_TOKENS:] for i in range(batch)]
        return [(prompt, RequestOptions(self.max_tokens, constraint, settings)) for prompt in prompts]


def peer(model: Model, requests: Sequence[Request]) -> Callable[[], Rate]:
    """`transformers.generate` on the same files; its prefill is timed apart and taken off."""
    import transformers

    transformers.logging.set_verbosity_error()
    loaded = transformers.Qwen3_5ForCausalLM.from_pretrained(model.path, dtype=torch.float32).eval()
    loaded.generation_config = transformers.GenerationConfig(do_sample=False, pad_token_id=0)  # no end
    ids = torch.tensor([prompt for prompt, _ in requests])
    most = requests[0][1].max_tokens

    def seconds(num_tokens: int) -> float:
        begin = time.perf_counter()
        with torch.inference_mode():
            out = loaded.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=num_tokens)
        passed = time.perf_counter() - begin
        assert out.shape[1] == ids.shape[1] + num_tokens, "the peer stopped early"
        return passed

    def measure() -> Rate:
        passed = seconds(most) - seconds(1)
        return Rate(len(requests) * (most - 1) / passed, passed / (most - 1), 1.0)

    return measure


def comparisons(bench: Bench) -> Iterator[Comparison]:
    """Everything that is compared, in the order of the table."""
    if importlib.util.find_spec("transformers") is not None:
        for batch in (1, 8):
            asked = bench.endless(batch)
            ours, base = bench.runner("none", asked), peer(bench.model, asked)
            yield Comparison("ordinary / transformers", "free", batch, NEEDED["none"], ours, base)
    anything = OutputConstraint.regex(r"[\s\S]*")
    for batch in (1, 8):
        free = bench.runner("none", bench.endless(batch))
        held = bench.runner("none", bench.endless(batch, anything))
        yield Comparison("constrained / free", "any text", batch, NEEDED["constrained"], held, free)
        for kind in TASKS:
            asked = bench.asked(kind, batch)
            loose = [(prompt, attrs.evolve(one, constraint=None)) for prompt, one in asked]
            held, free = bench.runner("none", asked), bench.runner("none", loose)
            yield Comparison("constrained / free", kind, batch, NEEDED["constrained"], held, free)
    for kind in TASKS:
        asked = bench.asked(kind, 1)
        for spec in DRAFTERS:
            most = bench.num_drafts(spec) + 1
            ours, base = bench.runner(spec, asked), bench.runner("none", asked)
            yield Comparison(f"{spec} / ordinary", kind, 1, NEEDED[spec], ours, base, most)


def measure(one: Comparison, repeat: int) -> dict[str, object]:
    """Run both sides in turns; one row of the table. The order changes with every turn."""
    one.ours(), one.base()  # warm
    turns = []
    for turn in range(repeat):
        if turn % 2:
            base, ours = one.base(), one.ours()
        else:
            ours, base = one.ours(), one.base()
        turns.append((ours, base))
    ratios = [ours.tokens_per_second / base.tokens_per_second for ours, base in turns]
    cost = float(np.median([ours.round_seconds / base.round_seconds for ours, base in turns]))
    return {
        "comparison": one.what,
        "workload": one.case,
        "batch": one.batch,
        "ratio": float(np.median(ratios)),
        "ratio low": min(ratios),
        "ratio high": max(ratios),
        "needed": one.needed,
        "tokens/s": float(np.median([ours.tokens_per_second for ours, _ in turns])),
        "base tokens/s": float(np.median([base.tokens_per_second for _, base in turns])),
        "accepted length": turns[0][0].accepted_length if one.most else float("nan"),
        "most": one.most if one.most else float("nan"),
        "round / step": cost,
        "n": repeat,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, write the three files and print what the promises came to."""
    parser = argparse.ArgumentParser(prog="python -m experiments.throughput", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one turn of very short outputs")
    parser.add_argument("--model", default="bundled", help="bundled or a model directory")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads of both sides (default 1)")
    parser.add_argument("--repeat", type=int, default=7, help="turns of every comparison (default 7)")
    parser.add_argument("--out", type=Path, default=Path("reports"), help="folder of the three files")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(arguments.threads)
    bench = Bench(open_model(arguments.model), 10 if arguments.quick else FREE_TOKENS)
    repeat = 1 if arguments.quick else arguments.repeat
    work = list(comparisons(bench))
    rows = [measure(one, repeat) for one in track(work, "measuring", console=throughput_pages.CONSOLE)]
    table = pd.DataFrame(rows)
    notes = [] if importlib.util.find_spec("transformers") else [ABSENT]
    lines = throughput_pages.write(table, arguments.out, notes, arguments.threads, bench.model.name)
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
