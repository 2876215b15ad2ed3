"""One optimizer for every stage: orthogonalised momentum for matrices, Adam for all other parameters.

A matrix moves by its momentum with all singular values brought near one (Newton-Schulz); matrices of one
shape are handled together. Embeddings, heads, norms and small vectors take Adam.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

MOMENTUM, BETAS, EPS = 0.95, (0.9, 0.95), 1e-8
COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the odd quintic that pulls singular values towards one
NUM_ITERATIONS = 5
BY_ADAM = ("embed_tokens", "lm_head", "codebook", "base_kernel", "conv1d", "A_log", "dt_bias")


def orthogonalised(matrices: Tensor) -> Tensor:
    """Return [batch, rows, columns] with all singular values near one."""
    turned = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if turned else matrices
    x = x / (x.norm(dim=(1, 2), keepdim=True) + EPS)
    a, b, c = COEFFICIENTS
    for _ in range(NUM_ITERATIONS):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return x.mT if turned else x


class Optimizer:
    """Both rules over one module's named parameters; `step` takes the two learning rates."""

    def __init__(self, named: Iterable[tuple[str, nn.Parameter]]) -> None:
        self._groups: dict[tuple[int, ...], list[tuple[str, nn.Parameter]]] = {}
        self._others: list[tuple[str, nn.Parameter]] = []
        for name, parameter in named:
            if parameter.dim() == 2 and not any(word in name for word in BY_ADAM):
                self._groups.setdefault(tuple(parameter.shape), []).append((name, parameter))
            else:
                self._others.append((name, parameter))
        everything = [*self._others, *(one for group in self._groups.values() for one in group)]
        self.first = {name: torch.zeros_like(parameter) for name, parameter in everything}
        self.second = {name: torch.zeros_like(parameter) for name, parameter in self._others}
        self.parameters = [parameter for _, parameter in everything]
        self.count = 0

    @torch.no_grad()
    def step(self, matrix_rate: float, other_rate: float) -> None:
        """Move every parameter by its gradient and forget the gradients."""
        self.count += 1
        for shape, group in self._groups.items():
            self._move_matrices(shape, group, matrix_rate)
        for name, parameter in self._others:
            self._move_other(name, parameter, other_rate)
        for parameter in self.parameters:
            parameter.grad = None

    def _move_matrices(
        self, shape: tuple[int, ...], group: list[tuple[str, nn.Parameter]], rate: float
    ) -> None:
        seen = []
        for name, parameter in group:
            assert parameter.grad is not None
            momentum = self.first[name].lerp_(parameter.grad, 1 - MOMENTUM)
            seen.append(parameter.grad.lerp(momentum, MOMENTUM))
        moves = orthogonalised(torch.stack(seen))
        scale = rate * max(1.0, shape[0] / shape[1]) ** 0.5
        for (_, parameter), move in zip(group, moves, strict=True):
            parameter.add_(move, alpha=-scale)

    def _move_other(self, name: str, parameter: nn.Parameter, rate: float) -> None:
        assert parameter.grad is not None
        first = self.first[name].lerp_(parameter.grad, 1 - BETAS[0])
        second = self.second[name].lerp_(parameter.grad.square(), 1 - BETAS[1])
        spread = (second / (1 - BETAS[1] ** self.count)).sqrt_().add_(EPS)
        parameter.addcdiv_(first, spread, value=-rate / (1 - BETAS[0] ** self.count))

    def state(self) -> dict[str, Any]:
        """Everything that a later run needs to go on."""
        return {"first": self.first, "second": self.second, "count": self.count}

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from `state`."""
        for own, saved in ((self.first, state["first"]), (self.second, state["second"])):
            for name, value in own.items():
                value.copy_(saved[name])
        self.count = state["count"]
