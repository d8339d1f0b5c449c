"""Every method of first bounds alone: its bounds hold, and a certificate proves them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from vhagar import Network, Problem, verify
from vhagar.network import onnx_bytes, read_onnx
from vhagar.relaxation.bounds_cache import BoundsCache
from vhagar.result import Run
from vhagar.runtime.deadline import NEVER, Deadline
from vhagar.search import search as search_module
from vhagar.search.bounders import first_bounds
from vhagar.search.bounders.first_bounds import BoundMethod, first_neuron_bounds, programs_fit
from vhagar.search.search import Search
from vhagar.search.worker import AnyTask, SearchWorker, SignTask
from vhagar_check import check

from ...marks import mostly_slow
from ...oracle.cases import Case
from ...oracle.exact import exact_optimum
from ...oracle.test_engines import require_sound
from ...relaxation.samples import network_of
from ..engines import CertifiedEngine

every_method = pytest.mark.parametrize("method", list(BoundMethod))


@dataclass(frozen=True)
class Only(CertifiedEngine):
    """First bounds by one method, and nothing else."""

    method: BoundMethod

    name = "first-bounds"
    uses = CertifiedEngine.uses | {"workers"}

    def search(self, run: Run, deadline: Deadline) -> bool:
        Search(run, attack=False).bound_roots(self.method, deadline)
        return False


@every_method
@pytest.mark.parametrize("number", mostly_slow(range(0, 384, 11), 12))
def test_the_bound_holds(number: int, method: BoundMethod) -> None:
    problem = Case(number).problem()
    result = verify(problem, engine=Only(method), workers=0)
    require_sound(problem, exact_optimum(problem), result)


@every_method
@pytest.mark.parametrize("number", mostly_slow(range(0, 96, 8), 3))
def test_the_bound_holds_on_branched_networks(number: int, method: BoundMethod) -> None:
    problem = Case(number, branched=True).problem()
    result = verify(problem, engine=Only(method), workers=0)
    require_sound(problem, exact_optimum(problem), result)


PERTURBATIONS = (
    "linf(0.05)",
    "occlusion(1,[1,2],2)",
    "brightness([0,0.1])",
    "contrast([0.9,1.1])",
    "patch([0,0.2],1,1,2)",
    "translation(0,1)",
    "rotation(10)",
)


@every_method
@pytest.mark.parametrize("text", mostly_slow(PERTURBATIONS, 3))
@pytest.mark.parametrize("build", ["plain", "convolution", "residual"])
def test_a_certificate_proves_it(
    build: str, text: str, method: BoundMethod, tmp_path: Path
) -> None:
    made = network_of(build, np.random.default_rng([5, len(build)]))
    (tmp_path / "model.onnx").write_bytes(onnx_bytes(made))
    problem = Problem(read_onnx(tmp_path / "model.onnx"), perturbation=text, source=0)
    proof = tmp_path / "proof.cert"
    result = verify(problem, engine=Only(method), workers=0, certificate=proof)
    assert result.certificate == proof
    assert check(proof, model=tmp_path / "model.onnx").upper == result.upper


@every_method
def test_a_method_improves_on_the_one_before(method: BoundMethod) -> None:
    """The tight side: interval arithmetic's bound is left behind on most small problems."""
    better = 0
    for seed in range(8):
        network = network_of("plain", np.random.default_rng([6, seed]))
        problem = Problem(network, perturbation="linf(0.02)", source=0)
        result = verify(problem, engine=Only(method), workers=0)
        better += result.upper < 0.8 * result.history[0].upper
    assert better >= 6


@pytest.fixture
def problem() -> Problem:
    network: Network = network_of("plain", np.random.default_rng(2))
    return Problem(network, perturbation="linf(0.05)", source=0)


def test_bounds_are_shared(problem: Problem) -> None:
    cache = BoundsCache()
    first = first_neuron_bounds(problem, 0, BoundMethod.QUICK, cache)
    assert first_neuron_bounds(problem, 0, BoundMethod.QUICK, cache) is first
    assert first_neuron_bounds(problem, 0, BoundMethod.DIFFERENCES, cache) is not first


def test_linear_programs_must_fit_many_times(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_bounds, "lp_seconds", lambda bounds: 1.0)
    assert programs_fit(problem, BoundsCache(), NEVER)
    assert programs_fit(problem, BoundsCache(), Deadline.after(1000))
    assert not programs_fit(problem, BoundsCache(), Deadline.after(5))


class _ThenCeiling(Only):
    def search(self, run: Run, deadline: Deadline) -> bool:
        search = Search(run, attack=False)
        search.bound_roots(self.method, deadline)
        search.bound_ceiling(BoundMethod.QUICK, deadline)
        return False


def test_the_ceiling_is_bounded_where_it_is_the_lower_one(problem: Problem) -> None:
    """A strong perturbation: the difference says less than the first copy alone."""
    strong = Problem(problem.network, perturbation="linf(1)", source=0)
    first = verify(strong, engine=Only(BoundMethod.DIFFERENCES), workers=0)
    result = verify(strong, engine=_ThenCeiling(BoundMethod.DIFFERENCES), workers=0)
    assert result.upper < first.upper
    require_sound(strong, exact_optimum(strong), result)


def pieces_bounded(monkeypatch: pytest.MonkeyPatch, workers: int) -> list[int]:
    """The pieces of a problem with four of them whose roots the second method bounds."""
    roots: list[int] = []
    work = Search._work

    def noted(search: Search, worker: SearchWorker, task: AnyTask, deadline: Deadline) -> None:
        if isinstance(task, SignTask):
            roots.append(task.nodes[0].region.piece_index)
        work(search, worker, task, deadline)

    monkeypatch.setattr(Search, "_work", noted)
    network = network_of("convolution", np.random.default_rng(1))
    many = Problem(network, perturbation="occlusion([1,2],[1,2],1)", source=0)
    assert len(many.pieces) == 4
    verify(many, engine=Only(BoundMethod.QUICK), workers=workers)
    return roots


@pytest.mark.parametrize(("seconds", "pieces"), [(0.0, 1), (600.0, 4)])
def test_a_method_is_for_all_pieces_or_left_to_the_search(
    seconds: float, pieces: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is the largest bound of all pieces, so better bounds of some change nothing."""
    monkeypatch.setattr(search_module, "_MOST_ROOT_SECONDS", seconds)
    monkeypatch.setattr(search_module, "_ROOT_SECONDS", 600.0)
    assert pieces_bounded(monkeypatch, workers=2) == list(range(pieces))


@pytest.mark.parametrize(("neurons", "pieces"), [(1, 1), (10**9, 4)])
def test_in_one_process_no_clock_says_how_far_a_method_goes(
    neurons: int, pieces: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise results would not repeat."""
    monkeypatch.setattr(search_module, "_MOST_ROOT_SECONDS", 0.0)
    monkeypatch.setattr(search_module, "_ROOT_SECONDS", 0.0)
    monkeypatch.setattr(search_module, "_ROOT_NEURONS", neurons)
    assert pieces_bounded(monkeypatch, workers=0) == list(range(pieces))
