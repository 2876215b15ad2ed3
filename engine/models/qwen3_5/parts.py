"""The small parts that several models share: a matrix, the norms and the gated MLP.

Parameter names are those of the published tensors, so a module's own names are its checkpoint's. Parameters
start uninitialised: weights come from a file or from a caller's generator, never from a global one. Calling a
module is its `forward` and nothing else: hooks, which nobody sets here, would cost as much as a small matrix.
"""

import functools

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


@functools.lru_cache
def _floor(sum_of_squares: float, device: torch.device) -> Tensor:
    """The length that is added, as a right angle, to every vector's own; made once."""
    with torch.inference_mode(False):
        return torch.tensor(sum_of_squares**0.5, device=device)


def unit_length(x: Float[Tensor, "... width"], eps: float) -> Float[Tensor, "... width"]:
    """Return x over sqrt(sum of squares + eps), in float32, in few calls."""
    x = x.float()
    return x / torch.hypot(torch.linalg.vector_norm(x, dim=-1, keepdim=True), _floor(eps, x.device))


class Scale:
    """A norm's scale, `offset + weight` in float32, kept until its weight changes; training makes it anew."""

    def __init__(self, offset: float) -> None:
        self._offset = offset
        self._seen: tuple[Tensor, int] | None = None
        self._kept = torch.empty(0)

    def of(self, weight: Float[Tensor, " width"]) -> Float[Tensor, " width"]:
        """Return the scale times sqrt(width): what a vector of length one is multiplied with."""
        if weight.requires_grad:
            return self._made(weight)
        seen = self._seen
        if seen is None or seen[0] is not weight or seen[1] != weight._version:
            with torch.inference_mode(False):
                self._seen, self._kept = (weight, weight._version), self._made(weight)
        return self._kept

    def _made(self, weight: Tensor) -> Tensor:
        return (self._offset + weight.float()) * weight.shape[-1] ** 0.5


def scaled_norm(
    x: Float[Tensor, "... width"], scale: Float[Tensor, " width"], eps: float
) -> Float[Tensor, "... width"]:
    """Return x over its root mean square, in float32, times a norm's scale (`Scale.of`).

    A CPU has no kernel for it, a GPU has.
    """
    x, width = x.float(), x.shape[-1]
    if x.device.type != "cpu":
        return F.rms_norm(x, (width,), scale * width**-0.5, eps)
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x * (scale / torch.hypot(length, _floor(eps * width, x.device)))


class Projection(nn.Module):
    """A matrix without bias, [out, in]."""

    def __init__(self, num_in: int, num_out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_out, num_in))

    def forward(self, x: Float[Tensor, "... num_in"]) -> Float[Tensor, "... num_out"]:
        """Return x times the matrix."""
        return F.linear(x, self.weight)

    __call__ = forward


def join(*projections: Projection) -> Float[Tensor, "num_out num_in"]:
    """Return matrices over one input as one, their own weights made views of it: nothing is held twice."""
    joined = torch.cat([projection.weight.detach() for projection in projections])
    parts = joined.split([len(projection.weight) for projection in projections])
    for projection, part in zip(projections, parts, strict=True):
        projection.weight = nn.Parameter(part, requires_grad=False)
    return joined


class RmsNorm(nn.Module):
    """Root mean square norm whose stored weight is centred at zero: the scale is 1 + weight."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))
        self.eps, self.scale = eps, Scale(1.0)

    def forward(self, x: Float[Tensor, "... width"]) -> Float[Tensor, "... width"]:
        """Return the normed x in its own dtype; the work is done in float32."""
        return scaled_norm(x, self.scale.of(self.weight), self.eps).to(x.dtype)

    __call__ = forward


class PlainRmsNorm(nn.Module):
    """Root mean square norm whose scale is the stored weight itself."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))
        self.eps, self.scale = eps, Scale(0.0)

    def forward(self, x: Float[Tensor, "... width"]) -> Float[Tensor, "... width"]:
        """Return the normed x in its own dtype; the work is done in float32."""
        return scaled_norm(x, self.scale.of(self.weight), self.eps).to(x.dtype)

    __call__ = forward


class GatedRmsNorm(nn.Module):
    """The norm inside Gated DeltaNet: its scale is the weight itself, then silu(gate) multiplies."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))
        self.eps, self.scale = eps, Scale(0.0)

    def forward(
        self, x: Float[Tensor, "... width"], gate: Float[Tensor, "... width"]
    ) -> Float[Tensor, "... width"]:
        """Return the normed and gated x in the gate's dtype; the work is done in float32."""
        normed = scaled_norm(x, self.scale.of(self.weight), self.eps)
        return (normed * F.silu(gate.float())).to(gate.dtype)

    __call__ = forward


class Mlp(nn.Module):
    """down(silu(gate(x)) * up(x)); loaded weights are joined, those in training are not."""

    def __init__(self, hidden_size: int, intermediate_size: int) -> None:
        super().__init__()
        self.gate_proj = Projection(hidden_size, intermediate_size)
        self.up_proj = Projection(hidden_size, intermediate_size)
        self.down_proj = Projection(intermediate_size, hidden_size)
        self.joined: Tensor | None = None

    def join(self) -> None:
        """Make one product of the two on the same input."""
        self.joined = join(self.gate_proj, self.up_proj)

    def forward(self, x: Float[Tensor, "... hidden"]) -> Float[Tensor, "... hidden"]:
        """Return the MLP of every position."""
        if self.joined is None:
            return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        gate, up = F.linear(x, self.joined).chunk(2, dim=-1)
        return self.down_proj(F.silu(gate) * up)

    __call__ = forward
