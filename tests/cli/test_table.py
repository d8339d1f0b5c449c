"""A table, and a domain with every kind of condition, in all commands that take them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from vhagar.cli.main import main
from vhagar.network import Affine, Network, Relu, read_onnx, write_onnx
from vhagar.perturbation.domain.file import read_domain

NAMES = ("age", "blood_a", "blood_b", "blood_0", "first", "last", "ward", "dose")
SIZE = len(NAMES)
DOMAIN = f"""\
range = [0, 10]
lower = 0
upper = [9, 1, 1, 1, 4, 5, 2, 6]
features = {json.dumps(NAMES)}
classes = ["ill", "well", "gone"]
integer = ["age"]
one_hot = [["blood_a", "blood_b", "blood_0"]]
ordered = [["first", "last"]]
fixed = {{ward = 1}}
[[rows]]
coefficients = {{first = 1.0, last = 1.0}}
at_most = 8
[[rows]]
coefficients = {{first = 1.0, dose = 1.0}}
equal = 4
[zonotope]
mean = "all.npz:mean"
components = "all.npz:components"
ranges = 2.0
residual = 8.0
"""
ASKED = ["--perturbation", "features([first,last,age],[0.5,0.5,1])", "--domain", "all.toml"]
CLASSES = ["--source", "ill", "--target", "well,gone"]


def _network() -> Network:
    rng = np.random.default_rng(2)
    first = Affine(rng.normal(size=(6, SIZE)) / 2, rng.normal(size=6), (SIZE,), (6,))
    last = Affine(rng.normal(size=(3, 6)), rng.normal(size=3) / 3, (6,), (3,))
    return Network((first, Relu((6,)), last), (SIZE,))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model, its domain, and 30 rows inside, with the columns in another order."""
    monkeypatch.chdir(tmp_path)
    write_onnx(_network(), tmp_path / "model.onnx")
    (tmp_path / "all.toml").write_text(DOMAIN)
    rng = np.random.default_rng(0)
    moved = rng.normal(size=(2, SIZE)) * np.isin(np.arange(SIZE), [4, 5, 7])
    np.savez(tmp_path / "all.npz", mean=[4, 0.3, 0.3, 0.4, 1.5, 2.5, 1, 2], components=moved)
    order, lines = ("outcome", *reversed(NAMES)), []
    for _ in range(30):
        first, last = sorted((rng.integers(0, 16, 2) / 4).tolist())
        blood = np.eye(3, dtype=int)[rng.integers(3)].tolist()
        row = [int(rng.integers(0, 10)), *blood, first, last, 1, 4 - first]
        scores = read_onnx(tmp_path / "model.onnx").forward(np.array([row], dtype=np.float64))
        lines.append([("ill", "well", "gone")[int(scores.argmax())], *reversed(row)])
    text = "\n".join(",".join(map(str, line)) for line in (order, *lines))
    (tmp_path / "rows.csv").write_text(text + "\n")
    return tmp_path


def _inside(folder: Path, x: Sequence[float]) -> bool:
    domain = read_domain(folder / "all.toml", (SIZE,))
    return bool(domain.contains(np.array(x, dtype=np.float64).reshape(1, -1))[0])


def test_accuracy_on_a_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "model.onnx", "--domain", "all.toml", "--dataset", "rows.csv"]) == 0
    assert "30 inputs: accuracy 100.00 %" in capsys.readouterr().out


def test_a_bound_with_its_proof_and_coverage(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--dataset", "rows.csv", "--timeout", "2", "-w", "1", "--json", "out.json"]
    words = ["verify", "model.onnx", *ASKED, *CLASSES, *options, "--certificate", "p.cert"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "of the domain all" in said
    assert "lie outside of the domain" not in said
    found = json.loads(Path("out.json").read_text())
    assert found["witness"] is None or _inside(folder, found["witness"]["x"])
    assert main(["check", "p.cert", "--model", "model.onnx"]) == 0


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["attack", "model.onnx", *ASKED, *CLASSES], marks=pytest.mark.subprocess),
        ["confidence", "model.onnx", "--domain", "all.toml", "--class", "ill", "-w", "1"],
        ["baseline", "random", "model.onnx", *ASKED, *CLASSES],
        ["baseline", "dataset", "model.onnx", *ASKED, *CLASSES, "--dataset", "rows.csv"],
    ],
    ids=["attack", "confidence", "random", "dataset"],
)
def test_other_commands(folder: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--timeout", "1", "--json", "out.json"]) == 0
    found = json.loads(Path("out.json").read_text())
    assert found["witness"] is None or _inside(folder, found["witness"]["x"])
    assert "classified 0" not in capsys.readouterr().out


def test_one_row_of_a_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["local", "model.onnx", "--image", "rows.csv", "--index", "4", *ASKED]
    assert main([*words, "--timeout", "20"]) == 0
    lines = (folder / "rows.csv").read_text().splitlines()
    (folder / "rows.csv").write_text("\n".join([lines[0], "ill,3.5,1,2,1,0,0,1,5"]))
    capsys.readouterr()
    assert main(["local", "model.onnx", "--image", "rows.csv", "--index", "0", *ASKED]) == 2
    assert "row 1 (first, dose) is 4.5, not 4" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.subprocess
def test_a_study_over_a_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--store", "s.db", "--timeout", "3", "--dataset", "rows.csv", *CLASSES]
    assert main(["sweep", "--network", "model.onnx", *ASKED, *options]) == 0
    said = capsys.readouterr().out
    assert "ill to gone" in said
    assert "inputs" in said
    assert "outside" not in said
    assert main(["report", "s.db", "-o", "page.html"]) == 0


def test_the_question_for_other_verifiers(folder: Path) -> None:
    words = ["export", "model.onnx", *ASKED, *CLASSES, "--delta", "1", "--vnnlib", "q.vnnlib"]
    assert main([*words, "--format", "2"]) == 0
    assert {path.name for path in folder.glob("q*")} == {"q.vnnlib", "q.onnx", "q_zonotope.onnx"}
    assert main(words) == 2


@pytest.mark.parametrize(
    ("column", "other", "message"),
    [
        ("dose", "doses", "it has no column dose; the domain has no feature doses"),
        ("outcome", "remark", ""),
        ("gone", "away", "the domain has no feature outcome"),
    ],
)
def test_columns_that_do_not_fit(
    folder: Path, column: str, other: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "rows.csv"
    path.write_text(path.read_text().replace(column, other))
    words = ["inspect", "model.onnx", "--domain", "all.toml", "--dataset", "rows.csv"]
    assert main(words) == (2 if message else 0)
    assert message in capsys.readouterr().err
