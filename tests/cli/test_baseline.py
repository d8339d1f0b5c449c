"""`vhagar baseline` from arguments to exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import vhagar
from vhagar import Network
from vhagar.baseline import solver
from vhagar.cli.main import main


@pytest.fixture
def question(hidden: Network, tmp_path: Path) -> list[str]:
    vhagar.write_onnx(hidden, tmp_path / "tiny.onnx")
    return [str(tmp_path / "tiny.onnx"), "--perturbation", "linf(0.125)", "--source", "0"]


def test_random(question: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.json"
    assert main(["baseline", "random", *question, "--samples", "2000", "--json", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "mean:     " in printed
    assert "(probability 95 %) over inputs classified 0 drawn at random" in printed
    read = json.loads(out.read_text())
    assert read["engine"] == "random"
    assert read["estimate"].keys() == {"mean", "half_width", "samples", "level"}
    assert 0 < read["lower"] <= 0.25
    assert read["kind"] == "interval"


def test_dataset(question: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "data.npz", np.array([[0.8, 0.4], [1.0, 0.0]]))
    given = ["--dataset", str(tmp_path / "data.npz")]
    assert main(["baseline", "dataset", *question, *given]) == 0
    assert "Counterexample at 0.15." in capsys.readouterr().out
    assert main(["baseline", "dataset", *question]) == 2
    assert "give it with --dataset" in capsys.readouterr().err


def test_marabou_that_is_not_there(
    question: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(solver.importlib, "import_module", missing)
    assert main(["baseline", "marabou", *question, "--timeout", "5"]) == 2
    assert "vhagar[marabou]" in capsys.readouterr().err


def test_a_baseline_must_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["baseline"]) == 2
    assert "marabou" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stopped:
        main(["baseline", "guess"])
    assert stopped.value.code == 2
    assert "marabou" in capsys.readouterr().err
