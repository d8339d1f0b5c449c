"""Nodes in batches: primal-dual steps on a GPU (or a CPU), for the children of many nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from vhagar.array_types import Array
from vhagar.problem import Problem
from vhagar.relaxation.bounds_cache import BoundsCache, RecentlyUsed
from vhagar.relaxation.lp.node_bound import NodeBound
from vhagar.relaxation.proof import Proof, ProofKind
from vhagar.relaxation.starts import score_size
from vhagar.runtime.devices import Tensor, in_parts, memory_errors, memory_for, require_torch
from vhagar.search.bounders.base import AbstractBounder, Bound, Branched, Outcome
from vhagar.search.bounders.gpu.messages import Suitable
from vhagar.search.bounders.gpu.region import GpuRegion
from vhagar.search.bounders.gpu.region_steps import RegionSteps
from vhagar.search.bounders.gpu.states import States
from vhagar.search.bounders.gpu.steps import Iterates
from vhagar.search.incumbent import Incumbent
from vhagar.search.node import Node, Region
from vhagar.search.region_cache import Regions

_MOST_REGIONS = 8
# Share of the available memory that the states of a region take.
_STATES_SHARE = 0.1
# A node whose bound the steps miss by more than this share of its gap is left to linear programs.
_FAR = 0.5

_LEFT = Branched(Outcome.LEFT)


@dataclass(frozen=True)
class Effort:
    """Nodes of a generation, steps for a child, steps for a node whose parent's last point is not
    known, and states that are kept."""

    batch: int
    steps: int = 400
    first_steps: int = 800
    most_states: int = 2**17


_EFFORTS = {"cuda": Effort(512), "cpu": Effort(8, most_states=2**12)}


@dataclass(frozen=True, eq=False)
class _Arrived:
    """Nodes of one region whose steps came close to their bounds, and the points they ended at."""

    of_region: RegionSteps
    iterates: Iterates
    codes: Tensor


@dataclass(frozen=True, eq=False)
class GpuBound(Bound):
    """A bound, and the node's row in a batch; no batch where the node is left to others."""

    batch: _Arrived | None = None
    row: int = 0


class GpuBounder(AbstractBounder):
    """Bounds the descendants of nodes in batches, generation by generation.

    Nodes from elsewhere have bounds already: if the steps come close to its bound, a node is
    branched here, otherwise it is left to others. No witnesses are looked for, and no LPs are
    solved except those of roots.
    """

    def __init__(
        self,
        problem: Problem,
        device: Any,
        next_number: Callable[[], int],
        bounds: BoundsCache | None = None,
        threads: int = 1,
    ) -> None:
        self._problem = problem
        self._device = device
        self._threads = threads
        self._next_number = next_number
        self._effort = _EFFORTS[device.type]
        self._suitable = Suitable(problem)
        self._regions = Regions(problem, bounds or BoundsCache())
        self._of_regions: RecentlyUsed[Region, RegionSteps | None] = RecentlyUsed(_MOST_REGIONS)

    def warm_up(self) -> None:
        """Prepare the first piece while there is no work yet."""
        region = Region(self._problem.search_targets[0], 0)
        of_region = self._steps_of(region)
        if of_region is not None:  # kernels are compiled when they run first
            of_region.region.steps.run(
                of_region.root, of_region.region.upper(of_region.region.codes([()])), 1
            )

    def at_once(self, open_nodes: int) -> int:
        return min(self._effort.batch, 1 + open_nodes // 2)

    def bound(self, nodes: list[Node], incumbent: Incumbent) -> list[Bound]:
        """Find for each node a point close to its bound, among those kept or by steps."""
        found: list[Bound] = [Bound(node.upper) for node in nodes]
        for region in dict.fromkeys(node.region.whole for node in nodes):
            of_region = self._steps_of(region)
            if of_region is None:
                continue
            own = [k for k, node in enumerate(nodes) if node.region.whole == region]

            def arrive(
                begin: int, end: int, of_region: RegionSteps = of_region, own: list[int] = own
            ) -> None:
                part = own[begin:end]
                arrived = self._arrive(of_region, [nodes[k] for k in part], incumbent.cutoff)
                for k, bound in zip(part, arrived, strict=True):
                    found[k] = bound

            in_parts(len(own), self._effort.batch, arrive)
        return found

    def branch(self, bounded: list[tuple[Node, Bound]], incumbent: Incumbent) -> list[Branched]:
        found = [_LEFT] * len(bounded)
        batches: dict[int, list[int]] = {}
        for k, (_, bound) in enumerate(bounded):
            if isinstance(bound, GpuBound) and bound.batch is not None:
                batches.setdefault(id(bound.batch), []).append(k)
        for own in batches.values():

            def decide(begin: int, end: int, own: list[int] = own) -> None:
                part = own[begin:end]
                children = self._children([bounded[k] for k in part], incumbent.cutoff)
                for k, branched in zip(part, children, strict=True):
                    found[k] = branched

            in_parts(len(own), self._effort.batch, decide)
        return found

    def _steps_of(self, region: Region) -> RegionSteps | None:
        if region not in self._suitable:
            return None
        if region not in self._of_regions:
            region_model = self._regions[region].region_model
            size = score_size(self._problem.network, region_model.piece)
            own = GpuRegion(region_model, size, self._device, self._threads)
            root = own.start()
            steps = self._effort.first_steps
            self._of_regions[region] = (
                None if root is None else RegionSteps(own, root, self._states(own), steps)
            )
        return self._of_regions.used(region)

    def _states(self, region: GpuRegion) -> States:
        """States for as many nodes as memory allows."""
        columns, rows = region.steps.sizes
        bytes_each = 4 * (columns + rows) + region.neurons
        fitting = int(_STATES_SHARE * memory_for(self._device)) // bytes_each
        capacity = max(1, min(self._effort.most_states, fitting))
        while True:
            try:
                return States(capacity, (columns, rows, region.neurons), self._device)
            except memory_errors():
                if capacity == 1:
                    raise
                capacity //= 2

    def _arrive(self, of_region: RegionSteps, nodes: list[Node], cutoff: float) -> list[Bound]:
        """Take steps for nodes, from the root's last point where a node's own is not known."""
        torch = require_torch()
        kept = [k for k, node in enumerate(nodes) if node.number in of_region.states]
        strange = [k for k, node in enumerate(nodes) if node.number not in of_region.states]
        iterates, codes = of_region.states.take([nodes[k].number for k in kept])
        rows = list(kept)
        if strange:
            ended, own, distance = of_region.arrivals([nodes[k] for k in strange], cutoff)
            near = np.flatnonzero(distance <= _FAR)
            index = torch.as_tensor(near, device=self._device)
            iterates = iterates.followed_by(ended.take(index))
            codes = torch.cat([codes, own[index]])
            rows += [strange[k] for k in near.tolist()]
        batch = _Arrived(of_region, iterates, codes)
        found: list[Bound] = [Bound(node.upper) for node in nodes]
        for row, k in enumerate(rows):
            found[k] = GpuBound(nodes[k].upper, None, batch, row)
        return found

    def _children(self, bounded: list[tuple[Node, Bound]], cutoff: float) -> list[Branched]:
        """The children of nodes of one batch, with their bounds."""
        torch = require_torch()
        rows = [bound.row for _, bound in bounded if isinstance(bound, GpuBound)]
        batch = next(bound.batch for _, bound in bounded if isinstance(bound, GpuBound))
        assert batch is not None
        region = batch.of_region.region
        index = torch.as_tensor(rows, device=self._device)
        iterates, codes = batch.iterates.take(index), batch.codes[index]
        nodes = [node for node, _ in bounded]
        uppers = torch.tensor([n.upper for n in nodes], dtype=torch.float32, device=self._device)
        branching = region.branch(iterates, (uppers - cutoff).clamp(min=0))
        chosen = torch.nonzero(branching.places >= 0)[:, 0]
        found = [_LEFT] * len(nodes)
        if not len(chosen):
            return found
        at = branching.places[chosen]
        decided = torch.cat([_decided(region, codes[chosen], at, side) for side in (False, True)])
        start = iterates.take(chosen.repeat(2))
        ended, mean = region.steps.run(start, region.upper(decided), self._effort.steps)
        duals = region.steps.duals(mean, torch.float64)
        parents = [nodes[k] for k in chosen.tolist()]
        known = np.array([node.upper for node in parents] * 2)
        proven = region.formula.uppers(duals, decided)
        bounds = _bounds(region.region_model.formula, duals, proven, known)
        reached = np.maximum([bound.upper for bound in bounds], cutoff)
        gained = torch.as_tensor(known - reached, dtype=torch.float32, device=self._device)
        region.learn(at, branching.gains[chosen], gained.clamp(min=0).reshape(2, -1).T)
        children = self._nodes(region, parents, at.tolist(), bounds)
        batch.of_region.states.keep([child.number for child in children], ended, decided)
        count = len(parents)
        for k, row in enumerate(chosen.tolist()):
            pair = (children[k], children[count + k])
            found[row] = Branched(Outcome.CHILDREN, pair, (bounds[k], bounds[count + k]))
        return found

    def _nodes(
        self, region: GpuRegion, parents: list[Node], places: list[int], bounds: list[Bound]
    ) -> list[Node]:
        """The children of nodes: first all negative ones, then all positive ones."""
        children: list[Node] = []
        for positive in (False, True):
            for parent, at in zip(parents, places, strict=True):
                children.append(
                    replace(
                        parent,
                        upper=bounds[len(children)].upper,
                        number=self._next_number(),
                        decisions=(*parent.decisions, region.decision(at, positive)),
                        challenge=None,
                        predicted_gain=0.0,
                    )
                )
        return children


class _Multipliers:
    """The multipliers of a batch, copied from the device only if a proof is written."""

    def __init__(self, formula: NodeBound, duals: Tensor) -> None:
        self._formula = formula
        self._duals = duals

    @cached_property
    def _numbers(self) -> Array:
        return self._formula.numbers(self._duals.cpu().numpy())

    def of(self, row: int) -> Array:
        """The numbers of a node's proof."""
        found: Array = self._numbers[row]
        return found


def _bounds(formula: NodeBound, duals: Tensor, proven: Array, known: Array) -> list[Bound]:
    """The smaller of each node's proven and known bounds; proven ones with their proofs."""
    multipliers, found = _Multipliers(formula, duals), list[Bound]()
    for row, (new, old) in enumerate(zip(proven.tolist(), known.tolist(), strict=True)):
        proof: Proof | None = None
        if new == -np.inf:
            proof = formula.proof(ProofKind.EMPTY)
        elif new < old:
            numbers = partial(multipliers.of, row)
            proof = replace(formula.proof(ProofKind.MULTIPLIERS), numbers=numbers)
        found.append(Bound(min(new, old), proof))
    return found


def _decided(region: GpuRegion, codes: Tensor, place: Tensor, positive: bool) -> Tensor:
    """The codes of children that decide one more sign each."""
    neuron = (place % region.neurons)[:, None]
    changed = codes.gather(1, neuron) | region.bit(place, positive)[:, None]
    return codes.scatter(1, neuron, changed)
