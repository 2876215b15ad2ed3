"""The rows of `bench`: repetitions summed up under stable keys, shown as a table, JSON or CSV.

Rates are means over repetitions with the standard deviation beside them (NaN of one repetition); `_ms` and
`_us` are milliseconds and microseconds. `host_share` is the share of the run's time that masks and matchers
took of the processor; the first, cold build of the grammar is `compile_ms`.
"""

import csv
import json
import statistics
import sys
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from engine.commands.measure import Measurement
from engine.request import ConstraintObservation
from engine.runtime.stats import SpecStats

NAN = float("nan")
COLUMNS = {  # of the table: key -> title and format; the other forms hold every key
    "spec": ("drafter", ""),
    "constraint": ("constraint", ""),
    "decode_tokens_per_second": ("tokens/s", ".0f"),
    "decode_tokens_per_second_std": ("±", ".0f"),
    "prefill_tokens_per_second": ("prefill tokens/s", ".0f"),
    "first_token_ms_p50": ("first ms", ".1f"),
    "token_ms_p50": ("token ms p50", ".2f"),
    "token_ms_p99": ("p99", ".2f"),
    "accepted_length": ("accepted length", ".2f"),
    "mask_us_per_round": ("mask us", ".0f"),
    "matcher_us_per_round": ("matcher us", ".0f"),
    "mask_density": ("legal", ".3f"),
    "host_share": ("host", ".3f"),
}


def row(
    spec: str, kind: str, runs: Sequence[Measurement], cold: Measurement, density: float
) -> dict[str, Any]:
    """Sum up the repetitions of one case; `cold` is the run before them."""
    stats = SpecStats()
    for one in runs:
        stats.merge(one.stats)
    decode = [one.num_decode_tokens / one.decode_seconds for one in runs if one.num_decode_tokens]
    prefill = [one.num_prompt_tokens / one.prefill_seconds for one in runs]
    seen = [observation for one in runs for observation in one.observations]
    num_rounds = sum(one.num_rounds for one in runs)
    total = sum(one.total_seconds for one in runs)
    return {
        "spec": spec,
        "constraint": kind,
        **_rate("decode_tokens_per_second", decode),
        **_rate("prefill_tokens_per_second", prefill),
        **_percentiles("first_token_ms", [s for one in runs for s in one.first_token_seconds], 1e3),
        **_percentiles("token_ms", [s for one in runs for s in one.token_gaps], 1e3),
        **_percentiles("round_ms", [s for one in runs for s in one.round_gaps], 1e3),
        "accepted_length": 1 + stats.num_accepted / num_rounds if num_rounds else NAN,
        "num_drafted": stats.num_drafted,
        "num_accepted": stats.num_accepted,
        "num_rejected_by_grammar": stats.num_rejected_by_grammar,
        "acceptance_by_position": acceptance(stats),
        "num_tokens": sum(one.num_tokens for one in runs),
        "num_rounds": num_rounds,
        "compile_ms": _longest(cold.observations, "prepare_seconds"),
        "mask_us_per_round": _per_round(seen, "mask_seconds", num_rounds),
        "matcher_us_per_round": _per_round(seen, "matcher_seconds", num_rounds),
        "mask_density": density,
        "host_share": sum(one.mask_seconds + one.matcher_seconds for one in seen) / total,
        "observation": attrs.asdict(seen[-1]) if seen else None,
    }


def acceptance(stats: SpecStats) -> list[float]:
    """Share of the drafts judged at each position that were accepted."""
    return [stats.accepted_at[i] / reached for i, reached in sorted(stats.reached_at.items()) if reached]


def _rate(name: str, values: Sequence[float]) -> dict[str, float]:
    spread = statistics.stdev(values) if len(values) > 1 else NAN
    return {name: statistics.fmean(values) if values else NAN, f"{name}_std": spread}


def _percentiles(name: str, seconds: Sequence[float], scale: float) -> dict[str, float]:
    return {
        f"{name}_p{share}": float(np.percentile(seconds, share)) * scale if seconds else NAN
        for share in (50, 99)
    }


def _longest(seen: Sequence[ConstraintObservation], name: str) -> float:
    return max((getattr(one, name) * 1e3 for one in seen), default=NAN)


def _per_round(seen: Sequence[ConstraintObservation], name: str, num_rounds: int) -> float:
    return sum(getattr(one, name) for one in seen) / num_rounds * 1e6 if seen and num_rounds else NAN


def show(rows: Sequence[dict[str, Any]], config: dict[str, Any], form: str) -> None:
    """Print rows on stdout."""
    if form == "json":
        print(json.dumps({"config": config, "rows": [_plain(one) for one in rows]}, indent=1))
    elif form == "csv":
        names = [name for name in rows[0] if name != "observation"]
        writer = csv.DictWriter(sys.stdout, names, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(_flat(one) for one in rows)
    else:
        _show_table(rows, config)


def _plain(one: dict[str, Any]) -> dict[str, Any]:
    """JSON has no NaN."""
    return {key: None if isinstance(value, float) and value != value else value for key, value in one.items()}


def _flat(one: dict[str, Any]) -> dict[str, Any]:
    shares = " ".join(f"{share:.4f}" for share in one["acceptance_by_position"])
    return {**one, "acceptance_by_position": shares}


def _show_table(rows: Sequence[dict[str, Any]], config: dict[str, Any]) -> None:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for title, form in COLUMNS.values():
        table.add_column(title, justify="right" if form else "left")
    for one in rows:
        table.add_row(*(_cell(one[key], form) for key, (_, form) in COLUMNS.items()))
    console = Console(width=max(Console().width, 136))
    console.print(table)
    for one in rows:
        if one["acceptance_by_position"]:
            shares = "  ".join(f"{share:.2f}" for share in one["acceptance_by_position"])
            console.print(f"acceptance by position, {one['spec']}, {one['constraint']}: {shares}")
    cache = ", ".join(f"{name} {value}" for name, value in config["cache"].items() if value)
    console.print(f"grammar cache: {cache or 'not used'}")
    settings = ", ".join(f"{name} {value}" for name, value in config.items() if name != "cache")
    console.print(settings, highlight=False)


def _cell(value: Any, form: str) -> str:
    if form and value != value:
        return ""
    return format(value, form) if form else str(value)
