"""Gate: the target's logits are those of the float64 oracle, for prompts in one pass and in small pieces."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.models.qwen3_5.config import FULL, Qwen35Config
from engine.models.qwen3_5.target import Target
from experiments.cases import Line
from experiments.gates.neural_world import NeuralWorld, neural_world
from experiments.verdict import Verdict, Visible, failed, passed, skipped
from oracles import qwen3_5

NAME = "neural logits"
CHECK = "equal the float64 oracle"
TOLERANCE = 1e-4  # of the largest logit of a position


def gate(*, model: str, seed: int, num_prompts: int = 2, num_tokens: int = 16) -> list[Verdict]:
    """Judge a model directory; `seed` chooses where in the prompts to start."""
    return judge_world(neural_world(model), seed, num_prompts, num_tokens, model)


def judge_world(
    world: NeuralWorld, seed: int, num_prompts: int, num_tokens: int, model: str = ""
) -> list[Verdict]:
    """Compare every position of a few prompts."""
    target = world.reader.model
    if not isinstance(target, Target):
        return [skipped(NAME, CHECK, f"the float64 oracle reads Qwen3.5, not {type(target).__name__}")]
    shape, weights = oracle_shape(target.config), oracle_weights(target)
    prompts = [prompt[:num_tokens] for prompt in world.prompts[:num_prompts]]
    errors = [difference(world, shape, weights, prompt) for prompt in prompts]
    worst = max(range(len(errors)), key=errors.__getitem__)
    facts: dict[str, Any] = {"n": sum(map(len, prompts)), "worst_error": errors[worst]}
    facts |= {"visible": Visible("of the largest logit", TOLERANCE), "clauses": ("EXEC-1",)}
    if not errors[worst] < TOLERANCE:
        case = {"kind": "neural logits", "replay": "experiments.gates.neural_logits:replay", "model": model}
        return [failed(NAME, CHECK, case={**case, "prompt": list(prompts[worst])}, **facts)]
    return [passed(NAME, CHECK, **facts)]


def difference(
    world: NeuralWorld, shape: qwen3_5.Shape, weights: qwen3_5.Weights, prompt: Sequence[int]
) -> float:
    """The largest difference of any logit, relative to the largest one of its position."""
    got, wanted = world.reader.logits(prompt), qwen3_5.target(shape, weights, prompt).logits
    return float((np.abs(got - wanted).max(axis=1) / np.abs(wanted).max(axis=1)).max())


def oracle_shape(config: Qwen35Config) -> qwen3_5.Shape:
    """The oracle's own record of a config's numbers."""
    same = ("num_layers", "num_heads", "num_kv_heads", "head_dim", "rotary_dim", "rope_theta")
    same += ("num_key_heads", "num_value_heads", "key_dim", "value_dim", "eps")
    full = frozenset(i for i, kind in enumerate(config.layer_types) if kind == FULL)
    numbers: dict[str, Any] = {name: getattr(config, name) for name in same}
    return qwen3_5.Shape(full_layers=full, num_taps=config.conv_kernel, **numbers)


def oracle_weights(target: Target) -> dict[str, np.ndarray]:
    """The parameters as float64 arrays, by published names."""
    return {name: tensor.double().numpy() for name, tensor in target.state_dict().items()}


def replay(case: dict[str, Any]) -> list[Line]:
    """Compare the prompt of a case file position by position."""
    world = neural_world(case["model"])
    target = world.reader.model
    assert isinstance(target, Target)
    got = world.reader.logits(case["prompt"])
    wanted = qwen3_5.target(oracle_shape(target.config), oracle_weights(target), case["prompt"]).logits
    scale = np.abs(wanted).max(axis=1)
    return [
        Line(
            f"best id and logit at {i}",
            f"{row.argmax()} {row.max():.6f}",
            f"{other.argmax()} {other.max():.6f}",
            bool(np.abs(row - other).max() < TOLERANCE * scale[i]),
        )
        for i, (row, other) in enumerate(zip(got, wanted, strict=True))
    ]
