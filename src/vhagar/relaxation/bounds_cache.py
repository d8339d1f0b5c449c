"""A cache of bounds for several problems: they depend on network and piece, not on the classes.

A sweep asks about many pairs of classes under one perturbation. A worker that solves several of
these problems keeps one cache and passes it to each search.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TypeVar
from weakref import WeakKeyDictionary

from vhagar.network import Network
from vhagar.network.fingerprint import fingerprint
from vhagar.problem import Problem
from vhagar.relaxation.layerwise import TwinBounds

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
# Pieces whose bounds are kept.
_MOST_KEPT = 256


def quick_part(piece_index: int) -> Hashable:
    """What `BoundsCache.of` calls the quick bounds of a whole piece, which several searches use."""
    return piece_index, "quick"


class RecentlyUsed(OrderedDict[_Key, _Value]):
    """Keeps the most recent entries."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: _Key, value: _Value) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)

    def used(self, key: _Key) -> _Value:
        """An entry, which is now the most recent one."""
        self.move_to_end(key)
        return self[key]


class BoundsCache:
    """The bounds of the most recently used pieces.

    Networks are compared by their weights and not by identity, because a reduction builds an equal
    network for every problem. A search also asks about the network before the reduction.
    """

    def __init__(self) -> None:
        self._fingerprints: WeakKeyDictionary[Network, str] = WeakKeyDictionary()
        self._kept: RecentlyUsed[Hashable, TwinBounds] = RecentlyUsed(_MOST_KEPT)

    def of(self, problem: Problem, part: Hashable, compute: Callable[[], TwinBounds]) -> TwinBounds:
        """The bounds of a part of the problem's perturbation, computed if they are not cached.

        `part` identifies the part within the perturbation. The caller must not change the bounds.
        Bounds that were cut short are not kept: they are valid, but another problem may have the
        time for better ones.
        """
        network = self._fingerprint(problem.network)
        key = (network, problem.perturbation, problem.clip, problem.domain, part)
        if key not in self._kept:
            found = compute()
            if found.cut_short:
                return found
            self._kept[key] = found
        return self._kept.used(key)

    def _fingerprint(self, network: Network) -> str:
        if network not in self._fingerprints:
            self._fingerprints[network] = fingerprint(network)
        return self._fingerprints[network]
