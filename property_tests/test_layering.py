"""The house rules as code: which way imports go, where each decision lives, how large things may grow."""

import ast
import statistics
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("engine", "oracles", "experiments", "property_tests")
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_MEDIAN_FUNCTION_LINES = 12

# A room imports from rooms of a lower rank and from itself; `text` and `ops` do not know each other.
RANKS = {
    "errors": 0,
    "request": 1,
    "ops": 2,
    "text": 2,
    "frontend": 3,
    "models": 3,
    "runtime": 4,
    "gateway": 5,
}
ORACLE_IMPORTS = {"numpy", "scipy", "jsonschema", "oracles", *sys.stdlib_module_names}
CORES = {"xgrammar", "llguidance"}

# One home per decision: the function is defined there (and in its numpy and Triton twins) and nowhere else.
HOMES = {
    "fill_window": {"engine/text/masks.py"},
    "select_candidates": {
        "engine/ops/sample.py",
        "engine/ops/sample_numpy.py",
        "engine/ops/sample_triton.py",
    },
    "target_law": {"engine/ops/sample.py", "engine/ops/sample_numpy.py"},
    "draw": {"engine/ops/sample.py", "engine/ops/sample_numpy.py"},
    "accept_round": {"engine/ops/accept.py", "engine/ops/accept_numpy.py", "engine/ops/accept_triton.py"},
    "commit_round": {"engine/runtime/commit.py"},
}


def _files(*packages: str) -> list[Path]:
    return sorted(path for package in packages for path in (ROOT / package).rglob("*.py"))


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def _room(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "engine" and len(parts) > 1 and parts[1] in RANKS else None


def _functions(path: Path) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(_tree(path)) if isinstance(node, ast.FunctionDef)]


@pytest.mark.parametrize("path", _files("oracles"), ids=_name)
def test_oracles_import_only_numpy_scipy_jsonschema_and_the_standard_library(path):
    assert {module.split(".")[0] for module in _imports(path)} <= ORACLE_IMPORTS


def _modules_loaded_by(statement: str) -> set[str]:
    code = f"{statement}\nimport sys; print(' '.join(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(run.stdout.split())


def test_importing_every_oracle_loads_neither_torch_nor_the_engine():
    modules = [path.relative_to(ROOT).with_suffix("") for path in _files("oracles")]
    names = [".".join(module.parts) for module in modules if module.name != "__init__"]
    loaded = _modules_loaded_by("\n".join(f"import {name}" for name in names))
    assert not loaded & {"torch", "engine", *CORES}


def test_the_check_above_can_fail():
    assert "engine" in _modules_loaded_by("import engine.errors")


@pytest.mark.clause("REQ-5")
@pytest.mark.parametrize("path", _files("engine"), ids=_name)
def test_engine_imports_go_one_way_and_only_the_adapters_know_a_core(path):
    modules = _imports(path)
    roots = {module.split(".")[0] for module in modules}
    assert not roots & {"oracles", "experiments", "property_tests"}
    if path.parent.name != "cores":
        assert not roots & CORES
    parts = path.relative_to(ROOT / "engine").parts
    own = parts[0].removesuffix(".py")
    if own not in RANKS:
        return
    for other in {_room(module) for module in modules} - {None, own}:
        assert RANKS[other] < RANKS[own], f"{own} imports {other}"


@pytest.mark.parametrize("function", HOMES)
def test_each_decision_has_one_home(function):
    homes = {
        _name(path)
        for path in _files("engine")
        for node in _tree(path).body
        if isinstance(node, ast.FunctionDef) and node.name == function
    }
    assert homes
    assert homes <= HOMES[function]


@pytest.mark.parametrize("path", _files(*PACKAGES), ids=_name)
def test_files_and_functions_stay_small(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_FILE_LINES
    for node in _functions(path):
        assert node.end_lineno - node.lineno < MAX_FUNCTION_LINES, node.name


def test_the_median_function_is_short():
    lengths = [
        node.end_lineno - node.lineno + 1 for path in _files("engine", "oracles") for node in _functions(path)
    ]
    assert statistics.median(lengths) <= MAX_MEDIAN_FUNCTION_LINES


@pytest.mark.parametrize("path", _files("oracles"), ids=_name)
def test_every_oracle_has_a_property_test_of_the_same_stem(path):
    """A package of oracles answers one question together: its tests are named after it."""
    package = path.parent.name
    stem = path.stem if package == "oracles" else f"oracle_{package}"
    if path.stem != "__init__":
        assert (ROOT / "property_tests" / f"test_{stem}.py").exists()


GLOBAL_RANDOMNESS = ("torch.rand", "torch.manual_seed", "torch.multinomial", "np.random.", "numpy.random")


@pytest.mark.clause("SAMP-12")
@pytest.mark.parametrize("path", _files("engine", "oracles"), ids=_name)
def test_randomness_is_an_argument(path):
    source = path.read_text(encoding="utf-8")
    assert not [call for call in GLOBAL_RANDOMNESS if call in source]
    assert "random" not in _imports(path)


@pytest.mark.clause("REQ-6", "SAFE-12")
def test_cores_are_pinned_and_their_schema_converters_and_kernels_unused():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {line.split("==")[0] for line in project["dependencies"] if ";" not in line and "==" in line}
    assert names == CORES
    for path in _files("engine"):
        source = path.read_text(encoding="utf-8")
        for name in ("from_json_schema", "compile_json_schema", "grammar_from_json_schema", "structural_tag"):
            assert name not in source
        assert "apply_token_bitmask" not in source


def test_ci_runs_exactly_the_test_command_of_the_readme():
    command = (ROOT / ".ci" / "run").read_text(encoding="utf-8").strip().splitlines()[-1]
    assert command.startswith("pip install")
    assert command in (ROOT / "README.md").read_text(encoding="utf-8")


def test_no_assert_in_the_engine_changes_state():
    """The suite must mean the same under `python -O`: an assert holds no call that could act."""
    pure = {"len", "isinstance", "all", "any", "sum", "min", "max", "set", "range", "sorted", "abs"}
    for path in _files("engine"):
        for node in ast.walk(_tree(path)):
            if not isinstance(node, ast.Assert):
                continue
            calls = [call for call in ast.walk(node.test) if isinstance(call, ast.Call)]
            named = {call.func.id for call in calls if isinstance(call.func, ast.Name)}
            assert all(isinstance(call.func, ast.Name) for call in calls) and named <= pure, _name(path)
