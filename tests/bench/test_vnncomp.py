"""The competition's scripts: their arguments, and what they leave in the results file."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from vhagar.network import Affine, Network, Relu, write_onnx

SCRIPTS = Path(__file__).parents[2] / "bench" / "vnncomp"

pytestmark = [
    pytest.mark.subprocess,
    pytest.mark.skipif(shutil.which("timeout") is None, reason="no `timeout` of coreutils"),
]

# The model's output is the sum of two inputs in [0, 1].
SPECIFICATION = """
(declare-const X_0 Real) (declare-const X_1 Real) (declare-const Y_0 Real) (declare-const Y_1 Real)
(assert (>= X_0 0)) (assert (<= X_0 1)) (assert (>= X_1 0)) (assert (<= X_1 1))
(assert (>= Y_0 {limit}))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    first = Affine(np.eye(2), np.zeros(2), (2,), (2,))
    last = Affine(np.array([[1.0, 1.0], [0.0, 0.0]]), np.zeros(2), (2,), (2,))
    write_onnx(Network((first, Relu((2,)), last), (2,)), tmp_path / "sum.onnx")
    (tmp_path / "reached.vnnlib").write_text(SPECIFICATION.format(limit=1.5))
    (tmp_path / "beyond.vnnlib").write_text(SPECIFICATION.format(limit=2.5))
    return tmp_path


def _run(folder: Path, script: str, *words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        [str(SCRIPTS / script), *words],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("name", "answer"), [("reached", "sat"), ("beyond", "unsat")])
def test_the_answer_is_the_first_line(folder: Path, name: str, answer: str) -> None:
    words = ["v1", "test", "sum.onnx", f"{name}.vnnlib", "results", "20"]
    assert _run(folder, "run_instance.sh", *words).returncode == 0
    lines = (folder / "results").read_text().splitlines()
    assert lines[0] == answer
    assert (len(lines) > 1) == (answer == "sat")
    assert ("(X_0 " in "".join(lines[1:])) == (answer == "sat")


@pytest.mark.slow
def test_what_cannot_be_read_is_an_error(folder: Path) -> None:
    _run(folder, "run_instance.sh", "v1", "test", "lost.onnx", "beyond.vnnlib", "results", "20")
    assert (folder / "results").read_text() == "error\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["v1", "test", "sum.onnx", "beyond.vnnlib"], 0),
        (["v1", "test", "lost.onnx", "beyond.vnnlib"], 2),
        (["v1", "test", "sum.onnx", "lost.vnnlib"], 1),
        (["v2"], 2),
    ],
)
def test_preparation_says_what_cannot_be_read(folder: Path, words: list[str], code: int) -> None:
    done = _run(folder, "prepare_instance.sh", *words)
    assert done.returncode == code
    assert bool(done.stderr) == (code != 0)


@pytest.mark.slow
def test_a_whole_benchmark(folder: Path) -> None:
    rows = "sum.onnx,reached.vnnlib,20\nsum.onnx,beyond.vnnlib,20\n"
    (folder / "instances.csv").write_text(rows)
    assert _run(folder, "run_benchmark.sh", "instances.csv", "out.csv").returncode == 0
    found = [line.split(",")[:3] for line in (folder / "out.csv").read_text().splitlines()]
    assert found == [
        ["sum.onnx", "reached.vnnlib", "sat"],
        ["sum.onnx", "beyond.vnnlib", "unsat"],
    ]
