"""Explores parts of the tree a generation at a time: the best nodes, all their children at once."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vhagar.options import Options
from vhagar.problem import Problem
from vhagar.relaxation.bounds_cache import BoundsCache
from vhagar.relaxation.first_order.refine import memory_for
from vhagar.relaxation.starts import score_size
from vhagar.runtime.devices import Tensor, in_parts, require_torch
from vhagar.search.bounders.gpu.heap import NodeHeap
from vhagar.search.bounders.gpu.place import Place
from vhagar.search.bounders.gpu.region import WideRegion
from vhagar.search.bounders.gpu.states import States
from vhagar.search.bounders.gpu.steps import Iterates
from vhagar.search.bounders.gpu.tasks import Suitable
from vhagar.search.node import Closed, Node, Region
from vhagar.search.node_solver import Explored, Limits
from vhagar.search.region_cache import RecentlyUsed, Regions

_MOST_REGIONS = 8
# Of the memory that may be used, what the states of a region take.
_STATES_SHARE = 0.1
# Of its gap: a node whose bound the steps miss by more is left to linear programs.
_FAR = 0.5


@dataclass(frozen=True)
class Effort:
    """Nodes of a generation, steps for a child, steps for a node whose parent's end is not known,
    and states that are kept."""

    batch: int
    steps: int = 400
    first_steps: int = 800
    most_states: int = 2**17


_EFFORTS = {"cuda": Effort(512), "cpu": Effort(8, most_states=2**12)}


class WideExplorer:
    """As `NodeSolver`, for thousands of nodes. It looks for no witnesses and solves no LPs but
    those of roots; nodes that it cannot branch stay open as they are."""

    def __init__(
        self,
        problem: Problem,
        options: Options,
        device: Any,
        first: int = 0,
        bounds: BoundsCache | None = None,
        threads: int = 1,
    ) -> None:
        self.lower = 0.0
        self.ceiling = math.inf
        self._problem = problem
        self._device = device
        self._threads = threads
        self._effort = _EFFORTS[device.type]
        self._suitable = Suitable(problem)
        self._limits = Limits(problem, options)
        self._regions = Regions(problem, bounds or BoundsCache())
        self._places = RecentlyUsed(_MOST_REGIONS)
        self._number = first

    def warm_up(self) -> None:
        """Prepare the first piece: what it takes is better spent before there is work."""
        region = Region(self._problem.goals[0], 0)
        place = self._place(region) if region in self._suitable else None
        if place is not None:  # kernels are compiled when they run first
            place.region.steps.run(place.root, place.region.upper(place.region.codes([()])), 1)

    def explore(
        self,
        nodes: list[Node],
        most_nodes: int,
        seconds: float = math.inf,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> Explored:
        """The best of the given nodes and of their children, until enough is done."""
        heap = NodeHeap(nodes)
        stuck, closed, done = self.work(heap, most_nodes, seconds, should_stop)
        return Explored(heap.nodes() + stuck, closed, done)

    def work(
        self,
        heap: NodeHeap,
        most_nodes: int,
        seconds: float = math.inf,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> tuple[list[Node], Closed, int]:
        """The same with nodes that stay in a heap: those that cannot be branched here, the bounds
        of the closed ones, and how many were looked at."""
        stuck, closed = list[Node](), Closed()
        done, begun = 0, time.monotonic()
        while len(heap) and done < most_nodes:
            if done and (time.monotonic() - begun > seconds or should_stop()):
                break
            best = heap.pop(min(self._effort.batch, most_nodes - done, 1 + len(heap) // 2))
            best = [node for node in best if not self._close_if_settled(node, closed)]
            done += len(best)
            for region in dict.fromkeys(node.region for node in best):
                own = [node for node in best if node.region == region]
                children, left = self._generation(region, own)
                stuck += left
                heap.push(node for node in children if not self._close_if_settled(node, closed))
        return stuck, closed, done

    def _close_if_settled(self, node: Node, closed: Closed) -> bool:
        upper = min(node.upper, self.ceiling)
        if self._limits.settled(upper, self.lower):
            closed.add(node.region.target, upper)
            return True
        return False

    def _generation(self, region: Region, nodes: list[Node]) -> tuple[list[Node], list[Node]]:
        """The children of nodes of one region, and the nodes that have none."""
        place = self._place(region) if region in self._suitable else None
        if place is None:
            return [], nodes

        def work(begin: int, end: int) -> tuple[list[Node], list[Node]]:
            return self._children(place, nodes[begin:end])

        parts = in_parts(len(nodes), self._effort.batch, work)
        children = [child for part in parts for child in part[0]]
        return children, [node for part in parts for node in part[1]]

    def _place(self, region: Region) -> Place | None:
        if region not in self._places:
            context = self._regions[region].context
            size = score_size(self._problem.network, context.bounds.piece)
            wide = WideRegion(context, size, self._device, self._threads)
            root = wide.start()
            steps = self._effort.first_steps
            self._places[region] = (
                None if root is None else Place(wide, root, self._states(wide), steps)
            )
        self._places.move_to_end(region)
        found: Place | None = self._places[region]
        return found

    def _states(self, region: WideRegion) -> States:
        """As many as there is memory for."""
        torch = require_torch()
        columns, rows = region.steps.sizes
        bytes_each = 4 * (columns + rows) + region.neurons
        fitting = int(_STATES_SHARE * memory_for(self._device)) // bytes_each
        capacity = max(1, min(self._effort.most_states, fitting))
        while True:
            try:
                return States(capacity, (columns, rows, region.neurons), self._device)
            except (torch.OutOfMemoryError, MemoryError):
                if capacity == 1:
                    raise
                capacity //= 2

    def _children(self, place: Place, nodes: list[Node]) -> tuple[list[Node], list[Node]]:
        torch = require_torch()
        region = place.region
        nodes, iterates, codes, far = self._arrive(place, nodes)
        if not nodes:
            return [], far
        uppers = torch.tensor(
            [node.upper for node in nodes], dtype=torch.float32, device=self._device
        )
        most = (uppers - self._limits.cutoff(self.lower)).clamp(min=0)
        branching = region.branch(iterates, most)
        has_one = branching.places >= 0
        stuck = far + [n for n, has in zip(nodes, has_one.tolist(), strict=True) if not has]
        chosen = torch.nonzero(has_one)[:, 0]
        if not len(chosen):
            return [], stuck
        parents = [nodes[k] for k in chosen.tolist()]
        at = branching.places[chosen]
        decided = torch.cat([_decided(region, codes[chosen], at, side) for side in (False, True)])
        start = iterates.take(chosen.repeat(2))
        ended, mean = region.steps.run(start, region.upper(decided), self._effort.steps)
        proven = region.formula.uppers(region.steps.duals(mean, torch.float64), decided)
        known = np.array([node.upper for node in parents] * 2)
        found = np.minimum(known, proven)
        gained = known - np.maximum(found, self._limits.cutoff(self.lower))
        decreases = torch.as_tensor(gained, dtype=torch.float32, device=self._device).clamp(min=0)
        region.learn(at, branching.gains[chosen], decreases.reshape(2, -1).T)
        children = self._nodes(region, parents, at.tolist(), found.tolist())
        place.states.keep([child.number for child in children], ended, decided)
        return children, stuck

    def _arrive(
        self, place: Place, nodes: list[Node]
    ) -> tuple[list[Node], Iterates, Tensor, list[Node]]:
        """Nodes with their iterates and codes, and those that steps do not come close to.

        Where a node's end is not known, that of the root is where its steps begin.
        """
        torch = require_torch()
        kept = [node for node in nodes if node.number in place.states]
        strange = [node for node in nodes if node.number not in place.states]
        iterates, codes = place.states.take([node.number for node in kept])
        if not strange:
            return kept, iterates, codes, []
        ended, own, distance = place.arrivals(strange, self._limits.cutoff(self.lower))
        near = np.flatnonzero(distance <= _FAR)
        index = torch.as_tensor(near, device=self._device)
        arrived = [strange[k] for k in near.tolist()]
        far = [strange[k] for k in np.flatnonzero(~(distance <= _FAR)).tolist()]
        joined = iterates.followed_by(ended.take(index))
        return kept + arrived, joined, torch.cat([codes, own[index]]), far

    def _nodes(
        self, region: WideRegion, parents: list[Node], places: list[int], uppers: list[float]
    ) -> list[Node]:
        """First all negative children, then all positive ones."""
        children: list[Node] = []
        for positive in (False, True):
            for parent, at in zip(parents, places, strict=True):
                self._number += 1
                children.append(
                    replace(
                        parent,
                        upper=uppers[len(children)],
                        number=self._number,
                        decisions=(*parent.decisions, region.decision(at, positive)),
                        challenge=None,
                        predicted_gain=0.0,
                    )
                )
        return children


def _decided(region: WideRegion, codes: Tensor, place: Tensor, positive: bool) -> Tensor:
    """The codes of children that decide one more sign each."""
    neuron = (place % region.neurons)[:, None]
    changed = codes.gather(1, neuron) | region.bit(place, positive)[:, None]
    return codes.scatter(1, neuron, changed)
