"""The proofs of nodes and the regions in which they hold: numbers on disk, the rest in memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar.relaxation.proof import ProofKind
from vhagar.search.proof_log import Proven, RegionBlocks, RegionName
from vhagar.search.proof_scratch import Scratch
from vhagar.search.tree_state import (
    PROOF,
    WITH_NUMBERS,
    KeptBlock,
    KeptRegion,
    SearchKind,
    TreeState,
)

Indices = NDArray[np.int64]


class ProofStore:
    """Proofs and regions, each by its number in the order in which they were added."""

    def __init__(self, scratch: Scratch) -> None:
        self.scratch = scratch
        # Of each proof: its region, its kind, its bound, and where its numbers are.
        self._region, self._kind, self._offset = array("I"), array("B"), array("q")
        self._upper = array("d")
        # Of each region: where its blocks are, and how long the numbers of its proofs are.
        self._regions: dict[tuple[SearchKind, RegionName], int] = {}
        self._blocks: list[list[KeptBlock]] = []
        self._lengths: list[int] = []

    def restore(self, kept: TreeState) -> None:
        """Begin with the proofs and regions of a checkpoint."""
        self._region.extend(kept.proofs["region"].tolist())
        self._kind.extend(kept.proofs["kind"].tolist())
        self._offset.extend(kept.proofs["offset"].tolist())
        self._upper.extend(kept.proofs["upper"].tolist())
        for k, region in enumerate(kept.regions):
            self._regions[region.search, region.name] = k
            self._blocks.append(region.blocks)
            self._lengths.append(region.length)

    def proofs(self) -> NDArray[Any]:
        """Return all proofs for a checkpoint; one that Ctrl-C has cut short does not count."""
        counts = len(self._region), len(self._kind), len(self._offset), len(self._upper)
        whole = min(counts)
        proofs = np.zeros(whole, PROOF)
        proofs["region"] = self._region[:whole]
        proofs["kind"] = self._kind[:whole]
        proofs["offset"] = self._offset[:whole]
        proofs["upper"] = self._upper[:whole]
        return proofs

    def regions(self) -> list[KeptRegion]:
        """Return all regions for a checkpoint."""
        return [
            KeptRegion(kind, name, self._blocks[k], self._lengths[k])
            for (kind, name), k in self._regions.items()
        ]

    def add_region(self, search: SearchKind, name: RegionName, told: RegionBlocks) -> None:
        """Keep the blocks of a region, unless they are known."""
        if (search, name) not in self._regions:
            own = [
                KeptBlock(self._keep(block), len(block), b"REFN" if k else name.tag)
                for k, block in enumerate(told.blocks)
            ]
            base = [] if told.base is None else self._blocks[self._regions[search, told.base]]
            self._blocks.append(base + own)
            self._lengths.append(0)
            self._regions[search, name] = len(self._blocks) - 1

    def add(self, search: SearchKind, proven: Proven) -> int:
        """Keep a proof, and return its number."""
        region = self._regions[search, proven.region]
        if proven.numbers:
            self._lengths[region] = len(proven.numbers)
        self._offset.append(self._keep(proven.numbers))
        self._region.append(region)
        self._kind.append(proven.kind)
        self._upper.append(proven.upper)
        return len(self._kind) - 1

    def upper(self, proof: int) -> float:
        """Return the bound that a proof gives."""
        return self._upper[proof]

    def regions_of(self, proofs: Indices) -> NDArray[Any]:
        """Return the numbers of the regions in which proofs hold."""
        return np.array(self._region)[proofs]

    def blocks(self, region: int) -> Iterator[tuple[bytes, bytes]]:
        """Read the blocks of a region, each with its tag."""
        return ((kept.tag, self._read(kept.offset, kept.length)) for kept in self._blocks[region])

    def read(self, proof: int) -> tuple[ProofKind, bytes]:
        """Read the kind of a proof and its numbers."""
        kind = ProofKind(self._kind[proof])
        length = self._lengths[self._region[proof]] if kind in WITH_NUMBERS else 0
        return kind, self._read(self._offset[proof], length)

    def _keep(self, content: bytes) -> int:
        return self.scratch.keep(content)

    def _read(self, offset: int, length: int) -> bytes:
        return self.scratch.read(offset, length)
