"""`--require` decides the exit code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vhagar
from vhagar import Network
from vhagar.cli.main import main
from vhagar.options import Options


@pytest.fixture
def asked(hidden: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A question whose answer is 1/4."""
    monkeypatch.setattr(Options, "worker_count", 1)
    vhagar.write_onnx(hidden, tmp_path / "model.onnx")
    question = ["--perturbation", "linf(0.125)", "--source", "0"]
    return ["verify", str(tmp_path / "model.onnx"), *question]


@pytest.mark.parametrize(
    ("requirements", "code"),
    [
        (["upper<=0.3", "closed"], 0),
        (["upper<=0.2"], 3),
        (["closed", "upper<=0.1", "upper<=0.3"], 3),
    ],
)
def test_what_is_decided(
    requirements: list[str], code: int, asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    options = [word for each in requirements for word in ("--require", each)]
    assert main([*asked, *options]) == code
    printed = capsys.readouterr().out
    assert printed.count("required:") == len(requirements)


def test_what_is_undecided(asked: list[str]) -> None:
    assert main([*asked, "--require", "closed", "--timeout", "0"]) == 4


def test_coverage(asked: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.array([[1.0, 0.0], [0.75, 0.0], [0.875, 0.5]]).reshape(-1, 1, 1, 2)
    np.savez(tmp_path / "x.npz", x=x)
    data = ["--dataset", str(tmp_path / "x.npz")]
    assert main([*asked, *data, "--require", "coverage>=0.6"]) == 0
    assert main([*asked, *data, "--require", "coverage>=0.9"]) == 3
    printed = capsys.readouterr().out
    assert "coverage: of 3 inputs classified 0, 2 (66.6 %) are proven robust" in printed
    assert (
        "required: coverage>=0.9: violated (2 of 3 are proven robust, 1 attacked with success)"
        in printed
    )


def test_a_quiet_run_says_what_was_asked_of_the_data(
    asked: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "x.npz", x=np.array([[1.0, 0.0]]).reshape(1, 1, 1, 2))
    data = ["--dataset", str(tmp_path / "x.npz"), "--require", "upper<=0.2", "-q"]
    assert main([*asked, *data]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["coverage:", "required:", "Proven:"]


@pytest.mark.parametrize(
    ("requirement", "complaint"),
    [("lower>=3", "not a requirement"), ("coverage>=0.5", "give it with --dataset")],
)
def test_a_wrong_requirement_is_refused_before_the_search(
    requirement: str, complaint: str, asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*asked, "--require", requirement]) == 2
    assert complaint in capsys.readouterr().err
