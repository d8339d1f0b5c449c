"""Looks for witnesses beside the search, starting from the inputs of its LPs."""

from __future__ import annotations

import contextlib
from collections.abc import Hashable
from dataclasses import dataclass

from vhagar.array_types import Array
from vhagar.attack.incumbents import AttackFound, OnAttack
from vhagar.attack.linear_regions import proposed
from vhagar.attack.polish import believed_signs, polish
from vhagar.errors import SolverFailure
from vhagar.perturbation.domain.parts import at_whole_numbers
from vhagar.problem import Problem
from vhagar.reduction.base import AbstractRestore
from vhagar.relaxation.bounds_cache import RecentlyUsed
from vhagar.relaxation.layerwise import quick_bounds
from vhagar.relaxation.lp.decisions import Decision
from vhagar.relaxation.lp.region_model import RegionModel
from vhagar.result import Witness
from vhagar.result.witness import RestoredCheck
from vhagar.runtime.deadline import NEVER, Deadline
from vhagar.search.node import Region

# The heuristic runs at the first nodes of a region, at fewer while it has found nothing, and then
# at one node in this many.
_ALWAYS, _ALWAYS_IN_VAIN, _EVERY = 8, 3, 10
# The same for large LPs, where one polish takes as long as many nodes.
_ALWAYS_LARGE, _EVERY_LARGE = 1, 25
# Convex models that are kept.
_MOST_CONVEX = 64
# Work (iterations times entries of the model) for all polishing: at first, and as a share of that
# of the nodes' own LPs. The share is up to three times as large while polishing finds witnesses.
_WORK_AT_FIRST, _WORK_SHARE = 1e9, 0.3


@dataclass(frozen=True, eq=False)
class WitnessFound:
    """A candidate that passed the check here; the keeper of the interval checks it again.

    It is a candidate of the problem as it was given, before any reduction.
    """

    target: int | None
    piece_index: int
    x: Array
    parameters: Array
    confidence: float

    @staticmethod
    def of(found: AttackFound, restore: AbstractRestore) -> WitnessFound:
        """What was found of a reduced problem, by the way back from it."""
        point = restore.witness(found.piece_index, found.x, found.parameters)
        return WitnessFound(found.target, *point, found.confidence)


class PrimalHeuristic:
    """Polishes the inputs of LPs, and sends what is better than all that was known.

    A `plain` one takes the inputs as they are.
    """

    def __init__(
        self,
        problem: Problem,
        check: RestoredCheck,
        send: OnAttack,
        deadline: Deadline = NEVER,
        plain: bool = False,
    ) -> None:
        self._plain = plain
        self._deadline = deadline
        self._problem = problem
        self._send = send
        self._check = check
        self._convex: RecentlyUsed[Hashable, RegionModel] = RecentlyUsed(_MOST_CONVEX)
        self._visits: dict[tuple[int | None, int], int] = {}
        self._calls = self._successes = 0
        self._spent = self._nodes_work = 0.0

    def count(self, work: float) -> None:
        """Add the work of a node's LP, of which this heuristic may take a share."""
        self._nodes_work += work

    @property
    def _left(self) -> float:
        """Work that is left for polishing."""
        merit = 1 + 2 * (self._successes + 1) / (self._calls + 1)
        return _WORK_AT_FIRST + _WORK_SHARE * merit * self._nodes_work - self._spent

    def is_due(self, region_model: RegionModel, region: Region) -> bool:
        """Whether to polish: all of a piece's first nodes and some of the later ones, as long as
        polishing stays within its share of the work."""
        key = (region.target, region.piece_index)
        visits = self._visits[key] = self._visits.get(key, 0) + 1
        if self._left <= 0:
            return False
        if region_model.is_large:
            return visits <= _ALWAYS_LARGE or visits % _EVERY_LARGE == 0
        always = _ALWAYS if self._successes else _ALWAYS_IN_VAIN
        return visits <= always or visits % _EVERY == 0

    def look(
        self,
        region_model: RegionModel,
        region: Region,
        primal: Array,
        known: float,
        thorough: bool = False,
        decisions: tuple[Decision, ...] = (),
    ) -> float:
        """The best confidence of a witness: `known`, or better."""
        best = known

        def judge(x: Array, parameters: Array) -> float | None:
            nonlocal best
            piece_index = region.piece_index
            verdict = self._check(region.target, x, piece_index, parameters)
            if not isinstance(verdict, Witness):
                return None
            if verdict.confidence > best:
                best = verdict.confidence
                self._send(AttackFound(region.target, piece_index, x, parameters, verdict))
            return verdict.confidence

        x, parameters = proposed(region_model, primal)
        if self._plain:
            judge(x, parameters)
            return best
        self._calls += 1
        with contextlib.suppress(SolverFailure):  # then there is no witness to be had here
            convex = self._convex_model(region_model, region, x, parameters, thorough)
            entries, before = convex.entries, convex.polish_work
            most = max(self._left, 0.0) / entries
            inside = convex.piece.project(parameters)
            signs = believed_signs(region_model, primal)
            polish(convex, x, inside, judge, thorough, decisions, most, known, signs)
            self._spent += entries * (convex.polish_work - before)
        self._successes += best > known
        return best

    def _convex_model(
        self,
        region_model: RegionModel,
        region: Region,
        x: Array,
        parameters: Array,
        exactly: bool,
    ) -> RegionModel:
        """The same piece with whole numbers fixed, and its parameter if that makes it nonconvex.

        The parameter is fixed exactly as given, or at the nearer end of its span: the best attack
        is often there, and the neighbouring parts share it.
        """
        piece, whole = region_model.piece, region_model.piece.domain.groups.whole
        value = None
        if not piece.convex and piece.span is not None:
            given = float(parameters[0])
            value = given if exactly else min(piece.span, key=lambda end: abs(end - given))
        if value is None and not len(whole):
            return region_model
        key = (region.target, region.piece_index, value, tuple(x[whole].tolist()))
        if key not in self._convex:
            part = at_whole_numbers(piece.domain, x)
            fixed = piece if part is None else piece.within(part)
            fixed = fixed if value is None else fixed.fixed_at(value)
            bounds = quick_bounds(self._problem.network, fixed, should_stop=self._deadline.check)
            self._convex[key] = RegionModel(
                self._problem, bounds, region.target, deadline=self._deadline
            )
        return self._convex.used(key)
