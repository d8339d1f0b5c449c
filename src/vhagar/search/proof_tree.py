"""The search tree and its proofs, kept for the certificate while the search goes on.

Proofs go to a scratch file at once; in memory each node takes a few dozen bytes. What is added is
in order: parents before their children. So the tree is a certificate's as it stands, whenever the
search ends.
"""

from __future__ import annotations

import math
import tempfile
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import IntEnum
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from vhagar.errors import InvalidInput, VhagarError
from vhagar.problem import Problem
from vhagar.relaxation.proof import ProofKind
from vhagar.result import Run
from vhagar.result.certificate import (
    NODE,
    NODE_FIELDS,
    NodeKind,
    NodeProof,
    RegionProofs,
    Tree,
    head_of,
    maps_of,
    write_certificate,
)
from vhagar.result.serialize import check_writable
from vhagar.search.proof_log import Branching, NodeName, ProofEvents, Proven, RegionName

_NONE = -1
_WITH_NUMBERS = (ProofKind.MULTIPLIERS, ProofKind.CONTRADICTION, ProofKind.QUADRATIC)
Mask = NDArray[np.bool_]
Indices = NDArray[np.int64]


@contextmanager
def recording(run: Run) -> Iterator[ProofTree | None]:
    """A tree for the certificate, if one is asked for; it is written however the search ends.

    A search that fails leaves nothing behind.
    """
    if run.options.certificate is None:
        yield None
        return
    with _scratch_beside(Path(run.options.certificate)) as scratch:
        tree = ProofTree(run.problem, scratch)
        try:
            yield tree
        except KeyboardInterrupt:
            _write(tree, run)
            raise
        _write(tree, run)


def _write(tree: ProofTree, run: Run) -> None:
    """Nothing that goes wrong here may cost the answer."""
    assert run.options.certificate is not None
    path = Path(run.options.certificate)
    try:
        with run.phase("certificate"):
            tree.write(path, run)
        run.certificate = path
    except (OSError, VhagarError) as error:
        run.note(f"the certificate could not be written: {error}")


@contextmanager
def _scratch_beside(path: Path) -> Iterator[IO[bytes]]:
    """A file without a name on the disk where the certificate will be: it is gone when closed."""
    check_writable(path)
    folder = path.resolve().parent if path.is_file() or not path.exists() else None
    try:
        scratch = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (closed below)
    except OSError as error:
        raise InvalidInput(f"cannot write beside {path}: {error.strerror}") from error
    with scratch:
        yield scratch


class SearchKind(IntEnum):
    """The searches that go on side by side, each with trees of its own."""

    SIGNS = 0
    CEILING = 1  # for the largest confidence
    SLOPES = 2
    BOXES = 3  # of inputs


class ProofTree:
    """All trees of a search, and those of the searches beside it."""

    def __init__(self, problem: Problem, scratch: IO[bytes]) -> None:
        self._scratch = scratch
        self._failure: str | None = None
        attacks = problem.perturbation is not None
        self._trees = [
            Tree(target, root if attacks else None)
            for target in problem.goals
            for root in range(len(problem.pieces))
        ]
        by_boxes = [replace(tree, boxes=True) for tree in self._trees]
        if attacks:
            by_slopes = [replace(tree, slopes=True) for tree in self._trees]
            self._trees += [Tree(None, None), *by_slopes]
        self._trees += by_boxes
        self._searches = [_search_of(tree, attacks) for tree in self._trees]
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
        self._proof = array("q", [_NONE] * count)  # each node's best
        # Nodes that a worker branched and lost, and that were then branched again.
        self._branched_twice: set[int] = set()
        # Ctrl-C may come at any time: a node counts when all of it and of its sibling is there.
        self._count = count
        # Of each proof: its region, its kind, its bound, and where its numbers are.
        self._region, self._kind, self._offset = array("I"), array("B"), array("q")
        self._upper = array("d")
        # Of each region: where its blocks are, and how long the numbers of its proofs are.
        self._regions: dict[tuple[SearchKind, RegionName], int] = {}
        self._tags: list[bytes] = []
        self._blocks: list[list[tuple[int, int]]] = []
        self._lengths: list[int] = []

    def add(self, logged: ProofEvents | None, search: SearchKind) -> None:
        """What a worker reports, and in which of the searches it happened."""
        if logged is None or self._failure is not None:
            return
        try:
            for name, blocks in logged.regions.items():
                self._add_region((search, name), blocks)
            for event in logged.events:
                if isinstance(event, Branching):
                    self._add_children(event, search)
                else:
                    self._add_proof(event, search)
        except OSError as error:
            self._failure = f"{error.strerror or error} while the search went on"

    def _add_region(self, name: tuple[SearchKind, RegionName], blocks: tuple[bytes, ...]) -> None:
        if name not in self._regions:
            self._blocks.append([(self._keep(block), len(block)) for block in blocks])
            self._lengths.append(0)
            self._tags.append(name[1].tag)
            self._regions[name] = len(self._blocks) - 1

    def _add_children(self, branching: Branching, search: SearchKind) -> None:
        leaves = self._leaves[search]
        parent = self._node(branching.parent, search)
        if leaves.pop(branching.parent, None) is None:
            self._branched_twice.add(parent)
        decision = branching.decision
        for positive, name in enumerate(branching.children):
            if decision is None:
                fields = (NodeKind.SPLIT, 0, positive, 0, 0, 0, branching.at)
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
            self._proof.append(_NONE)
            self._tree.append(self._tree[parent])
        self._count += 2

    def _add_proof(self, proven: Proven, search: SearchKind) -> None:
        region = self._regions[search, proven.region]
        if proven.numbers:
            self._lengths[region] = len(proven.numbers)
        self._offset.append(self._keep(proven.numbers))
        self._region.append(region)
        self._kind.append(proven.kind)
        self._upper.append(proven.upper)
        self._proof[self._node(proven.node, search)] = len(self._kind) - 1

    def _node(self, name: NodeName, search: SearchKind) -> int:
        """A node by its name: a leaf, or one whose branching a worker has taken with it."""
        for known in (self._leaves[search], self._roots[search]):
            if name in known:
                return known[name]
        same = np.flatnonzero(np.frombuffer(self._number, np.int64) == name).tolist()
        (found,) = [node for node in same if self._searches[self._tree[node]] is search]
        return int(found)

    def _keep(self, content: bytes) -> int:
        offset = self._scratch.seek(0, 2)
        self._scratch.write(content)
        return offset

    def write(self, path: Path, run: Run) -> None:
        """Write the certificate of what the run states now."""
        if self._failure is not None:
            raise VhagarError(self._failure)
        upper_of, restore = run.interval.goal_upper, run.reduced.restore
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

    def _kept(self, proves: Callable[[Tree, float], bool] = lambda *_: True) -> Mask:
        """Which nodes are written: all, but of a node that was branched twice only those below its
        better pair of children, or below neither if its own bound is better; and of the trees by
        slopes and by boxes only those that prove what is claimed."""
        kept = np.ones(self._count, dtype=np.bool_)
        values = [math.inf if k == _NONE else self._upper[k] for k in self._proof[: self._count]]
        chosen: dict[int, int] = {}
        pairs = range(len(self._trees), self._count, 2)
        for first in reversed(pairs):  # children come after their parents
            parent, value = self._parent[first], max(values[first : first + 2])
            if value < values[parent]:
                values[parent], chosen[parent] = value, first
        for number, tree in enumerate(self._trees):
            beside = tree.slopes or tree.boxes
            kept[number] = not beside or proves(tree, values[number])
        for first in pairs:
            parent = self._parent[first]
            rejected = parent in self._branched_twice and chosen.get(parent) != first
            kept[first : first + 2] = kept[parent] and not rejected
        return kept

    def _proven_regions(self, kept: Mask, place: Indices) -> Iterator[RegionProofs]:
        """The regions in which something was proven that a leaf rests on."""
        nodes = self._needed(kept)
        regions = np.array(self._region)[np.array(self._proof)[nodes]]
        for region in np.unique(regions).tolist():
            blocks = (self._read(offset, length) for offset, length in self._blocks[region])
            own = nodes[regions == region].tolist()
            yield RegionProofs(blocks, self._proofs(own, place), self._tags[region])

    def _proofs(self, nodes: list[int], place: Indices) -> Iterator[NodeProof]:
        for node in sorted(nodes, key=lambda node: (self._tree[node], node)):
            proof = self._proof[node]
            kind = ProofKind(self._kind[proof])
            has_numbers = kind in _WITH_NUMBERS
            length = self._lengths[self._region[proof]] if has_numbers else 0
            numbers = self._read(self._offset[proof], length)
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
            nearest.append(inherited if self._proof[node] == _NONE else node)
        found: NDArray[np.int64] = np.unique(np.array(nearest, dtype=np.int64)[leaves])
        return found[found >= 0]

    def _read(self, offset: int, length: int) -> bytes:
        self._scratch.seek(offset)
        return self._scratch.read(length)


def _search_of(tree: Tree, attacks: bool) -> SearchKind:
    if tree.slopes:
        return SearchKind.SLOPES
    if tree.boxes:
        return SearchKind.BOXES
    return SearchKind.CEILING if attacks and tree.target is None else SearchKind.SIGNS
