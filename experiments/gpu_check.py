"""Every path on one device against the oracles and the CPU, captured graphs, and kernel times, in minutes.

`python -m experiments.gpu_check` needs a CUDA device; `--device cpu` rehearses the same course without one,
and says so. It needs neither a matching core nor jsonschema: masks come from a file that
`--write-masks` makes beforehand where a core is installed. Writes gpu_check.csv; exit code 1 on a difference.
"""

import argparse
import csv
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import torch

from engine.models.qwen3_5.attention import Placement
from engine.models.qwen3_5.target import TargetState
from engine.ops import get_ops, ops_for
from engine.ops.accept import Proposal, RoundUniforms
from engine.ops.sample import SamplingBatch
from engine.request import SamplingSettings
from engine.runtime.contract import RowInput
from engine.runtime.graphs import GraphLauncher, RehearsalLauncher
from engine.runtime.launch import EagerLauncher, map_tensors, tensors_of
from experiments.gpu_words import PATHS, Masks, Models, Provider, write_masks
from oracles import qwen3_5

MASKS = Path(__file__).resolve().parent / "data" / "gpu_masks.npz"
PROMPTS = tuple((5, 6, 7, 5, 6, 7 + i) for i in range(8))
NUM_TOKENS = 24
NEAR = 1e-3  # a gap of the two best logits under which two devices may differ
TOLERANCE = 1e-4
WIDTH, VOCAB = 248_320, 248_077


@attrs.frozen
class Row:
    """One line of the CSV: a check with its outcome, or a time with the bytes that had to move."""

    what: str
    where: str
    ok: bool
    detail: str
    seconds: float = 0.0
    gigabytes_per_second: float = 0.0


def parser() -> argparse.ArgumentParser:
    """The parser of the command."""
    found = argparse.ArgumentParser(prog="gpu_check", description=(__doc__ or "").splitlines()[0])
    found.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    found.add_argument("--out", type=Path, default=Path("reports"), metavar="DIR")
    found.add_argument("--masks", type=Path, default=MASKS, metavar="FILE")
    found.add_argument("--write-masks", action="store_true", help="write the masks file and stop")
    found.add_argument("--width", type=int, default=WIDTH, help="logits a row in the timings")
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run the check; returns the exit code."""
    arguments = parser().parse_args(argv)
    if arguments.write_masks:
        from engine.text.vocabulary import toy_vocabulary

        arguments.masks.parent.mkdir(parents=True, exist_ok=True)
        write_masks(arguments.masks, toy_vocabulary())
        return 0
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("no CUDA device: run with --device cpu for the rehearsal", file=sys.stderr)
        return 2
    rows = list(checks(arguments.device, Masks.read(arguments.masks), arguments.width))
    arguments.out.mkdir(parents=True, exist_ok=True)
    write(rows, arguments.out / "gpu_check.csv")
    for row in rows:
        print(f"{'ok  ' if row.ok else 'FAIL'} {row.what} [{row.where}] {row.detail}")
    return 0 if all(row.ok for row in rows) else 1


def write(rows: Sequence[Row], file: Path) -> None:
    """Write the CSV."""
    with file.open("w", newline="", encoding="utf-8") as out:
        table = csv.DictWriter(out, [field.name for field in attrs.fields(Row)])
        table.writeheader()
        table.writerows(attrs.asdict(row) for row in rows)


def checks(device: str, masks: Masks, width: int) -> Iterator[Row]:
    """Every check, then the times."""
    name = torch.cuda.get_device_name() if device == "cuda" else "cpu, no GPU at hand: rehearsed"
    yield Row("device", name, True, f"torch {torch.__version__}")
    here, there = Models.make("cpu"), Models.make(device)
    yield logits_row(there, device)
    for temperature in (0.0, 0.9):
        for path in PATHS:
            yield path_row(here, there, path, device, masks, temperature)
    yield from times(device, width)
    yield from accept_times(device)


def logits_row(models: Models, device: str) -> Row:
    """The target on the device against the float64 oracle."""
    config = models.target.config
    same = ("num_layers", "num_heads", "num_kv_heads", "head_dim", "rotary_dim", "rope_theta")
    same += ("num_key_heads", "num_value_heads", "key_dim", "value_dim", "eps")
    numbers: dict[str, Any] = {name: getattr(config, name) for name in same}
    full = frozenset(i for i, kind in enumerate(config.layer_types) if kind == "full_attention")
    shape = qwen3_5.Shape(full_layers=full, num_taps=config.conv_kernel, **numbers)
    weights = {name: t.double().cpu().numpy() for name, t in models.target.state_dict().items()}
    history = [*PROMPTS[0], *PROMPTS[1]]
    wanted = qwen3_5.target(shape, weights, history).logits
    error = np.abs(logits(models, history, device) - wanted).max() / np.abs(wanted).max()
    return Row("logits against float64", device, bool(error < TOLERANCE), f"relative error {error:.2g}")


def logits(models: Models, history: Sequence[int], device: str) -> np.ndarray:
    """Logits of every position of a history, by one pass."""
    state = TargetState.allocate(models.target.config, 1, len(history), torch.float32, device)
    placement = Placement.of([0], [0], len(history), len(history), device)
    ids = torch.tensor([list(history)], device=device)
    return models.target(ids, placement, state).logits[0].cpu().numpy()


def path_row(here: Models, there: Models, path: str, device: str, masks: Masks, temperature: float) -> Row:
    """A path under captured graphs against the same path, and greedily ordinary decoding, on the CPU."""
    launcher = GraphLauncher(device) if device == "cuda" else RehearsalLauncher()
    baseline = "ordinary" if temperature <= 0 else path
    started = time.perf_counter()
    got = decode(there.program(path, len(PROMPTS), device, launcher), masks, temperature, here)
    seconds = time.perf_counter() - started
    wanted = decode(here.program(baseline, len(PROMPTS), "cpu", EagerLauncher()), masks, temperature, here)
    recordings = launcher.num_recordings
    launcher.close()
    parted = [i for i in range(len(PROMPTS)) if got[i] != wanted[i]]
    unexcused = [i for i in parted if temperature > 0 or gap(here, masks, i, got[i], wanted[i]) > NEAR]
    kind = "greedy equals ordinary" if temperature <= 0 else "sampled equals the CPU"
    tokens = sum(map(len, got))
    detail = f"{tokens} tokens, {recordings} recordings, {len(parted)} of {len(got)} rows parted"
    allowed = (
        0 if temperature <= 0 else device == "cuda"
    )  # a coin at a break: one row may part across devices
    return Row(kind, path, len(unexcused) <= allowed, detail, seconds)


def decode(program: Any, masks: Masks, temperature: float, models: Models) -> list[list[int]]:
    """Outputs of all prompts in one mixed batch: every second row is constrained; an end frees its row."""
    ends = set(models.vocabulary.eos_ids)
    outputs: list[list[int]] = [[] for _ in PROMPTS]
    lanes = [
        program.admit(prompt, SamplingSettings(temperature=temperature, seed=i))
        for i, prompt in enumerate(PROMPTS)
    ]
    live = list(range(len(PROMPTS)))
    while live:
        left = [NUM_TOKENS - len(outputs[i]) for i in live]
        rows = [RowInput(lanes[i], i % 2 == 0, n) for i, n in zip(live, left, strict=True)]
        run = program.decode if outputs[live[0]] else program.prefill
        pending = run(rows, Provider(masks, [outputs[i] for i in live]))
        program.commit(pending, [len(row.tokens) for row in pending.rows])
        for i, row in zip(live, pending.rows, strict=True):
            assert row.tokens, f"row {i} ended with {row.failure}"
            outputs[i] += row.tokens
        live = [i for i in live if len(outputs[i]) < NUM_TOKENS and not ends & set(outputs[i])]
    return outputs


def gap(models: Models, masks: Masks, row: int, got: Sequence[int], wanted: Sequence[int]) -> float:
    """The gap of the two best legal logits where two outputs part."""
    pairs = zip(got, wanted, strict=False)
    at = next((i for i, (one, other) in enumerate(pairs) if one != other), min(len(got), len(wanted)))
    values = logits(models, [*PROMPTS[row], *wanted[:at]], "cpu")[-1][: models.vocabulary.size]
    if row % 2 == 0:
        words = masks.rows[masks.state(wanted[:at])]
        values = values[np.unpackbits(words.view(np.uint8), bitorder="little")[: len(values)] > 0]
    best = np.sort(values)[::-1]
    return float(best[0] - best[1]) if len(best) > 1 else 0.0


def times(device: str, width: int) -> Iterator[Row]:
    """Selection, law and draw over rows of real width, against the bytes of logits and masks."""
    ops = ops_for(device)
    vocab_size = min(VOCAB, width)
    for num_rows in (1, 8, 64) if device == "cuda" else (1, 2):
        generator = torch.Generator().manual_seed(num_rows)
        table = torch.randn(num_rows, width, generator=generator).bfloat16().to(device)
        words = torch.full((num_rows, -(-vocab_size // 32)), 0x55555555, dtype=torch.int32, device=device)
        on = torch.ones(num_rows, dtype=torch.bool, device=device)
        batch = SamplingBatch.from_settings([SamplingSettings(top_k=20)] * num_rows)
        batch = attrs.evolve(
            batch, **{k: v.to(device) for k, v in attrs.asdict(batch, recurse=False).items()}
        )

        def select(table=table, words=words, on=on, batch=batch) -> Any:
            return ops.select_candidates(
                table,
                batch,
                vocab_size=vocab_size,
                candidate_cap=20,
                allowed_bitmask=words,
                constrained_mask=on,
            )

        law = ops.target_law(select(), batch)
        uniforms = torch.full((num_rows,), 0.5, dtype=torch.float64, device=device)
        alone = [map_tensors(torch.Tensor.cpu, part) for part in (law, uniforms)]
        same = bool(torch.equal(get_ops("torch").draw(*alone), ops.draw(law, uniforms).cpu()))
        seconds = clock(select, device)
        moved = table.nbytes + words.nbytes
        yield Row(
            f"select {num_rows} x {width}", device, same, f"{moved} bytes", seconds, moved / seconds / 1e9
        )


def accept_times(device: str) -> Iterator[Row]:
    """Acceptance of whole windows of 7 drafts, against the bytes of its laws."""
    ops, num_drafts, size = ops_for(device), 7, 1024
    for num_rows in (1, 8, 64):
        generator = torch.Generator().manual_seed(num_rows)
        columns = num_rows * (num_drafts + 1)
        table = torch.randn(columns, size, generator=generator).to(device)
        batch = SamplingBatch.from_settings([SamplingSettings(top_k=20)] * columns)
        batch = map_tensors(lambda tensor: tensor.to(device), batch)
        candidates = ops.select_candidates(table, batch, vocab_size=size, candidate_cap=20)
        law = ops.target_law(candidates, batch)
        ids = torch.randint(size, (num_rows, num_drafts), generator=generator).to(device)
        coins = torch.full(ids.shape, 0.5, dtype=torch.float64, device=device)
        full = torch.full((num_rows,), num_drafts, device=device)
        proposal = Proposal(ids, full, None, None, torch.zeros_like(ids, dtype=torch.bool))
        uniforms = RoundUniforms(accept=coins, correction=coins, bonus=coins[:, 0])

        def accept(law=law, proposal=proposal, uniforms=uniforms) -> Any:
            return ops.accept_round(law, proposal, uniforms, vocab_size=size)

        reference = get_ops("torch").accept_round(
            *(map_tensors(torch.Tensor.cpu, part) for part in (law, proposal, uniforms)), vocab_size=size
        )
        pairs = zip(tensors_of(map_tensors(torch.Tensor.cpu, accept())), tensors_of(reference), strict=True)
        same = all(torch.equal(one, other) for one, other in pairs)
        seconds, moved = clock(accept, device), sum(t.nbytes for t in tensors_of((law, proposal, uniforms)))
        where = f"accept {num_rows} x {num_drafts}"
        yield Row(where, device, same, f"{moved} bytes", seconds, moved / seconds / 1e9)


def clock(call: Callable[[], Any], device: str, repeats: int = 20) -> float:
    """Seconds of one call, warm: the median over repeats, each waited for."""
    spent = []
    for _ in range(repeats if device == "cuda" else 3):
        started = time.perf_counter()
        call()
        if device == "cuda":
            torch.cuda.synchronize()
        spent.append(time.perf_counter() - started)
    return float(np.median(spent))


if __name__ == "__main__":
    sys.exit(main())
