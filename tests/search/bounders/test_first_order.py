"""The engine for large networks, on problems small enough to know the answer."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from vhagar import Network, Problem, Progress, Status, verify
from vhagar.attack.concurrent import AttackSchedule
from vhagar.cli.main import main
from vhagar.errors import InvalidInput
from vhagar.network import Affine, Convolution, Relu, read_onnx, write_onnx
from vhagar.options import Options
from vhagar.relaxation.first_order.dual import Steps
from vhagar.result import BoundKind, Run
from vhagar.runtime import devices
from vhagar.search import rounds as searching
from vhagar.search.bounders import first_order, size
from vhagar.search.bounders.first_order import FirstOrderBounder
from vhagar.search.branch_and_bound import FirstOrder
from vhagar.search.node import Node, Region
from vhagar.search.node_selection import HERE
from vhagar.search.node_solver import solver_with
from vhagar.search.proofs import log as proof_log
from vhagar.search.search import Search
from vhagar_check import check
from vhagar_check.container import scan

from ...marks import mostly_slow
from ...oracle.cases import Case
from ...oracle.exact import exact_optimum
from ...oracle.test_engines import require_sound

ALONE = {"engine": FirstOrder(), "device": "cpu", "workers": 0}


@pytest.mark.parametrize("number", mostly_slow(range(0, 384, 17), 3))
def test_the_interval_holds_the_optimum(number: int) -> None:
    case = Case(number)
    problem = case.problem()
    result = verify(problem, timeout=1.5, **ALONE)
    require_sound(problem, exact_optimum(problem), result)
    assert result.device == "cpu"


def network(rng: np.random.Generator) -> Network:
    one = Convolution(rng.normal(size=(4, 1, 3, 3)), rng.normal(size=4), (1, 8, 8))
    two = Affine(rng.normal(size=(6, one.out_size)) / 12, np.zeros(6), one.out_shape, (6,))
    last = Affine(rng.normal(size=(3, 6)), np.zeros(3), (6,), (3,))
    return Network((one, Relu(one.out_shape), two, Relu((6,)), last), (1, 8, 8), "small")


def test_bounds_by_spectral_norms_are_called_so() -> None:
    problem = Problem(
        network(np.random.default_rng(3)), perturbation="linf(0.05)", source=0, targets=1
    )
    bounder = FirstOrderBounder(problem, lambda: torch.device("cpu"))
    solver = solver_with(bounder, problem, Options())
    first = solver.explore([Node(Region(1, 0), 1e6, 0)], 1)
    assert first.kind is BoundKind.SPECTRAL
    assert first.open[0].upper < 1e6
    again = solver.explore([replace(first.open[0], upper=0.0)], 1)
    assert again.kind is BoundKind.TWIN
    run = Run(problem, Options())
    search = Search(run, attack=False)
    search._frontiers.signs.take(HERE, 1)
    search._frontiers.put_back(HERE, first)
    assert run.interval.target_upper(1) == pytest.approx(first.open[0].upper)
    assert run.interval.kind(1) is BoundKind.SPECTRAL


@pytest.mark.slow
def test_the_default_engine_turns_to_it_by_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so, finds witnesses without linear programs, and beats interval arithmetic."""
    monkeypatch.setattr(size, "MOST_LP_NEURONS", 100)
    monkeypatch.setattr(searching, "_ATTACK", AttackSchedule(share=0.5, least=2.0))

    def no_simplex(*given: object) -> None:
        raise AssertionError("a linear program was built")

    monkeypatch.setattr("vhagar.solver.simplex.Simplex.__init__", no_simplex)
    problem = Problem(
        network(np.random.default_rng(3)), perturbation="occlusion(2,2,[2,3])", source=0
    )
    result = verify(problem, timeout=60, device="cpu", workers=0)
    assert any("too many for linear programs" in note for note in result.notes)
    assert result.lower > 0
    assert result.upper < 0.9 * result.history[0].upper
    assert result.status is Status.EXHAUSTED


@pytest.mark.slow
@pytest.mark.subprocess
def test_the_attack_runs_beside_it() -> None:
    """Both ends move, and Ctrl-C returns what is known by then."""

    def enough(progress: Progress) -> None:
        if progress.lower > 0 and progress.upper < progress.initial_upper:
            raise KeyboardInterrupt

    problem = Problem(
        network(np.random.default_rng(3)), perturbation="linf(0.2)", source=0, targets=1
    )
    options = {"engine": FirstOrder(), "device": "cpu"}
    result = verify(problem, timeout=120, **options, on_progress=enough)
    assert 0 < result.lower < result.upper < result.history[0].upper
    assert result.status is Status.INTERRUPTED


def test_a_missing_gpu_is_an_error_with_a_way_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(devices, "has_cuda", lambda: False)
    path = tmp_path / "small.onnx"
    write_onnx(network(np.random.default_rng(3)), path)
    arguments = ["verify", str(path), "--perturbation", "linf(0.1)", "--source", "0"]
    assert main([*arguments, "--device", "cuda"]) == 2
    assert "--device cpu" in capsys.readouterr().err
    with pytest.raises(InvalidInput, match="auto, cpu, cuda"):
        Options(device="tpu")
    assert devices.torch_device("auto").type == "cpu"


def test_without_a_gpu_triton_is_never_imported() -> None:
    problem = Problem(
        network(np.random.default_rng(3)), perturbation="linf(0.2)", source=0, targets=1
    )
    verify(problem, timeout=1, **ALONE)
    assert "vhagar.relaxation.first_order.kernels" not in sys.modules


def deeper(rng: np.random.Generator) -> Network:
    """Two convolutions, the second with padding, and two dense layers."""

    def draw(*size: int) -> np.ndarray:
        return rng.normal(size=size).astype(np.float32).astype(np.float64)

    one = Convolution(draw(3, 1, 3, 3), draw(3), (1, 7, 7))
    two = Convolution(draw(4, 3, 2, 2) / 2, draw(4), one.out_shape, (2, 2), (1, 1, 0, 0))
    three = Affine(draw(6, two.out_size) / 4, draw(6), two.out_shape, (6,))
    last = Affine(draw(3, 6), draw(3), (6,), (3,))
    layers = [one, Relu(one.out_shape), two, Relu(two.out_shape), three, Relu((6,)), last]
    return Network(tuple(layers), (1, 7, 7), "deeper")


THOROUGH = (
    first_order.Plan(None, None, Steps(5, 0.01, 0.05)),
    first_order.Plan(Steps(10, 0.02, 0.05), Steps(10, 0.02, 0.02), Steps(40, 0.02, 0.01)),
)


@pytest.mark.parametrize(
    "text", mostly_slow(["linf(0.1)", "occlusion([2,3],2,3)", "contrast([0.8,1.2])"], 3)
)
@pytest.mark.parametrize("inside", [2**27, 0])
def test_what_first_order_steps_find_is_proved(
    text: str, inside: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bounds of roots and of the ceiling, with refined layers: in windows, and of whole layers."""
    monkeypatch.setattr(first_order, "_CPU_PLANS", THOROUGH)
    monkeypatch.setattr(proof_log, "_MOST_INSIDE", inside)
    model, path = tmp_path / "model.onnx", tmp_path / "proof.cert"
    write_onnx(deeper(np.random.default_rng(5)), model)
    problem = Problem(read_onnx(model), perturbation=text, source=0, clip=False)
    settings = dict(ALONE, engine=FirstOrder(attack=False))
    without = verify(problem, **settings)
    result = verify(problem, certificate=path, **settings)
    assert result.nodes == without.nodes
    assert without.upper <= result.upper <= without.upper + 3e-9 * without.history[0].upper
    verdict = check(path, model=model)
    assert (verdict.lower, verdict.upper) == (result.lower, result.upper)
    assert verdict.upper < 0.9 * without.history[0].upper
    tags = [block.tag for block in scan(path)]
    assert ("REFN" in tags) == (inside == 0)


@pytest.mark.slow
def test_the_default_engine_proves_what_it_says_of_large_networks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(size, "MOST_LP_NEURONS", 100)
    monkeypatch.setattr(searching, "_ATTACK", AttackSchedule(share=0.5, least=2.0))
    model, path = tmp_path / "model.onnx", tmp_path / "proof.cert"
    write_onnx(deeper(np.random.default_rng(6)), model)
    problem = Problem(read_onnx(model), perturbation="linf(0.1)", source=0)
    result = verify(problem, device="cpu", workers=0, certificate=path)
    assert any("too many for linear programs" in note for note in result.notes)
    verdict = check(path, model=model)
    assert (verdict.lower, verdict.upper) == (result.lower, result.upper)
    assert result.lower > 0


def test_without_time_there_is_a_proof_of_what_is_known(tmp_path: Path) -> None:
    model, path = tmp_path / "model.onnx", tmp_path / "proof.cert"
    write_onnx(deeper(np.random.default_rng(7)), model)
    problem = Problem(read_onnx(model), perturbation="linf(0.1)", source=0)
    for timeout in (0.0, 0.2):
        result = verify(problem, timeout=timeout, certificate=path, **ALONE)
        assert check(path, model=model).upper == result.upper
