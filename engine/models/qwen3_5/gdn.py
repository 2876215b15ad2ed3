"""Gated DeltaNet: a fixed-size state per lane, passes that leave it alone, and a commit that moves it.

A pass reads the state and returns records: per column the convolution's raw input, the key, the corrected
update u = beta * (v - what the decayed state answers to k), and the running log decay G since the state.
After h columns the state is exp(G_h) S + sum over j <= h of exp(G_h - G_j) k_j u_j, so the records of any
prefix give its state exactly: nothing is run again, whatever was rejected behind it. Prefill, decode and
verification use the same pass; they differ in how many columns are committed. State and records are float32,
but G is float64: a long pass sums far, and its differences must stay exact where little decays.
"""

from collections.abc import Sequence

import attrs
import torch
import torch.nn.functional as F
from jaxtyping import Float, Float32, Float64, Int64
from torch import Tensor, nn

from engine.models.qwen3_5.config import Qwen35Config
from engine.models.qwen3_5.parts import GatedRmsNorm, Projection, join, unit_length

CHUNK = 64  # columns solved together: the work inside a chunk grows with its square
KEY_EPS = 1e-6  # of the L2 norms, independent of the config's


@attrs.frozen(eq=False)
class GdnRecords:
    """What one pass leaves for its commit; a leading `layers` axis once stacked."""

    columns: Float[Tensor, "... batch taps_and_columns channels"]
    keys: Float32[Tensor, "... batch heads columns key_dim"]
    updates: Float32[Tensor, "... batch heads columns value_dim"]
    log_decay: Float64[Tensor, "... batch heads columns"]

    @classmethod
    def stack(cls, layers: Sequence["GdnRecords"]) -> "GdnRecords":
        """Return the records of all layers as one."""
        fields = zip(*((r.columns, r.keys, r.updates, r.log_decay) for r in layers), strict=True)
        return cls(*(torch.stack(tensors) for tensors in fields))


@attrs.frozen(eq=False)
class GdnState:
    """The state of every Gated DeltaNet layer for all lanes; `window` holds the newest raw columns."""

    recurrent: Float32[Tensor, "layers lanes heads key_dim value_dim"]
    window: Float[Tensor, "layers lanes taps channels"]

    @classmethod
    def allocate(
        cls, config: Qwen35Config, num_lanes: int, dtype: torch.dtype, device: torch.device | str = "cpu"
    ) -> "GdnState":
        """Return the state of empty lanes: zeros."""
        heads = (config.num_value_heads, config.key_dim, config.value_dim)
        taps = (config.conv_kernel - 1, config.conv_channels)
        return cls(
            torch.zeros((config.num_linear, num_lanes, *heads), dtype=torch.float32, device=device),
            torch.zeros((config.num_linear, num_lanes, *taps), dtype=dtype, device=device),
        )

    def reset(self, lane: int) -> None:
        """Empty a lane."""
        self.recurrent[:, lane] = 0
        self.window[:, lane] = 0

    def save(self, lane: int) -> tuple[Tensor, Tensor]:
        """Return copies of a lane's state."""
        return self.recurrent[:, lane].clone(), self.window[:, lane].clone()

    def load(self, lane: int, saved: tuple[Tensor, Tensor]) -> None:
        """Write a saved state into a lane."""
        self.recurrent[:, lane], self.window[:, lane] = saved

    def commit(
        self, records: GdnRecords, lanes: Int64[Tensor, " batch"], counts: Int64[Tensor, " batch"]
    ) -> None:
        """Move every row's lane by the first `counts` columns of its records, 0 up to all of them."""
        by_head = counts[None, :, None]
        states = self.recurrent.index_select(1, lanes)
        moved = replay(states, records.keys, records.updates, records.log_decay, by_head)
        self.recurrent.index_copy_(1, lanes, moved)
        taps = counts[:, None] + torch.arange(self.window.shape[2], device=counts.device)
        rows = torch.arange(len(counts), device=counts.device)[:, None]
        self.window.index_copy_(1, lanes, records.columns[:, rows, taps])


def replay(
    state: Float32[Tensor, "... key_dim value_dim"],
    keys: Float32[Tensor, "... columns key_dim"],
    updates: Float32[Tensor, "... columns value_dim"],
    log_decay: Float64[Tensor, "... columns"],
    counts: Int64[Tensor, "..."],
) -> Float32[Tensor, "... key_dim value_dim"]:
    """Return the state after the first `counts` columns; `counts` broadcasts against `log_decay[..., 0]`."""
    counts = counts.expand(log_decay.shape[:-1])[..., None]
    last = log_decay.gather(-1, (counts - 1).clamp(min=0)).masked_fill(counts == 0, 0.0)
    dropped = torch.arange(log_decay.shape[-1], device=state.device) >= counts
    weights = (last - log_decay).float().masked_fill(dropped, -torch.inf).exp()
    decayed, keys = last.float().exp()[..., None] * state, (keys * weights[..., None]).mT
    if keys.shape[-1] == 1:  # an outer product is no work for a matrix kernel
        return torch.addcmul(decayed, keys, updates)
    return decayed + keys @ updates


def delta_chunk(
    state: Float32[Tensor, "batch heads key_dim value_dim"],
    query: Float32[Tensor, "batch heads columns key_dim"],
    key: Float32[Tensor, "batch heads columns key_dim"],
    value: Float32[Tensor, "batch heads columns value_dim"],
    log_decay: Float64[Tensor, "batch heads columns"],
    beta: Float32[Tensor, "batch heads columns"],
) -> tuple[
    Float32[Tensor, "batch heads columns value_dim"], Float32[Tensor, "batch heads columns value_dim"]
]:
    """Return the answers to the queries and the corrected updates; `log_decay` is G.

    Every update depends on those before it through the keys: a unit lower triangular system, solved at once.
    """
    from_state = log_decay.float().exp()[..., None]
    updates = beta[..., None] * (value - from_state * (key @ state))
    if key.shape[2] == 1:
        return from_state * (query @ state) + (query * key).sum(-1, keepdim=True) * updates, updates
    later = torch.ones(key.shape[2], key.shape[2], dtype=torch.bool, device=key.device).triu(1)
    spans = (log_decay[..., :, None] - log_decay[..., None, :]).float()
    weights = spans.masked_fill(later, -torch.inf).exp()
    system = beta[..., None] * (key @ key.mT) * weights  # the solver reads only what is below the diagonal
    updates = torch.linalg.solve_triangular(system, updates, upper=False, unitriangular=True)
    return from_state * (query @ state) + ((query @ key.mT) * weights) @ updates, updates


def delta_pass(
    state: Float32[Tensor, "batch heads key_dim value_dim"],
    query: Float32[Tensor, "batch heads columns key_dim"],
    key: Float32[Tensor, "batch heads columns key_dim"],
    value: Float32[Tensor, "batch heads columns value_dim"],
    log_decay: Float64[Tensor, "batch heads columns"],
    beta: Float32[Tensor, "batch heads columns"],
) -> tuple[
    Float32[Tensor, "batch heads columns value_dim"], Float32[Tensor, "batch heads columns value_dim"]
]:
    """Return answers and updates of any number of columns; `log_decay` is G over the whole pass."""
    if key.shape[2] <= CHUNK:
        return delta_chunk(state, query, key, value, log_decay, beta)
    answers, updates = [], []
    for start in range(0, key.shape[2], CHUNK):
        part = slice(start, start + CHUNK)
        before = log_decay[:, :, start - 1 : start] if start else 0.0
        own_decay = log_decay[:, :, part] - before
        answer, update = delta_chunk(
            state, query[:, :, part], key[:, :, part], value[:, :, part], own_decay, beta[:, :, part]
        )
        answers.append(answer)
        updates.append(update)
        if part.stop < key.shape[2]:
            count = torch.full((), CHUNK, device=key.device)
            state = replay(state, key[:, :, part], update, own_decay, count)
    return torch.cat(answers, dim=2), torch.cat(updates, dim=2)


class DepthwiseTaps(nn.Module):
    """The weight of a causal depthwise convolution, [channels, 1, kernel]."""

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(channels, 1, kernel))

    def forward(
        self, columns: Float[Tensor, "batch taps_and_columns channels"]
    ) -> Float[Tensor, "batch columns channels"]:
        """Return one sum per column that has all its taps before it."""
        return (columns.unfold(1, self.weight.shape[2], 1) * self.weight[:, 0]).sum(-1)

    __call__ = forward


class GatedDeltaNet(nn.Module):
    """One linear-attention mixer; several value heads share one query and key head."""

    def __init__(self, config: Qwen35Config) -> None:
        super().__init__()
        self.widths = [2 * config.num_key_heads * config.key_dim, config.num_value_heads * config.value_dim]
        self.key_dim, self.value_dim = config.key_dim, config.value_dim
        self.num_shared = config.num_value_heads // config.num_key_heads
        hidden, heads = config.hidden_size, config.num_value_heads
        self.in_proj_qkv = Projection(hidden, config.conv_channels)
        self.in_proj_z = Projection(hidden, self.widths[1])
        self.in_proj_b = Projection(hidden, heads)
        self.in_proj_a = Projection(hidden, heads)
        self.conv1d = DepthwiseTaps(config.conv_channels, config.conv_kernel)
        self.A_log = nn.Parameter(torch.empty(heads))
        self.dt_bias = nn.Parameter(torch.empty(heads))
        self.norm = GatedRmsNorm(config.value_dim, config.eps)
        self.out_proj = Projection(self.widths[1], hidden)
        self.joined: Tensor | None = None

    @property
    def projections(self) -> tuple[Projection, ...]:
        """The matrices over the mixer's input, in the order in which they are joined."""
        return self.in_proj_qkv, self.in_proj_z, self.in_proj_b, self.in_proj_a

    def join(self) -> None:
        """Make one product of those on the same input."""
        self.joined = join(*self.projections)

    def project(self, x: Float[Tensor, "batch columns hidden"]) -> Sequence[Tensor]:
        """Return the input of the convolution, of the gate, of beta and of the decay."""
        if self.joined is None:
            return [projection(x) for projection in self.projections]
        heads = len(self.A_log)
        return F.linear(x, self.joined).split([sum(self.widths), self.widths[1], heads, heads], dim=-1)

    def forward(
        self,
        x: Float[Tensor, "batch columns hidden"],
        recurrent: Float32[Tensor, "batch heads key_dim value_dim"],
        window: Float[Tensor, "batch taps channels"],
    ) -> tuple[Float[Tensor, "batch columns hidden"], GdnRecords]:
        """Return the mixed columns and the records of all of them; the state is only read."""
        raw, gate, raw_beta, raw_decay = self.project(x)
        columns = torch.cat([window, raw], dim=1)
        pairs, value = F.silu(self.conv1d(columns)).float().split(self.widths, dim=-1)
        pairs = unit_length(_heads(pairs, self.key_dim), KEY_EPS)
        if self.num_shared > 1:
            pairs = pairs.repeat_interleave(self.num_shared, dim=1)
        query, key = pairs.chunk(2, dim=1)
        speed = F.softplus(raw_decay.float() + self.dt_bias.float())
        log_decay = (-self.A_log.float().exp() * speed).mT.double().cumsum(-1)
        beta = torch.sigmoid(raw_beta.float()).mT
        query, value = query * self.key_dim**-0.5, _heads(value, self.value_dim)
        answers, updates = delta_pass(recurrent, query, key, value, log_decay, beta)
        gate = gate.unflatten(-1, (-1, self.value_dim))
        mixed = self.norm(answers.transpose(1, 2), gate).flatten(2)
        return self.out_proj(mixed), GdnRecords(columns, key, updates, log_decay)

    __call__ = forward


def _heads(x: Float[Tensor, "batch columns width"], dim: int) -> Float[Tensor, "batch heads columns dim"]:
    return x.unflatten(-1, (-1, dim)).transpose(1, 2)
