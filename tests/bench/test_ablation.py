"""The ablation runs its variants, saves as it goes, and writes a page with the paper's figures."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import vhagar
from vhagar import Network, write_onnx
from vhagar.network import Affine, Relu

ABLATION = Path(__file__).parents[2] / "bench" / "ablation.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network of the right name and input: is the middle of the image bright?"""
    folder = tmp_path_factory.mktemp("ablation")
    weight = np.zeros((2, 784))
    weight[0, 28 * 13 + 13] = weight[0, 28 * 14 + 14] = 1.0
    weight[1, 0] = 1.0
    last = np.zeros((4, 2))
    last[2, 0] = last[3, 1] = 1.0
    network = Network(
        (
            Affine(weight, np.zeros(2), (1, 28, 28), (2,)),
            Relu((2,)),
            Affine(last, np.array([-9.0, -9.0, 0.0, 0.25]), (2,), (4,)),
        ),
        (1, 28, 28),
    )
    write_onnx(network, folder / "mnist_conv1.onnx")
    return folder


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    paths = [str(Path(vhagar.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    out = ["--out", str(folder / "ablation.csv"), "--page", str(folder / "page.md")]
    return subprocess.run(
        [sys.executable, str(ABLATION), str(folder), "--workers", "1", *out, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.subprocess
def test_the_rows_asked_for_once(folder: Path) -> None:
    stopped = run(folder, "--rows", "4", "--timeout", "60", "--stop-after", "0")
    assert stopped.returncode == 130
    done = run(folder, "--rows", "4", "--timeout", "60")
    assert done.returncode == 0, done.stderr
    with (folder / "ablation.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    variants = ["MIP", "MIP + dependencies", "everything", "everything, lambda", "bab"]
    assert [row["variant"] for row in rows] == variants
    for row in rows:
        # Both bright, then black: 2 against 1/4, whatever the corner is.
        assert float(row["lower"]) <= 1.75 <= float(row["upper"])
        assert float(row["upper"]) <= 1.76
        assert float(row["first_lower"]) > 0
        assert float(row["first_seconds"]) <= float(row["seconds"])
        assert float(row["max_confidence"]) == pytest.approx(1.75, abs=1e-2)
    again = run(folder, "--rows", "4", "--timeout", "60")
    assert again.returncode == 0
    assert again.stdout == ""  # nothing was left to do
    page = (folder / "page.md").read_text()
    assert "## mnist_conv1 occlusion(14,14,3) 2->3" in page
    measured = [line for line in page.splitlines() if "| closed |" in line]
    (only,) = [line for line in measured if line.startswith("| MIP |")]
    assert only.endswith("| 10800 | 2400 | 4 | 24 | 3 |")  # as published


@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--rows", "4,9"], "there are rows 1, 2, 3"), (["--out", "a.txt"], "must end in .csv")],
)
def test_wrong_arguments(folder: Path, arguments: list[str], message: str) -> None:
    answer = run(folder, *arguments)
    assert answer.returncode == 2
    assert message in answer.stderr
