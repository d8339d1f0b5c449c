"""Find cone cuts that the solution of a node's LP violates.

The LP's multipliers say which function of each group's outputs the bound depends on. If that
function is smaller over all inputs of the group's cone than at the LP's solution, a cut says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vhagar.array_types import Array
from vhagar.relaxation.cone_cuts import ConeCut
from vhagar.relaxation.layerwise import TwinBounds
from vhagar.relaxation.lp.cone import Cone
from vhagar.relaxation.lp.cone_search import cone_cut, groups
from vhagar.relaxation.lp.lambda_model import LambdaModel
from vhagar.relaxation.lp.lp_tightening import is_local
from vhagar.runtime.deadline import NEVER, Deadline

# A cone has at most this many undecided signs, and at most this share of the LP's entries.
_MOST_SIGNS, _LARGEST_PART = 100, 0.5
# LPs in the search of one cone.
_MOST_LPS = 200


def may_help(bounds: TwinBounds) -> bool:
    """Whether cuts are worth a try.

    Where a perturbation reaches few neurons, a few decisions do what cuts do. Where every pixel
    moves on its own (`linf`), quadratic facts bound better than any LP.
    """
    return bounds.piece.ball is None and not is_local(bounds)


@dataclass(frozen=True, eq=False)
class _Task:
    """A cone, a function of its outputs, and its value at the LP's solution."""

    cone: Cone
    a: Array
    b: Array
    value: float

    @property
    def most(self) -> float:
        """The most that a cut can cut off; infinite where nothing is known yet."""
        return self.value - self.cone.known_value(self.a, self.b)

    def cut(self, worth: float) -> ConeCut | None:
        """A cut that the LP's solution violates by more than `worth`, if one is found."""
        return cone_cut(self.cone, self.a, self.b, self.value - worth, _MOST_LPS)


class ConeSeparator:
    """The cones of a region, each built when it is first needed."""

    def __init__(self, bounds: TwinBounds, model: LambdaModel, deadline: Deadline = NEVER) -> None:
        self._bounds, self._model, self._deadline = bounds, model, deadline
        self._cones: dict[tuple[int, int], Cone | None] = {}
        self.possible = 0.0  # the most that the cuts looked for last could cut off
        layers = range(1, len(bounds.hexagons)) if may_help(bounds) else range(0)
        found = ((layer, groups(bounds, layer)) for layer in layers)
        self._groups = {layer: units for layer, units in found if len(units) > 1}

    @property
    def layers(self) -> list[int]:
        """The layers whose outputs are cut."""
        return list(self._groups)

    @property
    def work(self) -> float:
        """The work of all searches in cones, in simplex iterations times entries."""
        return sum(cone.work for cone in self._cones.values() if cone is not None)

    @property
    def expected_work(self) -> float:
        """A guess at the work of searching every cone once."""
        cones = [cone for cone in self._cones.values() if cone is not None]
        each = max((cone.expected_work for cone in cones), default=0.0)
        return _MOST_LPS / 2 * each * sum(len(found) for found in self._groups.values())

    def cuts(
        self, primal: Array, wanted: dict[int, tuple[Array, Array]], worth: float, total: float
    ) -> list[ConeCut]:
        """Cuts that an LP's solution violates by more than `worth` each.

        `wanted` are the bound's coefficients on the layers' outputs. Nothing is searched if all
        cuts together would cut off less than `total`, by what is known of the outputs already.
        """
        tasks = [task for task in self._tasks(primal, wanted) if task.most > worth]
        self.possible = sum(task.most for task in tasks)
        if self.possible < total:
            return []
        found = (task.cut(worth) for task in tasks)
        return [cut for cut in found if cut is not None]

    def _tasks(self, primal: Array, wanted: dict[int, tuple[Array, Array]]) -> Iterator[_Task]:
        for layer, (a, b) in wanted.items():
            first, second = (
                copy.matrix @ primal[: copy.matrix.shape[1]] + copy.constant
                for copy in self._model.leaving[layer]
            )
            for place, units in enumerate(self._groups[layer]):
                cone = self._cone(layer, place)
                if cone is not None and (a[units].any() or b[units].any()):
                    value = float(a[units] @ first[units] + b[units] @ second[units])
                    yield _Task(cone, a[units], b[units], value)

    def _cone(self, layer: int, place: int) -> Cone | None:
        """A group's cone; None where it is too large."""
        if (layer, place) not in self._cones:
            cone = Cone(self._bounds, layer, self._groups[layer][place], self._deadline)
            small = cone.entries <= _LARGEST_PART * (self._model.arrays.matrix.nnz + 1)
            small &= 0 < cone.undecided <= _MOST_SIGNS
            self._cones[layer, place] = cone if small else None
        return self._cones[layer, place]
