"""Nodes in batches: bounds that hold for any multipliers, no node lost, and something gained."""

from __future__ import annotations

import importlib.util
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from vhagar import Problem, Status, verify
from vhagar.options import Options
from vhagar.relaxation.layerwise import quick_bounds
from vhagar.relaxation.lp.region_model import RegionModel
from vhagar.relaxation.starts import score_size
from vhagar.relaxation.twin_dual import backward, paying
from vhagar.search import branch_and_bound
from vhagar.search.bounders.gpu import bounder as bounding
from vhagar.search.bounders.gpu import driver
from vhagar.search.bounders.gpu.bounder import Effort, GpuBounder
from vhagar.search.bounders.gpu.formula import BatchBound, coded
from vhagar.search.bounders.gpu.messages import Suitable
from vhagar.search.bounders.gpu.move import move
from vhagar.search.bounders.gpu.region import GpuRegion
from vhagar.search.bounders.gpu.steps import Iterates, PrimalDual
from vhagar.search.branch_and_bound import Bab
from vhagar.search.node import Closed, Node, Numbers, Region
from vhagar.search.node_heap import NodeHeap
from vhagar.search.node_solver import NodeSolver, solver_with
from vhagar.solver.lp_answer import LpStatus

from ...marks import mostly_slow
from ...networks import dense_network
from ...oracle.cases import KINDS, Case
from ...relaxation.lp.test_node_bound import duals_of
from ..nodes import (
    Found,
    agreeing,
    every_kind,
    everything,
    exactly,
    most_kinds_slow,
    with_one_reversed,
)

CPU = torch.device("cpu")
# What a solver's own tolerances may add to the optimum it reports, of the size of the scores.
SOLVER = 1e-6


def bound_of(found: Found, threads: int = 1) -> BatchBound:
    region_model = found.region_model
    return BatchBound(
        region_model, score_size(found.problem.network, region_model.piece), CPU, threads
    )


def suitable(kind: str) -> Iterator[Found]:
    """What may be explored in batches: no clipped pixels to decide."""
    for found in everything(kind):
        if Region(found.target, found.attacked.piece_index) in Suitable(found.problem):
            yield found


@every_kind
def test_bounds_hold_for_any_duals_and_are_those_of_one_node(kind: str) -> None:
    rng = np.random.default_rng([71, len(kind)])
    for found in suitable(kind):
        region_model, confidence = found.region_model, found.attacked.confidence
        formula = bound_of(found)
        for share in (0.0, 0.3, 1.0):
            decisions = agreeing(found, rng, share)
            answer = region_model.evaluate(decisions, math.inf).answer
            duals = np.stack(duals_of(found, rng, answer.duals))
            codes = torch.as_tensor(coded(region_model.bounds.offsets, [decisions] * len(duals)))
            uppers = formula.uppers(torch.as_tensor(duals), codes)
            allowed = region_model.cuts.allowed(decisions)
            assert allowed is not None
            for upper, one in zip(uppers, duals, strict=True):
                assert upper == math.inf or exactly(upper) >= confidence
                alone = region_model.formula.upper(one, allowed)
                assert upper == pytest.approx(alone, rel=1e-6, abs=1e-6)


@every_kind
def test_rounding_is_bounded_as_for_one_node(kind: str) -> None:
    """Step by step: the same constants, and the same bounds on their errors."""
    rng = np.random.default_rng([76, len(kind)])
    for found in list(suitable(kind))[:3]:
        region_model, formula = found.region_model, bound_of(found)
        bounds = region_model.bounds
        decisions = agreeing(found, rng, 0.3)
        allowed = region_model.cuts.allowed(decisions)
        assert allowed is not None
        duals = rng.normal(size=len(region_model.model.arrays.row_lower))
        codes = torch.as_tensor(coded(region_model.bounds.offsets, [decisions]))
        ours, weight = formula.backward(torch.as_tensor(duals)[None], codes)
        classes = region_model.formula._rows.classes(duals[None])
        choose = region_model.formula._rows.choice(duals[None])
        state = backward(
            bounds.stages,
            classes.start(found.problem.source, found.target),
            paying(bounds.corners, choose, allowed.layers),
            bounds.magnitudes(len(bounds.stages) - 1),
        )
        for name in ("a", "b", "constant"):
            np.testing.assert_allclose(getattr(ours, name), getattr(state, name), 1e-9, 1e-9)
        np.testing.assert_allclose(ours.error, state.error, rtol=1e-6)
        assert float(weight) == pytest.approx(float(classes.total()[0]))


def test_what_is_no_number_proves_nothing() -> None:
    for found in suitable("linf"):
        rows = len(found.region_model.model.arrays.row_lower)
        codes = torch.as_tensor(coded(found.region_model.bounds.offsets, [()] * 3))
        duals = -np.ones((3, rows))
        duals[0, 0], duals[1, -1], duals[2] = np.nan, np.inf, 0.0
        assert (bound_of(found).uppers(torch.as_tensor(duals), codes) == math.inf).all()


@most_kinds_slow
def test_each_node_has_its_own_decisions_and_contradictions_are_seen(kind: str) -> None:
    """Rows of one batch with different decisions, over several blocks and threads."""
    rng = np.random.default_rng([72, len(kind)])
    contradictions = 0
    for found in suitable(kind):
        region_model = found.region_model
        nodes = [agreeing(found, rng, share) for share in rng.random(150)]
        nodes += [with_one_reversed(decisions, rng) for decisions in nodes]
        duals = region_model.evaluate((), math.inf).answer.duals
        if duals is None:
            continue
        codes = torch.as_tensor(coded(region_model.bounds.offsets, nodes))
        many = torch.as_tensor(duals).repeat(len(nodes), 1)
        uppers = bound_of(found, threads=3).uppers(many, codes)
        for decisions, upper in zip(nodes, uppers, strict=True):
            allowed = region_model.cuts.allowed(decisions)
            if allowed is None:
                contradictions += 1
                assert upper == -math.inf
            else:
                alone = region_model.formula.upper(duals, allowed)
                assert upper == pytest.approx(alone, rel=1e-6, abs=1e-6)
        for upper in uppers[: len(nodes) // 2]:
            assert exactly(upper) >= found.attacked.confidence
    if kind == "linf":
        assert contradictions


@every_kind
def test_steps_come_close_to_the_linear_program_and_never_below(kind: str) -> None:
    rng = np.random.default_rng([73, len(kind)])
    for found in list(suitable(kind))[:2]:
        region_model = found.region_model
        size = score_size(found.problem.network, region_model.piece)
        region = GpuRegion(region_model, size, CPU, 1)
        start = region.start()
        if start is None:
            continue
        decisions = agreeing(found, rng, 0.4)
        codes = region.codes([decisions])
        _, mean = region.steps.run(start, region.upper(codes), 3000)
        (upper,) = region.formula.uppers(region.steps.duals(mean, torch.float64), codes)
        assert exactly(upper) >= found.attacked.confidence
        answer = region_model.evaluate(decisions, math.inf).answer
        if answer.status is LpStatus.OPTIMAL:
            assert upper >= answer.objective - SOLVER * size
            assert upper <= answer.objective + 0.02 * size


def bounder_of(found: Found, effort: Effort | None = None) -> GpuBounder:
    bounder = GpuBounder(found.problem, CPU, Numbers(1 << 40))
    if effort is not None:
        bounder._effort = effort
    return bounder


def solver_of(found: Found, effort: Effort | None = None) -> NodeSolver:
    return solver_with(bounder_of(found, effort), found.problem, Options())


def require_covered(found: Found, open_: list[Node], closed: Closed) -> None:
    """The attacked input is in an open node whose bound holds it, or in a closed one."""
    confidence = found.attacked.confidence
    signs = (found.attacked.first.entering, found.attacked.second.entering)
    holding = []
    for node in open_:
        values = [(signs[d.copy][d.layer][d.neuron], d.positive) for d in node.decisions]
        if all(value >= 0 if positive else value <= 0 for value, positive in values):
            holding.append(node.upper)
    held = any(exactly(upper) >= confidence for upper in holding)
    assert held or exactly(closed.uppers.get(found.target, 0.0)) >= confidence
    for upper in holding:
        # On a boundary it may be in several nodes; each one's bound must hold it.
        assert exactly(upper) >= confidence


@every_kind
@pytest.mark.parametrize("states", mostly_slow([5, 1, 4096], 3))
def test_no_input_is_lost(kind: str, states: int) -> None:
    """Also where the states of most nodes are gone by the time they are needed."""
    for found in list(suitable(kind))[:3]:
        solver = solver_of(found, Effort(4, 60, 60, states))
        root = Node(Region(found.target, found.attacked.piece_index), 1e6, 0)
        explored = solver.explore([root], 40)
        assert explored.nodes <= 40
        require_covered(found, explored.open, explored.closed)
        again = solver.explore(explored.open, 40)
        again.closed.merge(explored.closed)
        require_covered(found, again.open, again.closed)


def hard_case() -> Found:
    """The problem whose root leaves most of its bound to branching."""

    def left(found: Found) -> float:
        upper = found.region_model.evaluate((), math.inf).upper
        size = score_size(found.problem.network, found.region_model.piece)
        return (upper - float(found.attacked.confidence)) / size if math.isfinite(upper) else 0.0

    return max((found for kind in ("linf", "patch") for found in suitable(kind)), key=left)


@pytest.mark.slow
def test_branching_gains_something() -> None:
    network = dense_network(20, 15, 4, seed=53, single=False)
    problem = Problem(network, perturbation="linf(0.2)", source=0, targets=1)
    solver = solver_with(GpuBounder(problem, CPU, Numbers(1 << 40)), problem, Options())
    region_model = RegionModel(problem, quick_bounds(problem.network, problem.pieces[0]), 1)
    root = region_model.evaluate((), math.inf).upper
    explored = solver.explore([Node(Region(1, 0), root, 0)], 60)
    upper = max([node.upper for node in explored.open] + list(explored.closed.uppers.values()))
    assert explored.nodes == 60
    assert upper < 0.9 * root


def test_out_of_memory_the_batch_shrinks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same nodes with the same bounds, from smaller parts."""
    found = hard_case()
    root = Node(Region(found.target, found.attacked.piece_index), 1e6, 0)
    effort = Effort(8, 50, 50, 4096)
    largest: list[int] = []
    honest = PrimalDual.run

    def limited(
        self: PrimalDual, start: Iterates, upper: torch.Tensor, steps: int
    ) -> tuple[Iterates, torch.Tensor]:
        if len(start) > 4:
            raise torch.OutOfMemoryError
        largest.append(len(start))
        return honest(self, start, upper, steps)

    plain = solver_of(found, effort).explore([root], 20)
    monkeypatch.setattr(PrimalDual, "run", limited)
    small = solver_of(found, effort).explore([root], 20)
    assert max(largest) == 4
    assert small.nodes == plain.nodes
    require_covered(found, small.open, small.closed)


def test_states_take_what_memory_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    found = hard_case()
    honest, asked = bounding.States, []

    def limited(capacity: int, *arguments: object) -> bounding.States:
        asked.append(capacity)
        if capacity > 10:
            raise torch.OutOfMemoryError
        return honest(capacity, *arguments)

    monkeypatch.setattr(bounding, "States", limited)
    bounder_of(found).warm_up()
    assert asked[0] > 10 >= asked[-1] >= 1


def test_nodes_that_steps_do_not_come_close_to_stay_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = hard_case()
    node = Node(Region(found.target, found.attacked.piece_index), 1e6, 0)
    monkeypatch.setattr(bounding, "_FAR", -math.inf)
    explored = solver_of(found).explore([node], 10)
    assert explored.open == [node]
    assert not explored.closed.uppers


def test_arrivals_end_near_the_bounds_of_linear_programs() -> None:
    """As near as they say they are, whichever balance was taken."""
    rng = np.random.default_rng(75)
    for found in list(suitable("linf"))[:3]:
        region_model = found.region_model
        nodes = []
        for number, share in enumerate((0.1, 0.3, 0.5)):
            decisions = agreeing(found, rng, share)
            upper = region_model.evaluate(decisions, math.inf).upper
            region = Region(found.target, found.attacked.piece_index)
            nodes.append(Node(region, upper, number, decisions))
        steps = bounder_of(found)._steps_of(nodes[0].region)
        assert steps is not None
        _, codes, distance = steps.arrivals(nodes, 0.0)
        assert np.isfinite(distance).all()
        assert np.median(distance) <= 0.2
        expected = coded(region_model.bounds.offsets, [node.decisions for node in nodes])
        np.testing.assert_array_equal(codes, expected)


def test_nodes_that_cannot_be_taken_stay_as_they_are() -> None:
    clipped = next(
        found
        for kind in KINDS
        for found in everything(kind)
        if found.region_model.piece.pixel_corners() is not None
    )
    node = Node(Region(clipped.target, clipped.attacked.piece_index), 5.0, 0)
    assert node.region not in Suitable(clipped.problem)
    explored = solver_of(clipped).explore([node], 10)
    assert explored.open == [node]
    assert not explored.closed.uppers


def test_a_heap_gives_the_best_first() -> None:
    rng = np.random.default_rng(74)
    nodes = [
        Node(Region(int(rng.integers(2)), 0), float(rng.integers(9)), k % 50) for k in range(200)
    ]
    heap = NodeHeap(nodes)
    most = {t: max(n.upper for n in nodes if n.region.target == t) for t in (0, 1)}
    assert heap.uppers() == most
    best = heap.pop(50)
    assert [node.upper for node in best] == sorted((n.upper for n in nodes), reverse=True)[:50]
    assert len(heap) == 150 == len(heap.nodes())
    assert len(heap.pop(1000)) == 150
    assert heap.uppers() == {}


@pytest.mark.subprocess
@pytest.mark.parametrize("processes", [False, True])
def test_the_engine_closes_with_batches(processes: bool) -> None:
    case = next(c for c in map(Case, range(400)) if c.kind == "linf" and c.problem().targets)
    problem = case.problem()
    options = {
        "engine": Bab(attack=False, gpu=True),
        "device": "cpu",
        "workers": 2 if processes else 0,
    }
    result = verify(problem, timeout=60, **options)
    plain = verify(problem, timeout=60, engine=Bab(attack=False), workers=0)
    assert result.status is plain.status
    assert result.status in (Status.CLOSED, Status.ROBUST, Status.EXHAUSTED)
    assert result.upper == pytest.approx(plain.upper, rel=3e-3, abs=1e-6)
    assert not result.notes
    assert result.device == "cpu"


def test_who_is_behind_for_long_lags(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(driver.time, "monotonic", lambda: now)
    keeper = object.__new__(driver.GpuProcess)
    keeper._run = SimpleNamespace(interval=SimpleNamespace(lower=1.0))  # type: ignore[assignment]
    keeper._in_time = now
    for seconds, own, others, expected in (
        (5.0, 3.0, 2.0, False),
        (5.0, 3.0, 2.0, True),  # ten seconds behind by half of the gap
        (0.0, 3.0, 2.9, False),  # by little
        (7.0, 3.0, 2.0, False),
        (0.0, 3.0, 4.0, False),
    ):
        now += seconds
        assert keeper._lags(own, others) is expected


def test_batches_are_for_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branch_and_bound, "cuda_is_likely", lambda: True)
    assert Bab().uses_gpu(Options())
    monkeypatch.setattr(branch_and_bound, "cuda_is_likely", lambda: False)
    assert not Bab().uses_gpu(Options())
    assert not Bab().uses_gpu(Options(device="cpu"))
    assert Bab().uses_gpu(Options(device="cuda"))
    assert not Bab(gpu=False).uses_gpu(Options(device="cuda"))
    assert Bab(gpu=True).uses_gpu(Options())


def moved_plainly(
    x: torch.Tensor, slope: torch.Tensor, lower: torch.Tensor, upper: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    step = torch.minimum(torch.maximum(x - 0.3 * slope, lower), upper) - x
    return x + 1.8 * step, x + 2 * step


def check_move(given: object) -> None:
    generator = torch.Generator().manual_seed(0)
    x, slope, width = torch.randn((3, 5, 37), generator=generator)
    lower = torch.randn(37, generator=generator)
    upper = lower + width.abs()
    relaxed, ahead = moved_plainly(x, slope, lower, upper)
    assert callable(given)
    found = given(x, slope, lower, upper, 0.3, 1.8)
    torch.testing.assert_close(found, ahead)
    torch.testing.assert_close(x, relaxed)


def test_a_move_is_projected_and_relaxed() -> None:
    check_move(move)


@pytest.mark.slow
@pytest.mark.subprocess
@pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton comes with PyTorch for CUDA only"
)
def test_the_kernel_agrees_in_tritons_interpreter() -> None:
    """In a process of its own: the interpreter is chosen when the kernel is imported."""
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", "from tests.search.bounders.test_gpu import kernel; kernel()"],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def kernel() -> None:
    """What the process of the test above does."""
    from vhagar.search.bounders.gpu import kernels

    check_move(kernels.move)


def test_confidences_are_exact_numbers() -> None:
    """The comparisons above are between fractions: no rounding on the sound side."""
    assert all(isinstance(found.attacked.confidence, Fraction) for found in suitable("linf"))
