"""What the tests of the Llama modules share: small random models and their oracle."""

import attrs
import numpy as np

from engine.models.llama.config import LlamaConfig
from engine.models.llama.target import Llama
from oracles import llama as oracle
from property_tests.qwen3_5_words import filled

BASE = LlamaConfig(
    vocab_size=37,
    hidden_size=24,
    intermediate_size=40,
    num_layers=3,
    num_heads=4,
    num_kv_heads=2,
    head_dim=12,
    max_context=512,
)
CONFIGS = {
    "grouped": BASE,
    "tied, every head its own keys": attrs.evolve(BASE, tied=True, num_kv_heads=4, rope_theta=1e5, eps=1e-5),
    "one kv head, heads as wide as the rest": attrs.evolve(BASE, num_heads=3, num_kv_heads=1, head_dim=8),
}


def llama_of(config: LlamaConfig, seed: int = 0) -> Llama:
    """A random model; norms scale by about one."""
    model = filled(Llama(config), seed)
    for name, parameter in model.named_parameters():
        if name.endswith("norm.weight"):
            parameter.data += 1.0
    return model


def truth(model: Llama, ids: list[int]) -> oracle.Pass:
    """The oracle's pass over the same weights."""
    config = model.config
    shape = oracle.Shape(
        num_layers=config.num_layers,
        num_heads=config.num_heads,
        num_kv_heads=config.num_kv_heads,
        head_dim=config.head_dim,
        rope_theta=config.rope_theta,
        eps=config.eps,
    )
    weights = {name: tensor.double().numpy() for name, tensor in model.state_dict().items()}
    return oracle.target(shape, weights, ids)


def drawn(rng: np.random.Generator) -> LlamaConfig:
    """A config whose numbers are drawn at random, so that no equality of two of them hides a mix-up."""

    def pick(*values: int) -> int:
        return int(rng.choice(values))

    num_kv_heads = pick(1, 2, 3)
    num_heads = num_kv_heads * pick(1, 2, 3)
    return LlamaConfig(
        vocab_size=pick(11, 50),
        hidden_size=num_heads * pick(3, 7),  # the other side insists
        intermediate_size=pick(17, 33),
        num_layers=pick(1, 2, 4),
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=pick(6, 8, 20),
        rope_theta=float(pick(10_000, 500_000)),
        eps=pick(1, 10) * 1e-6,
        tied=bool(pick(0, 1)),
    )
