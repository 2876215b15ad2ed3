"""The model that ships with the package: a small target with its vocabulary, MTP head and block drafters.

`config.json`, `model.safetensors` (target and `mtp.*`) and the vocabulary's files stand here; `dflash/` and
`dflash2/` hold a drafter each. `experiments/train_bundled.py` made all of them.
"""

from pathlib import Path


def bundled_directory() -> Path:
    """Return the directory, which loads like any other model's."""
    return Path(__file__).parent
