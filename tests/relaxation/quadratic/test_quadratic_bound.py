"""The quadratic bound holds for every pair of inputs, whatever the multipliers, exactly."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from vhagar.array_types import Array, Index
from vhagar.network import Affine, Network, Relu
from vhagar.perturbation import AbstractPiece, Domain, parse
from vhagar.relaxation.layerwise import quick_bounds
from vhagar.relaxation.quadratic import (
    Differences,
    Multipliers,
    Schedule,
    are_manageable,
    ascend,
    differences_of,
    improve,
    proven_bound,
    starting_multipliers,
)
from vhagar.relaxation.quadratic import differences as differences_module
from vhagar.relaxation.quadratic.dual import evaluate

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

STEPS = Schedule(20, (0.1, 0.02), (0.03, 0.003))


def known_of(network: Network, piece: AbstractPiece, source: int, target: int) -> Differences:
    known = differences_of(quick_bounds(network, piece), source, target)
    assert known is not None
    return known


def some_multipliers(known: Differences, rng: Rng) -> list[Multipliers]:
    """Good ones, and some around them."""
    start = starting_multipliers(known, ascend(known))
    found = None if start is None else improve(known, start, STEPS)
    if start is None or found is None:
        return []  # there is no bound then
    shaken = [
        Multipliers(
            found[0].slopes * np.exp(size * rng.normal(size=len(found[0].slopes))),
            found[0].box * np.exp(abs(rng.normal(size=len(found[0].box)))),
        )
        for size in (0.01, 0.3)
    ]
    return [start, found[0], *shaken]


@every_build
@every_perturbation
def test_any_multipliers_bound_every_pair(build: str, text: str, clip: bool) -> None:
    rng = np.random.default_rng([3, BUILDS.index(build), PERTURBATIONS.index((text, clip))])
    network = network_of(build, rng, SCALES[rng.integers(3)])
    exact = ExactNetwork(network)
    for piece in pieces_of(text, clip, domain_of(build)):
        for source, target in ((0, 1), (2, 0)):
            known = known_of(network, piece, source, target)
            bounds = [proven_bound(known, each) for each in some_multipliers(known, rng)]
            proven = [Fraction(bound) for bound in bounds if bound is not None]
            for pair in pairs(piece, rng, 9) if proven else ():
                shift = exact(pair.exact).scores - exact(pair.exact_p).scores
                assert shift[source] - shift[target] <= min(proven)


@every_build
@every_perturbation
def test_the_differences_are_linear_in_the_unknowns(build: str, text: str, clip: bool) -> None:
    rng = np.random.default_rng([4, BUILDS.index(build), PERTURBATIONS.index((text, clip))])
    network = network_of(build, rng)
    exact = ExactNetwork(network)
    for piece in pieces_of(text, clip, domain_of(build)):
        known = known_of(network, piece, 0, 1)
        rows, sizes = (_rationals(part) for part in (known.rows, known.sizes))
        error = Fraction(known.error)
        for pair in pairs(piece, rng, 5):
            first, second = exact(pair.exact), exact(pair.exact_p)
            alike = piece.formula is not None and piece.formula.changes_alike
            tied = known.tied and not alike
            u = (pair.exact if tied else pair.exact - pair.exact_p)[known.inputs]
            assert (abs(u - _rationals(known.middle)) <= _rationals(known.radius)).all()
            s = [first.entering[layer][unit] for layer, unit in known.places]
            t = [second.entering[layer][unit] for layer, unit in known.places]
            w = [max(a, 0) - max(b, 0) for a, b in zip(s, t, strict=True)]
            v = np.array([*u, *w])
            shift = first.scores - second.scores
            truth = np.array([*(a - b for a, b in zip(s, t, strict=True)), shift[0] - shift[1]])
            assert (abs(rows @ v - truth) <= error * (sizes @ abs(v))).all()


@pytest.mark.parametrize(
    ("text", "clip", "tied"),
    [
        ("translation(1,-1)", True, True),
        ("rotation(30)", True, True),
        ("occlusion(1,1,2)", True, True),
        ("brightness([0,0.3])", False, True),
        ("brightness([0,0.3])", True, False),
        ("contrast([0.5,2])", False, False),
        ("rotation([20,40])", True, False),
        ("linf(0.1)", True, False),
    ],
)
def test_what_moves_pixels_is_tied_to_the_input(text: str, clip: bool, tied: bool) -> None:
    rng = np.random.default_rng(8)
    network = network_of("plain", rng)
    for piece in pieces_of(text, clip, domain_of("plain")):
        known = known_of(network, piece, 0, 1)
        assert known.tied == tied
        assert known.settled(dict.fromkeys(known.places[:1], True)).tied == tied


def test_a_tie_tells_a_shift_from_any_change_of_all_pixels() -> None:
    """A network that takes the mean of all pixels sees nothing of their exchange."""
    mean = Affine(np.array([[0.25] * 4, [-0.25] * 4]), np.zeros(2), (1, 2, 2), (2,))
    (piece,) = parse("rotation(90)").pieces(Domain((1, 2, 2)))
    known = known_of(Network((mean,), (1, 2, 2), "mean"), piece, 0, 1)
    assert known.tied
    assert known.lead_on_inputs.tolist() == [0.0] * 4


@pytest.mark.parametrize("text", ["linf(0.1)", "rotation(30)"])
def test_sparse_rows_give_the_same_bounds(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large rows with few entries are kept as sparse ones, and nothing else changes."""
    rng = np.random.default_rng(8)
    network = network_of("convolution", rng)
    (piece,) = pieces_of(text, True, domain_of("convolution"))
    dense = known_of(network, piece, 0, 1)
    assert dense.sparse_on_inputs is None
    monkeypatch.setattr(differences_module, "_SPARSE_FROM", 0)
    monkeypatch.setattr(differences_module, "_SPARSE_SHARE", 1.0)
    sparse = known_of(network, piece, 0, 1)
    assert sparse.sparse_on_inputs is not None
    tried = some_multipliers(dense, rng)
    assert tried
    for multipliers in tried:
        one, other = evaluate(dense, multipliers), evaluate(sparse, multipliers)
        assert one is not None
        assert other is not None
        assert other.value == pytest.approx(one.value, rel=1e-9)
        np.testing.assert_allclose(other.slope_facts, one.slope_facts, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(other.box_facts, one.box_facts, rtol=1e-6, atol=1e-9)
        proven = proven_bound(sparse, multipliers)
        assert proven is not None
        assert proven == pytest.approx(proven_bound(dense, multipliers), rel=1e-6)


@every_build
def test_a_node_bounds_all_of_its_slopes(build: str) -> None:
    """Whatever the free slopes: the bound is about them, not about pairs of inputs."""
    rng = np.random.default_rng([5, BUILDS.index(build)])
    network = network_of(build, rng)
    (piece,) = pieces_of("linf(0.1)", True, domain_of(build))
    root = known_of(network, piece, 0, 1)
    for _ in range(3):
        chosen = [place for place in root.places if rng.random() < 0.5]
        settled = {place: bool(rng.random() < 0.5) for place in chosen}
        known = root.settled(settled)
        assert set(known.places) == set(root.places) - set(settled)
        bounds = [proven_bound(known, each) for each in some_multipliers(known, rng)]
        smallest = min(Fraction(bound) for bound in bounds if bound is not None)
        assert Fraction(ascend(known).value) <= smallest * (1 + Fraction(1, 10**9))
        for _ in range(20):
            slopes = {p: settled.get(p, bool(rng.random() < 0.5)) for p in root.places}
            assert _largest(root, slopes) <= smallest


def _largest(root: Differences, slopes: dict[tuple[int, int], bool]) -> Fraction:
    """The lead's largest change for given slopes, by hand and exactly."""
    rows, inputs = _rationals(root.rows), len(root.inputs)
    known: list[np.ndarray] = []
    for k, place in enumerate(root.places):
        row = rows[k, :inputs] + sum(
            (rows[k, inputs + j] * known[j] for j in range(k)), np.zeros(inputs, dtype=object)
        )
        known.append(row if slopes[place] else row * 0)
    lead = rows[-1, :inputs] + sum(
        (rows[-1, inputs + j] * known[j] for j in range(len(known))),
        np.zeros(inputs, dtype=object),
    )
    middle, radius = _rationals(root.middle), _rationals(root.radius)
    # The rows are rounded; here they are what they are.
    room = Fraction(root.error) * (_rationals(root.sizes).sum() + 1) * 100
    return Fraction((lead * middle).sum() + (abs(lead) * radius).sum()) - room


def test_steps_and_slopes_make_the_bound_tighter() -> None:
    network = network_of("narrow and deep", np.random.default_rng(1))
    (piece,) = pieces_of("linf(0.1)", True, domain_of("narrow and deep"))
    known = known_of(network, piece, 0, 1)
    ascent = ascend(known)
    start = starting_multipliers(known, ascent)
    assert start is not None
    found = improve(known, start, STEPS)
    assert found is not None
    first, better = evaluate(known, start), found[1]
    assert first is not None
    assert ascent.value <= better.value <= first.value
    place = known.places[0]
    for slope in (False, True):
        fewer = Multipliers(np.delete(found[0].slopes, 0), found[0].box)
        child = evaluate(known.settled({place: slope}), fewer)
        # Whatever is positive definite stays so where less is free.
        assert child is not None
        assert child.value <= better.value * (1 + 1e-9)


@pytest.mark.parametrize("depth", [1, 2, 3, 5])
def test_on_a_single_path_the_bound_is_attained(depth: int) -> None:
    shape = (1,)
    steps = [Affine(np.array([[w]]), np.zeros(1), shape, shape) for w in (2.0, 0.5, 3.0, 1.5, 1.0)]
    layers = [layer for step in steps[:depth] for layer in (step, Relu(shape))]
    ends = Affine(np.array([[1.0], [-1.0]]), np.zeros(2), shape, (2,))
    network = Network((*layers, ends), shape)
    (piece,) = parse("linf(0.25)").pieces(Domain(shape, -1.0, 1.0), True)
    known = known_of(network, piece, 0, 1)
    start = starting_multipliers(known, ascend(known))
    assert start is not None
    found = improve(known, start, Schedule(400, (0.1, 0.003), (0.01, 1e-4)))
    assert found is not None
    proven = proven_bound(known, found[0])
    first, second = network.forward(np.array([[1.0], [0.75]]))
    difference = (first - second) @ [1.0, -1.0]
    assert proven is not None
    assert difference <= proven <= difference * 1.02


@pytest.mark.parametrize("text", ["linf(0.1)", "occlusion(1,1,2)", "brightness([0,0.2])"])
def test_nothing_below_the_value_is_proved(text: str) -> None:
    """The value is the least that these multipliers give: a lower one would be a false proof."""
    network = network_of("plain", np.random.default_rng(6))
    piece = pieces_of(text, True, domain_of("plain"))[0]
    known = known_of(network, piece, 0, 1)
    good = starting_multipliers(known, ascend(known))
    assert good is not None
    assert proven_bound(known, good, room=(1e-8,)) is not None
    for share in (-1e-6, -1e-2, -0.3):
        assert proven_bound(known, good, room=(share,)) is None


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -1.0, 1e200, 1e-200])
def test_forged_multipliers_prove_nothing(bad: float) -> None:
    network = network_of("plain", np.random.default_rng(6))
    (piece,) = pieces_of("linf(0.1)", True, domain_of("plain"))
    known = known_of(network, piece, 0, 1)
    good = starting_multipliers(known, ascend(known))
    assert good is not None
    assert proven_bound(known, good) is not None
    for k in range(len(good.slopes)):
        slopes = good.slopes.copy()
        slopes[k] = bad
        assert proven_bound(known, Multipliers(slopes, good.box)) is None
    for k in range(len(good.box)):
        box = good.box.copy()
        box[k] = bad
        assert proven_bound(known, Multipliers(good.slopes, box)) is None


def test_an_indefinite_matrix_proves_nothing() -> None:
    network = network_of("plain", np.random.default_rng(6))
    (piece,) = pieces_of("linf(0.1)", True, domain_of("plain"))
    known = known_of(network, piece, 0, 1)
    good = starting_multipliers(known, ascend(known))
    assert good is not None
    assert proven_bound(known, Multipliers(good.slopes, good.box * 1e-6)) is None


def test_of_changes_that_are_alike_one_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of thousands of pixels, with a number for each, all would take long."""
    network = network_of("plain", np.random.default_rng(7))
    piece, *_ = pieces_of("brightness([0,0.1])", False, domain_of("plain"))
    bounds = quick_bounds(network, piece)
    asked: list[int] = []
    pixel_ends = type(piece).pixel_ends

    def noted(self: AbstractPiece, pixels: Index, on_x: float) -> tuple[Array, Array]:
        asked.extend(pixels.tolist())
        return pixel_ends(self, pixels, on_x)

    monkeypatch.setattr(type(piece), "pixel_ends", noted)
    known = differences_of(bounds, 0, 1)
    assert known is not None
    assert len(known.inputs) == 1
    assert asked == [0]


def test_too_many_pairs_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vhagar.relaxation.quadratic.differences._MOST_PAIRS", 1)
    network = network_of("plain", np.random.default_rng(7))
    (piece,) = pieces_of("linf(0.1)", True, domain_of("plain"))
    bounds = quick_bounds(network, piece)
    assert not are_manageable(bounds)
    assert differences_of(bounds, 0, 1) is None
    monkeypatch.undo()
    assert are_manageable(bounds)


def _rationals(values: np.ndarray) -> np.ndarray:
    return np.vectorize(Fraction, otypes=[object])(values)
