"""Certificates as data that can be edited and written again, consistent in all else."""

from __future__ import annotations

import copy
import json
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from vhagar.result.certificate import NODE, Container
from vhagar_check.container import scan, split_json, unpack

PARENT, KIND, COPY, POSITIVE, ZERO, LAYER, NEURON, AT = range(8)
MULTIPLIERS, CONTRADICTION = 1, 2
_NUMBERED = (MULTIPLIERS, CONTRADICTION)


@dataclass
class Proof:
    """The proof of a node: its kind and its numbers, which some kinds do without."""

    node: int
    kind: int
    numbers: np.ndarray


@dataclass
class Region:
    """A region's description, the bytes behind it, the blocks that tighten it, and its proofs by
    tree."""

    about: dict[str, Any]
    data: bytes
    refinements: list[bytes] = field(default_factory=list)
    tightenings: list[bytes] = field(default_factory=list)
    cuts: list[bytes] = field(default_factory=list)
    proofs: list[tuple[int, list[Proof]]] = field(default_factory=list)


@dataclass
class Certificate:
    """A certificate; `nodes` are the records of the nodes that are no roots."""

    head: dict[str, Any]
    maps: bytes | None = None
    nodes: list[list[Any]] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Certificate:
        with path.open("rb") as file:
            blocks = [(block.tag, unpack(file, block)) for block in scan(path)]
        found = cls(json.loads(blocks[0][1]))
        for tag, raw in blocks[1:]:
            if tag == "MAPS":
                found.maps = raw
            elif tag == "TREE":
                found.nodes += [list(fields) for fields in NODE.iter_unpack(raw)]
            elif tag == "REGN":
                found.regions.append(Region(*split_json(raw)))
            elif tag == "REFN":
                found.regions[-1].refinements.append(raw)
            elif tag == "TIGH":
                found.regions[-1].tightenings.append(raw)
            elif tag == "CUTS":
                found.regions[-1].cuts.append(raw)
            else:
                about, data = split_json(raw)
                found.regions[-1].proofs.append((about["tree"], _proofs(about["count"], data)))
        return found

    def copy(self) -> Certificate:
        return copy.deepcopy(self)

    def blocks(self) -> list[tuple[bytes, bytes]]:
        found = [(b"HEAD", json.dumps(self.head).encode())]
        if self.maps is not None:
            found.append((b"MAPS", self.maps))
        if self.nodes:
            found.append((b"TREE", b"".join(NODE.pack(*fields) for fields in self.nodes)))
        for region in self.regions:
            found.append((b"REGN", _with_json(region.about, region.data)))
            found += [(b"REFN", raw) for raw in region.refinements]
            found += [(b"TIGH", raw) for raw in region.tightenings]
            found += [(b"CUTS", raw) for raw in region.cuts]
            found += [(b"PROF", _proof_block(tree, proofs)) for tree, proofs in region.proofs]
        return found

    def write(self, path: Path) -> Path:
        return write_blocks(path, self.blocks())

    @property
    def proofs(self) -> list[Proof]:
        return [each for region in self.regions for _, part in region.proofs for each in part]

    def claim(self, upper: float, target: str | None = None) -> None:
        """Claim an upper bound, of one target or of all."""
        claims = self.head["claims"]
        for name, each in claims.get("targets", {}).items():
            if target in (None, name):
                each["upper"] = upper
        uppers = [each["upper"] for each in claims.get("targets", {}).values()]
        claims["upper"] = max(uppers, default=upper)

    def drop_tree(self, number: int) -> None:
        """Leave a tree out: its nodes, its proofs, and the regions that have no others."""
        roots = len(self.head["trees"])
        tree = {k: k for k in range(roots)}
        for k, record in enumerate(self.nodes, start=roots):
            tree[k] = tree[record[PARENT]]
        kept = [k for k in tree if tree[k] != number]
        place = {old: new for new, old in enumerate(kept)}
        self.nodes = [self.nodes[k - roots] for k in kept if k >= roots]
        for record in self.nodes:
            record[PARENT] = place[record[PARENT]]
        for region in self.regions:
            region.proofs = [(t - (t > number), p) for t, p in region.proofs if t != number]
            for _, proofs in region.proofs:
                for proof in proofs:
                    proof.node = place[proof.node]
        self.regions = [region for region in self.regions if region.proofs]
        del self.head["trees"][number]
        self.head["nodes"] = len(kept)


def write_blocks(path: Path, blocks: list[tuple[bytes, bytes]]) -> Path:
    with path.open("wb") as file:
        container = Container(file)
        for tag, raw in blocks:
            container.block(tag, raw)
        container.end()
    return path


def _proofs(count: int, data: bytes) -> list[Proof]:
    nodes = np.frombuffer(data, "<u4", count).tolist()
    kinds = list(data[4 * count : 5 * count])
    numbered = sum(kind in _NUMBERED for kind in kinds)
    numbers = np.frombuffer(data[5 * count :], "<f8").reshape(numbered or 1, -1)
    rows = iter(numbers)
    return [
        Proof(node, kind, next(rows).copy() if kind in _NUMBERED else np.zeros(0))
        for node, kind in zip(nodes, kinds, strict=True)
    ]


def _with_json(about: dict[str, Any], data: bytes) -> bytes:
    text = json.dumps(about).encode()
    return struct.pack("<I", len(text)) + text + data


def _proof_block(tree: int, proofs: list[Proof]) -> bytes:
    data = np.array([proof.node for proof in proofs], dtype="<u4").tobytes()
    data += bytes(proof.kind for proof in proofs)
    data += b"".join(proof.numbers.astype("<f8").tobytes() for proof in proofs)
    return _with_json({"tree": tree, "count": len(proofs)}, data)
