"""First-order bounds: never below the linear program, never below the truth, and tight."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

from vhagar import Network, Problem
from vhagar.network import Affine, Convolution, Relu
from vhagar.perturbation import Domain
from vhagar.relaxation.first_order.build import local_dual, whole_dual
from vhagar.relaxation.first_order.dual import Dual, LayerMultipliers, Steps
from vhagar.relaxation.first_order.fused import Free
from vhagar.relaxation.first_order.objective import (
    AbstractObjective,
    ConfidenceObjective,
    FixedObjective,
)
from vhagar.relaxation.first_order.refine import device_bounds, refine
from vhagar.relaxation.first_order.root import confidence_bounds, root_bounds
from vhagar.relaxation.first_order.torch_layers import torch_stages
from vhagar.relaxation.layerwise import TwinBounds, quick_bounds
from vhagar.relaxation.lp.region_model import RegionModel
from vhagar.relaxation.receptive_fields import local_network
from vhagar.relaxation.twin_dual import backward, unit
from vhagar.runtime import devices
from vhagar.solver.lp_answer import LpStatus

from ...marks import mostly_slow
from ...networks import dense_network
from ...search.nodes import everything, most_kinds_slow
from ...search.proven import duals_of as rows_of
from ..samples import BUILDS, PERTURBATIONS, ExactNetwork, domain_of, network_of, pairs, pieces_of

CPU = torch.device("cpu")
# What a solver's own tolerances may add to the optimum it reports, of the size of the scores.
SOLVER = 1e-6
# Of the error of plain sums: convolutions may be computed by other ones.
ROOM = 16.0


def node_dual(region_model: RegionModel) -> tuple[Dual, ConfidenceObjective]:
    bounds, problem = region_model.bounds, region_model.problem
    stages = torch_stages(bounds.stages, CPU)
    dual = whole_dual(bounds, len(bounds.stages) - 1, stages, CPU)
    target = torch.tensor([region_model.target])
    return dual, ConfidenceObjective(problem.network.classes, problem.source, target)


def values(
    dual: Dual,
    objective: AbstractObjective,
    numbers: list[torch.Tensor],
    sizes: list[tuple[torch.Tensor, ...]] | None = None,
) -> torch.Tensor:
    """The bounds for given free numbers; with magnitudes, no less than in exact arithmetic."""
    with devices.full_precision():
        state = backward(dual._stages, objective.start(), dual.payment(numbers, []), sizes)
        value = state.constant + dual._support(state.a, state.b)[0]
        if sizes is None:
            return value
        closing = (abs(state.a) + abs(state.b)) @ sizes[0][0]
        closing = abs(value) + abs(state.constant) + state.a.shape[1] * closing
        return value + ROOM * (state.error + unit(4, value) * closing)


def magnitudes(bounds: TwinBounds) -> list[tuple[torch.Tensor, ...]]:
    sizes = bounds.magnitudes(len(bounds.stages) - 1)
    return [tuple(torch.as_tensor(size).float() for size in stage) for stage in sizes]


def kept(objective: ConfidenceObjective, frees: list[Free]) -> list[torch.Tensor]:
    objective.alpha, objective.mu = objective.kept_alpha, objective.kept_mu
    return [free.kept for free in frees]


@most_kinds_slow
def test_never_below_the_linear_program_nor_the_truth(kind: str) -> None:
    """In float32 with the outward correction, at the start and after some steps."""
    for found in everything(kind):
        region_model = found.region_model
        dual, objective = node_dual(region_model)
        sizes = magnitudes(region_model.bounds)
        frees = dual.begin(objective)
        first = values(dual, objective, [free.now for free in frees], sizes)
        dual.run(objective, frees, Steps(30, 0.02, 0.05))
        best = values(dual, objective, kept(objective, frees), sizes)
        lowest = min(float(first), float(best))
        assert found.attacked.confidence <= Fraction(lowest)
        answer = region_model.evaluate((), np.inf).answer
        if answer.status is LpStatus.OPTIMAL and region_model.piece.exact_support:
            size = float(region_model.model.arrays.column_upper[region_model.model.delta])
            assert lowest >= answer.objective - SOLVER * size


@most_kinds_slow
def test_root_bounds_hold_every_attack(kind: str) -> None:
    for found in everything(kind):
        problem, bounds = found.problem, found.region_model.bounds
        (root,) = root_bounds(problem, bounds, [found.target], CPU, Steps(20, 0.02, 0.05))
        assert found.attacked.confidence <= Fraction(root.upper)


def test_multipliers_out_of_nowhere_prove_something_true() -> None:
    rng = np.random.default_rng(52)
    for found in everything("linf"):
        problem, bounds = found.problem, found.region_model.bounds
        if not bounds.hexagons:
            continue
        classes = problem.network.classes
        alpha, mu = 3 * rng.normal(size=(2, 1, classes))
        alpha[0, (problem.source + 1) % classes] = 1.0
        numbers = tuple(
            rng.normal(size=(6, 1, len(h))).astype(np.float32) * 10 for h in bounds.hexagons
        )
        broken = tuple(np.full_like(part, np.nan) for part in numbers)
        for given in (numbers, broken):  # what is no number counts as 0
            choice = LayerMultipliers(given).choice()
            (root,) = confidence_bounds(problem, bounds, [found.target], alpha, mu, choice)
            assert found.attacked.confidence <= Fraction(root.upper)
        alpha[0, (problem.source + 1) % classes] = np.nan
        (root,) = confidence_bounds(problem, bounds, [found.target], alpha, mu, choice)
        assert root.upper == np.inf


@most_kinds_slow
def test_a_root_bound_states_what_it_was_computed_from(kind: str) -> None:
    """The stated multipliers, through the formula of linear programs, prove the same bound."""
    for found in everything(kind):
        region_model = found.region_model
        (root,) = root_bounds(
            found.problem, region_model.bounds, [found.target], CPU, Steps(20, 0.02, 0.05)
        )
        allowed = region_model.cuts.allowed(())
        assert allowed is not None
        stored, alpha = rows_of(region_model, root.numbers)
        proven = region_model.formula._evaluate(stored, alpha, allowed)
        assert proven == pytest.approx(root.upper, rel=1e-12, abs=1e-12)


def test_steps_come_close_to_the_linear_program() -> None:
    network = dense_network(20, 15, 4, seed=53, single=False)
    problem = Problem(network, perturbation="occlusion(1,1,2)", source=0, targets=1)
    bounds = quick_bounds(problem.network, problem.pieces[0])
    exact = RegionModel(problem, bounds, 1)
    quick, best = exact.quick_upper(), exact.evaluate((), np.inf).upper
    found = root_bounds(problem, bounds, [1], CPU, Steps(400, 0.03, 0.01))[0].upper
    assert best <= found + 1e-9
    assert found - best <= 0.1 * (quick - best)


@pytest.mark.parametrize("build", BUILDS)
def test_bounds_of_every_build_hold(build: str) -> None:
    """Whole layers and windows, every perturbation in turn."""
    for number, (text, clip) in enumerate(PERTURBATIONS[BUILDS.index(build) % 3 :: 3]):
        rng = np.random.default_rng([54, BUILDS.index(build), number])
        network = network_of(build, rng)
        for piece in pieces_of(text, clip, domain_of(build)):
            bounds = device_bounds(network, piece, CPU)
            require_same(bounds, quick_bounds(network, piece))
            for layer in range(1, len(bounds.hexagons)):
                refine(bounds, layer, CPU, Steps(6, 0.02, 0.1))
            require_held(network, bounds, rng)


def require_same(bounds: TwinBounds, other: TwinBounds) -> None:
    """What is computed on a device is what is computed without, for neurons that may switch."""
    for mine, theirs in zip(bounds.hexagons, other.hexagons, strict=True):
        undecided = ~theirs.on & ~theirs.off
        for one, two in zip(mine.sides, theirs.sides, strict=True):
            np.testing.assert_allclose(one[undecided], two[undecided], rtol=1e-9, atol=1e-9)


def require_held(network: Network, bounds: TwinBounds, rng: np.random.Generator) -> None:
    exact = ExactNetwork(network)
    for pair in pairs(bounds.piece, rng, 3):
        first, second = exact(pair.exact), exact(pair.exact_p)
        for h, s, t in zip(bounds.hexagons, first.entering, second.entering, strict=True):
            gap = t - Fraction(h.ratio) * s
            for low, value, high in (
                (h.lower, s, h.upper),
                (h.lower_p, t, h.upper_p),
                (h.gap_lower, gap, h.gap_upper),
            ):
                for k in range(len(h)):
                    assert Fraction(float(low[k])) <= value[k] <= Fraction(float(high[k]))


def padded_network(rng: np.random.Generator) -> Network:
    one = Convolution(rng.normal(size=(3, 1, 2, 2)), rng.normal(size=3), (1, 5, 5), (1, 1))
    two = Convolution(
        rng.normal(size=(2, 3, 3, 3)), rng.normal(size=2), one.out_shape, (2, 2), (1, 1, 1, 1)
    )
    last = Affine(rng.normal(size=(3, two.out_size)), np.zeros(3), two.out_shape, (3,))
    return Network((one, Relu(one.out_shape), two, Relu(two.out_shape), last), (1, 5, 5))


@pytest.mark.parametrize(("text", "clip"), mostly_slow(PERTURBATIONS, 3))
def test_refined_windows_hold_and_are_tighter(
    text: str, clip: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when only a tile fits into memory at a time."""
    rng = np.random.default_rng([55, PERTURBATIONS.index((text, clip))])
    network = padded_network(rng)
    monkeypatch.setattr(devices, "_CPU_BYTES", int(rng.choice([1, 2**30])))
    for piece in pieces_of(text, clip, Domain((1, 5, 5))):
        bounds = quick_bounds(network, piece)
        before = bounds.hexagons[1]
        refine(bounds, 1, CPU, Steps(40, 0.02, 0.02))
        after = bounds.hexagons[1]
        assert (after.upper <= before.upper).all()
        assert (after.gap_lower >= before.gap_lower).all()
        require_held(network, bounds, rng)


@pytest.mark.parametrize("text", ["linf(0.3)", "occlusion(1,1,3)", "brightness([0,0.2])"])
@pytest.mark.parametrize("in_one_call", [True, False])
def test_windows_on_a_device_have_the_bounds_that_they_have_without(
    text: str, in_one_call: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wide convolutions have more corners than are computed in one call."""
    if not in_one_call:
        monkeypatch.setattr("vhagar.relaxation.corners._FEW", 0)
    network = padded_network(np.random.default_rng(60))
    for piece in pieces_of(text, False, Domain((1, 5, 5))):
        require_same(device_bounds(network, piece, CPU), quick_bounds(network, piece))


@pytest.mark.parametrize("text", ["linf(0.3)", "occlusion(1,1,3)", "brightness([0,0.2])"])
def test_windows_at_the_border_are_evaluated_as_they_are_proven(text: str) -> None:
    """Float32 and float64 agree on every tile: what lies beyond the image counts for nothing."""
    network = padded_network(np.random.default_rng(58))
    (piece,) = pieces_of(text, False, Domain((1, 5, 5)))[:1]
    bounds = quick_bounds(network, piece)
    local = local_network(bounds.stages[:2])
    assert local is not None
    tiles = list(local.places())
    rows = local.output.size
    unit = torch.eye(rows)
    objective = FixedObjective(unit.repeat(len(tiles), 1), -0.5 * unit.repeat(len(tiles), 1))
    dual = local_dual(bounds, local, tiles, torch_stages(local.stages, CPU), CPU)
    frees = dual.begin(objective)
    best = dual.run(objective, frees, Steps(15, 0.05, 0.1)).reshape(len(tiles), rows)
    for number, place in enumerate(tiles):
        own = [free.kept.reshape(6, len(tiles), rows, -1)[:, number].numpy() for free in frees]
        choose = LayerMultipliers(tuple(own)).choice()
        start = unit.double().numpy(), -0.5 * unit.double().numpy()
        proven = local.at(place).bound(bounds.corners, piece, start, bounds.input_magnitude, choose)
        np.testing.assert_allclose(best[number], proven, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("build", ["plain", "convolution", "narrow and deep"])
def test_bounds_without_time_are_still_bounds(build: str) -> None:
    rng = np.random.default_rng(59)
    network = network_of(build, rng)
    for piece in pieces_of("brightness([0,0.3])", True, domain_of(build)):
        for bounds in (
            quick_bounds(network, piece, should_stop=lambda: True),
            device_bounds(network, piece, CPU, should_stop=lambda: True),
        ):
            require_held(network, bounds, rng)


def test_refining_gains_something() -> None:
    network = padded_network(np.random.default_rng(56))
    (piece,) = pieces_of("occlusion(1,1,2)", True, Domain((1, 5, 5)))
    bounds = quick_bounds(network, piece)
    before = bounds.hexagons[1]
    refine(bounds, 1, CPU, Steps(60, 0.03, 0.01))
    width = (bounds.hexagons[1].gap_upper - bounds.hexagons[1].gap_lower).sum()
    assert width < 0.99 * (before.gap_upper - before.gap_lower).sum()


def test_a_run_that_is_stopped_keeps_what_it_has() -> None:
    network = padded_network(np.random.default_rng(57))
    (piece,) = pieces_of("linf(0.1)", True, Domain((1, 5, 5)))
    bounds = quick_bounds(network, piece)
    before = bounds.hexagons[1]
    refine(bounds, 1, CPU, Steps(10**9), should_stop=lambda: True)
    np.testing.assert_array_equal(bounds.hexagons[1].upper, before.upper)
    a = torch.zeros((1, 3))
    a[0, 0] = 1.0
    dual = whole_dual(bounds, 2, torch_stages(bounds.stages, CPU), CPU)
    objective = FixedObjective(a, -a)
    frees = dual.begin(objective)
    value = dual.run(objective, frees, Steps(10**9), should_stop=lambda: True)
    assert torch.equal(value, values(dual, objective, [free.kept for free in frees]))


def test_out_of_memory_the_parts_shrink() -> None:
    done: list[tuple[int, int]] = []

    def work(begin: int, end: int) -> None:
        if end - begin > 3:
            raise torch.OutOfMemoryError
        done.append((begin, end))

    devices.in_parts(17, 16, work)
    assert (done[0][0], done[-1][1]) == (0, 17)
    assert [begin for begin, _ in done[1:]] == [end for _, end in done[:-1]]

    def never(begin: int, end: int) -> None:
        raise torch.OutOfMemoryError

    with pytest.raises(torch.OutOfMemoryError):
        devices.in_parts(4, 4, never)
