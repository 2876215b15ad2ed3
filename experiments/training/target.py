"""The target's training: packed documents, cross entropy with lighter prompts, loss by task on held-out text.

The pass is the engine's own; its keys and values start from zeros in every step, so gradients run through
what the step itself writes.
"""

from collections import defaultdict
from itertools import islice

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor, nn

from engine.models.qwen3_5.attention import Placement
from engine.models.qwen3_5.config import FULL, LINEAR, Qwen35Config
from engine.models.qwen3_5.target import Target, TargetOutput, TargetState
from experiments.training.corpus import Document, documents
from experiments.training.tokenizer import WIDTH

PROMPT_WEIGHT, EMBEDDING_SCALE, CODEBOOK_SCALE = 0.2, 0.05, 0.02
EVERY_LONG = 12  # every twelfth step has longer rows
CONFIG = Qwen35Config(
    vocab_size=WIDTH,
    hidden_size=128,
    intermediate_size=384,
    layer_types=(LINEAR, LINEAR, LINEAR, FULL) * 2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=32,
    rotary_dim=16,
    num_key_heads=2,
    num_value_heads=4,
    key_dim=32,
    value_dim=32,
    rope_theta=1e6,
    tied=True,
    max_context=2048,
)


@torch.no_grad()
def initialise(module: nn.Module, seed: int, norm: float = 0.0) -> None:
    """Fill a fresh module from a seed: norms as given, matrices by their width, slow decays."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in module.named_parameters():
        if name.endswith("A_log"):
            parameter.uniform_(1.0, 8.0, generator=generator).log_()
        elif name.endswith("dt_bias"):
            steps = torch.empty_like(parameter).uniform_(-6.5, -2.5, generator=generator).exp()
            parameter.copy_(steps.expm1().log())  # the inverse of softplus
        elif name.endswith("linear_attn.norm.weight"):
            parameter.fill_(1.0)
        elif parameter.dim() == 1:
            parameter.fill_(norm)
        elif name.endswith("base_kernel"):
            parameter.zero_()[:, 0] = 1.0
        elif name.endswith("kernel_projection.weight"):
            parameter.zero_()
        elif "embed_tokens" in name:
            parameter.normal_(0.0, EMBEDDING_SCALE, generator=generator)
        elif "codebook" in name:
            parameter.normal_(0.0, CODEBOOK_SCALE, generator=generator)
        elif name.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight")):
            parameter.normal_(0.0, 0.3 * parameter.shape[1] ** -0.5, generator=generator)
        elif "conv1d" in name:
            parameter.normal_(0.0, 0.3, generator=generator)
            parameter[..., -1] += 0.7
        else:
            parameter.normal_(0.0, parameter.shape[-1] ** -0.5, generator=generator)


def encode(tokenizer: Tokenizer, document: Document) -> tuple[list[int], list[float]]:
    """Ids of a document and the weight of each: answers count fully, given text lightly."""
    encoded = [one.ids for one in tokenizer.encode_batch(list(document.pieces))]
    ids = [token_id for piece in encoded for token_id in piece]
    weights = [1.0 if turn % 2 else PROMPT_WEIGHT for turn, piece in enumerate(encoded) for _ in piece]
    return ids, weights


def packed(tokenizer: Tokenizer, seed: str, shape: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Ids and weights [rows, columns]; every row starts with a whole document, its last one may be cut."""
    source = documents(seed)
    rows: list[tuple[list[int], list[float]]] = []
    for _ in range(shape[0]):
        ids: list[int] = []
        weights: list[float] = []
        while len(ids) < shape[1]:
            more_ids, more_weights = encode(tokenizer, next(source))
            ids += more_ids
            weights += more_weights
        rows.append((ids[: shape[1]], weights[: shape[1]]))
    return torch.tensor([ids for ids, _ in rows]), torch.tensor([weights for _, weights in rows])


def run(target: Target, ids: Tensor, feature_layers: tuple[int, ...] = ()) -> TargetOutput:
    """A pass over whole rows from empty lanes."""
    num_rows, num_columns = ids.shape
    placement = Placement(torch.arange(num_rows), torch.zeros(num_rows, dtype=torch.int64), num_columns)
    state = TargetState.allocate(target.config, num_rows, num_columns)
    return target(ids, placement, state, feature_layers=feature_layers)


def step_loss(
    target: Target,
    tokenizer: Tokenizer,
    seed: int,
    step: int,
    *,
    shapes: tuple[tuple[int, int], tuple[int, int]],
) -> tuple[Tensor, int]:
    """The loss of one step and its number of tokens."""
    shape = shapes[step % EVERY_LONG == EVERY_LONG - 1]
    ids, weights = packed(tokenizer, f"target/{seed}/{step}", shape)
    logits = run(target, ids).logits[:, :-1].flatten(0, 1)
    losses = F.cross_entropy(logits, ids[:, 1:].flatten(), reduction="none")
    own = weights[:, 1:].flatten()
    return (losses * own).sum() / own.sum(), ids.numel()


@torch.no_grad()
def held_out(
    target: Target, tokenizer: Tokenizer, seed: int, num_documents: int, batch: int = 16
) -> dict[str, tuple[float, int]]:
    """Mean loss in nats of the answers' tokens and their number, by task, on documents nobody trained on."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0])
    source = islice(documents(f"held-out/{seed}"), num_documents)
    found = sorted(((*encode(tokenizer, one), one.task) for one in source), key=lambda one: len(one[0]))
    for start in range(0, len(found), batch):
        part = found[start : start + batch]
        width = len(part[-1][0])
        ids = torch.tensor([ids + [0] * (width - len(ids)) for ids, _, _ in part])
        losses = F.cross_entropy(run(target, ids).logits[:, :-1].mT, ids[:, 1:], reduction="none")
        for row, (own_ids, weights, task) in enumerate(part):
            answers = torch.tensor(weights[1:]) == 1.0
            sums[task][0] += float(losses[row, : len(own_ids) - 1][answers].sum())
            sums[task][1] += int(answers.sum())
    means = {task: (total / count, int(count)) for task, (total, count) in sorted(sums.items())}
    whole = sum(total for total, _ in sums.values()), sum(int(count) for _, count in sums.values())
    return {"all": (whole[0] / whole[1], whole[1]), **means}
