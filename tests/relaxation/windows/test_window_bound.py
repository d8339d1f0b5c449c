"""The bound by windows holds for every pair of inputs, whatever the multipliers."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from vhagar import Problem
from vhagar.network import Affine, Network, Relu
from vhagar.perturbation import Domain, parse
from vhagar.relaxation.windows import WindowBounder
from vhagar.relaxation.windows import bound as module
from vhagar.relaxation.windows import halving as halving_module
from vhagar.relaxation.windows import kinds as kinds_module
from vhagar.relaxation.windows.boxes import Boxes, at_points, corners
from vhagar.relaxation.windows.halving import LEAF, Functions, Halving
from vhagar.relaxation.windows.kinds import windows_of
from vhagar.relaxation.windows.multipliers import Multipliers

from ...marks import mostly_slow
from ...oracle.exact import exact_optimum
from ..samples import ExactNetwork, pairs
from .nets import BUILDS, PERTURBATIONS, Rng, network_of, pieces_of

every_build = pytest.mark.parametrize("build", BUILDS)
every_perturbation = pytest.mark.parametrize(("text", "clip"), mostly_slow(PERTURBATIONS, 3))


@pytest.fixture(autouse=True)
def few_boxes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is asked for, so that random multipliers take no time."""
    monkeypatch.setattr(module, "_MOST_BOXES", 600)


def _any_multipliers(rng: Rng, scale: float, found: Multipliers) -> Multipliers:
    more = 5 * rng.normal()  # for all windows, which is then paid for once
    of = tuple(
        (own + scale * (rng.normal(size=own.shape) + more)).astype(np.float32).astype(float)
        for own in found.of
    )
    return replace(found, of=of)


@every_build
@every_perturbation
def test_any_multipliers_bound_every_pair(build: str, text: str, clip: bool) -> None:
    rng = np.random.default_rng([BUILDS.index(build), PERTURBATIONS.index((text, clip))])
    network = network_of(build, rng, scale=rng.choice([1e-3, 1.0, 1e3]))
    exact = ExactNetwork(network)
    for boxed in (False, True):
        for piece in pieces_of(text, clip, rng, boxed):
            bounder = WindowBounder(network, piece, 0)
            uppers = []
            for scale in (0.0, 0.1, 10.0):
                proof = bounder.bound(1, rng.choice([2.0, 0.3]))
                assert proof is not None
                uppers.append(proof.upper)
                bounder._multipliers[1] = _any_multipliers(rng, scale, proof.multipliers)
            least = Fraction(min(uppers))
            for pair in pairs(piece, rng, 30):
                first, second = exact(pair.exact).scores, exact(pair.exact_p).scores
                if piece.domain.contains(pair.x[None])[0]:
                    shift = first - second
                    assert shift[0] - shift[1] <= least


@every_build
@every_perturbation
def test_boxes_bound_the_points_in_them(build: str, text: str, clip: bool) -> None:
    rng = np.random.default_rng([5, BUILDS.index(build), PERTURBATIONS.index((text, clip))])
    network = network_of(build, rng)
    for piece in pieces_of(text, clip, rng):
        windows = windows_of(network, piece)
        assert windows is not None
        for kind in windows.kinds:
            lead = rng.normal(size=kind.units.shape)
            functions = Functions(lead, rng.normal(size=(len(lead), 2 * kind.width)))
            shape = 20, kind.width + 1
            least = np.append(kind.low, windows.least)
            width = np.append(kind.high, windows.most) - least
            parts = np.sort(rng.random((2, *shape)) * rng.choice([1, 0.2, 1.3], shape), axis=1)
            low, high = np.sort(least + np.minimum(parts, 1.0) * width, axis=0)
            for found in corners(windows, kind, Boxes(low, high)):
                for k, number in enumerate(found.which):
                    most = (functions.at_corners @ found.terms[k].T).max(axis=1)
                    part = rng.random((60, kind.width + 1))
                    part = np.where(rng.random(part.shape) < 0.4, part.round(), part)
                    points = low[number] + part * (high[number] - low[number])
                    terms = at_points(windows, kind, points[:, :-1], points[:, -1])
                    reached = (functions.at_points @ terms.T).max(axis=1)
                    assert (reached <= most + 1e-12).all()


# Few neurons, because the oracle tries all of their signs.
@pytest.mark.parametrize("number", mostly_slow(range(16), 4))
def test_no_optimum_exceeds_the_bound(number: int) -> None:
    rng = np.random.default_rng([7, number])
    text, clip = PERTURBATIONS[number % len(PERTURBATIONS)]
    network = network_of(BUILDS[number % 4], rng, filters=1, shape=(1, 2, 3))
    problem = Problem(network, perturbation=text, source=0, targets=[1, 2], clip=clip)
    truths = exact_optimum(problem)
    for target in (1, 2):
        uppers = []
        for piece in problem.pieces:
            proof = WindowBounder(network, piece, 0).bound(target, 0.2)
            assert proof is not None
            uppers.append(proof.upper)
        assert truths[target].low <= Fraction(max(uppers))


def test_more_boxes_and_multipliers_make_it_tighter(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    network = network_of("pooled", rng, filters=4)
    (piece,) = pieces_of("brightness([0,0.1])", True, rng)
    bounder = WindowBounder(network, piece, 0)
    uppers = []
    for share in (4.0, 1.0, 0.2):
        proof = bounder.bound(1, share)
        assert proof is not None
        uppers.append(proof.upper)
    assert uppers[2] < 0.8 * uppers[1] < 0.64 * uppers[0]
    found = bounder._multipliers[1]
    bounder._multipliers[1] = replace(found, of=tuple(0 * own for own in found.of))
    alone = bounder.bound(1, 0.2)
    assert alone is not None
    assert uppers[2] < alone.upper
    monkeypatch.setattr(module, "_MOST_BOXES", 1)
    few = bounder.bound(1, 0.2)
    assert few is not None
    assert few.upper > alone.upper


@pytest.mark.slow
def test_of_one_window_it_finds_the_largest_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_BOXES", 60_000)
    rng = np.random.default_rng(4)
    network = network_of("plain", rng, filters=5, shape=(1, 2, 2))
    (piece,) = parse("brightness([0,0.2])").pieces(Domain((1, 2, 2)), True)
    proof = WindowBounder(network, piece, 0).bound(1, 0.1)
    assert proof is not None
    x = np.concatenate([rng.random((4000, 4)), rng.integers(0, 2, (4000, 4))])
    e = np.where(rng.random((8000, 1)) < 0.5, 0.2, 0.2 * rng.random((8000, 1)))
    shift = network.forward(x) - network.forward(piece.apply(x, e))
    reached = (shift[:, 0] - shift[:, 1]).max()
    assert reached <= proof.upper <= 1.15 * reached


def test_without_time_it_has_a_bound_or_none() -> None:
    rng = np.random.default_rng(6)
    (piece,) = pieces_of("brightness([0,0.1])", True, rng)
    network = network_of("plain", rng)
    bounder = WindowBounder(network, piece, 0)
    assert bounder.bound(1, 0.5, lambda: True) is None
    whole = bounder.bound(1, 0.05)
    asked = iter(range(10**9))
    early = bounder.bound(1, 0.05, lambda: next(asked) > 0)
    assert whole is not None
    assert early is not None
    assert whole.upper < early.upper


def test_a_tree_ends_in_leaves() -> None:
    rng = np.random.default_rng(3)
    (piece,) = pieces_of("brightness([0,0.3])", True, rng)
    windows = windows_of(network_of("plain", rng), piece)
    assert windows is not None
    (kind,) = windows.kinds
    lead = rng.normal(size=kind.units.shape)
    functions = Functions(lead, np.zeros((len(lead), 2 * kind.width)))
    limits = np.full(len(lead), 0.1)
    tree = Halving(windows, kind, functions, 0.05).grow(limits, 10_000)
    leaves = sum(code == LEAF for code in tree.code)
    assert len(tree.code) == 2 * leaves - 1
    assert (tree.limits == limits).all()
    assert np.isfinite(tree.proven).all()


def _of_one_pixel(weight: float, lead: float, units: int = 1) -> Network:
    first = Affine(np.full((units, 1), weight), np.zeros(units), (1, 1, 1), (units,))
    last = Affine(np.outer([lead, 0.0], np.ones(units)), np.zeros(2), (units,), (2,))
    return Network((first, Relu((units,)), last), (1, 1, 1))


@pytest.mark.parametrize("lead", [1e300, 1.0, -1e300])
@pytest.mark.parametrize("weight", [5e-324, 3e-320, 1e-260, 1e-200])
def test_what_products_lose_to_underflow_counts(weight: float, lead: float) -> None:
    """The second copy of a pixel of 1 is 0.6: with the smallest weights, both are rounded up."""
    network = _of_one_pixel(weight, lead)
    for text in ("brightness([-0.4,-0.4])", "brightness([1e-300,1e-290])"):
        (piece,) = parse(text).pieces(Domain((1, 1, 1)), True)
        proof = WindowBounder(network, piece, 0).bound(1, 0.5)
        if proof is None:
            assert weight < 1e-300 or abs(lead) > 1e38
            continue
        for x in (1.0, 0.5, 0.0):
            for e in piece.span:
                change = min(Fraction(x) + Fraction(e), 1) - Fraction(x)
                change = max(change, -Fraction(x))
                assert -Fraction(lead) * Fraction(weight) * change <= Fraction(proof.upper)


def test_windows_of_many_neurons_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound on rounding errors is not for any number of terms."""
    monkeypatch.setattr(kinds_module, "_MOST_TERMS", 8)
    (piece,) = parse("brightness([0,0.1])").pieces(Domain((1, 1, 1)), True)
    assert windows_of(_of_one_pixel(1.0, 1.0, 8), piece) is not None
    assert windows_of(_of_one_pixel(1.0, 1.0, 9), piece) is None


@pytest.mark.parametrize("batch", [4, 256])
def test_there_are_fewer_boxes_for_many_windows(
    batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checker follows windows whose limits were raised here, perhaps all to every box."""
    monkeypatch.setattr(halving_module, "_BATCH", batch)
    rng = np.random.default_rng(2)
    (piece,) = pieces_of("brightness([0,0.1])", True, rng)
    bounder = WindowBounder(network_of("plain", rng, filters=4), piece, 0)
    boxes = []
    for most in (2**26, 6 * 80):
        monkeypatch.setattr(module, "_MOST_KEPT", most)
        proof = bounder.bound(1, 1e-3)
        assert proof is not None
        (tree,) = proof.trees
        boxes.append(len(tree.code))
    assert 40 < boxes[1] <= 80
    assert boxes[0] > 500
