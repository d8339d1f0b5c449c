"""`--verdicts`: a table of all inputs of a data set, and the inputs that the answer names."""

from __future__ import annotations

import csv
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar import Network
from vhagar.cli.main import main
from vhagar.cli.verdicts import rounded_down
from vhagar.coverage import with_coverage
from vhagar.network import write_onnx
from vhagar.result import CoverageRows, Result
from vhagar.result.evidence import which_words

# Confidences 0.75, 0.25, 0.125 and 0.5 in class 0, and two of the other class.
INPUTS = np.array([[1.0, 0.0], [0.75, 0.25], [0.875, 0.5], [0.75, 0.0], [0.5, 0.5], [0.0, 1.0]])
LABELS = [0, 0, 1, 0, 1, 1]


@pytest.fixture
def folder(hidden: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model whose bound under linf(0.125) is 1/4, and labelled inputs."""
    monkeypatch.chdir(tmp_path)
    write_onnx(hidden, tmp_path / "model.onnx")
    np.savez("data.npz", x=INPUTS.reshape(-1, 1, 1, 2), y=LABELS)
    return tmp_path


def _asked(*more: str) -> list[str]:
    words = ["verify", "model.onnx", "--perturbation", "linf(0.125)", "--source", "0"]
    return [*words, "--target", "1", "--timeout", "20", "--workers", "1", *more]


def _rows() -> list[dict[str, str]]:
    with open("verdicts.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_every_input_has_its_verdict(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(_asked("--dataset", "data.npz", "--verdicts", "verdicts.csv")) == 0
    text = capsys.readouterr().out
    assert "wrote:    verdicts.csv" in text
    rows = _rows()
    assert [int(row["input"]) for row in rows] == list(range(6))
    assert [int(row["label"]) for row in rows] == LABELS
    assert [row["class"] for row in rows] == ["0", "0", "0", "0", "1", "1"]
    confidences = [float(row["confidence"]) for row in rows]
    exact = [0.75, 0.25, 0.125, 0.5, 0.25, 0.25]
    assert confidences == pytest.approx(exact, abs=1e-5)
    assert all(found <= known for found, known in zip(confidences, exact, strict=True))
    verdicts = [row["verdict"] for row in rows]
    assert (verdicts[0], verdicts[3]) == ("robust", "robust")
    assert (verdicts[2], *verdicts[4:]) == ("attacked", "other class", "other class")
    assert verdicts[1] in ("attacked", "undecided")  # its confidence is the bound itself
    named = "inputs 1, 2 (attacked)" if verdicts[1] == "attacked" else "input 2 (attacked)"
    assert named in text


def test_a_tie_has_no_certain_class(folder: Path) -> None:
    """Whatever class comes first in the scores, the question was not about another one."""
    np.savez("data.npz", x=np.array([[0.5, 0.25], [0.0, 1.0]]).reshape(-1, 1, 1, 2))
    assert main(_asked("--dataset", "data.npz", "--verdicts", "verdicts.csv")) == 0
    tied, other = _rows()
    assert (tied["confidence"], tied["verdict"]) == ("0", "no certain class")
    assert other["verdict"] == "other class"


def test_confidences_are_rounded_down() -> None:
    for confidence in (53.256448999999996, 0.75, 1e-9 / 3, 1e22, 0.0):
        assert Fraction(rounded_down(confidence)) <= Fraction(confidence)
        assert float(rounded_down(confidence)) == pytest.approx(confidence, rel=1e-6)
    assert rounded_down(53.256448999999996) == "53.25644"
    assert rounded_down(-1.0) == "0"
    assert rounded_down(-math.inf) == rounded_down(math.inf) == ""


def test_no_class_is_called_a_formula(folder: Path) -> None:
    (folder / "names.toml").write_text('classes = ["=1+1", "other"]\n')
    words = _asked("--dataset", "data.npz", "--domain", "names.toml", "--verdicts", "verdicts.csv")
    assert main(words) == 0
    assert _rows()[0]["class"] == "'=1+1"


def test_the_table_is_about_the_inputs_that_were_covered(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not about those that are in the file by the time it is written."""
    from vhagar.cli import session

    def covered(*given: Any) -> Result:
        np.savez("data.npz", x=INPUTS[:1].reshape(-1, 1, 1, 2))
        return with_coverage(*given)

    monkeypatch.setattr(session, "with_coverage", covered)
    assert main(_asked("--dataset", "data.npz", "--verdicts", "verdicts.csv")) == 0
    assert [row["label"] for row in _rows()] == list(map(str, LABELS))


def test_verdicts_are_a_csv_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(_asked("--dataset", "data.npz", "--verdicts", "verdicts.json")) == 2
    assert "end its name with .csv" in capsys.readouterr().err


def test_inputs_outside_of_the_domain_are_named(folder: Path) -> None:
    (folder / "left.toml").write_text("upper = [0.9, 1]\n")
    words = _asked("--dataset", "data.npz", "--domain", "left.toml", "--verdicts", "verdicts.csv")
    assert main(words) == 0
    lines = Path("verdicts.csv").read_text().splitlines()
    assert lines[1].endswith(",outside of the domain")
    assert lines[4].endswith(",robust")


def test_verdicts_need_a_data_set(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(_asked("--verdicts", "verdicts.csv")) == 2
    assert "--dataset" in capsys.readouterr().err
    assert not Path("verdicts.csv").exists()


def test_the_data_set_is_not_overwritten(folder: Path) -> None:
    Path("data.csv").write_text("left,right\n1,0\n")
    assert main(_asked("--dataset", "data.csv", "--verdicts", "data.csv")) == 2
    assert Path("data.csv").read_text() == "left,right\n1,0\n"


def test_a_few_inputs_are_named_and_many_are_not() -> None:
    few = CoverageRows((1, 2), (3,), (5, 8))
    assert which_words(few) == "input 3 (attacked); inputs 5, 8 (undecided); the first input is 0"
    many = CoverageRows((), tuple(range(11)), (), outside=(12,))
    assert which_words(many) == "input 12 (outside of the domain); the first input is 0"
    assert not which_words(CoverageRows((1, 2), (), ()))
