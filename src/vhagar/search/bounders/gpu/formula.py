"""What multipliers prove of many nodes: the twin dual formula in torch, and its end on the CPU.

It is `vhagar.relaxation.twin` step by step in float64, with the same bounds on rounding: they hold
for sums of products in any order, so for dense products on a GPU as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar.network import AbstractLinear
from vhagar.relaxation.lp.region_model import PIXELS, Decision, RegionModel
from vhagar.relaxation.lp.row_duals import RowDuals
from vhagar.relaxation.starts import outward
from vhagar.relaxation.twin import HALF_ULP, Backward, at_input, magnitudes_inside, unit
from vhagar.runtime.devices import Tensor, require_torch
from vhagar.runtime.threads import in_threads

Array = NDArray[np.float64]

# Nodes whose supports are evaluated together.
_BLOCK = 128
# Sums of multipliers that are told from 0 and from infinity, as for one node.
_LEAST, _MOST = 1e-6, 1e6


def bit_of(copy: int, positive: bool) -> int:
    """What a decision adds to a neuron's code: 1 for s >= 0, 2 for s <= 0, 4 and 8 for t."""
    return (1 if positive else 2) << (2 * copy)


def coded(sizes: list[int], nodes: list[tuple[Decision, ...]]) -> NDArray[np.uint8]:
    """Decisions about neurons as codes `(nodes, neurons)`, all layers in a row."""
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    codes = np.zeros((len(nodes), int(starts[-1])), dtype=np.uint8)
    for row, decisions in enumerate(nodes):
        for decision in decisions:
            assert decision.layer != PIXELS, "pixels are not decided here"
            place = starts[decision.layer] + decision.neuron
            codes[row, place] |= bit_of(decision.copy, decision.positive)
    return codes


class WideBound:
    """Bounds on `delta` over nodes of one piece and one target, many at once."""

    def __init__(
        self, context: RegionModel, score_size: float, device: Any, threads: int = 1
    ) -> None:
        self._piece = context.bounds.piece
        self._score_size = score_size
        self._threads = threads
        self._classes = context.bounds.network.classes
        self._backwards = _Backwards(context, device)

    def uppers(self, duals: Tensor, codes: Tensor) -> Array:
        """Upper bounds `(nodes,)` from rows' duals `(nodes, rows)` in float64, which may be
        anything.

        Infinite where the duals prove nothing, minus infinite where decisions contradict a bound.
        """
        torch = require_torch()
        total = self._backwards.total(duals)
        usable = torch.isfinite(duals).all(dim=1) & (total > _LEAST) & (total < _MOST)
        scaled = torch.where(usable[:, None], duals / total[:, None], 0.0)
        found = self._backwards(scaled, codes)
        total = found.weight.cpu().numpy()
        value = outward(self._closed(found), total, self._score_size, self._classes)
        value = np.where(usable.cpu().numpy(), value, np.inf)
        return np.where(found.empty.cpu().numpy(), -np.inf, value)

    def _closed(self, found: _Found) -> Array:
        """The perturbation's support and the errors added."""
        a, b, constant, error = (
            part.cpu().numpy() for part in (found.a, found.b, found.constant, found.error)
        )
        value = np.full(len(a), np.inf)

        def close(number: int) -> None:
            rows = slice(number * _BLOCK, (number + 1) * _BLOCK)
            with np.errstate(over="ignore", invalid="ignore"):
                state = Backward(a[rows], b[rows], constant[rows], error[rows])
                value[rows] = at_input(self._piece, state)

        in_threads(close, -(-len(a) // _BLOCK), self._threads)
        return value


@dataclass(frozen=True, eq=False)
class _Found:
    """Coefficients `(nodes, pixels)` on the input, the constant and its error, the sum of all
    multipliers of classes, and which nodes' decisions leave some neuron nothing."""

    a: Tensor
    b: Tensor
    constant: Tensor
    error: Tensor
    weight: Tensor
    empty: Tensor


class _Backwards:
    """The way backwards through the network."""

    def __init__(self, context: RegionModel, device: Any) -> None:
        self._device = device
        bounds, model = context.bounds, context.model
        self._model = model
        self._source, self._target = context.problem.source, context.target
        torch = require_torch()
        on = [torch.tensor(hexagons.on, device=device) for hexagons in bounds.hexagons]
        self._rows = RowDuals(model, bounds.network.classes, on)
        self._stages = []
        for k, stage in enumerate(bounds.stages):
            entering = bounds.corners[k - 1].magnitude if k else bounds.input_magnitude
            magnitudes = magnitudes_inside(stage, entering)
            self._stages.append(
                [
                    _Layer(layer, magnitude, self._tensor)
                    for layer, magnitude in zip(stage.layers, magnitudes, strict=True)
                ]
            )
        self._relus = []
        begin = 0
        for corners in bounds.corners:
            columns = slice(begin, begin + len(corners.magnitude))
            begin = columns.stop
            self._relus.append(_Relu(corners, columns, self._tensor))

    def _tensor(self, values: Any) -> Tensor:
        torch = require_torch()
        return torch.tensor(np.asarray(values), dtype=torch.float64, device=self._device)

    def total(self, duals: Tensor) -> Tensor:
        """The weight on the source's rows."""
        return (-duals[:, self._model.source_rows]).clamp(min=0).sum(dim=1)

    def __call__(self, duals: Tensor, codes: Tensor) -> _Found:
        torch, rows = require_torch(), len(duals)
        classes, choose = self._rows.classes(duals), self._rows.choice(duals)
        a, b = classes.start(self._source, self._target)
        constant = torch.zeros(rows, dtype=torch.float64, device=self._device)
        error = torch.zeros_like(constant)
        empty = torch.zeros(rows, dtype=torch.bool, device=self._device)
        for k in range(len(self._stages) - 1, -1, -1):
            for layer in reversed(self._stages[k]):
                a, b, constant, error = layer.back(a, b, constant, error)
            if k:
                relu = self._relus[k - 1]
                p, q = choose(k - 1, a, b)
                paid, contradicted = relu.offset(a, b, p, q, codes)
                empty |= contradicted
                constant = constant + paid
                error = error + relu.error(a, b, p, q) + HALF_ULP * constant.abs()
                a, b = p, q
        return _Found(a, b, constant, error, classes.total(), empty)


class _Layer:
    """A linear layer as a dense matrix; see `twin.through_stage`."""

    def __init__(self, layer: AbstractLinear, magnitude: Array, tensor: Any) -> None:
        self._matrix = tensor(layer.matrix.toarray())
        self._absolute = self._matrix.abs()
        self._bias, self._magnitude = tensor(layer.flat_bias), tensor(magnitude)
        self._out = layer.out_size

    def back(
        self, p: Tensor, q: Tensor, constant: Tensor, error: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        size = p.abs() + q.abs()
        constant = constant + (p + q) @ self._bias
        error = error + unit(self._out + 4) * (size @ self._bias.abs())
        error = error + HALF_ULP * constant.abs()
        spread = size @ self._absolute
        error = error + unit(2 * self._out + 8) * (spread @ self._magnitude)
        return p @ self._matrix, q @ self._matrix, constant, error


class _Relu:
    """A ReLU layer's corners; see `twin.through_relu`."""

    def __init__(self, corners: Any, columns: slice, tensor: Any) -> None:
        torch = require_torch()
        self._columns = columns
        self._s, self._t, self._z, self._z_p = (
            tensor(part) for part in (corners.s, corners.t, corners.z, corners.z_p)
        )
        self._magnitude = tensor(corners.magnitude)
        # The codes that cut each corner off: those of the other side.
        s, t = corners.s, corners.t
        bits = 1 * (s < 0) + 2 * (s > 0) + 4 * (t < 0) + 8 * (t > 0)
        self._cut = torch.tensor(bits.astype(np.uint8), device=self._s.device)

    def offset(
        self, a: Tensor, b: Tensor, p: Tensor, q: Tensor, codes: Tensor
    ) -> tuple[Tensor, Tensor]:
        """What the layer pays `(nodes,)`, and where a neuron has no corner left."""
        torch = require_torch()
        own = codes[:, self._columns]
        best = torch.full_like(a, -torch.inf)
        alive = torch.zeros_like(own, dtype=torch.bool)
        for k in range(len(self._s)):
            value = a * self._z[k]
            value.addcmul_(b, self._z_p[k])
            value.addcmul_(p, self._s[k], value=-1)
            value.addcmul_(q, self._t[k], value=-1)
            cut = (own & self._cut[k]) != 0
            alive |= ~cut
            torch.maximum(best, value.masked_fill_(cut, -torch.inf), out=best)
        return best.sum(dim=1), ~alive.all(dim=1)

    def error(self, a: Tensor, b: Tensor, p: Tensor, q: Tensor) -> Tensor:
        size = a.abs() + b.abs() + p.abs() + q.abs()
        return unit(2 * len(self._magnitude) + 32) * (size @ self._magnitude)
