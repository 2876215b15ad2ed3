"""Formatting, lint and types: one command checks everything, so these run as tests."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = {
    "format": ["ruff", "format", "--check", "."],
    "lint": ["ruff", "check", "."],
    "types": ["mypy"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_style(name):
    command = [sys.executable, "-m", *COMMANDS[name]]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
