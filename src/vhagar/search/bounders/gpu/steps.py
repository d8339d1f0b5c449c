"""Primal-dual steps on one linear model for many nodes at once, which differ in column bounds.

The method is the primal-dual hybrid gradient of Chambolle and Pock with over-relaxation, on a
matrix that is balanced first. Unlike gradient steps on the dual alone, it can leave a
vertex that a simplex ended in: the primal weights remember which corners hold a maximum together.
The dual iterates are multipliers whatever they are; nothing here is a bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from vhagar.array_types import Array
from vhagar.runtime.devices import Tensor, full_precision, require_torch, sparse_tensor
from vhagar.search.bounders.gpu.move import move
from vhagar.solver.linear_model import LinearArrays

# Ratio of dual to primal step sizes, and the over-relaxation.
BALANCE, _RELAXATION = 0.15, 1.8
# Rounds of matrix equilibration, and of the power iteration for the norm.
_BALANCING_ROUNDS, _NORM_ROUNDS = 10, 60
# Most entries of a matrix that is multiplied as a dense one on a GPU.
# Measured: 0.94 ms instead of 1.73 ms for a step of 4,096 nodes (PERFORMANCE.md, "Tried").
_MOST_DENSE = 2**28


@dataclass(eq=False)
class Iterates:
    """The primal `(nodes, columns)` and the dual point `(nodes, rows)` of every node, scaled."""

    x: Tensor
    y: Tensor

    def __len__(self) -> int:
        return len(self.x)

    def take(self, index: Tensor) -> Iterates:
        return Iterates(self.x[index], self.y[index])

    def repeated(self, count: int) -> Iterates:
        """One node's points, so many times."""
        return Iterates(self.x.repeat(count, 1), self.y.repeat(count, 1))

    def followed_by(self, other: Iterates) -> Iterates:
        torch = require_torch()
        return Iterates(torch.cat([self.x, other.x]), torch.cat([self.y, other.y]))


class PrimalDual:
    """Maximises one column of a model. All nodes share the matrix, the rows and the lower bounds
    of the columns."""

    def __init__(self, arrays: LinearArrays, objective: int, device: Any) -> None:
        matrix, self._row_scale, self._column_scale = _balanced(sparse.csr_array(arrays.matrix))
        self._norm = _norm(matrix)
        self.balance(BALANCE)
        self._device = device
        self._product = _Product(matrix, device)
        self._objective = objective
        self._cost = float(self._column_scale[objective])
        self._lower = self._tensor(arrays.column_lower / self._column_scale)
        self.upper = self._tensor(arrays.column_upper / self._column_scale)
        self._row_lower = self._tensor(arrays.row_lower * self._row_scale)
        self._row_upper = self._tensor(arrays.row_upper * self._row_scale)

    def balance(self, ratio: float) -> None:
        """How much longer dual steps are than primal ones; any ratio converges in the end."""
        self._primal_step = 0.95 / (self._norm * ratio)
        self._dual_step = 0.95 * ratio / self._norm

    @property
    def sizes(self) -> tuple[int, int]:
        """The numbers of columns and of rows."""
        return len(self._column_scale), len(self._row_scale)

    def _tensor(self, values: Array) -> Tensor:
        torch = require_torch()
        return torch.as_tensor(values, dtype=torch.float32, device=self._device)

    def iterates(self, primal: Array, duals: Array) -> Iterates:
        """One node's points `(columns,)` and `(rows,)` in own units, as a batch of one."""
        x, y = primal / self._column_scale, duals / self._row_scale
        return Iterates(self._tensor(x)[None], self._tensor(y)[None])

    def primal(self, x: Tensor, columns: Tensor) -> Tensor:
        """Some columns in the model's units."""
        return x[:, columns] * self._tensor(self._column_scale)[columns]

    def duals(self, y: Tensor, kind: Any) -> Tensor:
        """Multipliers of the rows, `(nodes, rows)`, in the model's units and that precision."""
        scale = require_torch().as_tensor(self._row_scale, dtype=kind, device=self._device)
        return y.to(kind) * scale

    def run(self, start: Iterates, upper: Tensor, steps: int) -> tuple[Iterates, Tensor]:
        """Where the steps lead, and the mean dual point of the second half of them.

        `upper` `(nodes, columns)` bounds the columns of each node.
        """
        torch = require_torch()
        x, y = start.x.clone(), start.y.clone()
        sum_ = torch.zeros_like(y)
        counted = max(1, steps // 2)
        with full_precision():  # TF32's looser bounds cost more than its faster products save
            for k in range(steps):
                self._step(x, y, upper)
                if k >= steps - counted:
                    sum_.add_(y)
        return Iterates(x, y), sum_.div_(counted)

    def _step(self, x: Tensor, y: Tensor, upper: Tensor) -> None:
        """One step of all nodes, in place."""
        torch = require_torch()
        gradient = self._product.back(y)
        gradient[:, self._objective] -= self._cost
        ahead = move(x, gradient, self._lower, upper, self._primal_step, _RELAXATION)
        aim = self._product.forth(ahead).add_(y, alpha=1 / self._dual_step)
        excess = aim - torch.clamp(aim, self._row_lower, self._row_upper)
        y.lerp_(excess.mul_(self._dual_step), _RELAXATION)


class _Product:
    """The matrix, times columns and times rows, for batches `(nodes, ...)`."""

    def __init__(self, matrix: sparse.csr_array, device: Any) -> None:
        torch = require_torch()
        entries = matrix.shape[0] * matrix.shape[1]
        self._dense = device.type == "cuda" and entries <= _MOST_DENSE
        if self._dense:
            self._matrix = torch.as_tensor(
                matrix.toarray(), dtype=torch.float32, device=device
            ).contiguous()
            self._across = self._matrix.T
        else:
            self._matrix, self._across = (
                sparse_tensor(part, torch.float32, device) for part in (matrix, matrix.T)
            )

    def forth(self, x: Tensor) -> Tensor:
        """`(nodes, columns)` to `(nodes, rows)`."""
        return x @ self._across if self._dense else (self._matrix @ x.T).T.contiguous()

    def back(self, y: Tensor) -> Tensor:
        """`(nodes, rows)` to `(nodes, columns)`."""
        return y @ self._matrix if self._dense else (self._across @ y.T).T.contiguous()


def _balanced(matrix: sparse.csr_array) -> tuple[sparse.csr_array, Array, Array]:
    """Rows and columns of similar size; `row_scale * matrix * column_scale`, and the scales."""
    rows, columns = np.ones(matrix.shape[0]), np.ones(matrix.shape[1])
    scaled = matrix
    for k in range(_BALANCING_ROUNDS + 1):
        size = abs(scaled)
        if k < _BALANCING_ROUNDS:
            of_rows, of_columns = (size.max(axis=axis).toarray().ravel() for axis in (1, 0))
        else:  # then the sums, which bound what a step can do
            of_rows, of_columns = (size.sum(axis=axis) for axis in (1, 0))
        rows /= np.sqrt(np.where(of_rows > 0, of_rows, 1.0))
        columns /= np.sqrt(np.where(of_columns > 0, of_columns, 1.0))
        scaled = sparse.csr_array(sparse.diags_array(rows) @ matrix @ sparse.diags_array(columns))
    return scaled, rows, columns


def _norm(matrix: sparse.csr_array) -> float:
    """The largest singular value, nearly; 1 for a matrix of nothing."""
    vector = np.random.default_rng(0).normal(size=matrix.shape[1])
    for _ in range(_NORM_ROUNDS):
        vector = matrix.T @ (matrix @ vector)
        length = float(np.linalg.norm(vector))
        if length == 0.0:
            return 1.0
        vector /= length
    return float(np.linalg.norm(matrix @ vector))
