"""Tightenings in certificates: genuine ones are accepted, and nothing else can be made of them."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar import Problem, verify
from vhagar.network import onnx_bytes
from vhagar.search.bounders import subtrees
from vhagar.search.branch_and_bound import Bab
from vhagar_check import Rejected, check
from vhagar_check.container import split_json
from vhagar_check.formula import Decisions
from vhagar_check.proofs import TIED
from vhagar_check.regions import Scope

from ..networks import dense_network
from .editing import Certificate, Proof
from .editing import Region as EditedRegion

SHIPPED = Path(__file__).parents[2] / "checker" / "vectors"
Edit = Callable[[dict[str, Any]], None]


def certified_in(folder: Path) -> tuple[Path, Path]:
    """A model, and a certificate with tightenings after each decision."""
    model, path = folder / "model.onnx", folder / "proof.cert"
    model.write_bytes(onnx_bytes(dense_network(8, 6, 3, seed=7)))
    problem = Problem(model, perturbation="linf(0.15)", source=0, targets=1)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("_EVERY", 1), ("_WORK_AT_FIRST", 1e15), ("_WORTH", -1.0)):
            patch.setattr(subtrees, name, value)
        engine = Bab(attack=False, slopes=False, tightening=True)
        verify(problem, engine=engine, workers=0, relative_gap=0.5, certificate=path)
    return model, path


@pytest.fixture(scope="module")
def certified() -> tuple[Path, Path]:
    """As the test vectors have it (`kind_vectors`): a fault must be noticed within seconds."""
    return SHIPPED / "twelve_inputs.onnx", SHIPPED / "tightened.cert"


@pytest.mark.slow
def test_the_search_writes_such_certificates(tmp_path: Path) -> None:
    model, path = certified_in(tmp_path)
    assert any(region.tightenings for region in Certificate.read(path).regions)
    assert check(path, model=model).upper < float("inf")


def edited(raw: bytes, edit: Edit) -> bytes:
    about, data = split_json(raw)
    edit(about)
    text = json.dumps(about).encode()
    return struct.pack("<I", len(text)) + text + data


def forged(certified: tuple[Path, Path], folder: Path, edit: Edit) -> Path:
    """The certificate with each tightening's description changed."""
    found = Certificate.read(certified[1])
    for region in found.regions:
        region.tightenings = [edited(raw, edit) for raw in region.tightenings]
    return found.write(folder / "forged.cert")


def test_a_certificate_with_tightenings_is_accepted(certified: tuple[Path, Path]) -> None:
    model, path = certified
    regions = Certificate.read(path).regions
    assert any(len(region.tightenings) > 1 for region in regions)
    assert check(path, model=model).upper < float("inf")


FORGERIES: dict[str, tuple[str, Edit]] = {
    "another target": ("another part of the tree", lambda about: about.update(target=2)),
    "the source": ("target that there is not", lambda about: about.update(target=0)),
    "a higher level": ("not proved", lambda about: about.update(level=1e6)),
    "no number": ("no number", lambda about: about.update(level=None)),
    "infinity": ("malformed|no number", lambda about: about.update(level=float("inf"))),
    "another decision": (
        "another part of the tree|not proved",
        lambda about: about["decisions"].append([0, 0, 0, 1]),
    ),
    "the other sign": (
        "another part of the tree",
        lambda about: about["decisions"][0].__setitem__(3, 1 - about["decisions"][0][3]),
    ),
    "no decisions": ("not proved", lambda about: about.update(decisions=[])),
    "a decision of one number": ("that is none", lambda about: about.update(decisions=[[0]])),
    "a copy too many": ("that is none", lambda about: about.update(decisions=[[0, 0, 2, 1]])),
    "a neuron too many": (
        "neuron that there is not",
        lambda about: about.update(decisions=[[0, 99, 0, 1]]),
    ),
    "no sides": ("no sides", lambda about: about.update(sides=[])),
    "a direction too many": (
        "side that there is not",
        lambda about: about["sides"][0].__setitem__(2, 6),
    ),
    "a side of no neuron": (
        "side that there is not",
        lambda about: about["sides"][0].__setitem__(1, -1),
    ),
    "one side more": ("too few numbers", lambda about: about["sides"].append([0, 0, 0])),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forgeries_are_refused(certified: tuple[Path, Path], tmp_path: Path, name: str) -> None:
    why, edit = FORGERIES[name]
    with pytest.raises(Rejected, match=why):
        check(forged(certified, tmp_path, edit), model=certified[0])


def test_a_proof_outside_the_subtree_is_refused(
    certified: tuple[Path, Path], tmp_path: Path
) -> None:
    """The root's bound cannot rest on what holds below a decision."""
    found = Certificate.read(certified[1])
    region = next(region for region in found.regions if region.tightenings)
    tree, proofs = region.proofs[0]
    proofs[0].node = tree
    region.proofs = [(tree, proofs[:1])]
    found.regions = [region]
    with pytest.raises(Rejected, match="another part of the tree"):
        check(found.write(tmp_path / "forged.cert"), model=certified[0])


def test_nothing_below_the_level_is_proved(certified: tuple[Path, Path], tmp_path: Path) -> None:
    """With a higher level the sides are tighter, but pairs below it may be anywhere."""
    upper = Certificate.read(certified[1]).head["claims"]["upper"]
    path = forged(certified, tmp_path, lambda about: about.update(level=1.05 * upper))
    with pytest.raises(Rejected, match=f"is not proved.* {1.05 * upper!r}"):
        check(path, model=certified[0])


def test_tightenings_come_after_refinements(certified: tuple[Path, Path], tmp_path: Path) -> None:
    found = Certificate.read(certified[1])
    region = next(region for region in found.regions if region.tightenings)
    region.refinements, region.tightenings = region.tightenings, []
    with pytest.raises(Rejected):
        check(found.write(tmp_path / "forged.cert"), model=certified[0])


def test_a_scope_covers_nodes_with_all_of_its_decisions() -> None:
    scope = Scope(1, 2.0, Decisions(signs={(0, 3): {1: -1}}, sides={5: 1}))
    inside = Decisions(signs={(0, 3): {0: 1, 1: -1}, (1, 0): {0: 1}}, sides={5: 1, 6: -1})
    assert scope.covers(1, inside)
    assert not scope.covers(2, inside)
    assert not scope.covers(None, inside)
    assert not scope.covers(1, Decisions(signs=inside.signs))
    assert not scope.covers(1, Decisions(signs={(0, 3): {1: 1}}, sides={5: 1}))
    assert not scope.covers(1, Decisions(signs={(0, 3): {0: -1}}, sides={5: 1}))
    assert not scope.covers(1, Decisions(sides={5: 1}))


def all_off(region: dict[str, Any], target: int, level: float) -> EditedRegion:
    """A region of 8 and 6 neurons, and sides that put all of them off for a level never met."""
    neurons = [(layer, k) for layer, size in enumerate(region["layers"]) for k in range(size)]
    sides = [[*place, direction] for place in neurons for direction in (1, 3)]
    text = json.dumps({"target": target, "level": level, "decisions": [], "sides": sides}).encode()
    vector = np.zeros(2 * len(neurons) + 4, dtype="<f4")  # two for each pair, alpha and mu
    vector[2 * len(neurons)] = 1.0
    off, pairs = bytes(len(neurons)), bytes([2] * len(neurons))
    raw = struct.pack("<I", len(text)) + text + off + vector.tobytes() * len(sides)
    return EditedRegion(region, pairs, tightenings=[raw])


def tied_after_a_tightening(model: Path, path: Path, out: Path) -> Path:
    """No pair is as confident as the level: there every neuron is off, and nothing can change."""
    found = Certificate.read(path)
    found.head["problem"].update(perturbation="occlusion(2,2,2)", source=1, targets=[0])
    found.head.update(trees=[{"target": 0, "piece": 0}], nodes=1, witnesses=[])
    found.head["claims"] = {"lower": 0.0, "targets": {"0": {"lower": 0.0}}}
    found.claim(ATTACKED / 5)
    found.nodes = []
    region = {"piece": 0, "span": None, "layers": [8, 6], "refined": []}
    found.regions = [all_off(region, 0, 1e6)]
    found.regions[0].proofs = [(0, [Proof(0, TIED, np.full(12, 1e-9))])]
    return found.write(out)


# An input of class 1 that is occluded into class 0 is as confident as that.
ATTACKED = 0.0055


def test_ties_are_not_proved_by_bounds_that_hold_for_some_pairs_alone(
    certified: tuple[Path, Path], tmp_path: Path
) -> None:
    model = certified[0]
    problem = Problem(model, perturbation="occlusion(2,2,2)", source=1, targets=0)
    assert verify(problem, workers=0, timeout=20).lower > ATTACKED
    with pytest.raises(Rejected, match="some pairs alone"):
        check(tied_after_a_tightening(*certified, tmp_path / "forged.cert"), model=model)


def _altered(edit: Edit) -> Callable[[Path, Path, Path], Path]:
    def forge(model: Path, path: Path, out: Path) -> Path:
        found = Certificate.read(path)
        for region in found.regions:
            region.tightenings = [edited(raw, edit) for raw in region.tightenings]
        return found.write(out)

    return forge


# Forgeries that are among the test vectors.
VECTORS: dict[str, Callable[[Path, Path, Path], Path]] = {
    "tightened, a proof that ties": tied_after_a_tightening,
    **{
        f"tightened, {name}": _altered(FORGERIES[name][1])
        for name in ("another target", "a higher level", "the other sign", "no decisions")
    },
}
