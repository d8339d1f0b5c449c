"""What the nodes of one piece and one target share, on the device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vhagar.errors import SolverFailure
from vhagar.relaxation.first_order.torch_layers import torch_stages
from vhagar.relaxation.lp.decisions import Decision
from vhagar.relaxation.lp.lazy_rows import LEAST_COEFFICIENT
from vhagar.relaxation.lp.region_model import RegionModel
from vhagar.relaxation.lp.row_duals import RowDuals
from vhagar.relaxation.twin_dual import coefficients
from vhagar.runtime.devices import Tensor, full_precision, require_torch
from vhagar.search.bounders.gpu.formula import BatchBound, coded
from vhagar.search.bounders.gpu.steps import Iterates, PrimalDual

# Least mass that counts, relative to the neuron's range. The steps end short of a vertex, so it is
# not tiny.
_SMALLEST_MASS = 1e-5
# Observations that the ratio of a whole layer counts for.
_PRIOR = 2.0


@dataclass(frozen=True, eq=False)
class NextSigns:
    """The sign to decide next at every node.

    `places` `(nodes,)` count the neurons of all layers of the first copy and then of the second; -1
    where the point leaves nothing to decide. `gains` `(nodes, 2)` are those of the negative and the
    positive child.
    """

    places: Tensor
    gains: Tensor


class GpuRegion:
    """The model, the formula and the choice of signs for nodes of one region."""

    def __init__(
        self, region_model: RegionModel, score_size: float, device: Any, threads: int
    ) -> None:
        torch = require_torch()
        self.region_model = region_model
        self._device = device
        bounds, model = region_model.bounds, region_model.model
        self._starts, self._layers = bounds.offsets, len(bounds.hexagons)
        self.neurons = int(self._starts[-1])
        self.steps = PrimalDual(model.arrays, model.delta, device)
        self.formula = BatchBound(region_model, score_size, device, threads)
        weights = model.weights
        self._columns = self._tensor(weights.column, torch.int64)
        self._owner = self._tensor(self._starts[weights.layer] + weights.neuron, torch.int64)
        self._s, self._t = (self._tensor(part, torch.float32) for part in (weights.s, weights.t))
        none = np.zeros(0)
        ranges = np.concatenate([none, *(h.magnitude for h in bounds.hexagons)])
        self._least_mass = self._tensor(_SMALLEST_MASS * ranges, torch.float32)
        equal = np.concatenate([none, *(h.equal for h in bounds.hexagons)]).astype(np.bool_)
        self._equal = self._tensor(equal, torch.bool)
        self._stages = torch_stages(bounds.stages, device)
        self._layer = self._tensor(
            np.tile(np.repeat(np.arange(self._layers), np.diff(self._starts)), 2), torch.int64
        )
        on = [self._tensor(h.on, torch.bool) for h in bounds.hexagons]
        self._rows = RowDuals(model, bounds.network.classes, on)
        # What became of gains: their sum and their number, for both sides of every place.
        self._kept = torch.zeros((2, 2 * self.neurons), device=device)
        self._seen = torch.zeros((2, 2 * self.neurons), device=device)

    def _tensor(self, values: Any, kind: Any) -> Tensor:
        return require_torch().tensor(np.asarray(values), dtype=kind, device=self._device)

    def start(self) -> Iterates | None:
        """The solution of the undecided root's LP; None if there is none."""
        try:
            answer = self.region_model.evaluate((), np.inf).answer
        except SolverFailure:
            return None
        if not answer.optimal or answer.primal is None or answer.duals is None:
            return None
        return self.steps.iterates(answer.primal, answer.duals)

    def codes(self, nodes: list[tuple[Decision, ...]]) -> Tensor:
        """Decisions as codes `(nodes, neurons)`."""
        return self._tensor(coded(self._starts, nodes), require_torch().uint8)

    def upper(self, codes: Tensor) -> Tensor:
        """The columns' upper bounds `(nodes, columns)`: 0 where decisions switch one off."""
        own = codes[:, self._owner]
        off = ((own & 1) != 0) & (self._s < 0)
        off |= ((own & 2) != 0) & (self._s > 0)
        off |= ((own & 4) != 0) & (self._t < 0)
        off |= ((own & 8) != 0) & (self._t > 0)
        upper = self.steps.upper.repeat(len(codes), 1)
        upper[:, self._columns] = upper[:, self._columns].masked_fill_(off, 0.0)
        return upper

    def decision(self, place: int, positive: bool) -> Decision:
        """The decision about a place."""
        copy, flat = divmod(place, self.neurons)
        layer = int(np.searchsorted(self._starts, flat, side="right")) - 1
        return Decision(layer, flat - int(self._starts[layer]), copy, positive)

    def bit(self, place: Tensor, positive: bool) -> Tensor:
        """What the decision adds to a neuron's code."""
        torch = require_torch()
        base = 1 if positive else 2
        return torch.where(place >= self.neurons, base << 2, base).to(torch.uint8)

    def branch(self, iterates: Iterates, most: Tensor) -> NextSigns:
        """The sign that gains the largest decreases of both children.

        `most` `(nodes,)` is what a decrease is worth at most: then the child is closed.
        """
        torch = require_torch()
        weights = self.steps.primal(iterates.x, self._columns).clamp_(min=0)
        worth = self._worth(self.steps.duals(iterates.y, torch.float32))
        masses = []
        for sign in (1.0, -1.0):
            parts = [
                self._mass(weights * (sign * part).clamp(min=0)) for part in (self._s, self._t)
            ]
            masses.append(torch.cat(parts, dim=1))
        positive, negative = masses
        least = self._least_mass.repeat(2)
        open_ = (positive > least) & (negative > least)
        open_[:, self.neurons :] &= ~self._equal
        kept = self._estimates()
        # The negative child loses the positive mass, and the other way round.
        gains = worth * positive, worth * negative
        expected = [
            torch.minimum(kept[k] * gains[k], most[:, None]).clamp(min=1e-9) for k in (0, 1)
        ]
        score = (expected[0] * expected[1]).masked_fill_(~open_, -1.0)
        best, place = score.max(dim=1)
        chosen = torch.stack([part.gather(1, place[:, None])[:, 0] for part in gains], dim=1)
        return NextSigns(torch.where(best > 0, place, -1), chosen)

    def learn(self, place: Tensor, gains: Tensor, decreases: Tensor) -> None:
        """What gains of places `(nodes,)` became; both are `(nodes, 2)`."""
        torch = require_torch()
        kept = (decreases / gains.clamp(min=1e-9)).clamp(0.0, 10.0)
        for side in (0, 1):
            self._kept[side].index_add_(0, place, kept[:, side])
            self._seen[side].index_add_(0, place, torch.ones_like(kept[:, side]))

    def _estimates(self) -> Tensor:
        """Observed over predicted gain of each side of each place: its own mean, drawn towards
        its layer's."""
        torch = require_torch()
        layers = torch.zeros((2, 2, self._layers), device=self._device)
        for k, part in enumerate((self._kept, self._seen)):
            layers[k].index_add_(1, self._layer, part)
        mean = (layers[0] + _PRIOR) / (layers[1] + _PRIOR)
        prior = _PRIOR * mean[:, self._layer]
        return (self._kept + prior) / (self._seen + _PRIOR)

    def _mass(self, values: Tensor) -> Tensor:
        torch = require_torch()
        found = torch.zeros((len(values), self.neurons), device=self._device)
        return found.index_add_(1, self._owner, values)

    def _worth(self, duals: Tensor) -> Tensor:
        """How much the bound rises with each neuron's value, `(nodes, both copies' neurons)`."""
        torch = require_torch()
        classes, problem = self._rows.classes(duals), self.region_model.problem
        start = classes.start(problem.source, self.region_model.target)
        with full_precision():
            found = coefficients(self._stages, start, self._rows.choice(duals), last=1)
        a, b = (torch.cat([part[copy] for part in reversed(found)], dim=1) for copy in (0, 1))
        worth = torch.cat([torch.where(self._equal, a + b, a), b], dim=1).abs_()
        return self._at_least(worth)

    def _at_least(self, worth: Tensor) -> Tensor:
        """No less than a part of the mean over the layer's undecided neurons."""
        torch = require_torch()
        undecided = torch.zeros(self.neurons, device=self._device)
        undecided[self._owner] = 1.0
        wide = undecided.repeat(2)
        # Both copies have layers of their own here.
        layer = self._layer.clone()
        layer[self.neurons :] += self._layers
        total = torch.zeros((len(worth), 2 * self._layers), device=self._device)
        total.index_add_(1, layer, worth * wide)
        count = torch.zeros(2 * self._layers, device=self._device).index_add_(0, layer, wide)
        mean = total / count.clamp(min=1)
        return torch.maximum(worth, LEAST_COEFFICIENT * mean[:, layer])
