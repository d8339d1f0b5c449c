"""The proofs of nodes and the regions in which they hold: numbers on disk, the rest in memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar.relaxation.proof import ProofKind
from vhagar.search.proofs.log import Proven, RegionBlocks, RegionName
from vhagar.search.proofs.scratch import Scratch
from vhagar.search.proofs.tree_state import (
    PROOF,
    WITH_NUMBERS,
    KeptBlock,
    KeptRegion,
    SearchKind,
    TreeState,
    cut_count,
)

Indices = NDArray[np.int64]
_WEIGHT = np.dtype("<f8").itemsize


class ProofStore:
    """Proofs and regions, each by its number in the order in which they were added."""

    def __init__(self, scratch: Scratch) -> None:
        self.scratch = scratch
        # Of each proof: its region, its kind, its bound, where its numbers are, and how many of
        # them are weights of cuts.
        self._region, self._kind, self._offset = array("I"), array("B"), array("q")
        self._upper, self._weighed = array("d"), array("I")
        # Of each region: where its blocks are, and how long the other numbers of its proofs are.
        self._regions: dict[tuple[SearchKind, RegionName], int] = {}
        self._blocks: list[list[KeptBlock]] = []
        self._lengths: list[int] = []

    def restore(self, kept: TreeState) -> None:
        """Begin with the proofs and regions of a checkpoint."""
        self._region.extend(kept.proofs["region"].tolist())
        self._kind.extend(kept.proofs["kind"].tolist())
        self._offset.extend(kept.proofs["offset"].tolist())
        self._upper.extend(kept.proofs["upper"].tolist())
        self._weighed.extend(kept.proofs["weighed"].tolist())
        for k, region in enumerate(kept.regions):
            self._regions[region.search, region.name] = k
            self._blocks.append(region.blocks)
            self._lengths.append(region.length)

    def proofs(self) -> NDArray[Any]:
        """Return all proofs for a checkpoint; one that Ctrl-C has cut short does not count."""
        counts = len(self._region), len(self._kind), len(self._offset), len(self._upper)
        whole = min(*counts, len(self._weighed))
        proofs = np.zeros(whole, PROOF)
        proofs["region"] = self._region[:whole]
        proofs["kind"] = self._kind[:whole]
        proofs["offset"] = self._offset[:whole]
        proofs["upper"] = self._upper[:whole]
        proofs["weighed"] = self._weighed[:whole]
        return proofs

    def regions(self) -> list[KeptRegion]:
        """Return all regions for a checkpoint."""
        return [
            KeptRegion(kind, name, self._blocks[k], self._lengths[k])
            for (kind, name), k in self._regions.items()
        ]

    def add_region(self, search: SearchKind, name: RegionName, told: RegionBlocks) -> None:
        """Keep the blocks of a region, unless they are known; of cuts, those that are new."""
        known = self._regions.get((search, name))
        if known is not None and name.tag != b"CUTS":
            return
        there = 0 if known is None else cut_count(self._blocks[known])
        assert told.before == there, "cuts are reported once, in order"
        rest = name.tag if name.tag == b"CUTS" else b"REFN"
        own = [
            KeptBlock(self._keep(block), len(block), rest if k else name.tag)
            for k, block in enumerate(told.blocks)
        ]
        if known is not None:
            self._blocks[known] = self._blocks[known] + own
        else:
            base = [] if told.base is None else self._blocks[self._regions[search, told.base]]
            self._blocks.append(base + own)
            self._lengths.append(0)
            self._regions[search, name] = len(self._blocks) - 1

    def add(self, search: SearchKind, proven: Proven) -> int:
        """Keep a proof, and return its number."""
        region = self._regions[search, proven.region]
        if proven.numbers:
            self._lengths[region] = len(proven.numbers) - _WEIGHT * proven.weighed
        self._offset.append(self._keep(proven.numbers))
        self._region.append(region)
        self._kind.append(proven.kind)
        self._upper.append(proven.upper)
        self._weighed.append(proven.weighed)
        return len(self._kind) - 1

    def upper(self, proof: int) -> float:
        """Return the bound that a proof gives."""
        return self._upper[proof]

    def regions_of(self, proofs: Indices) -> NDArray[Any]:
        """Return the numbers of the regions in which proofs hold."""
        return np.array(self._region)[proofs]

    def blocks(self, region: int, cuts: Sequence[int] = ()) -> Iterator[tuple[bytes, bytes]]:
        """Read the blocks of a region, each with its tag; of its cuts, only some."""
        own = self._blocks[region]
        behind = len(own) - cut_count(own)
        chosen = [*own[:behind], *(own[behind + cut] for cut in cuts)]
        return ((kept.tag, self._read(kept.offset, kept.length)) for kept in chosen)

    def used_cuts(self, proofs: Sequence[int]) -> list[int]:
        """Return the cuts that have a weight in some of a region's proofs."""
        found: set[int] = set()
        for proof in proofs:
            if self._weighed[proof]:
                found.update(np.flatnonzero(self._weights(proof)).tolist())
        return sorted(found)

    def read(self, proof: int, cuts: Sequence[int] = ()) -> tuple[ProofKind, bytes]:
        """Read the kind of a proof and its numbers, the last ones for the cuts that are written."""
        kind = ProofKind(self._kind[proof])
        if kind not in WITH_NUMBERS:
            return kind, b""
        plain = self._read(self._offset[proof], self._lengths[self._region[proof]])
        known = self._weights(proof)
        # A cut that was found after the proof has no weight in it.
        weights = [known[cut] if cut < len(known) else 0.0 for cut in cuts]
        return kind, plain + np.array(weights, dtype="<f8").tobytes()

    def _weights(self, proof: int) -> NDArray[np.float64]:
        count = self._weighed[proof]
        behind = self._offset[proof] + self._lengths[self._region[proof]]
        return np.frombuffer(self._read(behind, _WEIGHT * count) if count else b"", "<f8")

    def _keep(self, content: bytes) -> int:
        return self.scratch.keep(content)

    def _read(self, offset: int, length: int) -> bytes:
        return self.scratch.read(offset, length)
