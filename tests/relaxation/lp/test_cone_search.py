"""Cone cuts hold for every pair of a perturbation, exactly, and bounds that use them do, too."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from vhagar import Network, Problem
from vhagar.array_types import Array
from vhagar.errors import SolverFailure
from vhagar.network import Affine, Relu, SparseAffine
from vhagar.relaxation.cone_cuts import ConeCut, Split, WeightedCuts
from vhagar.relaxation.layerwise import TwinBounds, quick_bounds
from vhagar.relaxation.lp import cone_separation
from vhagar.relaxation.lp.cone import Cone, Objective
from vhagar.relaxation.lp.cone_search import cone_cut, groups
from vhagar.relaxation.lp.cone_separation import ConeSeparator
from vhagar.relaxation.lp.node_bound import Wanted
from vhagar.relaxation.lp.region_model import RegionModel
from vhagar.relaxation.twin_dual import INPUTS, Backward
from vhagar.solver.linear_model import LinearArrays
from vhagar.solver.lp_answer import LpAnswer, LpStatus
from vhagar.solver.scaling import Scaled
from vhagar.solver.simplex import Simplex

from ...oracle.exact import rationals
from ...pooled import pooled_problem
from ..samples import (
    SHAPE,
    ExactNetwork,
    Pair,
    Rng,
    Values,
    domain_of,
    every_perturbation,
    pairs,
    pieces_of,
)


def halves(rng: Rng, linear: bool = False, shared: int = 0) -> Network:
    """Two ReLU layers whose units see one half of the image each, and a dense one behind them.

    With `linear`, the last unit of each half is linear. Each half has `shared` pixels of the other.
    """
    first, second = np.zeros((6, 6)), np.zeros((6, 6))
    for half in (slice(0, 3), slice(3, 6)):
        first[half, half], second[half, half] = rng.normal(size=(2, 3, 3))
    for half, others in ((slice(0, 3), slice(3, 3 + shared)), (slice(3, 6), slice(3 - shared, 3))):
        first[half, others] = rng.normal(size=(3, shared))
    passes = np.array([False, False, True] * 2) if linear else None
    return Network(
        (
            SparseAffine(first, 0.3 * rng.normal(size=6), SHAPE, (6,)),
            Relu((6,)),
            SparseAffine(second, 0.3 * rng.normal(size=6), (6,), (6,)),
            Relu((6,), passes),
            Affine(rng.normal(size=(3, 6)), 0.1 * rng.normal(size=3), (6,), (3,)),
        ),
        SHAPE,
    )


def bounds_of(network: Network, text: str, clip: bool) -> list[TwinBounds]:
    pieces = pieces_of(text, clip, domain_of("plain"))
    return [quick_bounds(network, piece) for piece in pieces]


def cuts_of(bounds: TwinBounds, rng: Rng, level: float = math.inf) -> list[ConeCut]:
    """Cuts of random functions, every other one with coefficients on pixels."""
    found = []
    for units in groups(bounds, 1):
        cone = Cone(bounds, 1, units)
        for k, (a, b) in enumerate(rng.normal(size=(2, 2, len(units)))):
            c, d = (k * rng.normal(size=len(some)) for some in (cone.pixels, cone.images))
            cut = cone_cut(cone, Objective(a, b, c, d), level, 60)
            found += [] if cut is None else [cut]
    return found


def value_of(cut: ConeCut, network: Network, exact: ExactNetwork, pair: Pair) -> Fraction:
    """What the cut bounds, at a pair of inputs."""
    inputs = pair.exact, pair.exact_p
    first, second = (outputs(exact(x), network, cut.layer) for x in inputs)
    found = rationals(cut.a) @ first[cut.units] + rationals(cut.b) @ second[cut.units]
    found += rationals(cut.c) @ pair.exact[cut.pixels]
    return Fraction(found + rationals(cut.d) @ pair.exact_p[cut.perturbed])


def outputs(values: Values, network: Network, layer: int) -> np.ndarray:
    relu = [part for part in network.layers if isinstance(part, Relu)][layer]
    entering = values.entering[layer]
    passes = np.False_ if relu.linear is None else relu.linear
    return np.where(passes, entering, np.maximum(entering, Fraction(0)))


@every_perturbation
@pytest.mark.parametrize("linear", [False, True])
def test_cuts_hold_for_every_pair(text: str, clip: bool, linear: bool) -> None:
    rng = np.random.default_rng(len(text))
    network = halves(rng, linear)
    exact, found = ExactNetwork(network), 0
    for bounds in bounds_of(network, text, clip):
        cuts = cuts_of(bounds, rng)
        found += len(cuts)
        for pair in pairs(bounds.piece, rng, 15):
            for cut in cuts:
                assert value_of(cut, network, exact, pair) <= Fraction(cut.limit)
    assert found


@pytest.mark.parametrize("text", ["linf(0.3)", "brightness([0,0.3])", "rotation(30)"])
@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_cuts_hold_whatever_the_size_of_weights(text: str, offset: float) -> None:
    """Layers of weights that are large and small in turn, and biases that are far larger."""
    found = 0
    for seed, scales in enumerate(((1e3, 1e-3), (1e-8, 1e8), (1e15, 1e-15), (1e30, 1e-20))):
        rng = np.random.default_rng(seed)
        layers = list(halves(rng).layers)
        for place, scale in zip((0, 2), scales, strict=True):
            layer = layers[place]
            bias = scale * (layer.flat_bias + offset)
            shapes = layer.in_shape, layer.out_shape
            layers[place] = SparseAffine(scale * layer.matrix.toarray(), bias, *shapes)
        network = Network(tuple(layers), SHAPE)
        exact = ExactNetwork(network)
        for bounds in bounds_of(network, text, True):
            cuts = cuts_of(bounds, rng)
            found += len(cuts)
            for pair in pairs(bounds.piece, rng, 10):
                for cut in cuts:
                    assert value_of(cut, network, exact, pair) <= Fraction(cut.limit)
    assert found or offset


def test_a_cut_is_nearly_the_maximum_and_below_the_relaxation() -> None:
    """All corners of the pixels of a half, both copies: a ReLU network's maximum over a box need
    not be at one, but is not far above."""
    rng = np.random.default_rng(4)
    network = halves(rng)
    (bounds, *_) = bounds_of(network, "linf(1)", True)
    units, _ = groups(bounds, 1)
    a, b = rng.normal(size=(2, len(units)))
    cone = Cone(bounds, 1, units)
    objective = Objective(a, b, np.zeros(len(cone.pixels)), np.zeros(len(cone.images)))
    one, many = (cone_cut(Cone(bounds, 1, units), objective, math.inf, most) for most in (2, 500))
    assert one is not None
    assert many is not None
    points = np.array(np.meshgrid(*[np.linspace(0, 1, 9)] * 3)).reshape(3, -1).T
    images = np.hstack([points, np.zeros_like(points)])
    entering, _ = network.preactivations(images)
    exact = np.maximum(entering[1][:, units], 0)
    best = float((exact @ a).max() + (exact @ b).max())
    assert best <= many.limit < one.limit
    assert many.limit <= best + 0.2 * (one.limit - best)


def test_no_cut_above_the_level() -> None:
    rng = np.random.default_rng(5)
    (bounds, *_) = bounds_of(halves(rng), "linf(0.1)", True)
    assert cuts_of(bounds, rng, level=-1e9) == []


@pytest.mark.parametrize("limit", [-math.inf, math.inf])
def test_no_cut_without_a_finite_limit(limit: float, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    (bounds, *_) = bounds_of(halves(rng), "linf(1)", True)
    assert cuts_of(bounds, rng)
    monkeypatch.setattr(
        Cone, "_bounds", lambda cone, objective, duals, paths: np.full(len(duals), limit)
    )
    assert cuts_of(bounds, rng) == []


def leaf_signs(cut: ConeCut) -> list[list[tuple[Split, bool]]]:
    """The decided signs of each leaf, in the order of the leaves."""
    found: list[list[tuple[Split, bool]]] = []
    waiting: list[list[tuple[Split, bool]]] = [[]]
    for node in cut.tree:
        path = waiting.pop()
        if node is None:
            found.append(path)
        else:
            waiting += [[*path, (node, True)], [*path, (node, False)]]
    assert not waiting, "a tree ends with its last leaf"
    return found


def test_leaves_cover_all_signs() -> None:
    rng = np.random.default_rng(6)
    (bounds, *_) = bounds_of(halves(rng), "linf(1)", True)
    for cut in cuts_of(bounds, rng):
        leaves = leaf_signs(cut)
        assert len(leaves) == len(cut.multipliers[0][0]) == (len(cut.tree) + 1) // 2
        splits = sorted({split for path in leaves for split, _ in path})
        for bits in rng.integers(2, size=(50, len(splits))).astype(bool):
            signs = dict(zip(splits, bits, strict=True))
            fitting = [path for path in leaves if all(signs[split] == sign for split, sign in path)]
            assert len(fitting) == 1


def test_a_solver_that_lies_only_makes_cuts_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the duals, a limit is computed from them by the formula."""
    rng = np.random.default_rng(7)
    network = halves(rng)
    solve = Simplex.solve

    def lying(simplex: Simplex, *given: object, **options: object) -> LpAnswer:
        answer = solve(simplex, *given, **options)  # type: ignore[arg-type]
        if answer.duals is None:
            return answer
        duals = answer.duals + rng.normal(size=len(answer.duals))
        status = LpStatus.INFEASIBLE if rng.random() < 0.2 else answer.status
        return LpAnswer(status, duals, answer.primal, answer.objective - 1, answer.iterations)

    monkeypatch.setattr(Simplex, "solve", lying)
    exact = ExactNetwork(network)
    for bounds in bounds_of(network, "linf(0.3)", True):
        cuts = cuts_of(bounds, rng)
        for pair in pairs(bounds.piece, rng, 20):
            for cut in cuts:
                assert value_of(cut, network, exact, pair) <= Fraction(cut.limit)


@every_perturbation
def test_bounds_with_cuts_hold(text: str, clip: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cone_separation, "_LARGEST_PART", math.inf)
    monkeypatch.setattr(cone_separation, "may_help", lambda bounds: True)
    rng = np.random.default_rng(11)
    lower = 0
    for _ in range(2):
        network = halves(rng)
        exact = ExactNetwork(network)
        problem = Problem(network, perturbation=text, source=0, targets=1, clip=clip)
        for piece in problem.pieces:
            model = RegionModel(problem, quick_bounds(network, piece), 1)
            plain = found = model.evaluate((), math.inf)
            for _ in range(4):
                if found.complete and model.separate(found.answer, 1e-6, 0.0):
                    found = model.evaluate((), found.upper)
            lower += found.upper < plain.upper
            for pair in pairs(piece, rng, 30):
                first, second = exact(pair.exact), exact(pair.exact_p)
                if second.confidence(1) >= 0:
                    assert first.confidence(0) <= Fraction(found.upper)
    assert lower or text.startswith(("occlusion", "contrast([0.001", "brightness([0.1"))


def with_some_cuts(problem: Problem) -> tuple[float, set[int], set[int]]:
    """A bound with three rounds of cuts, and the pixels that these have coefficients on, in either
    copy."""
    model = RegionModel(problem, quick_bounds(problem.network, problem.pieces[0]), 1)
    found = model.evaluate((), math.inf)
    for _ in range(3):
        if found.complete and model.separate(found.answer, 1e-3, 0.0):
            found = model.evaluate((), found.upper)
    cuts = model.formula.cuts.cuts
    pixels = (getattr(cut, name) for name in ("pixels", "perturbed") for cut in cuts)
    named = [set(part.tolist()) for part in pixels]
    return found.upper, set().union(*named[: len(cuts)]), set().union(*named[len(cuts) :])


def without_prices(patch: pytest.MonkeyPatch, copies: tuple[int, ...] = (0, 1)) -> None:
    """Cuts have no coefficients on the pixels of some copies."""
    price = ConeSeparator._price

    def some(self: ConeSeparator, cone: Cone, wanted: Wanted) -> tuple[Array, ...]:
        given = price(self, cone, wanted)
        return tuple(0.0 * part if k in copies else part for k, part in enumerate(given))

    patch.setattr(ConeSeparator, "_price", some)


@pytest.mark.parametrize(
    ("text", "clip", "shared", "expected", "perturbed"),
    [
        ("occlusion(1,1,1)", True, 1, {2, 3}, set()),
        # The first pixel of each group says how much all pixels change.
        ("brightness([0,0.3])", False, 1, {0, 2, 3}, {0, 2}),
        ("brightness([0,0.3])", False, 0, {0, 3}, {0, 3}),
        ("brightness([0,0.3])", True, 1, {2, 3}, {2, 3}),
        ("contrast([1,2])", True, 1, {2, 3}, {2, 3}),
    ],
)
def test_cuts_agree_about_what_two_groups_see(
    text: str,
    clip: bool,
    shared: int,
    expected: set[int],
    perturbed: set[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each group sees three of six pixels, and the `shared` next ones of the other's."""
    monkeypatch.setattr(cone_separation, "_LARGEST_PART", math.inf)
    monkeypatch.setattr(cone_separation, "may_help", lambda bounds: True)
    lower, fewer = 0, 0
    for seed in range(8):
        network = halves(np.random.default_rng(seed), shared=shared)
        problem = Problem(network, perturbation=text, source=0, targets=1, clip=clip)
        with_prices, pixels, images = with_some_cuts(problem)
        assert pixels <= expected
        assert images <= perturbed
        for copies in ((0, 1), (1,)):
            with monkeypatch.context() as patch:
                without_prices(patch, copies)
                without, _, others = with_some_cuts(problem)
            assert not others
            better = bool(pixels | images) and with_prices < without - 1e-3
            lower, fewer = lower + (better and len(copies) == 2), fewer + better
    assert lower
    # Where the image is a function of the input, the second case is the plain one.
    assert fewer > lower or not perturbed


@every_perturbation
@pytest.mark.parametrize("shared", [0, 1])
def test_prices_amount_to_what_they_stand_for(text: str, clip: bool, shared: int) -> None:
    rng = np.random.default_rng(13)
    for bounds in bounds_of(halves(rng, shared=shared), text, clip):
        units, _ = groups(bounds, 1)
        prices = Cone(bounds, 1, units).prices
        inputs = prices.inputs
        p, q = rng.normal(size=(2, prices.matrix.shape[0]))
        on_x, on_image = prices.of(p, q)
        if inputs.x_p is None or not on_image.any():
            assert not on_image.any()
            continue
        columns = rng.uniform(size=inputs.x_p.matrix.shape[1])
        bias = inputs.first.value(0 * columns) - prices.matrix @ inputs.x.value(0 * columns)
        right = p @ (inputs.first.value(columns) - bias)
        right += q @ (inputs.second.value(columns) - bias)
        x, x_p = inputs.x.value(columns), inputs.x_p.value(columns)
        for factors in ((on_x, on_image), prices.agreed(on_x, on_image, np.ones(len(x), bool))):
            assert factors[0] @ x + factors[1] @ x_p == pytest.approx(right)


def test_weights_are_added_outward() -> None:
    """The state after cuts, with its error, is no smaller than the exact sum."""
    rng = np.random.default_rng(12)
    units = np.arange(4)
    for scale in (1e-150, 1.0, 1e150):
        cuts = [
            ConeCut(
                1,
                units,
                *(scale * rng.normal(size=(2, 4))),
                scale * rng.normal(),
                *((),) * 3,
                units[:pixels],
                scale * rng.normal(size=pixels),
                units[pixels:],
                scale * rng.normal(size=4 - pixels),
            )
            for pixels in (0, 1, 4)
        ]
        weights = abs(rng.normal(size=(5, 3)))
        a, b = scale * rng.normal(size=(2, 5, 4))
        constant = scale * rng.normal(size=5)
        size = abs(rng.normal(size=4))
        begun = Backward(a, b, constant, np.zeros(5))
        state = WeightedCuts(cuts, weights).to(1, begun, size)
        at_inputs = WeightedCuts(cuts, weights).to(INPUTS, begun, size)
        assert at_inputs.constant is constant
        z, z_p = rng.uniform(0, 1, (2, 4)) * size
        for row in range(5):
            exact = rationals(a[row]) @ rationals(z) + rationals(b[row]) @ rationals(z_p)
            exact += Fraction(float(constant[row]))
            for cut, weight in zip(cuts, weights[row], strict=True):
                value = rationals(cut.a) @ rationals(z) + rationals(cut.b) @ rationals(z_p)
                exact += Fraction(float(weight)) * (Fraction(float(cut.limit)) - value)
            after = rationals(state.a[row]) @ rationals(z) + rationals(state.b[row]) @ rationals(
                z_p
            )
            after += Fraction(float(state.constant[row])) + Fraction(float(state.error[row]))
            assert exact <= after
            exact = rationals(a[row]) @ rationals(z) + rationals(b[row]) @ rationals(z_p)
            for cut, weight in zip(cuts, weights[row], strict=True):
                value = rationals(cut.c) @ rationals(z)[cut.pixels]
                value += rationals(cut.d) @ rationals(z_p)[cut.perturbed]
                exact -= Fraction(float(weight)) * value
            left, right = rationals(at_inputs.a[row]), rationals(at_inputs.b[row])
            after = left @ rationals(z) + right @ rationals(z_p)
            assert abs(exact - after) <= Fraction(float(at_inputs.error[row]))
    assert WeightedCuts(cuts, weights).to(0, state, size) is state


def test_where_cuts_are_worth_a_try() -> None:
    """Not where all pixels move on their own, nor where few neurons change at all."""
    network = halves(np.random.default_rng(1))
    for text, expected in (("linf(0.1)", False), ("rotation(30)", True)):
        (bounds, *_) = bounds_of(network, text, True)
        assert cone_separation.may_help(bounds) == expected
    few = pooled_problem(1)
    assert not cone_separation.may_help(quick_bounds(few.network, few.pieces[0]))


def test_a_solver_that_fails_in_a_cone_costs_no_more_than_its_cuts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cone_separation, "_LARGEST_PART", math.inf)
    monkeypatch.setattr(cone_separation, "may_help", lambda bounds: True)

    def failing(cone: Cone, *given: object) -> LpAnswer:
        raise SolverFailure("no answer")

    network = halves(np.random.default_rng(11))
    problem = Problem(network, perturbation="linf(1)", source=0, targets=1)
    model = RegionModel(problem, quick_bounds(network, problem.pieces[0]), 1)
    before = model.evaluate((), math.inf)
    monkeypatch.setattr(Cone, "solved", failing)
    assert not model.separate(before.answer, 0.0, 0.0)
    assert model.evaluate((), math.inf).upper == before.upper


def test_rows_that_the_solver_refuses_cost_no_more_than_their_cuts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The LP and the formula have the same cuts afterwards: none."""
    monkeypatch.setattr(cone_separation, "_LARGEST_PART", math.inf)
    monkeypatch.setattr(cone_separation, "may_help", lambda bounds: True)
    network = halves(np.random.default_rng(11))
    problem = Problem(network, perturbation="linf(1)", source=0, targets=1)
    model = RegionModel(problem, quick_bounds(network, problem.pieces[0]), 1)
    before = model.evaluate((), math.inf)
    with monkeypatch.context() as patch:
        patch.setattr(type(model.simplex._scaled), "rows", beyond_all_numbers)
        assert not model.separate(before.answer, 0.0, 0.0)
    assert not len(model.formula.cuts)
    assert model.evaluate((), math.inf).upper == before.upper
    assert model.separate(before.answer, 0.0, 0.0)
    assert model.evaluate((), math.inf).upper < before.upper


def beyond_all_numbers(scaled: Scaled, matrix: sparse.csr_array, upper: np.ndarray) -> Scaled:
    """Rows with coefficients that HiGHS takes for infinite."""
    columns = scaled.column_lower, scaled.column_upper, np.zeros(matrix.shape[1], dtype=bool)
    found = Scaled(LinearArrays(*columns, matrix, np.full(len(upper), -np.inf), upper))
    found.matrix = found.matrix * 1e30
    return found
