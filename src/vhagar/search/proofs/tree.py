"""The search tree and its proofs, kept for the certificate while the search goes on.

Proofs go to a scratch file at once; in memory each node takes a few dozen bytes. Parents are added
before their children, so that the tree can be written as a certificate whenever the search ends.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Mask
from vhagar.errors import VhagarError
from vhagar.problem import Problem
from vhagar.result import Run
from vhagar.result.certificate import (
    NODE,
    NODE_FIELDS,
    NodeKind,
    NodeProof,
    RegionProofs,
    SearchTree,
    write_certificate,
)
from vhagar.result.statements import head_of, maps_of
from vhagar.search.proofs.log import Branching, NodeName, ProofEvents, Proven
from vhagar.search.proofs.scratch import Scratch
from vhagar.search.proofs.store import ProofStore
from vhagar.search.proofs.tree_state import SearchKind, TreeState, search_of, trees_of

_NONE = -1
Indices = NDArray[np.int64]


class ProofTree:
    """The trees of all searches of a run; `kept` is the state of the checkpoint to resume."""

    def __init__(self, problem: Problem, scratch: Scratch, kept: TreeState | None = None) -> None:
        self._proofs = ProofStore(scratch)
        self._failure: str | None = None
        attacks = problem.perturbation is not None
        self._trees = trees_of(problem)
        self._searches = [search_of(tree, attacks) for tree in self._trees]
        # In each of the searches, by name.
        self._roots: dict[SearchKind, dict[NodeName, int]] = {kind: {} for kind in SearchKind}
        for number, (tree, kind) in enumerate(zip(self._trees, self._searches, strict=True)):
            self._roots[kind][tree.target, tree.piece or 0] = number
        self._leaves = {kind: dict(roots) for kind, roots in self._roots.items()}
        self._records = bytearray()
        count = len(self._trees)
        self._tree = array("I", range(count))
        self._parent = array("q", [_NONE] * count)
        self._number = array("q", [_NONE] * count)
        self._best = array("q", [_NONE] * count)  # each node's best proof
        # Nodes that a worker branched and lost, and that were then branched again.
        self._branched_twice: set[int] = set()
        # Ctrl-C may come at any time: a node counts when all of it and of its sibling is there.
        self._count = count
        if kept is not None:
            self._restore(kept)

    @property
    def failed(self) -> bool:
        """Whether a proof could not be written down, so that there will be no certificate."""
        return self._failure is not None

    def state(self) -> TreeState:
        """Return everything that a checkpoint keeps of the trees."""
        roots, count = len(self._trees), self._count
        whole = bytes(self._records[: NODE.size * (count - roots)])
        return TreeState(
            np.frombuffer(whole, NODE_FIELDS),
            np.array(self._number[roots:count], dtype=np.int64),
            np.array(self._best[:count], dtype=np.int64),
            self._proofs.proofs(),
            np.array(sorted(self._branched_twice), dtype=np.int64),
            self._proofs.regions(),
            self._proofs.scratch.state(),
        )

    def _restore(self, kept: TreeState) -> None:
        parents = kept.records["parent"].astype(np.int64)
        self._records += kept.records.tobytes()
        self._parent.extend(parents.tolist())
        self._number.extend(kept.numbers.tolist())
        self._best = array("q", kept.best.tolist())
        for parent in parents.tolist():
            self._tree.append(self._tree[parent])
        self._count = len(self._tree)
        self._branched_twice = set(kept.twice.tolist())
        self._proofs.restore(kept)
        branched = set(parents.tolist())
        for leaves in self._leaves.values():
            for name, node in list(leaves.items()):
                if node in branched:
                    del leaves[name]
        for node in range(len(self._trees), self._count):
            if node not in branched:
                self._leaves[self._searches[self._tree[node]]][self._number[node]] = node

    def has(self, name: NodeName, search: SearchKind) -> bool:
        """Whether there is a node of that name."""
        try:
            self._node(name, search)
        except ValueError:
            return False
        return True

    def proven(self) -> dict[SearchKind, dict[int | None, float]]:
        """What the trees of each search prove of each target."""
        values, _ = self._values()
        found: dict[SearchKind, dict[int | None, float]] = {kind: {} for kind in SearchKind}
        for number, tree in enumerate(self._trees):
            of_target = found[self._searches[number]]
            of_target[tree.target] = max(of_target.get(tree.target, 0.0), values[number])
        return found

    def add(self, logged: ProofEvents | None, search: SearchKind) -> None:
        """Add what a worker of one of the searches reports."""
        if logged is None or self._failure is not None:
            return
        try:
            for name, blocks in logged.regions.items():
                self._proofs.add_region(search, name, blocks)
            for event in logged.events:
                if isinstance(event, Branching):
                    self._add_children(event, search)
                else:
                    self._add_proof(event, search)
        except OSError as error:
            self._failure = f"{error.strerror or error} while the search went on"

    def _add_children(self, branching: Branching, search: SearchKind) -> None:
        leaves = self._leaves[search]
        parent = self._node(branching.parent, search)
        if leaves.pop(branching.parent, None) is None:
            self._branched_twice.add(parent)
        decision = branching.decision
        for positive, name in enumerate(branching.children):
            if decision is None:
                kind = NodeKind.SPLIT if branching.entry is None else NodeKind.ENTRY
                fields = (kind, 0, positive, 0, 0, branching.entry or 0, branching.at)
            else:
                place = (decision.layer, decision.neuron)
                fields = (NodeKind.DECISION, decision.copy, positive, 0, *place, 0.0)
            if search is SearchKind.SLOPES:
                fields = (NodeKind.SLOPE, 0, positive, 0, *place, 0.0)
            leaves[name] = len(self._tree)
            self._records += NODE.pack(parent, *fields)
            self._parent.append(parent)
            assert isinstance(name, int), "only roots have names that are no numbers"
            self._number.append(name)
            self._best.append(_NONE)
            self._tree.append(self._tree[parent])
        self._count += 2

    def _add_proof(self, proven: Proven, search: SearchKind) -> None:
        proof = self._proofs.add(search, proven)
        node = self._node(proven.node, search)
        # A search that was resumed may begin again with less than it had proved before.
        before = self._best[node]
        if before == _NONE or proven.upper <= self._proofs.upper(before):
            self._best[node] = proof

    def _node(self, name: NodeName, search: SearchKind) -> int:
        """A node by its name: a leaf, or one whose branching a worker has taken with it."""
        for known in (self._leaves[search], self._roots[search]):
            if name in known:
                return known[name]
        same = np.flatnonzero(np.frombuffer(self._number, np.int64) == name).tolist()
        (found,) = [node for node in same if self._searches[self._tree[node]] is search]
        return int(found)

    def write(self, path: Path, run: Run) -> None:
        """Write the certificate of what the run states now."""
        if self._failure is not None:
            raise VhagarError(self._failure)
        upper_of, restore = run.interval.target_upper, run.reduced.restore
        kept = self._kept(lambda tree, value: restore.upper(value) <= upper_of(tree.target))
        place = np.cumsum(kept) - 1  # of each node in the certificate
        trees = [tree for tree, is_kept in zip(self._trees, kept, strict=False) if is_kept]
        head = head_of(run, trees, int(kept.sum()))
        whole = self._records[: NODE.size * (self._count - len(self._trees))]
        records = np.frombuffer(whole, NODE_FIELDS)[kept[len(self._trees) :]]
        records["parent"] = place[records["parent"]]
        maps = maps_of(run.original)
        regions = self._proven_regions(kept, place)
        write_certificate(path, head, records.tobytes(), regions, maps)

    def _kept(self, proves: Callable[[SearchTree, float], bool] = lambda *_: True) -> Mask:
        """Return which nodes are written.

        Below a node that was branched twice, only the better pair of children is, or neither if the
        node's own bound is better. Trees by slopes and by boxes are written only if they prove what
        is claimed.
        """
        kept = np.ones(self._count, dtype=np.bool_)
        values, chosen = self._values()
        pairs = range(len(self._trees), self._count, 2)
        for number, tree in enumerate(self._trees):
            beside = tree.slopes or tree.boxes
            kept[number] = not beside or proves(tree, values[number])
        for first in pairs:
            parent = self._parent[first]
            rejected = parent in self._branched_twice and chosen.get(parent) != first
            kept[first : first + 2] = kept[parent] and not rejected
        return kept

    def _values(self) -> tuple[list[float], dict[int, int]]:
        """Return the bound that the proofs at or below each node give.

        Where children prove more than their parent, also the first child of the better pair.
        """
        best = self._best[: self._count]
        values = [math.inf if k == _NONE else self._proofs.upper(k) for k in best]
        chosen: dict[int, int] = {}
        for first in reversed(range(len(self._trees), self._count, 2)):  # children come later
            parent, value = self._parent[first], max(values[first : first + 2])
            if value < values[parent]:
                values[parent], chosen[parent] = value, first
        return values, chosen

    def _proven_regions(self, kept: Mask, place: Indices) -> Iterator[RegionProofs]:
        """The regions in which something was proven that a leaf rests on."""
        nodes = self._needed(kept)
        regions = self._proofs.regions_of(np.array(self._best)[nodes])
        for region in np.unique(regions).tolist():
            own = nodes[regions == region].tolist()
            cuts = self._proofs.used_cuts([self._best[node] for node in own])
            blocks = self._proofs.blocks(region, cuts)
            yield RegionProofs(blocks, self._node_proofs(own, place, cuts))

    def _node_proofs(
        self, nodes: list[int], place: Indices, cuts: list[int]
    ) -> Iterator[NodeProof]:
        for node in sorted(nodes, key=lambda node: (self._tree[node], node)):
            kind, numbers = self._proofs.read(self._best[node], cuts)
            yield NodeProof(int(place[self._tree[node]]), int(place[node]), kind, numbers)

    def _needed(self, kept: Mask) -> Indices:
        """The nodes whose proofs count: for every leaf, itself or its nearest ancestor with one.

        A node's proof is better than those of its ancestors, so no other one matters.
        """
        parents = np.array(self._parent[: self._count])[kept]
        leaves = kept.copy()
        leaves[parents[parents >= 0]] = False
        nearest: list[int] = []
        for node in range(self._count):
            parent = self._parent[node]
            inherited = _NONE if parent == _NONE else nearest[parent]
            nearest.append(inherited if self._best[node] == _NONE else node)
        found: NDArray[np.int64] = np.unique(np.array(nearest, dtype=np.int64)[leaves])
        return found[found >= 0]
