"""Better multipliers for the twin dual by a few first-order steps, for many starts at once.

The multipliers of a neuron are `p = c1 a + c2 b + d1`, `q = c3 a + c4 b + d2`; the six numbers are
free, whatever they are the bound is valid. A subgradient comes from the maximisers alone: with
`(x, x_p)` where the support is attained and `(s, t)` the best corner of every neuron, the
derivative with respect to `p` is the layer's pre-activation at the values below minus `s`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vhagar.perturbation import AbstractPiece
from vhagar.relaxation.hexagon import Hexagons
from vhagar.relaxation.slopes import quick_slopes
from vhagar.relaxation.twin import Choice, Corners, Stage

Array = NDArray[np.float64]

_STEP, _DECAY = 0.05, 0.95
_MEMORY = (0.8, 0.95)


@dataclass(eq=False)
class _Layer:
    """The six free numbers of each start and neuron, `(6, batch, neurons)`, and Adam's averages."""

    free: Array
    mean: Array
    square: Array
    undecided: Array  # (neurons,)


class DualAscent:
    """Improves the multipliers of one batch of starts at one stage."""

    def __init__(
        self, stages: tuple[Stage, ...], corners: list[Corners], piece: AbstractPiece
    ) -> None:
        self._matrices = [stage.matrix() for stage in stages]
        self._biases = [stage.bias() for stage in stages]
        self._corners = corners
        self._piece = piece
        self._layers: list[_Layer] = []

    def begin(self, hexagons: list[Hexagons], start: tuple[Array, Array]) -> None:
        """The quick choice, as slopes."""
        a, b = start
        layers = []
        for k in range(len(self._corners) - 1, -1, -1):
            a, b = a @ self._matrices[k + 1], b @ self._matrices[k + 1]
            slopes = quick_slopes(hexagons[k], self._corners[k], a, b)
            free = np.concatenate([slopes, np.zeros((2, *a.shape))])
            # Neurons that are linear have exact slopes already: leave them alone.
            undecided = (~hexagons[k].on & ~hexagons[k].off).astype(np.float64)
            layers.append(_Layer(free, np.zeros_like(free), np.zeros_like(free), undecided))
            a, b = slopes[0] * a + slopes[1] * b, slopes[2] * a + slopes[3] * b
        self._layers = layers[::-1]

    def run(self, start: tuple[Array, Array], steps: int) -> Choice:
        """The multipliers that gave the best bounds seen."""
        best = np.full(len(start[0]), np.inf)
        kept = [layer.free.copy() for layer in self._layers]
        for step in range(steps):
            value, gradients = self._evaluate(start)
            better = value < best
            best = np.where(better, value, best)
            for k, layer in enumerate(self._layers):
                kept[k][:, better] = layer.free[:, better]
            self._move(gradients, step)

        def choose(layer: int, a: Array, b: Array) -> tuple[Array, Array]:
            c = kept[layer]
            return c[0] * a + c[1] * b + c[4], c[2] * a + c[3] * b + c[5]

        return choose

    def _evaluate(self, start: tuple[Array, Array]) -> tuple[Array, list[Array]]:
        a, b = start
        constant = (a + b) @ self._biases[-1]
        below: list[tuple[Array, ...]] = []
        for k in range(len(self._corners) - 1, -1, -1):
            a, b = a @ self._matrices[k + 1], b @ self._matrices[k + 1]
            c = self._layers[k].free
            p, q = c[0] * a + c[1] * b + c[4], c[2] * a + c[3] * b + c[5]
            r, *best = _best_corner(self._corners[k], a, b, p, q)
            constant = constant + r.sum(axis=1) + (p + q) @ self._biases[k]
            below.append((a, b, *best))
            a, b = p, q
        support = self._piece.support(a @ self._matrices[0], b @ self._matrices[0])
        x, x_p = support.x, self._piece.apply(support.x, support.parameters)
        gradients = []
        for k, (a, b, s, t, z, z_p) in enumerate(reversed(below)):
            c = self._layers[k].free
            g_p = x @ self._matrices[k].T + self._biases[k] - s
            g_q = x_p @ self._matrices[k].T + self._biases[k] - t
            gradients.append(np.stack([g_p * a, g_p * b, g_q * a, g_q * b, g_p, g_q]))
            # What a unit of `a` and of `b` is worth: the ReLUs' own values, and through p and q.
            x = z + c[0] * g_p + c[2] * g_q
            x_p = z_p + c[1] * g_p + c[3] * g_q
        return constant + support.value, gradients

    def _move(self, gradients: list[Array], step: int) -> None:
        size = _STEP * _DECAY**step
        first, second = _MEMORY
        for layer, gradient in zip(self._layers, gradients, strict=True):
            layer.mean = first * layer.mean + (1 - first) * gradient
            layer.square = second * layer.square + (1 - second) * gradient**2
            mean = layer.mean / (1 - first ** (step + 1))
            square = layer.square / (1 - second ** (step + 1))
            layer.free = layer.free - size * layer.undecided * mean / (np.sqrt(square) + 1e-12)


def _best_corner(
    corners: Corners, a: Array, b: Array, p: Array, q: Array
) -> tuple[Array, Array, Array, Array, Array]:
    """The offset of every neuron, and the corner that attains it, before ReLU and after."""
    best = np.full(a.shape, -np.inf)
    which = np.zeros(a.shape, dtype=np.int64)
    for k in range(len(corners.s)):
        value = a * corners.z[k] + b * corners.z_p[k] - p * corners.s[k] - q * corners.t[k]
        better = value > best
        best = np.where(better, value, best)
        which = np.where(better, k, which)
    neuron = np.arange(a.shape[1])
    s, t, z, z_p = (part[which, neuron] for part in (corners.s, corners.t, corners.z, corners.z_p))
    return best, s, t, z, z_p
