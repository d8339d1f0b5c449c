"""Bounds that outlive a problem: they depend on the network and the piece, not on the classes.

A sweep asks about many pairs of classes under one perturbation. Whoever works on them, one after
the other, keeps one of these and hands it to each search.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from weakref import WeakKeyDictionary

from vhagar.network import Network
from vhagar.network.fingerprint import fingerprint
from vhagar.problem import Problem
from vhagar.relaxation.layerwise import TwinBounds

# Bounds of pieces that are kept.
_MOST_KEPT = 256


class BoundsCache:
    """The bounds of pieces that were in use most recently.

    Networks are told apart by their numbers: a reduction writes the same network anew for every
    problem, and a search asks about the network as it was given besides.
    """

    def __init__(self, most: int = _MOST_KEPT) -> None:
        self._most = most
        self._fingerprints: WeakKeyDictionary[Network, str] = WeakKeyDictionary()
        self._kept: OrderedDict[Hashable, TwinBounds] = OrderedDict()

    def of(self, problem: Problem, part: Hashable, compute: Callable[[], TwinBounds]) -> TwinBounds:
        """The bounds of a part of the problem's perturbation, computed where they are not known.

        `part` names the part within the perturbation. They must not be changed afterwards.
        """
        network = self._fingerprint(problem.network)
        key = (network, problem.perturbation, problem.clip, problem.domain, part)
        if key not in self._kept:
            self._kept[key] = compute()
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]

    def _fingerprint(self, network: Network) -> str:
        if network not in self._fingerprints:
            self._fingerprints[network] = fingerprint(network)
        return self._fingerprints[network]
