"""The engine for large networks, on problems small enough to know the answer."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from vhagar import Network, Problem, Progress, Status, verify
from vhagar.attack.concurrent import AttackSchedule
from vhagar.cli.main import main
from vhagar.errors import InvalidInput
from vhagar.network import Affine, Convolution, Relu, write_onnx
from vhagar.options import Options
from vhagar.runtime import devices
from vhagar.search.bounders import first_order, size
from vhagar.search.bounders.first_order import FirstOrder

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


@pytest.mark.slow
def test_the_default_engine_turns_to_it_by_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so, finds witnesses without linear programs, and beats interval arithmetic."""
    monkeypatch.setattr(size, "MOST_LP_NEURONS", 100)
    monkeypatch.setattr(first_order, "_SCHEDULE", AttackSchedule(share=0.5, least=2.0))

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
    options = {"engine": FirstOrder(), "device": "cpu", "workers": 2}
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
