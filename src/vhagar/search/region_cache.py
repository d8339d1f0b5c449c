"""What is kept of the regions of a search: their bounds, their LPs, and parts of their pieces."""

from __future__ import annotations

from vhagar.array_types import Array
from vhagar.perturbation import AbstractPiece
from vhagar.problem import Problem
from vhagar.relaxation.bounds_cache import BoundsCache, RecentlyUsed, quick_part
from vhagar.relaxation.layerwise import TwinBounds, quick_bounds
from vhagar.relaxation.lp.lp_tightening import is_local, pairs_of, tighten_pairs
from vhagar.relaxation.lp.region_model import RegionModel
from vhagar.relaxation.refinement import refine_layer
from vhagar.result.certificate import LARGEST
from vhagar.runtime.deadline import NEVER, Deadline
from vhagar.search.entry_splits import is_entry_step, part_of
from vhagar.search.node import Region
from vhagar.search.pseudocosts import Candidate, Candidates
from vhagar.solver.lp_answer import LpAnswer

# Most pieces of a problem whose roots are refined.
_MOST_REFINED = 4
# Region models that are kept.
_MOST_MODELS = 256


class RegionState:
    """One region: its LPs, and the signs that they leave undecided."""

    def __init__(
        self,
        problem: Problem,
        bounds: TwinBounds,
        target: int | None,
        deadline: Deadline = NEVER,
        empty: bool = False,
    ) -> None:
        self.empty = empty  # whether splits by entries leave no input
        self.region_model = RegionModel(problem, bounds, target, target is not None, deadline)
        model = self.region_model.model
        self._candidates = Candidates(bounds, model.weights, model.inputs.pixels)
        self.visits = 0

    def candidates(self, answer: LpAnswer, with_cuts: bool = True) -> list[Candidate]:
        """The signs that an LP's solution leaves undecided, ranked as if there were no cuts or
        `with_cuts`."""
        assert answer.primal is not None
        assert answer.duals is not None
        coefficients = self.region_model.formula.coefficients(answer.duals, with_cuts)
        found = self._candidates.of(answer.primal, coefficients)
        if not self.region_model.lazy_rows:
            return found
        left_out = self.region_model.lazy_rows.places
        return [candidate for candidate in found if candidate.place[:2] not in left_out]

    def input_of(self, answer: LpAnswer) -> Array:
        """The input `(size,)` of an LP's solution."""
        assert answer.primal is not None
        return self.region_model.model.inputs.x.value(answer.primal)

    def any_candidate(self, decided: set[tuple[int, int, int]]) -> Candidate | None:
        """A sign that is not decided yet, where no LP tells which matters."""
        return self._candidates.undecided(decided)


class Regions:
    """The regions of a problem that were in use most recently."""

    def __init__(self, problem: Problem, bounds: BoundsCache, deadline: Deadline = NEVER) -> None:
        self._problem = problem
        self._deadline = deadline
        self._states: RecentlyUsed[Region, RegionState] = RecentlyUsed(_MOST_MODELS)
        self._bounds = bounds

    def __getitem__(self, region: Region) -> RegionState:
        if region not in self._states:
            bounds = self.bounds_of(region)
            target, deadline = region.target, self._deadline
            empty = self._is_empty(region)
            self._states[region] = RegionState(self._problem, bounds, target, deadline, empty)
        return self._states.used(region)

    def piece(self, region: Region) -> AbstractPiece:
        """The part of the perturbation that a region is about.

        If no input is left, the piece keeps its whole domain.
        """
        piece = self._problem.pieces[region.piece_index]
        part = part_of(piece, region.path)
        if part is None:
            part = part_of(piece, (step for step in region.path if not is_entry_step(step)))
        assert part is not None
        return part

    def _is_empty(self, region: Region) -> bool:
        if not any(map(is_entry_step, region.path)):
            return False
        return part_of(self._problem.pieces[region.piece_index], region.path) is None

    def adopt(self, region: Region, bounds: TwinBounds) -> RegionState:
        """A region whose bounds were tightened here."""
        found = RegionState(self._problem, bounds, region.target, self._deadline)
        self._states[region] = found
        return found

    def bounds_of(self, region: Region) -> TwinBounds:
        """All targets share a piece's bounds, and all sources, unless they were tightened."""
        if region.tightening is not None:
            return self.bounds_of(region.whole).tightened(region.tightening)

        def compute() -> TwinBounds:
            if region.path:
                return self._quick(region)
            # With many pieces the time is better spent on searching them.
            if len(self._problem.pieces) > _MOST_REFINED:
                return self._whole_piece(region)
            bounds = self._whole_piece(region).copy()
            self._refine(bounds)
            return bounds

        return self._bounds.of(self._problem, (region.piece_index, region.path), compute)

    def bounds_for_slopes(self, region: Region) -> TwinBounds:
        """A whole piece's bounds without first-order steps, which slopes gain nothing from."""
        bounds = self._whole_piece(region)
        return self.bounds_of(region) if is_local(bounds) else bounds

    def _whole_piece(self, region: Region) -> TwinBounds:
        part = quick_part(region.piece_index)
        return self._bounds.of(self._problem, part, lambda: self._quick(region))

    def _quick(self, region: Region) -> TwinBounds:
        network, check = self._problem.network, self._deadline.check
        return quick_bounds(network, self.piece(region), should_stop=check)

    def _refine(self, bounds: TwinBounds) -> None:
        local = is_local(bounds)
        if _is_bulky(bounds, local):
            return
        if not local:
            last = len(bounds.hexagons) - 1
            refine_layer(bounds, last, self._deadline)
            return
        for layer in range(len(bounds.hexagons)):
            tighten_pairs(bounds, layer, self._deadline)


def _is_bulky(bounds: TwinBounds, local: bool) -> bool:
    """Whether the multipliers of a refinement are too many for a certificate.

    That is asked whether or not there will be one. It costs next to nothing: `refine_layer` takes
    no step for so many multipliers, and `tighten_pairs` has a limit of its own for each layer.
    """
    undecided = [int(layer.undecided.sum()) for layer in bounds.hexagons]
    refined = [len(pairs_of(layer)) for layer in bounds.hexagons] if local else undecided
    first = 0 if local else len(undecided) - 1  # otherwise the last layer alone
    entries = sum(6 * refined[k] * sum(undecided[:k]) for k in range(max(first, 0), len(undecided)))
    return 2 * 4 * entries > LARGEST[b"REGN"] // 2
