"""Find diagonal scalings that make the spectral bound small, by gradient steps on their logarithms.

Soundness does not depend on this search: whatever scalings it finds, the bound is proven from them
afterwards. The norms are estimated by subspace iteration in float32, a few rounds per gradient
step, each starting from the last one's vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vhagar.array_types import Array
from vhagar.relaxation.adam import Adam
from vhagar.relaxation.spectral.expansion import Expansion, Pair

# Vectors of the subspace iteration, and its rounds per gradient step.
_VECTORS, _ROUNDS = 6, 2
# Singular values are combined by a norm of this power, so that the largest decrease together.
_POWER = 40
# The sizes of the first and of the last step.
_FIRST, _LAST = 0.08, 0.002
# Largest absolute logarithm of a scaling.
_LARGEST_LOG = 20.0


@dataclass(frozen=True, eq=False)
class Scalings:
    """Positive scalings in float32: `layers[k]` for the free units of ReLU layer k + 1, and
    `inputs[k]` for the coordinates of the input's change in the block from the input to it."""

    layers: tuple[NDArray[np.float32], ...]
    inputs: tuple[NDArray[np.float32], ...]


class ScalingSearch:
    """Adam on the logarithms of all scalings, for the mean bound over several targets.

    `rows[k]` are the coefficients `(targets, free units)` of ReLU layer k + 1 in the scores.
    """

    def __init__(self, expansion: Expansion, rows: tuple[Array, ...]) -> None:
        self._layers = expansion.layers
        self._rows = rows
        self._logs = [np.zeros(size) for size in expansion.scaled_sizes()]
        self._input_logs = [np.zeros(expansion.coordinates) for _ in rows]
        self._matrices = {pair: _float32(b.matrix) for pair, b in expansion.blocks.items()}
        rng = np.random.default_rng(0)
        self._vectors = {
            pair: rng.standard_normal((min(m.shape), min(_VECTORS, *m.shape))).astype(np.float32)
            for pair, m in self._matrices.items()
            if 0 not in m.shape
        }

    def steps(self, count: int, should_stop: Callable[[], bool] = lambda: False) -> None:
        """Take steps of decreasing size."""
        logs = self._logs + self._input_logs
        adams = [Adam() for _ in logs]
        for k in range(count):
            if should_stop():
                return
            size = _LAST + (_FIRST - _LAST) * (1 - k / count)
            for log, adam, gradient in zip(logs, adams, self._gradients(), strict=True):
                moved = log - size * adam.direction(gradient)
                np.clip(moved, -_LARGEST_LOG, _LARGEST_LOG, out=log)

    def scalings(self) -> Scalings:
        """The scalings that the steps have found so far."""
        return Scalings(*(tuple(map(_exp32, logs)) for logs in (self._logs, self._input_logs)))

    def _gradients(self) -> list[Array]:
        """The mean bound's gradients by the logarithms: first the layers', then the inputs'."""
        count = range(1, self._layers + 1)
        norms = {pair: self._norm(pair) for pair in self._vectors}
        inputs = [np.exp(2 * log) for log in self._input_logs]
        lengths = [np.sqrt(squares.sum()) for squares in inputs]
        squares = [
            (row * np.exp(-log)) ** 2 for row, log in zip(self._rows, self._logs, strict=True)
        ]
        ends = [np.sqrt(square.sum(axis=1)) + 1e-30 for square in squares]
        # The largest deviation of each layer, and what one unit of it adds to the bound.
        reach, price = [0.0] * self._layers, [0.0] * self._layers
        zero = (0.0, np.zeros(0), np.zeros(0))
        for j in count:
            reach[j - 1] = norms.get((0, j), zero)[0] * lengths[j - 1] + sum(
                norms.get((i, j), zero)[0] * reach[i - 1] for i in range(1, j)
            )
        for j in reversed(count):
            price[j - 1] = float(ends[j - 1].mean()) + sum(
                price[k - 1] * norms.get((j, k), zero)[0] for k in range(j + 1, self._layers + 1)
            )
        layers = [
            -reach[k] * (square / end[:, None]).mean(axis=0)
            for k, (square, end) in enumerate(zip(squares, ends, strict=True))
        ]
        own = [np.zeros_like(log) for log in self._input_logs]
        for (i, j), (norm, left, right) in norms.items():
            if i == 0:
                weight = price[j - 1] * norm * lengths[j - 1]
                own[j - 1] += weight * (inputs[j - 1] / lengths[j - 1] ** 2 - right)
            else:
                weight = price[j - 1] * norm * reach[i - 1]
                layers[i - 1] -= weight * right
            layers[j - 1] += weight * left
        return layers + own

    def _norm(self, pair: Pair) -> tuple[float, Array, Array]:
        """A smoothed norm of a scaled block, and the derivatives of its logarithm."""
        i, j = pair
        matrix, vectors = self._matrices[pair], self._vectors[pair]
        before = self._input_logs[j - 1] if i == 0 else self._logs[i - 1]
        left, right = _exp32(self._logs[j - 1])[:, None], _exp32(-before)[:, None]
        turned = matrix.shape[0] < matrix.shape[1]
        if turned:  # iterate on the smaller side
            matrix, left, right = matrix.T, right, left
        for _ in range(_ROUNDS):
            images = left * (matrix @ (right * vectors))
            vectors = np.linalg.qr(right * (matrix.T @ (left * images)))[0]
        images = left * (matrix @ (right * vectors))
        squares, turn = np.linalg.eigh(images.T @ images)
        order = slice(None, None, -1)
        values, turn = np.sqrt(np.maximum(squares[order], 0.0)), turn[:, order]
        vectors, outputs = vectors @ turn, images @ turn / (values + 1e-30)
        if np.isfinite(vectors).all():
            self._vectors[pair] = vectors
        weights = (values / (values[0] + 1e-30)).astype(np.float64) ** _POWER
        norm = float(values[0]) * float(weights.sum()) ** (1 / _POWER)
        weights /= weights.sum() + 1e-30
        on_right, on_left = (part.astype(np.float64) ** 2 @ weights for part in (vectors, outputs))
        return (norm, on_right, on_left) if turned else (norm, on_left, on_right)


def _float32(matrix: Any) -> Any:
    if not sparse.issparse(matrix):
        return np.asarray(matrix, dtype=np.float32)
    return sparse.csr_array(matrix, dtype=np.float32)


def _exp32(log: Array) -> NDArray[np.float32]:
    return np.exp(log).astype(np.float32)
