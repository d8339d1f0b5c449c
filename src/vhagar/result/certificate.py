"""Certificates: files from which a separate program can prove the interval.

A certificate holds the problem, the interval, the witnesses (`statements.py`), the search tree, and
for every leaf of the tree the numbers from which its bound follows. `docs/certificate.md` documents
every byte. This file knows the format and nothing of how proofs are found.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from vhagar.errors import VhagarError
from vhagar.relaxation.proof import ProofKind
from vhagar.runtime.output_files import open_in_one_step

MAGIC, FORMAT = b"VHAGCERT", 1
# Largest size of each kind of block in bytes, before compression.
LARGEST = {
    b"HEAD": 2**26,
    b"MAPS": 2**28,
    b"TREE": 2**24,
    b"REGN": 2**28,
    b"REFN": 2**28,
    b"TIGH": 2**28,
    b"CUTS": 2**24,
    b"SPEC": 2**28,
    b"BOXS": 2**28,
    b"WNDW": 2**24,
    b"PROF": 2**24,
    b"END ": 32,
}
# Blocks that can be divided are cut at this size, so that reading or writing takes little memory.
_HANDY_BLOCK = 2**22
_LEVEL = 6

NODE = struct.Struct("<IBBBBiId")
NODE_FIELDS = np.dtype(
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


class NodeKind(IntEnum):
    """How a node differs from its sibling."""

    DECISION = 0
    SPLIT = 1
    SLOPE = 2  # of one neuron pair: 0 or 1
    ENTRY = 3  # a whole number of the input: at most `at`, or at least `at + 1`


@dataclass(frozen=True)
class SearchTree:
    """The search tree of one piece and one target; both are None for the maximal confidence.

    With `slopes`, nodes are split by the slopes of neuron pairs instead of signs; with `boxes`, the
    tree is a single root, whose proof is itself a tree of input boxes.
    """

    target: int | None
    piece: int | None
    slopes: bool = False
    boxes: bool = False

    def plain(self) -> dict[str, Any]:
        """The tree's entry in the certificate's head."""
        found: dict[str, Any] = {"target": self.target, "piece": self.piece}
        kinds = {"slopes": self.slopes, "boxes": self.boxes}
        return {**found, **{name: True for name, is_so in kinds.items() if is_so}}


@dataclass(frozen=True, eq=False)
class NodeProof:
    """The proof of a node: its tree, its number, the kind, and the multipliers as float64."""

    tree: int
    node: int
    kind: ProofKind
    numbers: bytes


class RegionProofs(NamedTuple):
    """A region's blocks with their kinds, and its proofs, sorted by tree and node."""

    blocks: Iterable[tuple[bytes, bytes]]
    proofs: Iterable[NodeProof]


def write_certificate(
    path: Path,
    head: dict[str, Any],
    nodes: bytes | bytearray,
    regions: Iterable[RegionProofs],
    maps: bytes | None = None,
) -> None:
    """Write the file in one step; `nodes` holds the records of all nodes except the roots.

    `maps` holds the affine maps of a perturbation whose text does not define them.
    """
    with open_in_one_step(path) as file:
        container = Container(file)
        container.block(b"HEAD", _json(head))
        if maps is not None:
            container.block(b"MAPS", maps)
        step = _HANDY_BLOCK // NODE.size * NODE.size
        for begin in range(0, len(nodes), step):
            container.block(b"TREE", bytes(nodes[begin : begin + step]))
        for region in regions:
            for tag, raw in region.blocks:
                container.block(tag, raw)
            for raw in _proof_blocks(region.proofs):
                container.block(b"PROF", raw)
        container.end()


class Container:
    """A file of compressed blocks that ends with its own hash."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self._write(MAGIC + struct.pack("<I", FORMAT))

    def block(self, tag: bytes, raw: bytes) -> None:
        if len(raw) > LARGEST[tag]:
            raise VhagarError(
                f"its block {tag.decode()} would have {len(raw)} bytes, more than {LARGEST[tag]}"
            )
        stored = zlib.compress(raw, _LEVEL)
        self._write(tag + struct.pack("<II", len(raw), len(stored)) + stored)

    def end(self) -> None:
        self.block(b"END ", self._hash.digest())

    def _write(self, content: bytes) -> None:
        self._hash.update(content)
        self._file.write(content)


def with_json(head: dict[str, Any], *parts: bytes) -> bytes:
    """Build a block of JSON followed by binary parts."""
    text = _json(head)
    return b"".join((struct.pack("<I", len(text)), text, *parts))


def _proof_blocks(proofs: Iterable[NodeProof]) -> Iterator[bytes]:
    """Divide the proofs of each tree into blocks of about `_HANDY_BLOCK` bytes."""
    for tree, of_tree in itertools.groupby(proofs, key=lambda proof: proof.tree):
        gathered: list[NodeProof] = []
        size = 0
        for proof in of_tree:
            gathered.append(proof)
            size += 5 + len(proof.numbers)
            if size >= _HANDY_BLOCK:
                yield _proof_block(tree, gathered)
                gathered, size = [], 0
        if gathered:
            yield _proof_block(tree, gathered)


def _proof_block(tree: int, proofs: list[NodeProof]) -> bytes:
    return with_json(
        {"tree": tree, "count": len(proofs)},
        struct.pack(f"<{len(proofs)}I", *(proof.node for proof in proofs)),
        bytes(proof.kind for proof in proofs),
        *(proof.numbers for proof in proofs),
    )


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, allow_nan=False, separators=(",", ":")).encode()
