"""What multipliers prove of many nodes: the twin dual in torch, and its end on the CPU.

It is computed in float64 with the same bounds on rounding as for one node: they hold for sums of
products in any order, so for dense products on a GPU as well.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array, Index
from vhagar.relaxation.corners import DecidedSigns
from vhagar.relaxation.first_order.torch_layers import torch_stages
from vhagar.relaxation.hexagon import CORNERS
from vhagar.relaxation.lp.decisions import PIXELS, Decision
from vhagar.relaxation.lp.region_model import RegionModel
from vhagar.relaxation.lp.row_duals import LEAST_TOTAL, MOST_TOTAL, RowDuals
from vhagar.relaxation.starts import outward
from vhagar.relaxation.twin_dual import Backward, at_input, backward, paying
from vhagar.runtime.devices import Tensor, require_torch
from vhagar.runtime.threads import in_threads

# Nodes whose supports are evaluated together.
_BLOCK = 128


def bit_of(copy: int, positive: bool) -> int:
    """What a decision adds to a neuron's code: 1 for s >= 0, 2 for s <= 0, 4 and 8 for t."""
    return (1 if positive else 2) << (2 * copy)


def coded(offsets: Index, nodes: list[tuple[Decision, ...]]) -> NDArray[np.uint8]:
    """Decisions about neurons as codes `(nodes, neurons)`, all layers in a row."""
    codes = np.zeros((len(nodes), int(offsets[-1])), dtype=np.uint8)
    for row, decisions in enumerate(nodes):
        for decision in decisions:
            assert decision.layer != PIXELS, "pixels are not decided here"
            place = offsets[decision.layer] + decision.neuron
            codes[row, place] |= bit_of(decision.copy, decision.positive)
    return codes


class BatchBound:
    """Bounds on `delta` over nodes of one piece and one target, many at once."""

    def __init__(
        self, region_model: RegionModel, score_size: float, device: Any, threads: int = 1
    ) -> None:
        torch = require_torch()
        bounds, model = region_model.bounds, region_model.model

        def tensor(values: Any) -> Tensor:
            return torch.tensor(values, device=device)

        self._piece = bounds.piece
        self._source, self._target = region_model.problem.source, region_model.target
        self._source_rows = model.source_rows
        self._score_size = score_size
        self._threads = threads
        self._classes = bounds.network.classes
        self._rows = RowDuals(model, self._classes, [tensor(h.on) for h in bounds.hexagons])
        self._stages = torch_stages(bounds.stages, device, torch.float64)
        self._magnitudes = [
            tuple(tensor(size) for size in sizes)
            for sizes in bounds.magnitudes(len(bounds.stages) - 1)
        ]
        self._corners = [corners.mapped(tensor) for corners in bounds.corners]
        nothing = np.zeros((CORNERS, 0), dtype=np.uint8)
        cut = np.concatenate([nothing, *(corners.cut() for corners in bounds.corners)], axis=1)
        self._cut = tensor(cut)  # of all layers in a row, as codes are
        self._columns = [slice(begin, end) for begin, end in itertools.pairwise(bounds.offsets)]

    def uppers(self, duals: Tensor, codes: Tensor) -> Array:
        """Upper bounds `(nodes,)` from rows' duals `(nodes, rows)` in float64, which may be
        anything.

        Infinite where the duals prove nothing, minus infinite where decisions contradict a bound.
        """
        torch = require_torch()
        total = (-duals[:, self._source_rows]).clamp(min=0).sum(dim=1)
        usable = torch.isfinite(duals).all(dim=1) & (total > LEAST_TOTAL) & (total < MOST_TOTAL)
        scaled = torch.where(usable[:, None], duals / total[:, None], 0.0)
        state, weight = self.backward(scaled, codes)
        value = outward(self._closed(state), weight.cpu().numpy(), self._score_size, self._classes)
        value = np.where(usable.cpu().numpy(), value, np.inf)
        empty = DecidedSigns(codes, self._cut).empty()
        return np.where(empty.cpu().numpy(), -np.inf, value)

    def backward(self, duals: Tensor, codes: Tensor) -> tuple[Backward, Tensor]:
        """Back to the input, and the sums `(nodes,)` of the classes' multipliers."""
        classes = self._rows.classes(duals)
        decided = [DecidedSigns(codes[:, own], self._cut[:, own]) for own in self._columns]
        start = classes.start(self._source, self._target)
        pay = paying(self._corners, self._rows.choice(duals), decided)
        return backward(self._stages, start, pay, self._magnitudes), classes.total()

    def _closed(self, state: Backward) -> Array:
        """The perturbation's support and the errors added."""
        a, b, constant, error = (
            part.cpu().numpy() for part in (state.a, state.b, state.constant, state.error)
        )
        value = np.full(len(a), np.inf)

        def close(number: int) -> None:
            rows = slice(number * _BLOCK, (number + 1) * _BLOCK)
            with np.errstate(over="ignore", invalid="ignore"):
                own = Backward(a[rows], b[rows], constant[rows], error[rows])
                value[rows] = at_input(self._piece, own)

        in_threads(close, -(-len(a) // _BLOCK), self._threads)
        return value
