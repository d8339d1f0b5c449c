"""Cuts on their way into a certificate: reported once, kept, and written where proofs use them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar import Problem, verify
from vhagar.network import onnx_bytes
from vhagar.relaxation.cone_cuts import ConeCut, ConeCuts
from vhagar.relaxation.lp.node_bound import NodeBound
from vhagar.relaxation.proof import Proof, ProofKind
from vhagar.search import search
from vhagar.search.branch_and_bound import Bab
from vhagar.search.proofs.log import Proven as LoggedProof
from vhagar.search.proofs.log import RegionBlocks, RegionName
from vhagar.search.proofs.scratch import scratch_beside
from vhagar.search.proofs.store import ProofStore
from vhagar.search.proofs.tree_state import SearchKind, TreeState
from vhagar_check import check
from vhagar_check.container import scan, split_json, unpack

from ..networks import dense_network

# So small that bounds stay within the room that claims have.
WEIGHT = 2.0**-60


def easy_cut(bound: NodeBound, unit: int) -> ConeCut:
    """A cut by the hexagon of one undecided unit, with a tree of two leaves."""
    hexagons = bound._bounds.hexagons[0]
    (undecided,) = np.nonzero(~hexagons.on & ~hexagons.off)
    own = undecided[[unit % len(undecided)]]
    zeros = np.zeros((2, 1), dtype=np.float32)
    tree = ((0, int(own[0]), 0), None, None)
    return ConeCut(0, own, np.ones(1), np.ones(1), 1e6, tree, (own,), ((zeros, zeros),))


@pytest.fixture
def weighing(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every other proof uses one more cut, but not the one before; returns how many there are."""
    lists: dict[NodeBound, ConeCuts] = {}
    counts: list[int] = []
    original = NodeBound.proof

    def proof(self: NodeBound, kind: ProofKind, duals: Any = None) -> Proof:
        found = original(self, kind, duals)
        cuts = lists.setdefault(self, ConeCuts())
        if duals is None or (found.cuts is not None and len(found.cuts)):
            return found
        counts.append(len(cuts))
        use = len(counts) % 2 == 0
        if use:
            cuts.cuts += [easy_cut(self, len(cuts)), easy_cut(self, len(cuts) + 1)]
        own = len(cuts)

        def numbers() -> np.ndarray:
            weights = np.zeros(len(cuts))
            weights[own - 1 : own] = WEIGHT if use else 0.0
            return np.concatenate([found.numbers(), weights])

        return replace(found, numbers=numbers, cuts=cuts)

    monkeypatch.setattr(NodeBound, "proof", proof)
    monkeypatch.setattr(search.Search, "bound_roots", lambda *_: None)
    return counts


def blocks(path: Path) -> list[tuple[str, bytes]]:
    with path.open("rb") as file:
        return [(block.tag, unpack(file, block)) for block in scan(path)]


def question(folder: Path) -> tuple[Path, Problem]:
    model = folder / "model.onnx"
    model.write_bytes(onnx_bytes(dense_network(8, 6, 3, seed=7)))
    return model, Problem(model, perturbation="linf(0.15)", source=0, targets=1)


@pytest.mark.slow
def test_a_certificate_has_the_cuts_that_its_proofs_use(
    weighing: list[int], tmp_path: Path
) -> None:
    model, problem = question(tmp_path)
    path = tmp_path / "proof.cert"
    engine = Bab(attack=False, slopes=False, inputs=False)
    result = verify(problem, engine=engine, workers=0, relative_gap=0.5, certificate=path)
    assert check(path, model=model).upper <= result.upper
    written = blocks(path)
    tags = [tag for tag, _ in written]
    cuts = [split_json(raw)[0]["cuts"] for tag, raw in written if tag == "CUTS"]
    assert cuts
    assert all(len(own) == 1 for own in cuts)
    # Half of the cuts are in no proof.
    assert 2 * len(cuts) <= weighing[-1] + 2
    place = tags.index("CUTS")
    assert tags[place - 1] in ("REGN", "REFN")
    after = next(tag for tag in tags[place:] if tag != "CUTS")
    assert after == "PROF"


@pytest.mark.slow
def test_a_resumed_search_proves_what_it_claims(weighing: list[int], tmp_path: Path) -> None:
    model, problem = question(tmp_path)
    path, kept = tmp_path / "proof.cert", tmp_path / "kept"
    engine = Bab(attack=False, slopes=False, inputs=False)
    common = {"engine": engine, "workers": 0, "certificate": path, "checkpoint": kept}
    first = verify(problem, relative_gap=0.5, **common)
    before = [block for block in blocks(path) if block[0] == "CUTS"]
    assert before
    path.unlink()
    second = verify(problem, relative_gap=0.5, resume=kept, timeout=0.0, **common)
    assert second.upper == first.upper
    assert check(path, model=model).upper <= second.upper
    assert [block for block in blocks(path) if block[0] == "CUTS"] == before


def test_what_is_reported_of_cuts_is_kept_in_order(tmp_path: Path) -> None:
    base = RegionName(0, (), b"base")
    name = replace(base, digest=b"cuts", tag=b"CUTS")
    numbers = np.arange(1.0, 4.0)
    with scratch_beside(tmp_path / "proof.cert") as scratch:
        store, signs = ProofStore(scratch), SearchKind.SIGNS
        store.add_region(signs, base, RegionBlocks((b"region", b"more")))
        store.add_region(signs, name, RegionBlocks((b"one", b"two"), base))
        early = LoggedProof(1, name, ProofKind.MULTIPLIERS, _bytes(numbers, [0.0, 5.0]), 1.0, 2)
        store.add(signs, early)
        store.add_region(signs, name, RegionBlocks((b"three",), base, 2))
        late = replace(early, numbers=_bytes(numbers, [0.0, 0.0, 7.0]), weighed=3)
        store.add(signs, late)
        with pytest.raises(AssertionError, match="in order"):
            store.add_region(signs, name, RegionBlocks((b"five",), base, 4))
        nothing = np.zeros(0, dtype=np.int64)
        state = TreeState(
            nothing, nothing, nothing, store.proofs(), nothing, store.regions(), scratch.state()
        )
        resumed = ProofStore(scratch)
        resumed.restore(state)
        for each in (store, resumed):
            assert each.used_cuts([0, 1]) == [1, 2]
            tags = [b"REGN", b"REFN", b"CUTS", b"CUTS"]
            content = [b"region", b"more", b"two", b"three"]
            assert list(each.blocks(1, [1, 2])) == list(zip(tags, content, strict=True))
            assert each.read(0, [1, 2])[1] == _bytes(numbers, [5.0, 0.0])
            assert each.read(1, [1, 2])[1] == _bytes(numbers, [0.0, 7.0])
            assert each.used_cuts([0]) == [1]


def _bytes(*parts: Any) -> bytes:
    return np.concatenate([np.asarray(part, dtype="<f8") for part in parts]).tobytes()
