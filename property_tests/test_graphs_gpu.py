"""Captured CUDA graphs for real: every path's tokens, and how captures grow. Needs a CUDA device."""

import pytest
import torch

from engine.runtime.batch import Drafts
from engine.runtime.graphs import GraphLauncher
from experiments import gpu_check
from experiments.gpu_words import PATHS, Masks, Models

pytestmark = pytest.mark.gpu


@pytest.mark.clause("EXEC-2", "EXEC-3")
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_captured_paths_give_the_tokens_of_the_cpu(path, temperature):
    masks = Masks.read(gpu_check.MASKS)
    row = gpu_check.path_row(Models.make("cpu"), Models.make("cuda"), path, "cuda", masks, temperature)
    assert row.ok, row.detail


@pytest.mark.clause("EXEC-8")
def test_a_replay_reads_the_new_inputs():
    launcher = GraphLauncher()
    got = [
        launcher.run(("forward", 1), lambda x: x * 2, torch.full((3,), float(i))).tolist() for i in range(4)
    ]
    assert got == [[2.0 * i] * 3 for i in range(4)]
    assert launcher.num_recordings == 1
    launcher.close()


@pytest.mark.clause("EXEC-4", "EXEC-9", "EXEC-11")
def test_the_ready_mark_brings_the_ids_of_every_replay():
    launcher = GraphLauncher()

    def forward(ids):
        drafts = Drafts(ids, torch.full_like(ids[:, 0], ids.shape[1]))
        launcher.mark_ready(drafts)
        return ids + 1

    for i in range(3):
        launcher.run(("forward", 2), forward, torch.full((2, 3), i))
        assert launcher.wait_ready() == ([[i] * 3] * 2, [3, 3])
    launcher.close()
