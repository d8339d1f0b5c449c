"""Tightenings in certificates: genuine ones are accepted, and nothing else can be made of them."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar import Problem, verify
from vhagar.network import onnx_bytes
from vhagar.search.bounders import subtrees
from vhagar.search.branch_and_bound import Bab
from vhagar_check import Rejected, check, tightenings
from vhagar_check.container import split_json
from vhagar_check.formula import Added, Decisions
from vhagar_check.layers import Dense
from vhagar_check.layers import Network as TheirNetwork
from vhagar_check.neuron_bounds import quick_bounds
from vhagar_check.perturbations import pieces
from vhagar_check.pieces import Domain
from vhagar_check.proofs import TIED, Prover, Question
from vhagar_check.regions import ON, Scope
from vhagar_check.regions import Region as Bounded

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
        lambda about: about.update(decisions=[[0, 8, 0, 1]]),
    ),
    "a class too many": ("target that there is not", lambda about: about.update(target=3)),
    "no sides": ("no sides", lambda about: about.update(sides=[])),
    "a direction too many": (
        "side that there is not",
        lambda about: about["sides"][0].__setitem__(2, 6),
    ),
    "a side of no neuron": (
        "side that there is not",
        lambda about: about["sides"][0].__setitem__(1, -1),
    ),
    "a side of no layer": (
        "side that there is not",
        lambda about: about["sides"][0].__setitem__(0, 2),
    ),
    "a side of the neuron behind the last": (
        "side that there is not",
        lambda about: about["sides"].__setitem__(0, [0, 8, 0]),
    ),
    "a side without a direction": (
        "side that there is not",
        lambda about: about["sides"].__setitem__(0, [0, 0]),
    ),
    "a side that is no number": (
        "side that there is not",
        lambda about: about["sides"].__setitem__(0, [0, True, 0]),
    ),
    "a side that is no list": (
        "side that there is not",
        lambda about: about["sides"].__setitem__(0, {"0": 0, "1": 0, "2": 0}),
    ),
    "a decision of no layer": (
        "that is none",
        lambda about: about.update(decisions=[[2, 0, 0, 1]]),
    ),
    "a decision before the pixels": (
        "that is none",
        lambda about: about.update(decisions=[[-2, 0, 0, 1]]),
    ),
    "a decision that is no number": (
        "that is none",
        lambda about: about.update(decisions=[[0, 0, 0, True]]),
    ),
    "one side more": ("too few numbers", lambda about: about["sides"].append([0, 0, 0])),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forgeries_are_refused(certified: tuple[Path, Path], tmp_path: Path, name: str) -> None:
    why, edit = FORGERIES[name]
    with pytest.raises(Rejected, match=why):
        check(forged(certified, tmp_path, edit), model=certified[0])


@pytest.mark.parametrize(("place", "value"), [(-4, -1e-30), (-1, -1e-30), (0, np.nan)])
def test_weights_that_are_negative_or_no_numbers_are_refused(
    certified: tuple[Path, Path], tmp_path: Path, place: int, value: float
) -> None:
    """An alpha, a mu, and a multiplier of a neuron, of the last side of a tightening."""
    found = Certificate.read(certified[1])
    region = next(region for region in found.regions if region.tightenings)
    raw = bytearray(region.tightenings[0])
    about, data = split_json(bytes(raw))
    width = (len(data) - 14) // (4 * len(about["sides"]))
    at = len(raw) - 4 * (-place if place < 0 else width)
    raw[at : at + 4] = struct.pack("<f", value)
    region.tightenings[0] = bytes(raw)
    with pytest.raises(Rejected, match="negative weight or a number that is not finite"):
        check(found.write(tmp_path / "forged.cert"), model=certified[0])


def test_numbers_behind_the_last_are_refused(certified: tuple[Path, Path], tmp_path: Path) -> None:
    found = Certificate.read(certified[1])
    region = next(region for region in found.regions if region.tightenings)
    region.tightenings[0] += bytes(4)
    with pytest.raises(Rejected, match="too many numbers"):
        check(found.write(tmp_path / "forged.cert"), model=certified[0])


def test_sides_are_the_same_in_batches_of_any_size(
    certified: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tightenings, "_BATCH", 3)
    test_a_certificate_with_tightenings_is_accepted(certified)


def test_tightenings_for_two_targets_do_not_build_on_each_other(
    certified: tuple[Path, Path], tmp_path: Path
) -> None:
    found = Certificate.read(certified[1])
    region = next(region for region in found.regions if len(region.tightenings) > 1)
    last = edited(region.tightenings[-1], lambda about: about.update(target=2))
    region.tightenings[-1] = last
    with pytest.raises(Rejected, match="for another target"):
        check(found.write(tmp_path / "forged.cert"), model=certified[0])


def line() -> Bounded:
    """Scores `relu(x)` and 0.25, of one input from 0 to 1 that changes by up to 0.5."""
    stages = ((Dense(np.eye(1), np.zeros(1)),), (Dense(np.eye(2, 1), np.array([0.0, 0.25])),))
    network = TheirNetwork(stages, (1,), (None,))
    (piece,) = pieces("linf(0.5)", Domain((1,), 0.0, 1.0), True)
    return Bounded(0, quick_bounds(network, piece), [np.array([ON], dtype=np.uint8)])


@pytest.mark.parametrize("level", [0.0, 0.125, 0.5, 3.0])
def test_a_side_takes_the_level_as_often_as_its_weights_sum_to(level: float) -> None:
    """In the first copy `x - 0.25 >= level`, so `-x` is at most `-0.25 - level`."""
    prover = Prover(line(), Question(0, 1, math.inf))
    added = Added(0, np.array([[-1.0], [-2.0], [0.0]]), np.array([[0.0], [0.0], [1.0]]))
    vectors = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    found = prover.sides(added, vectors, Decisions(), Fraction(level))
    # In the second copy `0.25 - x_p >= 0`, whatever the level.
    exact = [-0.25 - level, -0.5 - 2 * level, 0.25]
    assert (found >= exact).all()
    np.testing.assert_allclose(found, exact)


@pytest.mark.parametrize("weights", [[-1e-300, 1.0], [1.0, -1e-300], [np.nan, 1.0], [1.0, np.inf]])
def test_sides_refuse_weights_that_prove_nothing(weights: list[float]) -> None:
    prover = Prover(line(), Question(0, 1, math.inf))
    added = Added(0, np.array([[1.0]]), np.array([[0.0]]))
    with pytest.raises(Rejected, match="negative weight"):
        prover.sides(added, np.array([weights]), Decisions(), Fraction(0))


def test_a_scope_keeps_what_was_decided_before() -> None:
    before = Scope(1, 2.0, Decisions(signs={(0, 0): {1: -1}}, sides={0: 1}))
    region = replace(line(), scope=before)
    about = {"target": 1, "level": 0.5, "decisions": [[0, 0, 0, 1]]}
    found = tightenings._scope(about, region, 2, source=0)
    assert (found.target, found.level) == (1, 2.0)
    assert found.decisions.sides == {0: 1}
    assert found.decisions.signs == {(0, 0): {0: 1, 1: -1}}
    assert before.decisions.signs == {(0, 0): {1: -1}}


def test_linear_units_have_neither_sides_nor_signs() -> None:
    plain = line()
    network = TheirNetwork(plain.bounds.network.stages, (1,), (np.array([True]),))
    region = replace(plain, bounds=quick_bounds(network, plain.bounds.piece))
    with pytest.raises(Rejected, match="side that there is not"):
        tightenings._sides([[0, 0, 0]], region.status, network)
    about = {"target": 1, "level": 0.5, "decisions": [[0, 0, 0, 1]]}
    with pytest.raises(Rejected, match="neuron that there is not"):
        tightenings._scope(about, region, 2, source=0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"target": True}, "target that there is not"),
        ({"target": 1.0}, "target that there is not"),
        ({"target": 0}, "target that there is not"),
        ({"target": 2}, "target that there is not"),
        ({"target": -1}, "target that there is not"),
        ({"level": math.inf}, "no number"),
        ({"level": -math.inf}, "no number"),
        ({"level": math.nan}, "no number"),
        ({"level": True}, "no number"),
        ({"decisions": [(0, 0, 0, 1)]}, "that is none"),
        ({"decisions": [[0, 0, 0, 2]]}, "that is none"),
        ({"decisions": [[0, 0, 0, -1]]}, "that is none"),
        ({"decisions": [[-2, 0, 0, 1]]}, "that is none"),
        ({"decisions": [[1, 0, 0, 1]]}, "that is none"),
        ({"decisions": [[-1, 1, 0, 1]]}, "neuron that there is not"),
        ({"decisions": [[-1, -1, 0, 1]]}, "neuron that there is not"),
    ],
)
def test_scopes_that_are_none(change: dict[str, Any], words: str) -> None:
    about = {"target": 1, "level": 0.5, "decisions": [], **change}
    with pytest.raises(Rejected, match=words):
        tightenings._scope(about, line(), 2, source=0)


def test_decisions_about_pixels_and_neurons() -> None:
    """The first about a place stays: it covers no less."""
    steps = [[-1, 0, 0, 0], [-1, 0, 0, 1], [0, 0, 0, 1], [0, 0, 1, 0], [0, 0, 0, 0]]
    about = {"target": 1, "level": 1, "decisions": steps}
    found = tightenings._scope(about, line(), 2, source=0)
    assert found.decisions.sides == {0: -1}
    assert found.decisions.signs == {(0, 0): {0: 1, 1: -1}}
    assert found.level == 1.0


def test_relus_beside_linear_units_have_sides_and_signs() -> None:
    stages = (
        (Dense(np.ones((2, 1)), np.zeros(2)),),
        (Dense(np.eye(2), np.array([0.0, 0.25])),),
    )
    network = TheirNetwork(stages, (1,), (np.array([False, True]),))
    (piece,) = pieces("linf(0.5)", Domain((1,), 0.0, 1.0), True)
    status = [np.array([ON, ON], dtype=np.uint8)]
    region = Bounded(0, quick_bounds(network, piece), status)
    assert tightenings._sides([[0, 0, 5]], status, network) == [(0, 0, 5)]
    about = {"target": 1, "level": 0.5, "decisions": [[0, 0, 1, 1]]}
    found = tightenings._scope(about, region, 2, source=0)
    assert found.decisions.signs == {(0, 0): {1: 1}}
    for given in ({"0": 1}, [], None):
        with pytest.raises(Rejected, match="no sides"):
            tightenings._sides(given, status, network)
    with pytest.raises(Rejected, match="side that there is not"):
        tightenings._sides([(0, 0, 5)], status, network)


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
