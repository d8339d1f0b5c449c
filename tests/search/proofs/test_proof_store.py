"""Proofs and regions that are kept for the certificate, as bytes in a scratch file."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

from vhagar.relaxation.proof import ProofKind
from vhagar.search.proofs.log import Proven, RegionBlocks, RegionName
from vhagar.search.proofs.scratch import ScratchState
from vhagar.search.proofs.store import ProofStore
from vhagar.search.proofs.tree_state import PROOF, KeptBlock, SearchKind, TreeState

SIGNS, SLOPES = SearchKind.SIGNS, SearchKind.SLOPES
PLAIN, OTHER = RegionName(0, (), b"plain"), RegionName(1, (), b"other")
TIGHT, CUTS = RegionName(0, (), b"tight", b"TIGH"), RegionName(0, (), b"cuts", b"CUTS")


class Bytes:
    """A scratch file in memory."""

    def __init__(self) -> None:
        self._file = io.BytesIO()

    def keep(self, content: bytes) -> int:
        offset = self._file.seek(0, io.SEEK_END)
        self._file.write(content)
        return offset

    def read(self, offset: int, length: int) -> bytes:
        self._file.seek(offset)
        return self._file.read(length)


def numbers(*values: float) -> bytes:
    return np.array(values, "<f8").tobytes()


def proven(region: RegionName, *values: float, weighed: int = 0, **given: Any) -> Proven:
    kind = given.get("kind", ProofKind.MULTIPLIERS)
    return Proven(7, region, kind, numbers(*values), given.get("upper", 2.0), weighed)


@pytest.fixture
def store() -> ProofStore:
    found = ProofStore(Bytes())  # type: ignore[arg-type]
    found.add_region(SIGNS, PLAIN, RegionBlocks((b"region", b"refined", b"more")))
    found.add_region(SIGNS, OTHER, RegionBlocks((b"second",)))
    found.add_region(SIGNS, TIGHT, RegionBlocks((b"tight",), PLAIN))
    return found


def test_blocks_of_regions(store: ProofStore) -> None:
    """Behind its own block a region's refinements follow; a tightening follows its base."""
    plain = [(b"REGN", b"region"), (b"REFN", b"refined"), (b"REFN", b"more")]
    assert list(store.blocks(0)) == plain
    assert list(store.blocks(1)) == [(b"REGN", b"second")]
    assert list(store.blocks(2)) == [*plain, (b"TIGH", b"tight")]


def test_a_region_is_kept_once(store: ProofStore) -> None:
    store.add_region(SIGNS, PLAIN, RegionBlocks((b"again",)))
    assert len(store.regions()) == 3
    store.add_region(SLOPES, PLAIN, RegionBlocks((b"slopes",)))
    assert [(kept.search, kept.name) for kept in store.regions()] == [
        (SIGNS, PLAIN),
        (SIGNS, OTHER),
        (SIGNS, TIGHT),
        (SLOPES, PLAIN),
    ]
    assert next(iter(store.blocks(0))) == (b"REGN", b"region")
    assert list(store.blocks(3)) == [(b"REGN", b"slopes")]


def test_cuts_are_added_as_they_are_reported(store: ProofStore) -> None:
    store.add_region(SIGNS, CUTS, RegionBlocks((b"cut 0", b"cut 1"), PLAIN))
    store.add_region(SIGNS, CUTS, RegionBlocks((b"cut 2",), PLAIN, before=2))
    cuts = [(b"CUTS", b"cut 0"), (b"CUTS", b"cut 2")]
    assert list(store.blocks(3, [0, 2]))[3:] == cuts
    assert [tag for tag, _ in store.blocks(3)] == [b"REGN", b"REFN", b"REFN"]
    assert len(store.regions()) == 4
    with pytest.raises(AssertionError, match="in order"):
        store.add_region(SIGNS, CUTS, RegionBlocks((b"cut 2",), PLAIN, before=2))


def test_proofs_are_read_as_they_were(store: ProofStore) -> None:
    first = store.add(SIGNS, proven(PLAIN, 1.0, 2.0, upper=3.0))
    quick = store.add(SIGNS, proven(PLAIN, kind=ProofKind.QUICK, upper=4.0))
    other = store.add(SIGNS, proven(OTHER, 5.0, 6.0, 7.0, upper=5.0))
    again = store.add(SIGNS, proven(PLAIN, 8.0, 9.0, kind=ProofKind.QUADRATIC))
    assert [first, quick, other, again] == [0, 1, 2, 3]
    assert store.read(first) == (ProofKind.MULTIPLIERS, numbers(1.0, 2.0))
    assert store.read(quick) == (ProofKind.QUICK, b"")
    assert store.read(other) == (ProofKind.MULTIPLIERS, numbers(5.0, 6.0, 7.0))
    assert store.read(again) == (ProofKind.QUADRATIC, numbers(8.0, 9.0))
    assert [store.upper(k) for k in range(4)] == [3.0, 4.0, 5.0, 2.0]
    assert store.regions_of(np.array([3, 2, 0])).tolist() == [0, 1, 0]


def test_weights_of_cuts(store: ProofStore) -> None:
    """Only weights of cuts that are written are read; a later cut has none in an earlier proof."""
    store.add_region(SIGNS, CUTS, RegionBlocks((b"cut 0", b"cut 1"), PLAIN))
    early = store.add(SIGNS, proven(CUTS, 1.0, 2.0, 0.0, 0.5, weighed=2))
    store.add_region(SIGNS, CUTS, RegionBlocks((b"cut 2", b"cut 3"), PLAIN, before=2))
    late = store.add(SIGNS, proven(CUTS, 3.0, 4.0, 0.25, 0.0, 0.75, weighed=3))
    assert store.read(late, [2])[1] == numbers(3.0, 4.0, 0.75)
    none = store.add(SIGNS, proven(CUTS, 5.0, 6.0))
    assert store.used_cuts([early]) == [1]
    assert store.used_cuts([late, early]) == [0, 1, 2]
    assert store.used_cuts([none]) == []
    assert store.read(early, [1, 2]) == (ProofKind.MULTIPLIERS, numbers(1.0, 2.0, 0.5, 0.0))
    assert store.read(late, [0, 2, 3])[1] == numbers(3.0, 4.0, 0.25, 0.75, 0.0)
    assert store.read(none, [0])[1] == numbers(5.0, 6.0, 0.0)
    assert store.read(late)[1] == numbers(3.0, 4.0)


def test_a_checkpoint_holds_everything(store: ProofStore) -> None:
    store.add_region(SIGNS, CUTS, RegionBlocks((b"cut 0",), PLAIN))
    store.add(SIGNS, proven(PLAIN, 1.0, 2.0, upper=3.0))
    store.add(SIGNS, proven(CUTS, 1.0, 2.0, 0.5, upper=2.5, weighed=1))
    kept = store.proofs()
    assert kept.dtype == PROOF
    assert kept["region"].tolist() == [0, 3]
    assert kept["upper"].tolist() == [3.0, 2.5]
    assert kept["weighed"].tolist() == [0, 1]
    nothing = np.zeros(0, np.int64)
    state = TreeState(np.zeros(0), nothing, nothing, kept, nothing, store.regions(), ScratchState())
    other = ProofStore(store.scratch)
    other.restore(state)
    assert other.proofs().tolist() == kept.tolist()
    for proof in range(2):
        assert other.read(proof, [0]) == store.read(proof, [0])
    for region in range(4):
        assert list(other.blocks(region, [])) == list(store.blocks(region, []))
    assert other.add(SIGNS, proven(OTHER, 9.0)) == 2
    other.add_region(SIGNS, PLAIN, RegionBlocks((b"again",)))
    assert len(other.regions()) == 4


def test_a_proof_that_was_cut_short_does_not_count(store: ProofStore) -> None:
    """Ctrl-C may come between two of its parts."""
    store.add(SIGNS, proven(PLAIN, 1.0, 2.0, upper=3.0))
    store._offset.append(99)
    store._region.append(1)
    assert len(store.proofs()) == 1
    store._kind.append(1)
    store._upper.append(1.0)
    assert len(store.proofs()) == 1
    assert store.proofs()["upper"].tolist() == [3.0]
    store._weighed.append(0)
    assert len(store.proofs()) == 2


def test_a_kept_block_says_where_it_is(store: ProofStore) -> None:
    first, second, third = store.regions()[0].blocks
    assert first == KeptBlock(0, 6, b"REGN")
    assert second == KeptBlock(6, 7, b"REFN")
    assert third == KeptBlock(13, 4, b"REFN")
