"""Looks for more confident inputs around the most confident one, where no attack does.

The attack is about a target, so that the search for the maximal confidence has none. The inputs of
its LPs lead to confident ones, but to the region of the best one only by chance. Here the attack's
moves between linear regions begin at an input that a few steps uphill lead to, and at the best that
LPs lead to.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vhagar.array_types import Array
from vhagar.attack.incumbents import AttackFound, Incumbents
from vhagar.attack.region_search import RegionSearch
from vhagar.reduction.base import Reduced
from vhagar.relaxation.lp.region_model import RegionModel
from vhagar.runtime.deadline import NEVER, Deadline
from vhagar.search.confidence_probe import uphill
from vhagar.search.primal_heuristic import WitnessFound

# Moves at each node, moves in a row without a gain after which another start has its turn, and
# starts. Measured: fmnist_conv1, class 7: 120 moves in a second lead from 54.21 to 54.44, and the
# next thousand gain nothing; from another start, they end at 54.36.
_AT_ONCE, _PATIENCE, _STARTS = 4, 100, 4
# A relative gain below this counts as none.
_SAME = 1e-4
# What a move takes beside its LPs, in simplex iterations times entries: 2 ms. All moves together
# may take this much work at first, about a second, and this share of that of the nodes' LPs.
_BESIDE, _AT_FIRST, _SHARE = 1.6e6, 8e8, 0.2


class ConfidentInputs:
    """Moves from linear region to linear region, a few times at every node.

    `send` hears of what is better than all that was known.
    """

    def __init__(
        self,
        reduced: Reduced,
        send: Callable[[WitnessFound], None],
        seed: int,
        deadline: Deadline = NEVER,
    ) -> None:
        self._reduced, self._send, self._seed = reduced, send, seed
        self._incumbents = Incumbents(reduced)
        self._regions = RegionSearch(self._incumbents, np.random.default_rng(seed), deadline)
        self._deadline = deadline
        self._moves = self._failures = self._starts = 0
        self._at: AttackFound | None = None  # where the next move begins

    def take(self, x: Array, parameters: Array) -> None:
        """Take an input that was found elsewhere, to go on from if it is the best."""
        before = self._incumbents.confidence(None)
        found = self._incumbents.offer(None, 0, x, parameters)
        if found is not None and found.confidence > before:
            self._at, self._failures = found, 0

    def look(self, region_model: RegionModel, known: float, work: float) -> float:
        """Make a few moves; returns the best confidence, which is `known` or better.

        `work` is that of the nodes' LPs so far.
        """
        if region_model.is_large:  # a move would take as long as many nodes
            return known
        for _ in range(_AT_ONCE):
            spent = self._regions.work + _BESIDE * self._moves
            late = self._deadline.passed or spent > _AT_FIRST + _SHARE * work
            if late or (self._at is None and self._starts == _STARTS):
                break
            self._moves += 1
            if self._at is None:
                self._start()
            else:
                self._move(self._at)
        return self._told(known)

    def _start(self) -> None:
        """Begin at an input that a few steps uphill lead to."""
        problem = self._reduced.problem
        (piece,) = problem.pieces
        _, x = uphill(problem, self._seed + self._starts)
        self._starts += 1
        self._at = self._regions.polish(None, 0, x, piece.parameter_bounds[0])
        self._failures = 0

    def _move(self, at: AttackFound) -> None:
        """From an input to a better one, if the move succeeds."""
        beyond = at.confidence * (1 + _SAME)
        found = self._regions.search_around(None, 0, at.x, at.parameters, beyond)
        self._failures += 1
        if found is not None and found.confidence > beyond:
            self._at, self._failures = found, 0
        elif self._failures >= _PATIENCE:
            self._at = None

    def _told(self, known: float) -> float:
        best = self._incumbents.best.get(None)
        if best is None or best.confidence <= known:
            return known
        piece_index, x, parameters = self._reduced.restore.witness(0, best.x, best.parameters)
        self._send(WitnessFound(None, piece_index, x, parameters, best.confidence))
        return best.confidence
