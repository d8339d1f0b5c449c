"""The first steps of a region's nodes on the device: where they begin, and their balance."""

from __future__ import annotations

import numpy as np

from vhagar.array_types import Array
from vhagar.runtime.devices import Tensor, require_torch
from vhagar.search.bounders.gpu.region import GpuRegion
from vhagar.search.bounders.gpu.states import States
from vhagar.search.bounders.gpu.steps import BALANCE, Iterates
from vhagar.search.node import Node

# Candidates for the balance of primal and dual steps, and the nodes by which one is chosen.
_BALANCES, _TUNED_BY = (BALANCE, 0.05, 0.5, 1.5), 16
# Rounds for arriving nodes, unless half of them come this close to their bounds, relative to their
# gaps.
_ROUNDS, _CLOSE = 4, 0.1


class RegionSteps:
    """Takes the first steps of nodes of one region, from where those of its root ended."""

    def __init__(self, region: GpuRegion, root: Iterates, states: States, steps: int) -> None:
        self.region = region
        self.states = states
        self.root = root
        self._steps = steps
        self._tuned = False

    def arrivals(self, nodes: list[Node], cutoff: float) -> tuple[Iterates, Tensor, Array]:
        """Take steps for nodes from where those of the root ended.

        Returns where they end, the nodes' codes, and by which share of its gap each node's bound is
        larger than the known one.
        """
        codes = self.region.codes([node.decisions for node in nodes])
        known = np.array([node.upper for node in nodes])
        if not self._tuned:
            self._tune(codes[:_TUNED_BY], known[:_TUNED_BY], cutoff)
        ended, distance = self.root.repeated(len(nodes)), np.full(len(nodes), np.inf)
        for _ in range(_ROUNDS):
            ended, distance = self._round(ended, codes, known, cutoff)
            if np.median(distance) <= _CLOSE:
                break
        return ended, codes, distance

    def _round(
        self, start: Iterates, codes: Tensor, known: Array, cutoff: float
    ) -> tuple[Iterates, Array]:
        torch, region = require_torch(), self.region
        ended, mean = region.steps.run(start, region.upper(codes), self._steps)
        proven = region.formula.uppers(region.steps.duals(mean, torch.float64), codes)
        gap = np.maximum(known - cutoff, 1e-9 * abs(known) + 1e-300)
        with np.errstate(over="ignore"):
            distance: Array = (np.maximum(proven, cutoff) - known) / gap
        return ended, distance

    def _tune(self, codes: Tensor, known: Array, cutoff: float) -> None:
        start, found = self.root.repeated(len(codes)), []
        for ratio in _BALANCES:
            self.region.steps.balance(ratio)
            _, distance = self._round(start, codes, known, cutoff)
            found.append(float(np.clip(distance, -1.0, 3.0).mean()))
        self.region.steps.balance(_BALANCES[int(np.argmin(found))])
        self._tuned = True
