"""The small parts that several models share: a matrix, the norms and the gated MLP.

Parameter names are those of the published tensors, so a module's own names are its checkpoint's. Parameters
start uninitialised: weights come from a file or from a caller's generator, never from a global one. Calling a
module is its `forward` and nothing else: hooks, which nobody sets here, would cost as much as a small matrix.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


def unit_length(x: Float[Tensor, "... width"], eps: float) -> Float[Tensor, "... width"]:
    """Return x over sqrt(sum of squares + eps), in float32, in few calls."""
    x = x.float()
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x / torch.hypot(length, length.new_full((), eps**0.5))


def unit_rms(x: Float[Tensor, "... width"], eps: float) -> Float[Tensor, "... width"]:
    """Return x over sqrt(mean of squares + eps), in float32; a CPU has no kernel for the norm, a GPU has."""
    if x.device.type != "cpu":
        return F.rms_norm(x.float(), x.shape[-1:], eps=eps)
    width = x.shape[-1]
    return unit_length(x, eps * width) * width**0.5


class Projection(nn.Module):
    """A matrix without bias, [out, in]."""

    def __init__(self, num_in: int, num_out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_out, num_in))

    def forward(self, x: Float[Tensor, "... num_in"]) -> Float[Tensor, "... num_out"]:
        """Return x times the matrix."""
        return F.linear(x, self.weight)

    __call__ = forward


class RmsNorm(nn.Module):
    """Root mean square norm whose stored weight is centred at zero: the scale is 1 + weight."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))
        self.eps = eps

    def forward(self, x: Float[Tensor, "... width"]) -> Float[Tensor, "... width"]:
        """Return the normed x in its own dtype; the work is done in float32."""
        weight = self.weight.float()
        unit = unit_rms(x, self.eps)
        return torch.addcmul(unit, unit, weight).to(x.dtype)

    __call__ = forward


class PlainRmsNorm(nn.Module):
    """Root mean square norm whose scale is the stored weight itself."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))
        self.eps = eps

    def forward(self, x: Float[Tensor, "... width"]) -> Float[Tensor, "... width"]:
        """Return the normed x in its own dtype; the work is done in float32."""
        return (unit_rms(x, self.eps) * self.weight.float()).to(x.dtype)

    __call__ = forward


class GatedRmsNorm(nn.Module):
    """The norm inside Gated DeltaNet: its scale is the weight itself, then silu(gate) multiplies."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))
        self.eps = eps

    def forward(
        self, x: Float[Tensor, "... width"], gate: Float[Tensor, "... width"]
    ) -> Float[Tensor, "... width"]:
        """Return the normed and gated x in the gate's dtype; the work is done in float32."""
        return (unit_rms(x, self.eps) * self.weight.float() * F.silu(gate.float())).to(gate.dtype)

    __call__ = forward


class Mlp(nn.Module):
    """down(silu(gate(x)) * up(x))."""

    def __init__(self, hidden_size: int, intermediate_size: int) -> None:
        super().__init__()
        self.gate_proj = Projection(hidden_size, intermediate_size)
        self.up_proj = Projection(hidden_size, intermediate_size)
        self.down_proj = Projection(intermediate_size, hidden_size)

    def forward(self, x: Float[Tensor, "... hidden"]) -> Float[Tensor, "... hidden"]:
        """Return the MLP of every position."""
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))

    __call__ = forward
