"""The spectral bound holds for every pair of inputs, whatever the scalings, in exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from vhagar.network import Affine, Network, Relu
from vhagar.perturbation import Domain, parse
from vhagar.relaxation.spectral.bound import SpectralBounder, _lead, difference_bounds
from vhagar.relaxation.spectral.expansion import Expansion, expand
from vhagar.relaxation.spectral.scalings import Scalings
from vhagar.relaxation.spectral.slopes import input_change, layer_slopes

from ...marks import mostly_slow
from ...oracle.cases import Case
from ...oracle.exact import exact_optimum
from ..samples import (
    BUILDS,
    PERTURBATIONS,
    SCALES,
    ExactNetwork,
    Rng,
    domain_of,
    every_build,
    every_perturbation,
    network_of,
    pairs,
    pieces_of,
)


def any_scalings(expansion: Expansion, rng: Rng) -> Scalings:
    def some(size: int) -> np.ndarray:
        return np.exp(rng.normal(size=size) * rng.choice([0.1, 1.0, 4.0])).astype(np.float32)

    inputs = tuple(some(expansion.coordinates) for _ in range(expansion.layers))
    return Scalings(tuple(map(some, expansion.scaled_sizes())), inputs)


@every_build
@every_perturbation
def test_any_scalings_bound_every_pair(build: str, text: str, clip: bool) -> None:
    rng = np.random.default_rng([3, BUILDS.index(build), PERTURBATIONS.index((text, clip))])
    network = network_of(build, rng, SCALES[rng.integers(3)])
    exact = ExactNetwork(network)
    leads = [_lead(3, 0, 1), _lead(3, 2, 0)]
    for piece in pieces_of(text, clip, domain_of(build)):
        change = input_change(piece)
        expansion = expand(network, change, layer_slopes(network, piece, change))
        assert expansion is not None
        bounds = [
            difference_bounds(expansion, piece, change, leads, any_scalings(expansion, rng))[0]
            for _ in range(3)
        ]
        smallest = [Fraction(min(column)) for column in zip(*bounds, strict=True)]
        for pair in pairs(piece, rng, 9):
            first, second = exact(pair.exact).scores, exact(pair.exact_p).scores
            shift = first - second
            assert shift[0] - shift[1] <= smallest[0]
            assert shift[2] - shift[0] <= smallest[1]


@every_build
@every_perturbation
def test_what_is_known_of_slopes_and_changes_holds(build: str, text: str, clip: bool) -> None:
    rng = np.random.default_rng([4, BUILDS.index(build), PERTURBATIONS.index((text, clip))])
    network = network_of(build, rng)
    exact = ExactNetwork(network)
    for piece in pieces_of(text, clip, domain_of(build)):
        change = input_change(piece)
        slopes = layer_slopes(network, piece, change)
        low, high = (np.array([Fraction(v) for v in end]) for end in (change.lower, change.upper))
        middle = np.array([Fraction(v) for v in change.middle])
        radius = np.array([Fraction(v) for v in change.radius])
        assert (middle - radius <= low).all()
        assert (high <= middle + radius).all()
        for pair in pairs(piece, rng, 9):
            difference = pair.exact - pair.exact_p
            assert (low <= difference).all()
            assert (difference <= high).all()
            first, second = exact(pair.exact).entering, exact(pair.exact_p).entering
            for known, s, t in zip(slopes, first, second, strict=True):
                assert not (known.on & known.free).any()
                still = ~known.on & ~known.free
                relu = np.maximum(s, 0) - np.maximum(t, 0)
                assert (relu[still] == 0).all()


@pytest.mark.parametrize("number", mostly_slow(range(24), 8))
def test_no_optimum_exceeds_the_bound(number: int) -> None:
    problem = Case(number).problem()
    truths = exact_optimum(problem)
    for target in problem.targets:
        uppers = []
        for piece in problem.pieces:
            (proof,) = SpectralBounder(problem.network, piece, problem.source, [target]).bounds(8)
            assert proof is not None
            uppers.append(proof.upper)
        # The pieces clip by themselves here, or not at all.
        if all(piece.to_clip() is None for piece in problem.pieces):
            assert truths[target].low <= Fraction(max(0.0, *uppers))


def test_steps_make_the_bound_tighter() -> None:
    problem = Case(0).problem()
    network = network_of("plain", np.random.default_rng(1))
    (piece,) = pieces_of("linf(0.1)", True, domain_of("plain"))
    bounder = SpectralBounder(network, piece, 0, [1, 2])
    before, after = bounder.bounds(0), bounder.bounds(60)
    for worse, better in zip(before, after, strict=True):
        assert worse is not None
        assert better is not None
        assert better.upper < 0.95 * worse.upper
    one = SpectralBounder(problem.network, problem.pieces[0], problem.source, problem.targets)
    assert None not in one.bounds(2)


@pytest.mark.parametrize("depth", [1, 2, 3, 5])
def test_on_a_single_path_the_bound_is_attained(depth: int) -> None:
    """All terms of the expansion add up there: with every slope 1 they all have one sign."""
    shape = (1,)
    steps = [Affine(np.array([[w]]), np.zeros(1), shape, shape) for w in (2.0, 0.5, 3.0, 1.5, 1.0)]
    layers = [layer for step in steps[:depth] for layer in (step, Relu(shape))]
    ends = Affine(np.array([[1.0], [-1.0]]), np.zeros(2), shape, (2,))
    network = Network((*layers, ends), shape)
    (piece,) = parse("linf(0.25)").pieces(Domain(shape, -1.0, 1.0), True)
    (proof,) = SpectralBounder(network, piece, 0, [1]).bounds(0)
    assert proof is not None
    first, second = network.forward(np.array([[1.0], [0.75]]))
    difference = (first - second) @ [1.0, -1.0]
    assert difference <= proof.upper <= difference * (1 + 1e-4)


def test_without_free_slopes_the_bound_is_the_support() -> None:
    rng = np.random.default_rng(5)
    network = network_of("no relu", rng)
    (piece,) = pieces_of("linf(0.1)", True, domain_of("no relu"))
    weight = network.layers[1].weight @ network.layers[0].weight
    row = weight[0] - weight[1]
    (proof,) = SpectralBounder(network, piece, 0, [1]).bounds(0)
    assert proof is not None
    assert 0.1 * abs(row).sum() <= proof.upper <= 0.1 * abs(row).sum() * (1 + 1e-9)


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -1.0])
def test_forged_scalings_prove_nothing(bad: float) -> None:
    rng = np.random.default_rng(6)
    network = network_of("plain", rng)
    (piece,) = pieces_of("linf(0.1)", True, domain_of("plain"))
    change = input_change(piece)
    expansion = expand(network, change, layer_slopes(network, piece, change))
    assert expansion is not None
    good = any_scalings(expansion, rng)
    for forged in (
        Scalings((np.full_like(good.layers[0], bad), *good.layers[1:]), good.inputs),
        Scalings(good.layers, (np.full_like(good.inputs[0], bad), *good.inputs[1:])),
    ):
        found = difference_bounds(expansion, piece, change, [_lead(3, 0, 1)], forged)
        assert found == ([math.inf], ())


def test_too_large_a_block_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vhagar.relaxation.spectral.expansion._MOST_ENTRIES", 3)
    network = network_of("plain", np.random.default_rng(7))
    (piece,) = pieces_of("linf(0.1)", True, domain_of("plain"))
    assert SpectralBounder(network, piece, 0, [1, 2]).bounds(3) == [None, None]
