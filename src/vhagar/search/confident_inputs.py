"""Looks for more confident inputs around the most confident one, where there is no attack to do so.

An attack needs a target, which the search for the maximal confidence does not have. The inputs of
its LPs lead to confident ones, but to the region of the best one only by chance. Here the attack's
moves between linear regions begin at an input that a few steps uphill lead to, and at the best that
LPs lead to.
"""

from __future__ import annotations

import numpy as np

from vhagar.attack.incumbents import AttackFound, Incumbents, OnAttack
from vhagar.attack.local_search import LocalSearch
from vhagar.attack.region_search import RegionSearch
from vhagar.reduction.base import Reduced
from vhagar.relaxation.lp.region_model import RegionModel
from vhagar.result.witness import RestoredCheck
from vhagar.runtime.deadline import NEVER, Deadline
from vhagar.search.confidence_probe import uphill

# Moves at each node, moves in a row without a gain after which another start has its turn, and
# starts. Measured: fmnist_conv1, class 7: 120 moves in a second lead from 54.21 to 54.44, and the
# next thousand gain nothing; from another start, they end at 54.36.
_AT_ONCE, _PATIENCE, _STARTS = 4, 100, 4
# What a move takes beside its LPs, in simplex iterations times entries: 2 ms.
_BESIDE = 1e6
# The nodes' work before the first move, a quarter of a second, as many searches end by then; and
# the share of their later work that moves may take.
_BEFORE, _SHARE = 1.25e8, 0.2


class ConfidentInputs:
    """Moves from linear region to linear region, a few times at every node.

    `send` hears of what is better than all that was known.
    """

    def __init__(
        self,
        reduced: Reduced,
        check: RestoredCheck,
        send: OnAttack,
        seed: int,
        deadline: Deadline = NEVER,
    ) -> None:
        self._problem, self._send, self._seed = reduced.problem, send, seed
        self._incumbents = Incumbents(reduced, check=check)
        self._regions = RegionSearch(self._incumbents, np.random.default_rng(seed), deadline)
        self._deadline = deadline
        self._moves = self._starts = 0
        self._search: LocalSearch | None = None  # None if the next move is a new start

    @property
    def work(self) -> float:
        """The work of all moves, in simplex iterations times entries of their LPs."""
        return self._regions.work + _BESIDE * self._moves

    def take(self, found: AttackFound) -> None:
        """Take an input that was found elsewhere, to go on from if it is the best."""
        if self._incumbents.keep(found):
            self._search = LocalSearch(self._regions, found)

    def look(self, region_model: RegionModel, known: float, work: float) -> float:
        """Make a few moves; returns the best confidence, which is `known` or better.

        `work` is that of the nodes so far.
        """
        if region_model.is_large:  # a move would take as long as many nodes
            return known
        for _ in range(_AT_ONCE):
            late = self._deadline.passed or self.work >= _SHARE * (work - _BEFORE)
            if late or (self._search is None and self._starts == _STARTS):
                break
            self._moves += 1
            self._search = self._begun() if self._search is None else self._moved(self._search)
        return self._told(known)

    def _begun(self) -> LocalSearch | None:
        """A search from an input that a few steps uphill lead to."""
        (piece,) = self._problem.pieces
        _, x = uphill(self._problem, self._seed + self._starts)
        self._starts += 1
        start = self._regions.polish(None, 0, x, piece.parameter_bounds[0])
        return None if start is None else LocalSearch(self._regions, start)

    def _moved(self, search: LocalSearch) -> LocalSearch | None:
        """The search after one more move; None if it is to end."""
        search.step()
        return search if search.failures < _PATIENCE else None

    def _told(self, known: float) -> float:
        best = self._incumbents.best.get(None)
        if best is None or best.confidence <= known:
            return known
        self._send(best)
        return best.confidence
