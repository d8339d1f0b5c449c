"""Reads certificates byte by byte, and sees that they are in order."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

TREE_NODE = np.dtype(
    [
        ("parent", "<u4"),
        ("kind", "u1"),
        ("copy", "u1"),
        ("positive", "u1"),
        ("zero", "u1"),
        ("layer", "<i4"),
        ("neuron", "<u4"),
        ("at", "<f8"),
    ]
)
WITH_NUMBERS, QUADRATIC = (1, 2), 4


@dataclass(frozen=True, eq=False)
class StoredProof:
    tree: int
    node: int
    kind: int
    numbers: np.ndarray


@dataclass(frozen=True, eq=False)
class StoredTightening:
    """What it is about, the neurons' statuses after it, and the multipliers of its sides."""

    head: dict[str, Any]
    status: list[np.ndarray]
    numbers: np.ndarray


@dataclass(frozen=True, eq=False)
class StoredRegion:
    """`status` and `refined` as they are stored, layer by layer."""

    head: dict[str, Any]
    status: list[np.ndarray]
    refined: list[list[tuple[np.ndarray, np.ndarray]]]
    proofs: list[StoredProof]
    tightenings: list[StoredTightening] = field(default_factory=list)

    @property
    def final(self) -> list[np.ndarray]:
        """The statuses that the proofs are about."""
        return self.tightenings[-1].status if self.tightenings else self.status


@dataclass(frozen=True, eq=False)
class Stored:
    """A whole certificate. `nodes` are those that are no roots."""

    head: dict[str, Any]
    nodes: np.ndarray
    regions: list[StoredRegion]
    blocks: list[tuple[bytes, int]]

    @property
    def trees(self) -> list[dict[str, Any]]:
        trees: list[dict[str, Any]] = self.head["trees"]
        return trees

    def children(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for position, record in enumerate(self.nodes):
            found.setdefault(int(record["parent"]), []).append(len(self.trees) + position)
        return found

    def proofs(self) -> dict[int, tuple[StoredRegion, StoredProof]]:
        return {proof.node: (region, proof) for region in self.regions for proof in region.proofs}


def read_certificate(path: Path, classes: int) -> Stored:
    content = path.read_bytes()
    assert content[:12] == b"VHAGCERT" + struct.pack("<I", 1)
    position, blocks = 12, []
    while position < len(content):
        tag = content[position : position + 4]
        raw, stored = struct.unpack_from("<II", content, position + 4)
        unpacked = zlib.decompress(content[position + 12 : position + 12 + stored])
        assert len(unpacked) == raw
        if tag == b"END ":
            assert unpacked == hashlib.sha256(content[:position]).digest()
            assert position + 12 + stored == len(content)
        blocks.append((tag, unpacked))
        position += 12 + stored
    tags = [tag for tag, _ in blocks]
    assert (tags[0], tags[-1]) == (b"HEAD", b"END ")
    head = json.loads(blocks[0][1])
    nodes = np.frombuffer(b"".join(raw for tag, raw in blocks if tag == b"TREE"), TREE_NODE)
    assert len(nodes) + len(head["trees"]) == head["nodes"]
    assert b"TREE" not in tags[1 + tags.count(b"TREE") :]
    regions: list[StoredRegion] = []
    for tag, raw in blocks[1:-1]:
        if tag == b"REGN":
            regions.append(_region(raw))
        elif tag == b"TIGH":
            assert not regions[-1].proofs
            regions[-1].tightenings.append(_tightening(raw, regions[-1]))
        elif tag == b"PROF":
            regions[-1].proofs.extend(_proofs(raw, regions[-1], head, classes))
        else:
            assert tag == b"TREE"
    return Stored(head, nodes, regions, [(tag, len(raw)) for tag, raw in blocks])


def _with_json(raw: bytes) -> tuple[bytes, bytes]:
    (length,) = struct.unpack_from("<I", raw)
    return raw[4 : 4 + length], raw[4 + length :]


def _region(raw: bytes) -> StoredRegion:
    text, rest = _with_json(raw)
    head = json.loads(text)
    status = []
    for size in head["layers"]:
        status.append(np.frombuffer(rest[:size], np.uint8))
        rest = rest[size:]
    refined = []
    for entry in head["refined"]:
        below = []
        for k, layer in enumerate(status[: entry["layer"]]):
            both = []
            seen = len(entry["seen"][k]) if "seen" in entry else int((layer >= 2).sum())
            for _ in range(2):
                shape = (6 * len(entry["neurons"]), seen)
                size = 4 * shape[0] * shape[1]
                both.append(np.frombuffer(rest[:size], "<f4").reshape(shape))
                rest = rest[size:]
            below.append((both[0], both[1]))
        refined.append(below)
    assert not rest
    return StoredRegion(head, status, refined, [])


def _tightening(raw: bytes, region: StoredRegion) -> StoredTightening:
    text, rest = _with_json(raw)
    head, status = json.loads(text), []
    for layer in region.status:
        status.append(np.frombuffer(rest[: len(layer)], np.uint8))
        rest = rest[len(layer) :]
    numbers = np.frombuffer(rest, "<f4").reshape(len(head["sides"]), -1)
    return StoredTightening(head, status, numbers)


def _proofs(
    raw: bytes, region: StoredRegion, stated: dict[str, Any], classes: int
) -> list[StoredProof]:
    trees = stated["trees"]
    text, rest = _with_json(raw)
    about = json.loads(text)
    count = about["count"]
    nodes = np.frombuffer(rest[: 4 * count], "<u4").tolist()
    kinds = list(rest[4 * count : 5 * count])
    rest = rest[5 * count :]
    assert nodes == sorted(set(nodes))
    rows = sum(2 * int((s == 2).sum()) + int((s == 3).sum()) for s in region.final)
    targets = 0 if trees[about["tree"]]["target"] is None else 1
    length = rows + (classes - 1) * (1 + targets)
    inputs = int(np.prod(stated["problem"]["input_shape"])) + ("form" in stated["problem"])
    quadratic = sum(int((s == 2).sum()) for s in region.final) + inputs
    found = []
    for node, kind in zip(nodes, kinds, strict=True):
        size = 8 * length if kind in WITH_NUMBERS else 0
        size = 8 * quadratic if kind == QUADRATIC else size
        numbers = np.frombuffer(rest[:size], "<f8")
        assert np.isfinite(numbers).all()
        found.append(StoredProof(about["tree"], node, kind, numbers))
        rest = rest[size:]
    assert not rest
    return found
