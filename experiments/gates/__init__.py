"""The registry: every gate of `counterproof verify`, in order, with its sizes and what it depends on.

A gate is a plain function `gate(*, seed, <what it depends on>, <its sizes>) -> list[Verdict]` in one file of
this package. It prints nothing, reads no global state and gives the same verdicts in any process or order.
Here stands only what the runner must know without importing it: where it lives, what it takes, how large.
"""

import enum
import hashlib
import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from attrs import field, frozen

from experiments.verdict import Verdict

PATHS = ("ordinary", "mtp", "dflash", "dflash2", "ngram")
VOCABULARIES = ("toy", "qwen3.5")
OP_SETS = ("torch", "numpy", "triton")


def vocabulary_kind(vocab: str) -> str:
    """The kind of a vocabulary, one of VOCABULARIES: a model directory is asked what the real one is."""
    return vocab if vocab in VOCABULARIES else "qwen3.5"


class Size(enum.StrEnum):
    """How much work a run does."""

    QUICK = "quick"
    DEFAULT = "default"
    FULL = "full"


@frozen
class Scope:
    """What one run of `verify` covers; `vocab` is one of VOCABULARIES or a model directory.

    `model` is the neural model, "" for none; with `model_only` its gates run alone, and at length.
    """

    size: Size = Size.DEFAULT
    paths: tuple[str, ...] = PATHS
    ops: str = "torch"
    vocab: str = "qwen3.5"
    seed: int = 0
    model: str = ""
    model_only: bool = False


@frozen(kw_only=True)
class Gate:
    """One gate: `entry` is "module:function"; `takes` are the parts of the scope it is called with.

    `unit` is what its n counts, in the plural.

    `sizes` maps a size to the gate's own keyword arguments. Rows of the table have their own sizes where the
    cost depends on it: a key "quick/triton" or "quick/qwen3.5" or "quick/triton/qwen3.5" adds to "quick"; of
    a gate that takes the model, "quick/model" adds to it where the run is about the model alone.
    A text in place of sizes is the reason why the gate is skipped there.
    A gate with "path" in `takes` runs once per path; one with `shards` above 1 runs that many times with
    `shard=i` and `shards=n`, which makes equal parts of one piece of work.
    """

    name: str
    question: str
    entry: str
    unit: str = "cases"
    takes: tuple[str, ...] = ()
    sizes: Mapping[str, Mapping[str, Any] | str] = field(factory=dict)
    shards: Mapping[str, int] = field(factory=dict)
    only_vocab: tuple[str, ...] = VOCABULARIES
    only_ops: tuple[str, ...] = OP_SETS

    def load(self) -> Callable[..., list[Verdict]]:
        """Import the gate's function."""
        module, function = self.entry.split(":")
        return getattr(importlib.import_module(module), function)

    def applies(self, scope: Scope) -> bool:
        """True where the gate has something to ask in this scope."""
        if "model" in self.takes:
            return bool(scope.model) and scope.ops in self.only_ops
        fits = vocabulary_kind(scope.vocab) in self.only_vocab and scope.ops in self.only_ops
        return fits and not scope.model_only

    def skip_reason(self, scope: Scope) -> str:
        """Why the gate is left out in this scope, "" when it is not."""
        return next((size for size in self._sizes_in(scope) if isinstance(size, str)), "")

    def arguments(self, scope: Scope) -> dict[str, Any]:
        """The keyword arguments of this gate in `scope`, sizes included."""
        arguments: dict[str, Any] = {"seed": scope.seed}
        for name in self.takes:
            if name in ("ops", "vocab", "model"):
                arguments[name] = getattr(scope, name)
        for size in self._sizes_in(scope):
            arguments.update(size)
        return arguments

    def _sizes_in(self, scope: Scope) -> list[Any]:
        size, kind = scope.size.value, vocabulary_kind(scope.vocab)
        keys = [size, f"{size}/{scope.ops}", f"{size}/{kind}", f"{size}/{scope.ops}/{kind}"]
        keys += [f"{size}/model"] * scope.model_only
        return [self.sizes[key] for key in keys if key in self.sizes]


@frozen
class Job:
    """One unit of work for one process: a gate with all its arguments."""

    gate: Gate
    arguments: Mapping[str, Any]

    @property
    def label(self) -> str:
        """The gate's name with the path or shard that tells its jobs apart."""
        parts = [self.gate.name]
        if "path" in self.arguments:
            parts.append(self.arguments["path"])
        if "shard" in self.arguments:
            parts.append(f"{self.arguments['shard'] + 1}/{self.arguments['shards']}")
        return " ".join(parts)


def jobs(scope: Scope, gates: tuple[Gate, ...]) -> Iterator[Job]:
    """The jobs of a run, in the order in which their verdicts are reported."""
    for gate in gates:
        if not gate.applies(scope) or gate.skip_reason(scope):
            continue
        arguments = gate.arguments(scope)
        if "path" in gate.takes:
            for path in scope.paths:
                yield Job(gate, arguments | {"path": path})
            continue
        shards = gate.shards.get(scope.size.value, 1)
        for shard in range(shards):
            yield Job(gate, arguments | ({"shard": shard, "shards": shards} if shards > 1 else {}))


def job_seed(seed: int, label: str) -> int:
    """A 63-bit seed of its own for each label, the same on every machine and in every order."""
    digest = hashlib.sha256(f"{seed}:{label}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


SLOW_TRITON = "interpreted kernels are too slow for this: Triton's tokens are compared with torch's instead"
TRITON_CHECKS = ("equals the oracle's twin", "budgets", "rows that fail")
JSON_CHECKS = ("finished outputs are valid", "equals the oracle's twin", "greedy equals ordinary")
GATES: tuple[Gate, ...] = (
    Gate(
        name="exact ops",
        question="Do sampling, acceptance and the generator equal their oracles at every break point?",
        entry="experiments.gates.exact_verdicts:gate",
        unit="rows given to an op",
        takes=("ops",),
        sizes={
            "quick": {"size": "quick"},
            "default": {"size": "full"},
            "full": {"size": "full"},
            # Interpreted acceptance costs about 20 ms a row.
            "quick/triton": {
                "size": "tiny",
                "checks": ("uniforms", "sampling laws", "draws", "proposals", "random rounds", "joint law"),
            },
            "default/triton": {"size": "tiny"},
            "full/triton": {"size": "quick"},
        },
        shards={"default": 4, "full": 4},
    ),
    Gate(
        name="sampled ops",
        question="Do rounds drawn with the real generator follow the exact law?",
        entry="experiments.gates.sampled_verdicts:gate",
        unit="rounds",
        takes=("ops",),
        sizes={
            "quick": {"see": 0.06, "one_hot": 60_000, "sparse": 60_000},
            "default": {"see": 0.01, "one_hot": 1_800_000, "sparse": 700_000},
            "full": {"see": 0.005, "one_hot": 7_500_000, "sparse": 2_600_000},
        },
        shards={"default": 2, "full": 2},
        only_ops=("torch", "numpy"),
    ),
    Gate(
        name="legal sets",
        question="Is every mask bit right for random grammars, regular expressions and choices?",
        entry="experiments.gates.legal_sets:gate",
        unit="ids compared (rows, for the windows)",
        sizes={
            "quick": {"num_grammars": 60, "num_regexes": 40, "num_choices": 40, "num_windows": 120},
            "default": {"num_grammars": 1000, "num_regexes": 600, "num_choices": 600, "num_windows": 2400},
            "full": {
                "num_grammars": 10_000,
                "num_regexes": 10_000,
                "num_choices": 10_000,
                "num_windows": 12_000,
            },
        },
        shards={"quick": 2, "default": 4, "full": 16},
    ),
    Gate(
        name="transactions",
        question="Do preview, confirm, discard and look-ahead leave the state a fresh start would give?",
        entry="experiments.gates.transactions:gate",
        unit="answers compared",
        sizes={"quick": {"scripts": 16}, "default": {"scripts": 120}, "full": {"scripts": 1200}},
        shards={"default": 2, "full": 8},
    ),
    Gate(
        name="real vocabulary",
        question="Is every bit of a real vocabulary's ids right, and is sampling exact on rows that wide?",
        entry="experiments.gates.real_vocabulary:gate",
        unit="bits compared (draws, for sampling)",
        takes=("ops", "vocab"),
        sizes={
            "quick": {"rows": 4},
            "default": {"rows": 16},
            "full": {"rows": 64},
        },
        shards={"default": 2, "full": 2},
        only_vocab=("qwen3.5",),
    ),
    Gate(
        name="triton equals torch",
        question="Do the Triton kernels give the ids of the torch reference on equal uniforms?",
        entry="experiments.gates.triton_equals_torch:gate",
        unit="rows, rounds, or uniforms",
        takes=("vocab",),
        sizes={
            "quick": {"rows": 2, "rounds": 16},
            "quick/triton": {"rows": 8, "rounds": 100},
            "default": {"rows": 64, "rounds": 400},
            "full": {"rows": 512, "rounds": 4000},
        },
    ),
    Gate(
        name="triton paths",
        question="Does every path publish the same tokens with the Triton kernels as with torch?",
        entry="experiments.gates.triton_paths:gate",
        unit="tokens",
        takes=("path", "vocab"),
        sizes={
            "quick": {"requests": 12, "max_tokens": 5},
            "quick/qwen3.5": {"requests": 4, "max_tokens": 3},
            "default": {"requests": 24, "max_tokens": 7},
            "default/qwen3.5": {"requests": 4, "max_tokens": 6},
            "full": {"requests": 96, "max_tokens": 7},
            "full/qwen3.5": {"requests": 32, "max_tokens": 7},
        },
        only_ops=("triton",),
    ),
    Gate(
        name="paths",
        question="Does every decoding path give the tokens, and the law, of ordinary masked sampling?",
        entry="experiments.gates.paths:gate",
        unit="requests",
        takes=("path", "ops", "vocab"),
        sizes={
            "quick": {"num_seeds": 2, "total_variation_seen": 0.05},
            "quick/qwen3.5": {"checks": ("equals the oracle's twin",), "num_seeds": 1, "law_vocab": "toy"},
            "default": {"num_seeds": 6, "total_variation_seen": 0.05},
            "default/qwen3.5": {"num_seeds": 2},
            "full": {"num_seeds": 40, "total_variation_seen": 0.02},
            "full/qwen3.5": {"num_seeds": 8},
            "quick/triton": SLOW_TRITON,
            "default/triton": {"num_seeds": 2, "total_variation_seen": None, "checks": TRITON_CHECKS},
            "default/triton/qwen3.5": SLOW_TRITON,
            "full/triton": {"num_seeds": 4, "total_variation_seen": None},
            "full/triton/qwen3.5": SLOW_TRITON,
        },
    ),
    Gate(
        name="JSON schema",
        question="Is what every path says under a JSON schema valid, with the law of ordinary sampling?",
        entry="experiments.gates.json_schema:gate",
        unit="requests",
        takes=("path", "ops", "vocab"),
        sizes={
            "quick": {"num_seeds": 2, "total_variation_seen": 0.15, "checks": JSON_CHECKS},
            "quick/qwen3.5": {"num_seeds": 3, "checks": JSON_CHECKS[:1], "total_variation_seen": None},
            "default": {"num_seeds": 6, "total_variation_seen": 0.05},
            "default/qwen3.5": {"num_seeds": 2, "law_vocab": "toy"},
            "full": {"num_seeds": 40, "total_variation_seen": 0.02},
            "full/qwen3.5": {"num_seeds": 8, "law_vocab": "toy"},
        },
        only_ops=("torch", "numpy"),
    ),
    Gate(
        name="JSON schema masks",
        question="Are the look-ahead rows of JSON schemas right, repeated names included?",
        entry="experiments.gates.json_windows:gate",
        unit="rows",
        takes=("vocab",),
        sizes={
            "quick": {"num_windows": 400},
            "quick/qwen3.5": {"num_windows": 120},
            "default": {"num_windows": 6000},
            "default/qwen3.5": {"num_windows": 800},
            "full": {"num_windows": 60_000},
            "full/qwen3.5": {"num_windows": 6000},
        },
        shards={"default": 2, "full": 4},
    ),
    Gate(
        name="frontend calls",
        question="Are the tool calls that the grammar lets through read as they were written?",
        entry="experiments.gates.frontend_calls:gate",
        unit="calls",
        takes=("vocab",),
        only_vocab=("toy",),
        sizes={"quick": {"num_sets": 20}, "default": {"num_sets": 120}, "full": {"num_sets": 1000}},
    ),
    Gate(
        name="neural logits",
        question="Are the model's logits those of the float64 oracle?",
        entry="experiments.gates.neural_logits:gate",
        unit="positions",
        takes=("model",),
        sizes={
            "default": {"num_prompts": 2},
            "full": {"num_prompts": 4, "num_tokens": 64},
            "default/model": {"num_prompts": 4},
        },
        only_ops=("torch", "numpy"),
    ),
    Gate(
        name="neural tokens",
        question="Does every path of a real model give ordinary decoding's tokens, in any batch?",
        entry="experiments.gates.neural_tokens:gate",
        unit="requests",
        takes=("path", "model"),
        sizes={
            "quick": {"num_requests": 3, "max_tokens": 8},
            "default": {"num_requests": 5, "max_tokens": 12},
            "full": {"num_requests": 40, "max_tokens": 64},
            "quick/model": {"num_requests": 5, "max_tokens": 12},
            "default/model": {"num_requests": 16, "max_tokens": 48},
        },
        only_ops=("torch", "numpy"),
    ),
    Gate(
        name="neural law",
        question="Do the first tokens of every path of a real model follow the law of ordinary sampling?",
        entry="experiments.gates.neural_law:gate",
        unit="requests",
        takes=("path", "model"),
        sizes={
            "quick": {"total_variation_seen": 0.4},
            "default": {"total_variation_seen": 0.2},
            "quick/model": {"total_variation_seen": 0.1},
            "full": {"total_variation_seen": 0.02},
            "default/model": {"total_variation_seen": 0.05},
        },
        only_ops=("torch", "numpy"),
    ),
    Gate(
        name="neural state",
        question="Does a lane moved by rounds hold what one built from its history holds?",
        entry="experiments.gates.neural_state:gate",
        unit="comparisons",
        takes=("path", "model"),
        sizes={
            "quick": {"num_prompts": 1},
            "default": {"num_prompts": 1},
            "full": {"num_prompts": 4},
            "default/model": {"num_prompts": 2},
        },
        only_ops=("torch", "numpy"),
    ),
    Gate(
        name="neural graphs",
        question="Does every path give its eager tokens under rehearsed capture and replay?",
        entry="experiments.gates.neural_graphs:gate",
        unit="requests",
        takes=("path", "model"),
        sizes={
            "quick": {"num_requests": 2, "max_tokens": 6},
            "default": {"num_requests": 5, "max_tokens": 8},
            "full": {"num_requests": 20, "max_tokens": 48},
            "default/model": {"num_requests": 10, "max_tokens": 32},
        },
        only_ops=("torch", "numpy"),
    ),
    Gate(
        name="neural outputs",
        question="Is what every path of a real model says under a constraint a member of its language?",
        entry="experiments.gates.neural_outputs:gate",
        unit="outputs",
        takes=("path", "model"),
        sizes={
            "quick": {"num_requests": 1},
            "default": {"num_requests": 2},
            "full": {"num_requests": 40},
            "default/model": {"num_requests": 10},
        },
        only_ops=("torch", "numpy"),
    ),
)
