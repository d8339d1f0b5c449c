"""The twin dual bound of many rows at once, improved by first-order steps.

A row is a start: coefficients on the outputs of the last stage. The multipliers of a neuron are
`p = c1 a + c2 b + d1`, `q = c3 a + c4 b + d2` with six free numbers. Slopes come from the
maximisers alone: with `(x, x_p)` where the support is attained and `(s, t)` the best corner of
every neuron, the slope along `p` is the pre-activation at the values below minus `s`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from vhagar.relaxation.first_order.fused import Adam, Cells, Free, offset, step
from vhagar.relaxation.first_order.goal import AbstractGoal
from vhagar.relaxation.first_order.maps import AbstractMap
from vhagar.relaxation.first_order.starts import quick_free
from vhagar.relaxation.first_order.support import Support
from vhagar.runtime.devices import Tensor, full_precision, require_torch

_HALF_ULP = 2.0**-24
# Convolutions may be computed by other sums than the plain one.
_ROOM = 16.0


@dataclass(frozen=True)
class Steps:
    """How many steps, how long the first is, and how long the last is beside it."""

    count: int
    size: float = 0.05
    last: float = 0.1

    def at(self, k: int) -> Adam:
        return Adam.at(k, self.size * self.last ** (k / max(self.count - 1, 1)))


@dataclass(frozen=True, eq=False)
class _Trace:
    """One evaluation: the bounds `(rows,)`, what each layer paid for, and the best input."""

    value: Tensor
    layers: list[tuple[Tensor, Tensor, Tensor, Tensor]]  # a, b, s, t; the last layer first
    x: Tensor
    x_p: Tensor


class Dual:
    """Stages and hexagons of a network, or of what a tile sees of one; `cells[k]` is between the
    stages `k` and `k + 1`."""

    def __init__(self, maps: list[AbstractMap], cells: list[Cells], support: Support) -> None:
        self._maps = maps
        self._cells = cells
        self._support = support

    def begin(self, goal: AbstractGoal) -> list[Free]:
        """Free numbers of the quick choice."""
        with full_precision():
            a, b = goal.start()
            layers = []
            for k in range(len(self._cells) - 1, -1, -1):
                a, b = self._maps[k + 1].back(a), self._maps[k + 1].back(b)
                free = quick_free(self._cells[k], a, b)
                layers.append(Free.of(free))
                a, b = free[0] * a + free[1] * b, free[2] * a + free[3] * b
        return layers[::-1]

    def run(
        self,
        goal: AbstractGoal,
        frees: list[Free],
        steps: Steps,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> Tensor:
        """Improve the free numbers; the best bounds `(rows,)`. What gave them is `kept`."""
        torch = require_torch()
        best = None
        with full_precision():
            for k in range(steps.count):
                trace = self._evaluate(goal, [free.now for free in frees])
                value = trace.value
                if best is None:
                    best = torch.full_like(value, math.inf)
                better = value < best
                best = torch.where(better, value, best)
                goal.keep(better)
                if k == steps.count - 1 or should_stop():
                    for free in frees:
                        free.kept[:, better] = free.now[:, better]
                    break
                self._move(goal, frees, trace, better, steps.at(k))
        return best

    def values(self, goal: AbstractGoal, numbers: list[Tensor]) -> Tensor:
        """The bounds for given free numbers, as float32 computes them."""
        with full_precision():
            return self._evaluate(goal, numbers).value

    def _evaluate(self, goal: AbstractGoal, numbers: list[Tensor]) -> _Trace:
        a, b = goal.start()
        constant = (a + b) @ self._maps[-1].bias
        layers = []
        for k in range(len(self._cells) - 1, -1, -1):
            a, b = self._maps[k + 1].back(a), self._maps[k + 1].back(b)
            p, q, s, t, r = offset(a, b, numbers[k], self._cells[k])
            constant = constant + r.sum(dim=1) + (p + q) @ self._maps[k].bias
            layers.append((a, b, s, t))
            a, b = p, q
        value, x, x_p = self._support(self._maps[0].back(a), self._maps[0].back(b))
        return _Trace(constant + value, layers, x, x_p)

    def _move(
        self, goal: AbstractGoal, frees: list[Free], trace: _Trace, better: Tensor, adam: Adam
    ) -> None:
        x, x_p = trace.x, trace.x_p
        for k, coefficients in enumerate(reversed(trace.layers)):
            values = self._maps[k].forth(x), self._maps[k].forth(x_p)
            x, x_p = step(coefficients, values, frees[k], better, self._cells[k], adam)
        goal.move(self._maps[-1].forth(x), self._maps[-1].forth(x_p), adam)

    def outward(self, goal: AbstractGoal, numbers: list[Tensor], input_magnitude: Tensor) -> Tensor:
        """The bounds with more added than float32 can have rounded away.

        For deciding what is worth a second look; what counts is computed in float64.
        """
        with full_precision():
            a, b = goal.start()
            value = self._evaluate(goal, numbers).value
            error = value.abs()
            for k in range(len(self._cells), -1, -1):
                one = self._maps[k]
                terms = 2 * len(one.bias) + 32
                size = (a.abs() + b.abs()) @ one.absolute_bias
                magnitude = self._cells[k - 1].magnitude if k else input_magnitude
                spread = one.back_absolute(a.abs() + b.abs())
                size = size + _weighted(spread, magnitude)
                a, b = one.back(a), one.back(b)
                if k:
                    p, q, _, _, _ = offset(a, b, numbers[k - 1], self._cells[k - 1])
                    paid = a.abs() + b.abs() + p.abs() + q.abs()
                    size = size + _weighted(paid, magnitude)
                    terms += 2 * paid.shape[1]
                    a, b = p, q
                error = error + terms * size
            return value + _ROOM * _HALF_ULP * error


def _weighted(rows: Tensor, magnitude: Tensor) -> Tensor:
    """Sums `(rows,)` of what is `(rows, neurons)`, weighted by group `(groups, 1, neurons)`."""
    wide = rows.reshape(len(magnitude), -1, rows.shape[1])
    return (wide * magnitude).sum(dim=-1).reshape(-1)
