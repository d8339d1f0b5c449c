"""Certificates about one image: the statement, the trees, and the proofs of their leaves.

The format is that of all certificates (`docs/certificate.md`, "One image"). There is a tree for
every target and every piece. Its upper levels split the parameters' box, the lower ones decide
signs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from vhagar.array_types import Array, Mask
from vhagar.local.box import Box, BoxProof
from vhagar.local.compact import RefinedLayer
from vhagar.local.known import Known, margin_of
from vhagar.local.piece_search import PieceSearch
from vhagar.network import Relu
from vhagar.perturbation import AbstractPiece
from vhagar.relaxation.interval import Bounds, layer_bounds
from vhagar.relaxation.proof import ProofKind
from vhagar.result.certificate import (
    FORMAT,
    NODE,
    NodeKind,
    NodeProof,
    RegionProofs,
    with_json,
    write_certificate,
)
from vhagar.result.statements import maps_of, model_statement, problem_statement, witness_statement
from vhagar.version import __version__

# Share of a proven negative bound that is claimed; the rest is for the checker's own rounding.
_CLAIMED = 0.999
# The certificate's codes for the statuses of neurons: off, on, and equal in both copies.
_STATUS = np.array([0, 1, 3], dtype=np.uint8)


@dataclass(eq=False)
class _ProvenBox:
    """A box with a proof, and the proofs of nodes that rely on its neurons' ranges."""

    piece: int
    search: PieceSearch
    box: Box
    ends: tuple[Array, Array]
    proofs: list[NodeProof] = field(default_factory=list)


@dataclass(eq=False)
class _Writer:
    """Numbers the nodes of all trees and gathers their proofs, box by box."""

    roots: int
    pieces: tuple[AbstractPiece, ...]
    records: bytearray = field(default_factory=bytearray)
    regions: dict[int, _ProvenBox] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return self.roots + len(self.records) // NODE.size

    def tree(self, number: int, piece: int, search: PieceSearch, row: int) -> None:
        """Add everything that is proved about one target."""
        waiting = [(search.root, number)]
        while waiting:
            box, node = waiting.pop()
            place = int(np.searchsorted(box.rows, row))
            if box.proof is not None and box.proof.closed[place]:
                region = self.regions.get(id(box)) or self._region(piece, search, box)
                region.proofs += self._signs(number, node, box.proof, place, len(region.ends[0]))
            elif box.at is not None:
                parameter, at = box.at
                children = self._pair(node, NodeKind.SPLIT, 0, parameter, at)
                waiting += zip(box.parts, children, strict=True)
            elif box.neuron is not None:
                children = self._pair(node, NodeKind.DECISION, *box.neuron, 0.0)
                waiting += zip(box.parts, children, strict=True)
            else:
                waiting += [(part, node) for part in box.parts]

    def _region(self, piece: int, search: PieceSearch, box: Box) -> _ProvenBox:
        ends = box.lower, box.upper
        if not len(box.lower):  # the map leaves out parameters with a single value; the piece not
            ends = self.pieces[piece].parameter_bounds
        self.regions[id(box)] = _ProvenBox(piece, search, box, ends)
        return self.regions[id(box)]

    def _signs(
        self, tree: int, node: int, proof: BoxProof, place: int, parameters: int
    ) -> Iterator[NodeProof]:
        """Record the decisions below a node, and yield the proofs of the leaves, or its own."""
        if proof.is_empty:
            yield NodeProof(tree, node, ProofKind.EMPTY, b"")
            return
        below = {parent: k for k, parent in reversed(list(enumerate(proof.tree.parents)))}
        layers = [(k, int(n)) for k, neurons in enumerate(proof.neurons) for n in neurons]
        target = int(proof.start[place].argmax())
        alpha = np.delete(-proof.start[place], target)
        if place in proof.facts:
            numbers = proof.facts[place].numbers(parameters, alpha).astype("<f8").tobytes()
            yield NodeProof(tree, node, ProofKind.FACTS, numbers)
            return
        waiting = [(proof.roots[place], node)]
        while waiting:
            own, node = waiting.pop()
            p = proof.tree.proofs.get(own)
            if p is not None:
                numbers = np.concatenate([p.astype("<f8"), alpha.astype("<f8")]).tobytes()
                yield NodeProof(tree, node, ProofKind.MULTIPLIERS, numbers)
                continue
            first = below[own]
            layer, neuron = layers[proof.tree.neurons[first]]
            children = self._pair(node, NodeKind.DECISION, layer, neuron, 0.0)
            waiting += [(first + side, child) for side, child in enumerate(children)]

    def _pair(
        self, parent: int, kind: NodeKind, layer: int, neuron: int, at: float
    ) -> tuple[int, int]:
        first = self.count
        for side in (0, 1):
            self.records += NODE.pack(parent, kind, 0, side, 0, layer, neuron, at)
        return first, first + 1


def write_local_certificate(path: Path, known: Known, searches: list[PieceSearch]) -> None:
    """Write the certificate of a local question; a bound that is not proven is claimed as null."""
    problem = known.problem.everywhere
    pairs = [(k, row) for k in range(len(searches)) for row in range(len(problem.targets))]
    writer = _Writer(len(pairs), problem.pieces)
    for number, (piece, row) in enumerate(pairs):
        writer.tree(number, piece, searches[piece], row)
    head = {
        "format": FORMAT,
        "producer": f"vhagar {__version__}",
        "model": model_statement(problem),
        "problem": {**problem_statement(problem), "image": known.problem.image.tolist()},
        "claims": {"targets": _claims(known, searches)},
        "witnesses": [] if known.witness is None else [witness_statement(known.witness)],
        "trees": [{"target": problem.targets[row], "piece": piece} for piece, row in pairs],
        "nodes": writer.count,
    }
    regions = (_region(known, region) for region in writer.regions.values())
    write_certificate(path, head, writer.records, regions, maps_of(problem))


def _claims(known: Known, searches: list[PieceSearch]) -> dict[str, Any]:
    """Claim for each target the worst bound of all pieces; null if some piece is open."""
    problem, witness = known.problem.everywhere, known.witness
    uppers = np.max([search.uppers for search in searches], axis=0)
    claims: dict[str, Any] = {}
    for target, upper in zip(problem.targets, uppers.tolist(), strict=True):
        proved = _CLAIMED * upper if upper < 0 and math.isfinite(upper) else None
        hit = witness is not None and witness.target == target
        lower = margin_of(witness) if witness is not None and hit else None
        claims[str(target)] = {"lower": lower, "upper": proved}
    return claims


def _region(known: Known, region: _ProvenBox) -> RegionProofs:
    """Build the blocks of a box, and sort its proofs by tree and node."""
    proof = region.box.proof
    assert proof is not None
    head = {
        "piece": region.piece,
        "span": [end.tolist() for end in region.ends],
        "layers": [len(status) for status in proof.status],
        "refined": [],
    }
    if proof.decisions:
        decided = sorted(proof.decisions.items())
        head["decisions"] = [[*neuron, int(sign > 0)] for neuron, sign in decided]
    statuses = b"".join(_STATUS[status].tobytes() for status in proof.status)
    blocks = [(b"REGN", with_json(head, statuses))]
    blocks += ((b"REFN", raw) for raw in _refinements(known, region, proof))
    return RegionProofs(blocks, sorted(region.proofs, key=lambda each: (each.tree, each.node)))


def _refinements(known: Known, region: _ProvenBox, proof: BoxProof) -> Iterator[bytes]:
    decided = _by_intervals(known, region)
    for refined in proof.refined:
        m = refined.layer
        if not m:
            continue  # the first layer's ranges need no multipliers
        plain = refined.plain[~decided[m][refined.plain]]
        if len(plain):
            about = {"layer": m, "neurons": plain.tolist(), "seen": [[] for _ in range(m)]}
            yield with_json(about)
        if len(refined.crown):
            about = {"layer": m, "neurons": refined.crown.tolist()}
            yield with_json(about, *_numbers(refined, proof))


def _numbers(refined: RefinedLayer, proof: BoxProof) -> Iterator[bytes]:
    """The multipliers `p` and `q` of both ends of all neurons, layer by layer; `q` is 0."""
    begin = 0
    for neurons in proof.neurons[: refined.layer]:
        p = refined.below[:, :, begin : begin + len(neurons)]
        yield np.ascontiguousarray(p, dtype="<f4").tobytes()
        yield bytes(4 * p.size)
        begin += len(neurons)


def _by_intervals(known: Known, region: _ProvenBox) -> list[Mask]:
    """Find the neurons whose sign interval arithmetic decides: they need no refinement."""
    network = known.problem.everywhere.network
    box = Bounds(*region.search.fixed.versions(region.box.lower, region.box.upper).bounds())
    found = []
    for layer in network.layers:
        if isinstance(layer, Relu):
            found.append((box.lower >= 0) | (box.upper <= 0))
        box = layer_bounds(layer, box)
    return found
