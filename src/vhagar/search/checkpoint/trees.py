"""The trees of a certificate in a checkpoint: arrays of numbers, checked before they are used."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar.relaxation.proof import ProofKind
from vhagar.result.certificate import LARGEST, NODE_FIELDS, NodeKind
from vhagar.search.checkpoint.nodes import require
from vhagar.search.proofs.log import RegionName
from vhagar.search.proofs.scratch import ScratchState
from vhagar.search.proofs.tree_state import (
    PROOF,
    WITH_NUMBERS,
    KeptBlock,
    KeptRegion,
    SearchKind,
    TreeState,
    cut_count,
)

TREE_PARTS = {
    "tree records": NODE_FIELDS,
    "tree numbers": np.dtype("<i8"),
    "tree best": np.dtype("<i8"),
    "tree proofs": PROOF,
    "tree twice": np.dtype("<i8"),
}


def packed_tree(state: TreeState) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """JSON and arrays."""
    regions = [
        {
            "search": int(kept.search),
            "root": kept.name.piece_index,
            "path": list(kept.name.path),
            "digest": kept.name.digest.hex(),
            "tag": kept.name.tag.decode(),
            "blocks": [[*block[:2], block.tag.decode()] for block in kept.blocks],
            "length": kept.length,
        }
        for kept in state.regions
    ]
    arrays = {
        "tree records": state.records,
        "tree numbers": state.numbers,
        "tree best": state.best,
        "tree proofs": state.proofs,
        "tree twice": state.twice,
    }
    return {"regions": regions, "scratch": asdict(state.scratch)}, arrays


def unpacked_tree(about: dict[str, Any], arrays: dict[str, Any], roots: int) -> TreeState:
    """The trees; `roots` is how many of them there are."""
    scratch = ScratchState(int(about["scratch"]["length"]), str(about["scratch"]["sha256"]))
    regions = [_region(entry, scratch.length) for entry in about["regions"]]
    records, numbers, best, proofs, twice = (arrays[name] for name in TREE_PARTS)
    count = roots + len(records)
    require(len(records) % 2 == 0, "a child has no sibling")
    parents = records["parent"].astype(np.int64)
    require(bool((parents < np.arange(roots, count)).all()), "a child comes before its parent")
    require(bool((parents[::2] == parents[1::2]).all()), "siblings have different parents")
    require(bool(np.isin(records["kind"], list(NodeKind)).all()), "a node is of no kind")
    require(len(numbers) == len(records) and bool((numbers > 0).all()), "nodes have no numbers")
    require(len(best) == count, "nodes have no proofs")
    require(bool(((best >= -1) & (best < len(proofs))).all()), "a proof is missing")
    require(bool((proofs["region"] < len(regions)).all()), "a region is missing")
    require(bool(np.isin(proofs["kind"], list(ProofKind)).all()), "a proof is of no kind")
    require(not bool(np.isnan(proofs["upper"]).any()), "a bound is not a number")
    require(bool(((twice >= 0) & (twice < count)).all()), "there is no such node")
    lengths = np.array([0, *(region.length for region in regions)])[proofs["region"] + 1]
    lengths = lengths + 8 * proofs["weighed"].astype(np.int64)
    ends = proofs["offset"] + np.isin(proofs["kind"], WITH_NUMBERS) * lengths
    cuts = np.array([0, *map(cut_count, (region.blocks for region in regions))])
    require(bool((proofs["weighed"] <= cuts[proofs["region"] + 1]).all()), "a cut is missing")
    require(
        bool(((proofs["offset"] >= 0) & (ends <= scratch.length)).all()), "a proof is incomplete"
    )
    return TreeState(records, numbers, best, proofs, twice, regions, scratch)


def _region(entry: dict[str, Any], size: int) -> KeptRegion:
    tag = str(entry["tag"]).encode()
    require(tag in LARGEST, "a region is of no kind")
    blocks = [
        KeptBlock(int(offset), int(length), str(kind).encode())
        for offset, length, kind in entry["blocks"]
    ]
    require(
        all(block.offset >= 0 and 0 <= block.length <= size - block.offset for block in blocks),
        "a region is incomplete",
    )
    require(all(block.tag in LARGEST for block in blocks), "a block is of no kind")
    length = int(entry["length"])
    require(0 <= length <= size, "a proof is too long")
    path = tuple(map(int, entry["path"]))
    name = RegionName(int(entry["root"]), path, bytes.fromhex(entry["digest"]), tag)
    return KeptRegion(SearchKind(entry["search"]), name, blocks, length)
