"""Find cone cuts that the solution of a node's LP violates.

The LP's multipliers say which function of each group's outputs the bound depends on. If that
function is smaller over all inputs of the group's cone than at the LP's solution, a cut says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vhagar.array_types import Array, Index
from vhagar.relaxation.cone_cuts import ConeCut
from vhagar.relaxation.layerwise import TwinBounds
from vhagar.relaxation.lp.cone import Cone, Objective
from vhagar.relaxation.lp.cone_search import cone_cut, groups
from vhagar.relaxation.lp.lambda_model import LambdaModel
from vhagar.relaxation.lp.lp_tightening import is_local
from vhagar.relaxation.lp.node_bound import Wanted
from vhagar.runtime.deadline import NEVER, Deadline

# A cone has at most this many undecided signs, and at most this share of the LP's entries.
_MOST_SIGNS, _LARGEST_PART = 100, 0.5
# LPs in the search of one cone.
MOST_LPS = 200
# Work after which no other cone is searched at a node's solution, in simplex iterations times
# entries: 5 s, where a core does 8e8 in a second. A worker that is silent for 10 s may be replaced.
_MOST_WORK = 4e9
# A cone is left alone at no more than this many nodes in a row.
_LONGEST_REST = 63


def may_help(bounds: TwinBounds) -> bool:
    """Whether cuts are worth a try.

    Where a perturbation reaches few neurons, a few decisions do what cuts do. Where every pixel
    moves on its own (`linf`), quadratic facts bound better than any LP.
    """
    return bounds.piece.ball is None and not is_local(bounds)


@dataclass(frozen=True, eq=False)
class _Separation:
    """A separation problem: a cone, a function to bound there, its value at the LP's solution."""

    cone: Cone
    objective: Objective
    value: float

    @property
    def most(self) -> float:
        """The most that a cut can cut off; infinite where nothing is known yet."""
        return self.value - self.cone.known_value(self.objective)

    def cut(self, worth: float, most: int) -> ConeCut | None:
        """A cut that the LP's solution violates by more than `worth`, if `most` LPs find one."""
        return cone_cut(self.cone, self.objective, self.value - worth, most)


class _Rest:
    """How long a cone is left alone whose searches are too short for a cut.

    Nodes with the same bound have nearly the same function, and the next search would be as long.
    A longer one than any that was too short ends the rest.
    """

    def __init__(self) -> None:
        self._length = self._left = self._longest = 0

    def begin(self, most: int) -> None:
        """A search of `most` LPs was too short."""
        self._length = min(2 * self._length + 1, _LONGEST_REST)
        self._left, self._longest = self._length, max(self._longest, most)

    def end(self) -> None:
        self._length = self._left = self._longest = 0

    def is_on(self, most: int) -> bool:
        """Whether a search of `most` LPs is left out this time; each time brings the end nearer."""
        if most > self._longest:
            self.end()
        self._left -= 1
        return self._left >= 0


class ConeSeparator:
    """The cones of a region, each built when it is first needed."""

    def __init__(self, bounds: TwinBounds, model: LambdaModel, deadline: Deadline = NEVER) -> None:
        self._bounds, self._model, self._deadline = bounds, model, deadline
        self._cones: dict[int, list[Cone | None]] = {}
        self._seen: dict[int, tuple[Array, Array]] = {}
        self._resting: dict[Cone, _Rest] = {}
        self.possible = 0.0  # the most that the cuts looked for last could cut off
        layers = range(1, len(bounds.hexagons)) if may_help(bounds) else range(0)
        found = ((layer, groups(bounds, layer)) for layer in layers)
        self._groups = {layer: units for layer, units in found if len(units) > 1}

    @property
    def layers(self) -> list[int]:
        """The layers whose outputs are cut."""
        return list(self._groups)

    @property
    def _built(self) -> list[Cone]:
        return [cone for cones in self._cones.values() for cone in cones if cone is not None]

    @property
    def work(self) -> float:
        """The work of all searches in cones, in simplex iterations times entries."""
        return sum(cone.work for cone in self._built)

    @property
    def expected_work(self) -> float:
        """A guess at the work of searching every cone once."""
        each = max((cone.expected_work for cone in self._built), default=0.0)
        return MOST_LPS / 2 * each * sum(len(found) for found in self._groups.values())

    def cuts(
        self, primal: Array, wanted: Wanted, worth: float, total: float, most: int = MOST_LPS
    ) -> list[ConeCut]:
        """Cuts that an LP's solution violates by more than `worth` each, by `most` LPs for each.

        Nothing is searched if all cuts together would cut off less than `total`, by what is known
        of the outputs already. The cones that may cut off most come first, as there may not be time
        for all.
        """
        problems = [
            (problem.most, problem)
            for problem in self._separations(primal, wanted)
            if problem.most > worth and not self._rest_of(problem.cone).is_on(most)
        ]
        self.possible = sum(possible for possible, _ in problems)
        if self.possible < total:
            return []
        self.possible, until = 0.0, self.work + _MOST_WORK
        found = []
        for possible, problem in sorted(problems, key=lambda each: -each[0]):
            if self.work > until:
                break
            self.possible += possible
            found.append(self._searched(problem, worth, most))
        return [cut for cut in found if cut is not None]

    def _searched(self, problem: _Separation, worth: float, most: int) -> ConeCut | None:
        cut, rest = problem.cut(worth, most), self._rest_of(problem.cone)
        if cut is not None:
            rest.end()
        elif problem.most > worth:  # the search has found no outputs as large as the LP's
            rest.begin(most)
        return cut

    def _rest_of(self, cone: Cone) -> _Rest:
        return self._resting.setdefault(cone, _Rest())

    def _separations(self, primal: Array, wanted: Wanted) -> Iterator[_Separation]:
        inputs = self._model.inputs
        x = inputs.x.value(primal)
        x_p = x if inputs.x_p is None else inputs.x_p.value(primal)
        for layer, (a, b) in wanted.outputs.items():
            outputs = [copy.value(primal) for copy in self._model.leaving[layer]]
            for cone in self._cones_of(layer):
                if cone is None:
                    continue
                units = cone.units
                if a[units].any() or b[units].any():
                    objective = Objective(a[units], b[units], *self._price(cone, wanted))
                    point = [*(values[units] for values in outputs), x[cone.pixels]]
                    point.append(x_p[cone.images])
                    value = float(objective.stacked @ np.concatenate(point))
                    yield _Separation(cone, objective, value)

    def _price(self, cone: Cone, wanted: Wanted) -> tuple[Array, Array]:
        """Prices of what other cones see, too: what it costs the bound, negated; on `x` and `x_p`.

        A cut for these prices agrees with the cuts of other cones about the pixels that they share,
        and about the amount by which all pixels change: where the cone gains by it, another one
        loses.
        """
        units, pixels = self._seen[cone.layer]
        share = 1.0 / np.maximum(units[cone.first_units], 1.0)
        p, q = (part[cone.first_units] * share for part in wanted.first)
        on_x, on_image = cone.prices.of(p, q)
        cuts, weights = wanted.weights.cuts, wanted.weights.weights[0]
        for k in np.flatnonzero(weights).tolist():
            cut = cuts[k]
            if cut.layer == cone.layer and _is_of(cut, cone):
                on_x[np.searchsorted(cone.pixels, cut.pixels)] -= weights[k] * cut.c
                on_image[np.searchsorted(cone.images, cut.perturbed)] -= weights[k] * cut.d
        c, d = cone.prices.agreed(on_x, on_image, pixels[cone.pixels] > 1)
        return -c, -d

    def _cones_of(self, layer: int) -> list[Cone | None]:
        """The cones of a layer's groups; None where one is too large."""
        if layer not in self._cones:
            self._cones[layer] = [self._cone(layer, units) for units in self._groups[layer]]
            units = np.zeros(len(self._bounds.hexagons[0].on))
            pixels = np.zeros(self._bounds.piece.domain.size)
            for cone in self._cones[layer]:
                if cone is not None:
                    units[cone.first_units] += 1
                    pixels[cone.pixels] += 1
            self._seen[layer] = units, pixels
        return self._cones[layer]

    def _cone(self, layer: int, units: Index) -> Cone | None:
        cone = Cone(self._bounds, layer, units, self._deadline)
        small = cone.entries <= _LARGEST_PART * (self._model.arrays.matrix.nnz + 1)
        return cone if small and 0 < cone.undecided <= _MOST_SIGNS else None


def _is_of(cut: ConeCut, cone: Cone) -> bool:
    """Whether a cut, which another process may have found, is about a cone's units and pixels."""
    if not np.array_equal(cut.units, cone.units):
        return False
    sides = (cut.pixels, cone.pixels), (cut.perturbed, cone.images)
    return all(bool(np.isin(some, every).all()) for some, every in sides)
