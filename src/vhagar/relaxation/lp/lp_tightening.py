"""Tighter hexagons by LP, where a perturbation reaches few neurons.

Each of a neuron's six bounds is the optimum of an LP over the neuron's cone of influence. That is
worth its cost where most neurons have the same value in both copies, so that few have to be
bounded. As everywhere, the LP only proposes multipliers; the bound is computed from them.
"""

from __future__ import annotations

import numpy as np

from vhagar.array_types import Array, Index
from vhagar.errors import SolverFailure
from vhagar.relaxation.hexagon import Hexagons
from vhagar.relaxation.influence_cones import AT_ONCE, relaxed_cone
from vhagar.relaxation.layerwise import TwinBounds
from vhagar.relaxation.lp.lambda_model import PairModel
from vhagar.relaxation.refinement import refine_by
from vhagar.relaxation.starts import hexagon_directions
from vhagar.runtime.deadline import NEVER, Deadline
from vhagar.solver.simplex import Simplex

# Largest share of the undecided neurons that may differ between the copies.
_LARGEST_SHARE = 0.25
# Work limit for all LPs of a layer, in simplex iterations times matrix entries: some seconds. Work
# is counted and not timed, because all workers must compute the same bounds.
_WORK = 10**9
# A layer whose bounds need more multipliers than this is not tightened.
_MOST_MULTIPLIERS = 2 * 10**7


def is_local(bounds: TwinBounds) -> bool:
    """Whether the perturbation reaches few of the undecided neurons."""
    undecided = sum(int((~layer.on & ~layer.off).sum()) for layer in bounds.hexagons)
    pairs = sum(len(pairs_of(layer)) for layer in bounds.hexagons)
    return 0 < pairs <= _LARGEST_SHARE * undecided


def pairs_of(hexagons: Hexagons) -> Index:
    """The undecided neurons that may differ between the copies."""
    return np.flatnonzero(~hexagons.on & ~hexagons.off & ~hexagons.equal)


def tighten_pairs(bounds: TwinBounds, layer: int, deadline: Deadline = NEVER) -> None:
    """Tighten the hexagons of a layer's undecided neurons that may differ between the copies."""
    pairs = pairs_of(bounds.hexagons[layer])
    if layer < 1 or not len(pairs):
        return  # the first layer's supports are exact
    below = sum(len(hexagons) for hexagons in bounds.hexagons[:layer])
    if len(hexagon_directions(bounds.piece.ratio)) * len(pairs) * below > _MOST_MULTIPLIERS:
        return
    found = _Multipliers(bounds, layer, pairs, deadline)
    for begin in range(0, len(pairs), AT_ONCE):
        found.solve(np.arange(begin, min(begin + AT_ONCE, len(pairs))))
    refine_by(bounds, layer, pairs, found)


class _Multipliers:
    """Multipliers for all bounds of some neurons, row by row as in `refine_by`.

    They are 0 where an LP gives none, which is valid but proves little.
    """

    def __init__(self, bounds: TwinBounds, layer: int, neurons: Index, deadline: Deadline) -> None:
        self._bounds = bounds
        self._deadline = deadline
        self._layer = layer
        self._neurons = neurons
        self._directions = hexagon_directions(bounds.piece.ratio)
        self._left = _WORK
        rows = len(self._directions) * len(neurons)
        self._p, self._q = (
            [np.zeros((rows, len(below))) for below in bounds.hexagons[:layer]] for _ in "pq"
        )

    def __call__(self, layer: int, a: Array, b: Array) -> tuple[Array, Array]:
        return self._p[layer], self._q[layer]

    def solve(self, places: Index) -> None:
        """Solve the LPs of some of the neurons, each from the last basis of the one before."""
        cone = relaxed_cone(self._bounds, self._layer, self._neurons[places])
        model = PairModel(cone, self._layer)
        simplex = Simplex(model.arrays, 0, model.region_rows, self._deadline)
        # The bounds on the gap come first, because they matter most.
        for k, direction in reversed(list(enumerate(self._directions))):
            for place, neuron in enumerate(places):
                duals = self._duals(model, simplex, place, direction)
                if duals is not None:
                    self._keep(k * len(self._neurons) + neuron, model, duals, cone.seen)

    def _duals(
        self, model: PairModel, simplex: Simplex, place: int, direction: tuple[float, float]
    ) -> Array | None:
        price = model.arrays.matrix.nnz + 1
        self._deadline.check()
        if self._left < price:
            return None
        cost = np.zeros(model.model.column_count)
        for factor, copy in zip(direction, (model.first, model.second), strict=True):
            row = copy.matrix[[place]]
            cost[row.indices] += factor * row.data
        if not cost.any():
            return None
        try:
            simplex.aim(cost)
            answer = simplex.solve(self._left // price, need_primal=False)
        except SolverFailure:
            return None
        self._left -= (answer.iterations + 1) * price
        return answer.duals

    def _keep(self, row: int, model: PairModel, duals: Array, seen: list[Index]) -> None:
        for layer, (rows, neurons) in enumerate(zip(model.rows, seen, strict=True)):
            p, q = self._p[layer][row], self._q[layer][row]
            p[neurons[rows.pairs]] = -duals[rows.pair_rows]
            q[neurons[rows.pairs]] = -duals[rows.pair_rows_p]
            p[neurons[rows.equal]] = -duals[rows.equal_rows]
