"""The tree of a search, event by event: its records, its bounds, and what of it is written."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from vhagar import Network, Problem
from vhagar.errors import VhagarError
from vhagar.network import Affine
from vhagar.relaxation.lp.decisions import Decision
from vhagar.relaxation.proof import ProofKind
from vhagar.result.certificate import NODE, NODE_FIELDS, NodeKind
from vhagar.search.proofs import tree as module
from vhagar.search.proofs.log import (
    Branching,
    NodeName,
    ProofEvents,
    Proven,
    RegionBlocks,
    RegionName,
)
from vhagar.search.proofs.scratch import Scratch
from vhagar.search.proofs.tree import ProofTree
from vhagar.search.proofs.tree_state import SearchKind

SIGNS, CEILING, SLOPES, BOXES = SearchKind
REGION, OTHER = RegionName(0, (), b"region"), RegionName(1, (), b"other")
FIRST, SECOND = (1, 0), (1, 1)


@pytest.fixture
def problem() -> Problem:
    """Two pieces, so that there are two trees of each kind, and one of the confidence."""
    network = Network((Affine(np.eye(2), np.zeros(2), (1, 1, 2), (2,)),), (1, 1, 2))
    return Problem(network, perturbation="occlusion(1,[1,2],1)", source=0)


@pytest.fixture
def tree(problem: Problem, tmp_path: Path) -> Iterator[ProofTree]:
    regions = {REGION: RegionBlocks((b"region",)), OTHER: RegionBlocks((b"other",))}
    with (tmp_path / "scratch").open("w+b") as file:
        found = ProofTree(problem, Scratch(file))
        for search in SearchKind:
            found.add(ProofEvents([], regions), search)
        yield found


def branching(parent: NodeName, first: int, **given: Any) -> Branching:
    own: dict[str, Any] = {"decision": Decision(3, 4, 1, True), **given}
    return Branching(parent, (first, first + 1), **own)


def proof(node: NodeName, upper: float, value: float = 0.0, region: RegionName = REGION) -> Proven:
    return Proven(node, region, ProofKind.MULTIPLIERS, np.array([value]).tobytes(), upper)


def tell(tree: ProofTree, *events: Branching | Proven, search: SearchKind = SIGNS) -> None:
    tree.add(ProofEvents(list(events)), search)


def records(tree: ProofTree) -> list[tuple]:
    return tree.state().records.tolist()


def test_roots(tree: ProofTree) -> None:
    """By signs, of the confidence, by slopes and by boxes."""
    for search in (SIGNS, SLOPES, BOXES):
        assert tree.has(FIRST, search)
        assert tree.has(SECOND, search)
    assert tree.has((None, 0), CEILING)
    assert not tree.has((None, 0), SIGNS)
    assert not tree.has(5, SIGNS)
    assert tree.state().best.tolist() == [-1] * 7
    assert records(tree) == []


def test_records_of_children(tree: ProofTree) -> None:
    tell(tree, branching(SECOND, 10))
    tell(tree, branching(10, 12, decision=None, at=0.25))
    tell(tree, branching(11, 14, decision=None, at=2.0, entry=3))
    tell(tree, branching(FIRST, 10), search=SLOPES)
    assert records(tree) == [
        (1, NodeKind.DECISION, 1, 0, 0, 3, 4, 0.0),
        (1, NodeKind.DECISION, 1, 1, 0, 3, 4, 0.0),
        (7, NodeKind.SPLIT, 0, 0, 0, 0, 0, 0.25),
        (7, NodeKind.SPLIT, 0, 1, 0, 0, 0, 0.25),
        (8, NodeKind.ENTRY, 0, 0, 0, 0, 3, 2.0),
        (8, NodeKind.ENTRY, 0, 1, 0, 0, 3, 2.0),
        (3, NodeKind.SLOPE, 0, 0, 0, 3, 4, 0.0),
        (3, NodeKind.SLOPE, 0, 1, 0, 3, 4, 0.0),
    ]
    for name in (10, 11, 12, 15):
        assert tree.has(name, SIGNS)
    assert tree.has(10, SLOPES)
    assert not tree.has(12, SLOPES)
    assert tree.state().numbers.tolist() == [10, 11, 12, 13, 14, 15, 10, 11]


def test_the_best_proof_of_a_node_counts(tree: ProofTree) -> None:
    """The later one of two that are as good."""
    for upper, best in ((5.0, 0), (7.0, 0), (4.0, 2), (4.0, 3)):
        tell(tree, proof(FIRST, upper))
        assert tree.state().best[0] == best
    assert tree.proven()[SIGNS] == {1: math.inf}
    tell(tree, proof(SECOND, 2.0))
    assert tree.proven()[SIGNS] == {1: 4.0}
    assert tree.proven()[SLOPES] == {1: math.inf}
    tell(tree, proof((None, 0), 9.0), search=CEILING)
    assert tree.proven()[CEILING] == {None: 9.0}
    tell(tree, proof(FIRST, -1.0), proof(SECOND, -2.0), search=BOXES)
    assert tree.proven()[BOXES] == {1: 0.0}


def test_children_prove_their_parents(tree: ProofTree) -> None:
    tell(tree, proof(SECOND, 1.0), proof(FIRST, 9.0), branching(FIRST, 10))
    tell(tree, proof(10, 3.0))
    assert tree.proven()[SIGNS] == {1: 9.0}
    tell(tree, proof(11, 5.0))
    assert tree.proven()[SIGNS] == {1: 5.0}
    tell(tree, branching(11, 12), proof(12, 2.0), proof(13, 4.0))
    assert tree.proven()[SIGNS] == {1: 4.0}
    tell(tree, proof(FIRST, 3.5))
    assert tree.proven()[SIGNS] == {1: 3.5}


class Written:
    """What is handed to the writer of certificates."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, problem: Problem) -> None:
        self.trees: list[Any] = []
        self.nodes: list[Any] = []
        self.regions: list[Any] = []
        self.count = 0
        monkeypatch.setattr(module, "head_of", self._head)
        monkeypatch.setattr(module, "maps_of", lambda problem: "maps")
        monkeypatch.setattr(module, "write_certificate", self._write)
        self._problem = problem

    def _head(self, run: Any, trees: list[Any], count: int) -> str:
        self.trees, self.count = trees, count
        return "head"

    def _write(self, path: Path, head: str, nodes: bytes, regions: Any, maps: str) -> None:
        assert (head, maps) == ("head", "maps")
        self.nodes = [fields[0] for fields in np.frombuffer(nodes, NODE_FIELDS).tolist()]
        self.regions = [
            (
                [raw for _, raw in region.blocks],
                [(p.tree, p.node, float(np.frombuffer(p.numbers)[0])) for p in region.proofs],
            )
            for region in regions
        ]

    def of(self, tree: ProofTree, upper: float = 4.0) -> Written:
        run: Any = SimpleNamespace(
            interval=SimpleNamespace(target_upper=lambda target: upper),
            reduced=SimpleNamespace(restore=SimpleNamespace(upper=lambda value: 2 * value)),
            original=self._problem,
        )
        tree.write(Path("proof.cert"), run)
        return self


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch, problem: Problem) -> Callable[..., Written]:
    return Written(monkeypatch, problem).of


def test_trees_beside_are_written_if_they_prove_the_claim(
    tree: ProofTree, written: Callable[..., Written]
) -> None:
    """A bound of the search is twice as large in the question itself."""
    tell(tree, proof(FIRST, 2.0), search=SLOPES)
    tell(tree, proof(SECOND, 2.5), search=BOXES)
    found = written(tree)
    assert [(each.target, each.piece, each.slopes, each.boxes) for each in found.trees] == [
        (1, 0, False, False),
        (1, 1, False, False),
        (None, None, False, False),
        (1, 0, True, False),
    ]
    assert found.count == 4
    assert found.regions == [([b"region"], [(3, 3, 0.0)])]
    assert len(written(tree, 5.0).trees) == 5


def test_proofs_that_leaves_rest_on(tree: ProofTree, written: Callable[..., Written]) -> None:
    """Its own, or that of the nearest ancestor with one; those of others are left out."""
    tell(tree, proof(FIRST, 9.0, 1.0), branching(FIRST, 10))
    tell(tree, proof(10, 3.0, 2.0), branching(10, 12), proof(12, 1.0, 3.0), proof(13, 2.0, 4.0))
    tell(tree, branching(11, 14), proof(15, 5.0, 5.0, OTHER), proof(SECOND, 8.0, 6.0, OTHER))
    found = written(tree)
    assert found.nodes == [0, 0, 3, 3, 4, 4]
    assert found.regions == [
        ([b"region"], [(0, 0, 1.0), (0, 5, 3.0), (0, 6, 4.0)]),
        ([b"other"], [(0, 8, 5.0), (1, 1, 6.0)]),
    ]


def test_nodes_below_trees_that_are_left_out_are_too(
    tree: ProofTree, written: Callable[..., Written]
) -> None:
    tell(tree, branching(FIRST, 10), proof(10, 9.0), proof(11, 1.0), search=SLOPES)
    tell(tree, branching(SECOND, 20), proof(20, 1.0, 1.0), proof(21, 2.0, 2.0))
    found = written(tree)
    assert found.nodes == [1, 1]
    assert found.count == 5
    assert found.regions == [([b"region"], [(1, 3, 1.0), (1, 4, 2.0)])]


@pytest.mark.parametrize(
    ("own", "first", "second", "nodes", "values"),
    [
        (9.0, 3.0, 5.0, [0, 0], [1.0, 1.5]),
        (9.0, 5.0, 3.0, [0, 0], [2.0, 2.5]),
        (9.0, 4.0, 4.0, [0, 0], [2.0, 2.5]),
        (1.0, 3.0, 5.0, [], [0.0]),
    ],
)
def test_of_two_branchings_the_better_one_is_written(
    own: float,
    first: float,
    second: float,
    nodes: list[int],
    values: list[float],
    tree: ProofTree,
    written: Callable[..., Written],
) -> None:
    """A lost worker's children may be there already; a node's own bound may be better than both."""
    tell(tree, proof(FIRST, own, 0.0), branching(FIRST, 10), proof(10, first, 1.0))
    tell(tree, proof(11, first - 1, 1.5), branching(FIRST, 20), proof(20, second, 2.0))
    tell(tree, proof(21, second - 1, 2.5))
    assert tree.state().twice.tolist() == [0]
    found = written(tree)
    assert found.nodes == nodes
    assert [value for _, part in found.regions for *_, value in part] == values
    tell(tree, proof(SECOND, 0.0))
    assert tree.proven()[SIGNS] == {1: min(own, first, second)}


def test_a_node_that_a_lost_worker_branched_is_found_again(tree: ProofTree) -> None:
    tell(tree, branching(FIRST, 10), branching(10, 12))
    tell(tree, branching(FIRST, 10), search=SLOPES)
    tell(tree, proof(10, 3.0))
    assert tree.state().best.tolist()[7:] == [0, -1, -1, -1, -1, -1]
    tell(tree, branching(10, 14))
    assert tree.state().twice.tolist() == [7]
    assert records(tree)[-1][0] == 7


def test_a_checkpoint_holds_the_tree(tree: ProofTree, problem: Problem) -> None:
    tell(tree, proof(FIRST, 9.0), branching(FIRST, 10), proof(10, 3.0), branching(10, 12))
    tell(tree, branching(SECOND, 20), proof(20, 5.0), proof(21, 4.0), branching(10, 14))
    tell(tree, proof(FIRST, 2.0), branching(FIRST, 10), search=SLOPES)
    kept = tree.state()
    other = ProofTree(problem, tree._proofs.scratch, kept)
    again = other.state()
    assert again.records.tolist() == kept.records.tolist()
    for name in ("numbers", "best", "proofs", "twice"):
        assert getattr(again, name).tolist() == getattr(kept, name).tolist()
    assert other.proven() == tree.proven()
    assert other._leaves == tree._leaves
    for known in (tree, other):
        tell(known, branching(12, 16), proof(16, 1.0), proof(17, 0.5))
    assert records(other) == records(tree)
    assert other._tree.tolist() == tree._tree.tolist()
    assert other._parent.tolist() == tree._parent.tolist()


def test_children_that_were_cut_short_do_not_count(
    tree: ProofTree, written: Callable[..., Written]
) -> None:
    """Ctrl-C may come when one of two is there."""
    tell(tree, branching(FIRST, 10), proof(10, 3.0, 1.0), proof(11, 2.0, 2.0))
    for field, value in (("_parent", 7), ("_number", 12), ("_best", 0), ("_tree", 0)):
        getattr(tree, field).append(value)
    tree._records += NODE.pack(7, 0, 0, 0, 0, 0, 0, 0.0)
    assert len(tree.state().records) == 2
    assert len(tree.state().best) == 9
    assert tree.proven()[SIGNS] == {1: math.inf}
    found = written(tree)
    assert found.nodes == [0, 0]
    assert found.regions == [([b"region"], [(0, 3, 1.0), (0, 4, 2.0)])]


def test_a_disk_that_is_full_ends_the_certificate(
    tree: ProofTree, monkeypatch: pytest.MonkeyPatch, written: Callable[..., Written]
) -> None:
    assert not tree.failed
    tree.add(None, SIGNS)

    def full(search: SearchKind, proven: Proven) -> int:
        raise OSError(28, "no space")

    monkeypatch.setattr(tree._proofs, "add", full)
    tell(tree, proof(FIRST, 3.0))
    assert tree.failed
    tell(tree, branching(FIRST, 10))
    assert records(tree) == []
    with pytest.raises(VhagarError, match="no space while the search went on"):
        written(tree)
