"""The trees of a search for the certificate, as plain data: what a checkpoint keeps of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vhagar.problem import Problem
from vhagar.relaxation.proof import ProofKind
from vhagar.result.certificate import SearchTree
from vhagar.search.proofs.log import RegionName
from vhagar.search.proofs.scratch import ScratchState

# Proofs that consist of numbers.
WITH_NUMBERS = (
    ProofKind.MULTIPLIERS,
    ProofKind.CONTRADICTION,
    ProofKind.QUADRATIC,
    ProofKind.TIED,
)


class SearchKind(IntEnum):
    """The searches that go on side by side, each with trees of its own."""

    SIGNS = 0
    CEILING = 1  # for the maximal confidence
    SLOPES = 2
    BOXES = 3  # of inputs


PROOF = np.dtype(
    [
        ("region", "<u4"),
        ("kind", "u1"),
        ("offset", "<i8"),
        ("upper", "<f8"),
        ("weighed", "<u4"),
    ]
)


class KeptBlock(NamedTuple):
    """Where a block is in the scratch file, and what kind it is of."""

    offset: int
    length: int
    tag: bytes


def cut_count(blocks: list[KeptBlock]) -> int:
    """The number of cuts of a region: each has a block of its own."""
    return sum(block.tag == b"CUTS" for block in blocks)


@dataclass(frozen=True, eq=False)
class KeptRegion:
    """A region: where its blocks are, and how long the numbers of its proofs are without the cuts'
    weights."""

    search: SearchKind
    name: RegionName
    blocks: list[KeptBlock]
    length: int


@dataclass(frozen=True, eq=False)
class TreeState:
    """Everything in a `ProofTree`.

    The records and numbers of all nodes but the roots, the best proof of each node, the proofs, and
    the nodes that were branched twice.
    """

    records: NDArray[Any]
    numbers: NDArray[np.int64]
    best: NDArray[np.int64]
    proofs: NDArray[Any]
    twice: NDArray[np.int64]
    regions: list[KeptRegion]
    scratch: ScratchState


def trees_of(problem: Problem) -> list[SearchTree]:
    """The trees of a search: for each target and piece, one by signs and one by boxes.

    With a perturbation there is also one by slopes for each, and one for the maximal confidence.
    """
    attacks = problem.perturbation is not None
    found = [
        SearchTree(target, piece_index if attacks else None)
        for target in problem.search_targets
        for piece_index in range(len(problem.pieces))
    ]
    by_boxes = [replace(tree, boxes=True) for tree in found]
    if not attacks:
        return [*found, *by_boxes]
    by_slopes = [replace(tree, slopes=True) for tree in found]
    return [*found, SearchTree(None, None), *by_slopes, *by_boxes]


def search_of(tree: SearchTree, attacks: bool) -> SearchKind:
    """The search that a tree belongs to."""
    if tree.slopes:
        return SearchKind.SLOPES
    if tree.boxes:
        return SearchKind.BOXES
    return SearchKind.CEILING if attacks and tree.target is None else SearchKind.SIGNS
