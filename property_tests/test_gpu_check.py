"""The GPU check, rehearsed on the CPU, under the packages of a bare image, and against wrong results."""

import csv
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from engine.runtime.graphs import RehearsalLauncher
from engine.text.vocabulary import toy_vocabulary
from experiments import gpu_check
from experiments.gpu_words import Masks, write_masks

ROOT = Path(__file__).resolve().parent.parent
ARGUMENTS = ["--device", "cpu", "--width", "512"]
BLOCKED = """
import sys
for name in ("xgrammar", "llguidance", "jsonschema", "tokenizers", "safetensors", "transformers"):
    sys.modules[name] = None
import torch
torch.set_num_threads(1)
from experiments import gpu_check
raise SystemExit(gpu_check.main(sys.argv[1:]))
"""


@pytest.mark.clause("EXEC-1")
def test_it_runs_without_a_core_and_without_jsonschema(tmp_path):
    command = [sys.executable, "-c", BLOCKED, *ARGUMENTS, "--out", str(tmp_path)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert run.returncode == 0, run.stdout + run.stderr
    rows = list(csv.DictReader((tmp_path / "gpu_check.csv").read_text(encoding="utf-8").splitlines()))
    assert all(row["ok"] == "True" for row in rows)
    assert "no GPU at hand" in rows[0]["where"]
    assert {row["where"] for row in rows} >= set(gpu_check.PATHS)


def test_the_block_above_can_fail():
    command = [sys.executable, "-c", BLOCKED, "--write-masks", "--masks", "never.npz"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert run.returncode != 0


def test_the_masks_file_is_what_the_engine_says(tmp_path):
    write_masks(tmp_path / "masks.npz", toy_vocabulary())
    fresh, kept = Masks.read(tmp_path / "masks.npz"), Masks.read(gpu_check.MASKS)
    assert np.array_equal(fresh.rows, kept.rows)
    assert np.array_equal(fresh.moves, kept.moves)
    assert kept.state([-1]) == kept.state([10**6]) == -1


def test_stale_uploads_are_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(RehearsalLauncher, "_upload", staticmethod(lambda recording, inputs: None))
    here, masks = gpu_check.Models.make("cpu"), Masks.read(gpu_check.MASKS)
    assert not gpu_check.path_row(here, here, "dflash", "cpu", masks, 0.0).ok
