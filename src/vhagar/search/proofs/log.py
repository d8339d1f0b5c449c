"""What a worker writes down of its part of the search, where a certificate is asked for.

It travels with the report on the nodes: what a lost worker did not report is in no certificate,
and its nodes are explored again by another.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from vhagar.array_types import Array
from vhagar.problem import Problem
from vhagar.relaxation.cone_cuts import ConeCuts
from vhagar.relaxation.hexagon import Hexagons
from vhagar.relaxation.layerwise import Refined, TwinBounds
from vhagar.relaxation.lp.decisions import Decision
from vhagar.relaxation.proof import BlockProof, ProofKind
from vhagar.result.certificate import LARGEST, with_json
from vhagar.search.bounders.base import Bound
from vhagar.search.entry_splits import entry_ranges
from vhagar.search.node import Node, Region
from vhagar.search.proofs.cut_blocks import cut_block

# Bytes of all multipliers of refinements in a region's own block.
_MOST_INSIDE = LARGEST[b"REGN"] // 2
# Nodes go by their numbers, except roots, whose numbers repeat: those by their target and piece.
NodeName = int | tuple[int | None, int]


def name_of(node: Node) -> NodeName:
    """What a node is called in a log."""
    return node.number if node.number > 0 else (node.region.target, node.region.piece_index)


@dataclass(frozen=True)
class RegionName:
    """A part of a piece, and a digest of what its bounds make of the neurons.

    All workers compute the same bounds. If one does not, its proofs still name the bounds they rest
    on.
    """

    piece_index: int
    path: tuple[int, ...]
    digest: bytes
    tag: bytes = b"REGN"


@dataclass(frozen=True, eq=False)
class RegionBlocks:
    """The blocks of a region. Those of a tightening or of cuts follow the blocks of their `base`.

    Cuts are reported when they are first used; `before` of them were reported earlier.
    """

    blocks: tuple[bytes, ...]
    base: RegionName | None = None
    before: int = 0


@dataclass(frozen=True, eq=False)
class Branching:
    """A node is replaced by two children, which differ in a decision or in their part of the piece.

    `decision` is that of the positive child; without one the span was split at `at`, or the values
    of an `entry` above `at`.
    """

    parent: NodeName
    children: tuple[NodeName, NodeName]
    decision: Decision | None
    at: float = 0.0
    entry: int | None = None


@dataclass(frozen=True, eq=False)
class Proven:
    """A proof that a node's bound is better than those of its ancestors.

    The last `weighed` numbers are the weights of the region's first cuts; later ones have none.
    """

    node: NodeName
    region: RegionName
    kind: ProofKind
    numbers: bytes
    upper: float
    weighed: int = 0


@dataclass(frozen=True, eq=False)
class ProofEvents:
    """What happened, in order, and the regions that are named for the first time."""

    events: list[Branching | Proven] = field(default_factory=list)
    regions: dict[RegionName, RegionBlocks] = field(default_factory=dict)


class ProofLog:
    """Collects what happens between two reports; without a certificate, it does nothing."""

    def __init__(self, problem: Problem, wanted: bool) -> None:
        self.wanted = wanted
        self._problem = problem
        self._names: WeakKeyDictionary[TwinBounds, RegionName] = WeakKeyDictionary()
        self._told: set[RegionName] = set()
        # No other log has this name: two lists of cuts are never taken for one.
        self._own_name = os.urandom(16)
        self._told_cuts: dict[RegionName, int] = {}
        self._logged = ProofEvents()

    def report(self) -> ProofEvents | None:
        """What happened since the last report."""
        found, self._logged = self._logged, ProofEvents()
        return found if self.wanted else None

    def proved(self, node: Node, bound: Bound) -> None:
        """Record a better bound of a node; a bound without a proof does not count."""
        proof = bound.proof
        if not self.wanted or proof is None:
            return
        if isinstance(proof, BlockProof):
            region, numbers, weighed = self._own_block(node.region, proof), np.zeros(0), 0
        else:
            region, numbers = self._region(node.region, proof.bounds), proof.numbers()
            region, numbers, weighed = self._with_cuts(region, numbers, proof.cuts)
        stated = numbers.astype("<f8").tobytes()
        proven = Proven(name_of(node), region, proof.kind, stated, bound.upper, weighed)
        self._logged.events.append(proven)

    def branched(
        self,
        parent: Node,
        children: tuple[Node, ...],
        at: float | None = None,
        entry: int | None = None,
    ) -> None:
        """Record that a node is replaced by its two children.

        These are the negative and the positive one, or the parts of its piece below and above a
        parameter `at`, or the inputs whose `entry` is at most `at` and at least `at + 1`.
        """
        if not self.wanted:
            return
        first, second = map(name_of, children)
        decision = children[1].decisions[-1] if at is None else None
        branching = Branching(name_of(parent), (first, second), decision, at or 0.0, entry)
        self._logged.events.append(branching)

    def _own_block(self, region: Region, proof: BlockProof) -> RegionName:
        about, numbers = proof.content()
        span = self._problem.pieces[region.piece_index].span
        assert not region.path, "such proofs are about whole pieces"
        where = {"piece": region.piece_index, "span": None if span is None else list(span)}
        block = with_json({**about, **where}, numbers)
        name = RegionName(region.piece_index, (), hashlib.sha256(block).digest(), proof.tag)
        self._tell(name, RegionBlocks((block,)))
        return name

    def _with_cuts(
        self, base: RegionName, numbers: Array, cuts: ConeCuts | None
    ) -> tuple[RegionName, Array, int]:
        """The region in which a proof holds, its numbers, and how many of them are cuts' weights.

        Cuts are reported up to the last one that the proof uses; a proof without them holds in the
        plain region.
        """
        if cuts is None or not len(cuts):
            return base, numbers, 0
        plain = len(numbers) - len(cuts)
        weighed = int(np.flatnonzero(numbers[plain:]).max(initial=-1)) + 1
        if not weighed:
            return base, numbers[:plain], 0
        assert base.tag == b"REGN", "cuts hold for all pairs of a region"
        digest = hashlib.sha256(base.digest + self._own_name + b"%d" % cuts.number).digest()
        name = replace(base, digest=digest, tag=b"CUTS")
        told = self._told_cuts.get(name, 0)
        if weighed > told:
            new = tuple(cut_block(cut) for cut in cuts.cuts[told:weighed])
            said = self._logged.regions.get(name, RegionBlocks((), base, told))
            self._logged.regions[name] = replace(said, blocks=said.blocks + new)
            self._told_cuts[name] = weighed
        return name, numbers[: plain + weighed], weighed

    def _tell(self, name: RegionName, blocks: RegionBlocks) -> None:
        if name not in self._told:
            self._told.add(name)
            self._logged.regions[name] = blocks

    def _region(self, region: Region, bounds: TwinBounds) -> RegionName:
        if bounds not in self._names:
            named = self._whole if bounds.tightening is None else self._tightened
            self._names[bounds] = named(region, bounds)
        return self._names[bounds]

    def _whole(self, region: Region, bounds: TwinBounds) -> RegionName:
        blocks = region_blocks(self._problem, region, bounds)
        digest = hashlib.sha256()
        for block in blocks:
            digest.update(block)
        name = RegionName(region.piece_index, region.path, digest.digest())
        self._tell(name, RegionBlocks(blocks))
        return name

    def _tightened(self, region: Region, bounds: TwinBounds) -> RegionName:
        """Return the name of a tightened region, and report its blocks if it was tightened here.

        The worker that tightened bounds reports them with the first proof that uses them, before
        any other worker can have a node of theirs.
        """
        assert bounds.tightening is not None
        name = RegionName(region.piece_index, region.path, bounds.tightening.digest, b"TIGH")
        if bounds.side_proofs is not None:
            base = self._region(region, bounds.side_proofs.base)
            self._tell(name, RegionBlocks((tightening_block(bounds),), base))
        return name


def region_blocks(problem: Problem, region: Region, bounds: TwinBounds) -> tuple[bytes, ...]:
    """A region as certificates have it: which neurons are what, and how bounds were refined.

    Refinements that are too large for the region's own block have blocks of their own.
    """
    piece, hexagons = bounds.piece, bounds.hexagons
    size = sum(part.nbytes for refined in bounds.refined for both in refined.below for part in both)
    inside = bounds.refined if size <= _MOST_INSIDE else []
    head: dict[str, Any] = {
        "piece": None if problem.perturbation is None else region.piece_index,
        "span": None if piece.span is None else list(piece.span),
        "layers": [len(layer) for layer in hexagons],
        "refined": [_about(refined) for refined in inside],
    }
    ranges = entry_ranges(region.path, problem.domain)
    if ranges:
        head["entries"] = [[k, low, high] for k, (low, high) in ranges.items()]
    multipliers = [part for refined in inside for part in _multipliers(refined)]
    own = with_json(head, *_states(hexagons), *multipliers)
    if inside or not bounds.refined:
        return (own,)
    rest = (with_json(_about(refined), *_multipliers(refined)) for refined in bounds.refined)
    return (own, *rest)


def tightening_block(bounds: TwinBounds) -> bytes:
    """A tightening as certificates have it: what it is about, which sides are new, and why."""
    proofs, tightening = bounds.side_proofs, bounds.tightening
    assert proofs is not None
    assert tightening is not None
    about = {
        "target": proofs.target,
        "level": tightening.level,
        "decisions": [[*decision[:3], int(decision[3])] for decision in proofs.decisions],
        "sides": proofs.places.tolist(),
    }
    return with_json(about, *_states(bounds.hexagons), proofs.numbers.astype("<f4").tobytes())


def _states(hexagons: list[Hexagons]) -> list[bytes]:
    """Which neurons of each layer are off, on, undecided or equal in both copies."""
    states = (
        np.where(layer.off, 0, np.where(layer.on, 1, np.where(layer.equal, 3, 2)))
        for layer in hexagons
    )
    return [state.astype(np.uint8).tobytes() for state in states]


def _about(refined: Refined) -> dict[str, Any]:
    found = {"layer": refined.layer, "neurons": refined.neurons.tolist()}
    if refined.seen is not None:
        found["seen"] = [neurons.tolist() for neurons in refined.seen]
    return found


def _multipliers(refined: Refined) -> list[bytes]:
    return [part.astype("<f4").tobytes() for both in refined.below for part in both]
