"""What all targets share is computed once, in processes or here, and holds for every piece."""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from vhagar import Network, Problem, verify
from vhagar.dependency import find_dependencies
from vhagar.errors import SolverUnavailable
from vhagar.network import Affine, Relu
from vhagar.runtime.processes import ProcessPool
from vhagar.search.mip import preparation_tasks
from vhagar.search.mip.encoding import PieceFacts
from vhagar.search.mip.engine import Mip
from vhagar.search.mip.options import MipOptions
from vhagar.search.mip.preparation import prepare
from vhagar.search.mip.preparation_tasks import (
    BoundNeuron,
    BoundsWorker,
    InProcessRunner,
    PoolRunner,
    RelatePiece,
)

from ...dependency.orders import orders_of
from ...scripted_pool import ScriptedPool

OPTIONS = MipOptions()


def deep_network(seed: int = 0, classes: int = 3) -> Network:
    rng = np.random.default_rng([8, seed])
    sizes = (6, 5, 4, classes)
    layers: list[Affine | Relu] = []
    shape: tuple[int, ...] = (1, 2, 3)
    for into, out in itertools.pairwise(sizes):
        weight = np.round(8 * rng.normal(size=(out, into))) / 8
        layers += [Affine(weight, np.round(8 * rng.normal(size=out)) / 8, shape, (out,))]
        layers += [Relu((out,))]
        shape = (out,)
    return Network(tuple(layers[:-1]), (1, 2, 3))


class Recorder(InProcessRunner):
    """Keeps what it is asked for."""

    def __init__(self, problem: Problem, options: MipOptions = OPTIONS) -> None:
        super().__init__(BoundsWorker(problem, options), lambda: False)
        self.asked: list[Any] = []

    def answers(self, tasks: Sequence[Any], deadline: float) -> Iterator[tuple[Any, Any]]:
        for task, answer in super().answers(tasks, deadline):
            self.asked.append(task)
            yield task, answer


def prepared(
    problem: Problem, options: MipOptions = OPTIONS
) -> tuple[Recorder, dict[Any, PieceFacts]]:
    pool = Recorder(problem, options)
    return pool, prepare(problem, options, pool, time.monotonic() + 100)


PERTURBED = (
    ("linf(0.2)", True),
    ("brightness([0,0.3])", False),
    ("contrast([0.5,0.75])", True),
    ("occlusion(1,[1,2],1)", True),
    ("translation([0,1],1)", True),
    ("rotation(180)", True),
)


@pytest.mark.parametrize(("text", "clip"), PERTURBED)
@pytest.mark.parametrize("seed", range(3))
def test_what_is_known_holds_for_every_pair(text: str, clip: bool, seed: int) -> None:
    network = deep_network(seed)
    problem = Problem(network, perturbation=text, source=0, clip=clip)
    options = MipOptions(formulation="lambda")
    _, known = prepared(problem, options)
    rng = np.random.default_rng(seed)
    for piece_index, piece in enumerate(problem.pieces):
        x = rng.choice([0.0, 0.125, 1.0], (500, 6))
        parameters = rng.uniform(*piece.parameter_bounds, (500, len(piece.parameter_bounds[0])))
        values, values_p = x, piece.apply(x, parameters)
        bounds, hexagons = known[piece_index].bounds, iter(known[piece_index].hexagons or ())
        assert bounds is not None
        for position, layer in enumerate(network.layers):
            if isinstance(layer, Relu):
                found = next(hexagons)
                gaps = values_p - found.ratio * values
                assert (values >= found.lower - 1e-9).all()
                assert (values_p <= found.upper_p + 1e-9).all()
                assert (gaps >= found.gap_lower - 1e-9).all()
                assert (gaps <= found.gap_upper + 1e-9).all()
            values, values_p = layer.forward(values), layer.forward(values_p)
            for copy, its_own in enumerate((values, values_p)):
                assert (its_own >= bounds[copy][position].lower - 1e-9).all()
                assert (its_own <= bounds[copy][position].upper + 1e-9).all()
        assert next(hexagons, None) is None


def test_bounds_are_computed_once_for_all_targets_and_pieces() -> None:
    pool, known = prepared(Problem(deep_network(), perturbation="occlusion(1,[1,3],1)", source=0))
    asked = [task for task in pool.asked if isinstance(task, BoundNeuron)]
    places = Counter((task.copy, task.position, task.neuron) for task in asked)
    assert asked
    assert max(places.values()) == 1
    assert {task.copy for task in asked} == {0}  # the images fill the input range together
    assert len({id(knowledge.bounds) for knowledge in known.values()}) == 1
    related = [task.piece_index for task in pool.asked if isinstance(task, RelatePiece)]
    assert related == [0, 1, 2]


def test_a_copy_with_other_inputs_is_asked_about_where_it_sees_them() -> None:
    # The second neuron of the second layer sees only pixels that nothing covers.
    first = Affine(np.array([[1.0, -1, 0, 0], [0, 0, 1, -1]]), np.zeros(2), (1, 1, 4), (2,))
    second = Affine(np.eye(2), np.array([-0.5, -0.5]), (2,), (2,))
    last = Affine(np.array([[1.0, -1], [-1, 1]]), np.zeros(2), (2,), (2,))
    network = Network((first, Relu((2,)), second, Relu((2,)), last), (1, 1, 4))
    pool, known = prepared(Problem(network, perturbation="occlusion(1,1,1)", source=0))
    asked = [(task.copy, task.neuron) for task in pool.asked if isinstance(task, BoundNeuron)]
    assert asked == [(0, 0), (0, 1)]  # black pixels make the first neuron's sign known
    bounds = known[0].bounds
    assert bounds is not None
    np.testing.assert_array_equal(bounds[0][2].upper[1:], bounds[1][2].upper[1:])
    assert bounds[1][2].upper[0] < 0


@pytest.mark.parametrize(
    ("without", "formulation", "wanted"),
    [
        ((), "bigm", (True, False)),
        (("dependencies",), "bigm", (False, False)),
        ((), "lambda", (True, True)),
        (("dependencies",), "lambda", (False, True)),
    ],
)
def test_only_what_is_wanted_is_computed(
    without: tuple[str, ...], formulation: str, wanted: tuple[bool, bool]
) -> None:
    problem = Problem(deep_network(), perturbation="linf(0.2)", source=0)
    options = MipOptions(formulation=formulation, without=without)
    pool, known = prepared(problem, options)
    assert (known[0].relations is not None, known[0].hexagons is not None) == wanted
    assert known[0].bounds is not None
    assert any(isinstance(task, RelatePiece) for task in pool.asked) == any(wanted)


def test_without_a_perturbation_there_is_one_copy() -> None:
    pool, known = prepared(Problem(deep_network(), perturbation=None, source=0))
    assert list(known) == [None]
    assert {type(task) for task in pool.asked} == {BoundNeuron}


def test_without_time_nothing_is_asked_but_everything_is_there() -> None:
    problem = Problem(deep_network(), perturbation="occlusion(1,[1,3],1)", source=0)
    pool = Recorder(problem)
    known = prepare(problem, OPTIONS, pool, time.monotonic() - 1)
    assert not any(isinstance(task, BoundNeuron) for task in pool.asked)
    assert all(task.seconds == 0 for task in pool.asked)
    assert [known[piece_index].relations is not None for piece_index in range(3)] == [True] * 3


def test_dependencies_are_found_once_for_all_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[object] = []

    def find(network: Network, piece: Any, *more: Any, **options: Any) -> Any:
        found.append(piece)
        return find_dependencies(network, piece, *more, **options)

    monkeypatch.setattr(preparation_tasks, "find_dependencies", find)
    problem = Problem(deep_network(classes=4), perturbation="occlusion(1,[1,2],1)", source=0)
    verify(problem, engine=Mip(), workers=0)
    assert len(problem.targets) == 3
    assert found == list(problem.pieces)


@contextmanager
def in_processes(problem: Problem, size: int = 2) -> Iterator[tuple[PoolRunner, list[Any]]]:
    """A runner, and what it hears of others, beginning with a word of somebody else."""
    others: list[Any] = []
    with ProcessPool() as pool:
        pool.start("somebody else", (int, "no job"))
        yield PoolRunner(problem, OPTIONS, size, pool, others.append, others.append), others


@pytest.mark.subprocess
def test_processes_find_the_same() -> None:
    problem = Problem(deep_network(), perturbation="occlusion(1,[1,3],1)", source=0)
    _, alone = prepared(problem)
    with in_processes(problem) as (runner, others):
        known = prepare(problem, OPTIONS, runner, time.monotonic() + 200)
    assert "somebody else" in [heard[0] for heard in others if heard is not None]
    for piece_index in range(3):
        ours, theirs = known[piece_index], alone[piece_index]
        assert ours.bounds is not None
        assert theirs.bounds is not None
        for one, two in zip(ours.bounds[0], theirs.bounds[0], strict=True):
            np.testing.assert_allclose(one.upper, two.upper, atol=1e-6)
        orders = [[orders_of(layer) for layer in part.relations or ()] for part in (ours, theirs)]
        assert orders[0] == orders[1]


@pytest.mark.subprocess
def test_whoever_is_stuck_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem(deep_network(), perturbation="linf(0.2)", source=0)
    monkeypatch.setattr(preparation_tasks, "_PATIENCE", 0.0)
    pool = ScriptedPool(lambda job, task: "an answer" if task.piece_index else None)
    runner = PoolRunner(problem, OPTIONS, 1, pool, lambda _: None, lambda _: None)
    stuck, quick = (RelatePiece(piece_index, (), 60.0) for piece_index in range(2))  # type: ignore[arg-type]
    assert list(runner.answers([stuck], time.monotonic() + 0.01)) == []
    assert len(pool.stopped) == 1
    assert list(runner.answers([quick], time.monotonic() + 60)) == [(quick, "an answer")]
    runner.stop()
    assert len(pool) == 0
    assert len(pool.stopped) == 2


@pytest.mark.subprocess
def test_a_worker_that_fails_is_noted_and_the_rest_goes_on() -> None:
    problem = Problem(deep_network(), perturbation="linf(0.2)", source=0)
    with in_processes(problem) as (runner, others):
        tasks = [RelatePiece(piece_index, _bounds(problem), 1.0) for piece_index in (99, 0)]
        found = list(runner.answers(tasks, time.monotonic() + 60))
    assert [task.piece_index for task, _ in found] == [0]
    assert any("IndexError" in str(note) for note in others)


def _bounds(problem: Problem) -> Any:
    _, known = prepared(problem)
    return known[0].bounds


@pytest.mark.subprocess
def test_a_solver_that_is_missing_ends_the_preparation() -> None:
    problem = Problem(deep_network(), perturbation="linf(0.2)", source=0)
    task = RelatePiece(0, _bounds(problem), 1.0)
    pool = ScriptedPool(lambda *_: preparation_tasks.SolverMissing("no licence"))
    runner = PoolRunner(problem, OPTIONS, 1, pool, lambda _: None, lambda _: None)
    with pytest.raises(SolverUnavailable, match="no licence"):
        list(runner.answers([task], math.inf))


@pytest.mark.subprocess
def test_a_solver_that_does_not_exist_ends_the_worker() -> None:
    problem = Problem(deep_network(), perturbation="linf(0.2)", source=0)
    options, notes = MipOptions(), list[str]()
    object.__setattr__(options, "solver", "abacus")
    with ProcessPool() as pool:
        runner = PoolRunner(problem, options, 1, pool, lambda _: None, notes.append)
        assert list(runner.answers([RelatePiece(0, _bounds(problem), 1.0)], math.inf)) == []
    assert "abacus" in notes[0]
