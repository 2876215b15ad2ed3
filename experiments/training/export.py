"""From checkpoints to the bundled directory and the report: bfloat16 files in the published layouts."""

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import nn

from engine.models import weights
from engine.models.qwen3_5.mtp import Mtp
from engine.models.qwen3_5.target import Target
from experiments.training import pages, stages
from experiments.training.evaluate import acceptances, copied
from experiments.training.loop import read_lines
from experiments.training.stages import PROBE, TOKENIZER, Run
from experiments.training.target import CONFIG, held_out

TRAINED = ("target", "mtp", "dflash", "dflash2")


def export(run: Run, out: Path, reports: Path) -> bool:
    """Write the bundled directory, measure what was written, and write the report."""
    model, head = stages.target_of(run), Mtp(CONFIG)
    stages.load_trained(run, "mtp", head)
    drafters = {"dflash": stages.new_dflash(run), "dflash2": stages.new_dflash2(run)}
    for name, drafter in drafters.items():
        stages.load_trained(run, name, drafter)
    weights.save(out, model, head, dtype=torch.bfloat16)
    for file in sorted((run.work / TOKENIZER.parent).glob("*.json")):
        shutil.copyfile(file, out / file.name)
    for name, drafter in drafters.items():
        weights.save_drafter(out / name, drafter, dtype=torch.bfloat16)
    figures = measure(run, model, out)
    reports.mkdir(parents=True, exist_ok=True)
    (run.work / "figures.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    lines = [line for name in TRAINED for line in read_lines(run.work, name)]
    pages.write(reports, run.plan, figures, lines)
    run.say(json.dumps(figures))
    return True


def measure(run: Run, trained: Target, out: Path) -> dict[str, Any]:
    """Figures of the files as they will be loaded, and the held-out loss before rounding."""
    tokenizer, plan = stages.tokenizer_of(run), run.plan
    model, head = weights.load_target(out), weights.load_mtp(out)
    drafters = [weights.load_drafter(out / name) for name in ("dflash", "dflash2")]
    modules: dict[str, nn.Module] = {
        "target": model,
        "mtp": head,
        "dflash": drafters[0],
        "dflash2": drafters[1],
    }
    return {
        "parameters": {name: sum(p.numel() for p in m.parameters()) for name, m in modules.items()},
        "bytes": {str(f.relative_to(out)): f.stat().st_size for f in sorted(out.rglob("*.[js]*"))},
        "held_out_float32": held_out(trained, tokenizer, plan.seed, plan.num_held_out)["all"],
        "held_out": held_out(model, tokenizer, plan.seed, plan.num_held_out),
        "copied": copied(model, tokenizer, plan.seed, plan.num_held_out // 2, plan.most_new),
        "acceptance": acceptances(model, head, drafters, stages.features_of(run, model, PROBE)),
    }
