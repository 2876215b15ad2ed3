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
OP_SETS = ("torch", "triton")


class Size(enum.StrEnum):
    """How much work a run does."""

    QUICK = "quick"
    DEFAULT = "default"
    FULL = "full"


@frozen
class Scope:
    """What one run of `verify` covers."""

    size: Size = Size.DEFAULT
    paths: tuple[str, ...] = PATHS
    ops: str = "torch"
    vocab: str = "qwen3.5"
    seed: int = 0


@frozen(kw_only=True)
class Gate:
    """One gate: `entry` is "module:function"; `takes` are the parts of the scope it is called with.

    `sizes` maps a size to the gate's own keyword arguments. Rows of the table have their own sizes where the
    cost depends on it: a key "quick/triton" or "quick/qwen3.5" or "quick/triton/qwen3.5" adds to "quick".
    A gate with "path" in `takes` runs once per path; one with `shards` above 1 runs that many times with
    `shard=i` and `shards=n`, which makes equal parts of one piece of work.
    """

    name: str
    question: str
    entry: str
    takes: tuple[str, ...] = ()
    sizes: Mapping[str, Mapping[str, Any]] = field(factory=dict)
    shards: Mapping[str, int] = field(factory=dict)
    only_vocab: tuple[str, ...] = VOCABULARIES
    only_ops: tuple[str, ...] = OP_SETS

    def load(self) -> Callable[..., list[Verdict]]:
        """Import the gate's function."""
        module, function = self.entry.split(":")
        return getattr(importlib.import_module(module), function)

    def applies(self, scope: Scope) -> bool:
        """True where the gate has something to ask in this scope."""
        return scope.vocab in self.only_vocab and scope.ops in self.only_ops

    def arguments(self, scope: Scope) -> dict[str, Any]:
        """The keyword arguments of this gate in `scope`, sizes included."""
        size = scope.size.value
        keys = (size, f"{size}/{scope.ops}", f"{size}/{scope.vocab}", f"{size}/{scope.ops}/{scope.vocab}")
        arguments = {"seed": scope.seed}
        for key in keys:
            arguments.update(self.sizes.get(key, {}))
        for name in self.takes:
            if name in ("ops", "vocab"):
                arguments[name] = getattr(scope, name)
        return arguments


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
        if not gate.applies(scope):
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


GATES: tuple[Gate, ...] = (
    Gate(
        name="exact ops",
        question="Do sampling, acceptance and the generator equal their oracles at every break point?",
        entry="experiments.gates.exact_ops:gate",
        takes=("ops",),
    ),
    Gate(
        name="legal sets",
        question="Is every mask bit right for random grammars, regular expressions and choices?",
        entry="experiments.gates.legal_sets:gate",
    ),
    Gate(
        name="transactions",
        question="Do preview, confirm, discard and look-ahead leave the state a fresh start would give?",
        entry="experiments.gates.transactions:gate",
    ),
    Gate(
        name="paths",
        question="Does every decoding path give the law of ordinary masked sampling?",
        entry="experiments.gates.paths:gate",
        takes=("path", "ops", "vocab"),
    ),
    Gate(
        name="real vocabulary",
        question="Is every bit of all 248,320 ids right, and is sampling exact on rows that wide?",
        entry="experiments.gates.real_vocabulary:gate",
        takes=("ops",),
        only_vocab=("qwen3.5",),
    ),
    Gate(
        name="triton equals torch",
        question="Do the Triton kernels give the ids of the torch reference on equal uniforms?",
        entry="experiments.gates.triton_equals_torch:gate",
        takes=("vocab",),
        only_ops=("triton",),
    ),
)
