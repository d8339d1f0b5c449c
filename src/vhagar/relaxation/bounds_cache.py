"""Bounds that outlive a problem: they depend on the network and the piece, not on the classes.

A sweep asks about many pairs of classes under one perturbation. Whoever works on them, one after
the other, keeps one of these and hands it to each search.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable

from vhagar.network import Network
from vhagar.problem import Problem
from vhagar.relaxation.layerwise import TwinBounds

# Bounds of pieces that are kept.
_MOST_KEPT = 256


class BoundsCache:
    """The bounds of one network's pieces that were in use most recently."""

    def __init__(self, most: int = _MOST_KEPT) -> None:
        self._most = most
        self._network: Network | None = None
        self._kept: OrderedDict[Hashable, TwinBounds] = OrderedDict()

    def of(self, problem: Problem, part: Hashable, compute: Callable[[], TwinBounds]) -> TwinBounds:
        """The bounds of a part of the problem's perturbation, computed where they are not known.

        `part` names the part within the perturbation. They must not be changed afterwards.
        """
        if self._network is not problem.network:  # the same object: equal names prove nothing
            self._network = problem.network
            self._kept.clear()
        key = (problem.perturbation, problem.clip, problem.domain, part)
        if key not in self._kept:
            self._kept[key] = compute()
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]
