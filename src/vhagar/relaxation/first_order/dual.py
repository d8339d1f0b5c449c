"""The twin dual bound of many rows at once, improved by first-order steps, in numpy or in torch.

A row is a start: coefficients on the outputs of the last stage. The multipliers of a neuron are
`p = c1 a + c2 b + d1`, `q = c3 a + c4 b + d2` with six free numbers; whatever they are, the bound
is valid. Its gradient follows from the maximisers alone: the input pair `(x, x_p)` that attains the
support, and the best corner `(s, t)` of every neuron. The derivative along `p` is the
pre-activation, computed forwards from the maximisers of the layers below, minus `s`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array
from vhagar.perturbation import AbstractPiece
from vhagar.relaxation.arrays import AnyArray, namespace
from vhagar.relaxation.first_order.fused import AdamStep, Free, offset, quick_free, step
from vhagar.relaxation.first_order.hulls import Hulls
from vhagar.relaxation.first_order.objective import AbstractObjective
from vhagar.relaxation.stages import Stage
from vhagar.relaxation.twin_dual import Choice, Payment, backward
from vhagar.runtime.devices import full_precision

# Numbers in memory for each coefficient: the free ones, Adam's moments, and intermediate results.
NUMBERS_EACH = 48

# Maps coefficients `(rows, pixels)` to the value `(rows,)` and the pair that attains it.
Support = Callable[[AnyArray, AnyArray], tuple[AnyArray, AnyArray, AnyArray]]


@dataclass(frozen=True)
class Steps:
    """The number of steps, the size of the first, and the last one's size relative to the first."""

    count: int
    size: float = 0.05
    last: float = 0.1

    def at(self, k: int) -> AdamStep:
        return AdamStep.at(k, self.size * self.last ** (k / max(self.count - 1, 1)))


@dataclass(frozen=True, eq=False)
class LayerMultipliers:
    """The free numbers `(6, rows, neurons)` of each layer with which a bound was proven."""

    layers: tuple[NDArray[np.floating], ...]

    def choice(self, rows: slice = slice(None)) -> Choice:
        """The multipliers of the given rows as a choice for the twin dual bound."""

        def choose(layer: int, a: Array, b: Array) -> tuple[Array, Array]:
            c = self.layers[layer][:, rows].astype(np.float64)
            return c[0] * a + c[1] * b + c[4], c[2] * a + c[3] * b + c[5]

        return choose


@dataclass(frozen=True, eq=False)
class _Trace:
    """One evaluation: the bounds `(rows,)`, every layer's coefficients and corners, and the inputs
    that attain the bounds."""

    value: AnyArray
    layers: list[tuple[AnyArray, AnyArray, AnyArray, AnyArray]]  # a, b, s, t; the last layer first
    x: AnyArray
    x_p: AnyArray


class Dual:
    """Stages and hexagons of a network, or of one tile's receptive field in it; `hulls[k]` lies
    between the stages `k` and `k + 1`."""

    def __init__(self, stages: Sequence[Stage], hulls: Sequence[Hulls], support: Support) -> None:
        self._stages = stages
        self._hulls = hulls
        self._support = support

    def begin(self, objective: AbstractObjective) -> list[Free]:
        """The free numbers of the quick choice."""
        frees: list[Free] = []

        def pay(layer: int, a: AnyArray, b: AnyArray) -> tuple[AnyArray, AnyArray, AnyArray]:
            free = quick_free(self._hulls[layer], a, b)
            frees.append(Free.of(free))
            return free[0] * a + free[1] * b, free[2] * a + free[3] * b, namespace(a).zeros_like(a)

        start = objective.start()
        with _precisely(start[0]):
            backward(self._stages, start, pay, last=1)
        return frees[::-1]

    def run(
        self,
        objective: AbstractObjective,
        frees: list[Free],
        steps: Steps,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> AnyArray:
        """Improve the free numbers and return the best bounds `(rows,)`.

        The numbers that gave them are in each `Free.kept`.
        """
        start = objective.start()[0]
        xp = namespace(start)
        best = xp.full_like(start[:, 0], np.inf)
        with _precisely(start):
            for k in range(steps.count):
                trace = self._evaluate(objective, [free.now for free in frees])
                better = trace.value < best
                best = xp.where(better, trace.value, best)
                objective.keep(better)
                if k == steps.count - 1 or should_stop():
                    for free in frees:
                        free.kept[:, better] = free.now[:, better]
                    break
                self._move(objective, frees, trace, better, steps.at(k))
        return best

    def payment(self, numbers: list[AnyArray], seen: list[tuple[AnyArray, ...]]) -> Payment:
        """The payment that uses the free numbers; it appends each layer's `a, b` and best `s, t`
        to `seen`."""

        def pay(layer: int, a: AnyArray, b: AnyArray) -> tuple[AnyArray, AnyArray, AnyArray]:
            p, q, s, t, r = offset(a, b, numbers[layer], self._hulls[layer])
            seen.append((a, b, s, t))
            return p, q, r

        return pay

    def _evaluate(self, objective: AbstractObjective, numbers: list[AnyArray]) -> _Trace:
        layers: list[tuple[AnyArray, ...]] = []
        state = backward(self._stages, objective.start(), self.payment(numbers, layers))
        value, x, x_p = self._support(state.a, state.b)
        return _Trace(state.constant + value, layers, x, x_p)

    def _move(
        self,
        objective: AbstractObjective,
        frees: list[Free],
        trace: _Trace,
        better: AnyArray,
        adam: AdamStep,
    ) -> None:
        x, x_p = trace.x, trace.x_p
        for k, coefficients in enumerate(reversed(trace.layers)):
            values = self._stages[k].forward(x), self._stages[k].forward(x_p)
            x, x_p = step(coefficients, values, frees[k], better, self._hulls[k], adam)
        objective.move(self._stages[-1].forward(x), self._stages[-1].forward(x_p), adam)


def _precisely(values: AnyArray) -> AbstractContextManager[None]:
    return nullcontext() if isinstance(values, np.ndarray) else full_precision()


def support_of_piece(piece: AbstractPiece) -> Support:
    """The piece's own support, in numpy."""

    def support(a: Array, b: Array) -> tuple[Array, Array, Array]:
        found = piece.support(a, b)
        return found.value, found.x, piece.apply(found.x, found.parameters)

    return support
