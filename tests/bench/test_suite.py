"""The benchmark suite runs, saves as it goes, and goes on where it was stopped."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vhagar
from vhagar import Network, write_onnx
from vhagar.network import Affine, Relu

SUITE = Path(__file__).parents[2] / "bench" / "suite.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network `relu(x1 - x2)` against a constant 1/4, and two questions about it."""
    folder = tmp_path_factory.mktemp("suite")
    network = Network(
        (
            Affine(np.array([[1.0, -1.0]]), np.zeros(1), (2,), (1,)),
            Relu((1,)),
            Affine(np.array([[1.0], [0.0]]), np.array([0.0, 0.25]), (1,), (2,)),
        ),
        (2,),
    )
    write_onnx(network, folder / "tiny.onnx")
    (folder / "suite.csv").write_text(
        "network,perturbation,clip,source,target\n"
        'tiny,"linf(0.125)",true,0,1\n'
        'tiny,"brightness([0,0.1])",false,0,1\n'
    )
    return folder


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    paths = [str(Path(vhagar.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    command = [sys.executable, str(SUITE), str(folder / "suite.csv"), str(folder)]
    return subprocess.run(
        [*command, "--timeout", "30", "--workers", "1", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        check=False,
    )


def rows(path: Path) -> list[dict[str, Any]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
@pytest.mark.subprocess
def test_both_engines_and_a_second_call_that_has_nothing_to_do(folder: Path) -> None:
    out = folder / "both.csv"
    first = run(folder, "--engines", "bab,mip", "--out", str(out))
    assert first.returncode == 0, first.stderr
    found = rows(out)
    assert [(row["number"], row["engine"]) for row in found] == [
        ("1", "bab"),
        ("1", "mip"),
        ("2", "bab"),
        ("2", "mip"),
    ]
    for row in found[:2]:
        assert float(row["lower"]) <= 0.25 <= float(row["upper"])
    for row in found[2:]:
        assert float(row["upper"]) <= 1e-5  # brightness cancels out
    for row in found:
        assert row["closed"] == "True"
        # The maximal confidence is 3/4.
        assert 0 <= float(row["gap_percent"]) <= 0.2
        assert float(row["seconds_to_close"]) <= float(row["seconds"])
        assert 0 < float(row["gap_integral"]) <= 100 * 10 * float(row["seconds"])
    # Nothing is computed again: not even the times change.
    again = run(folder, "--engines", "bab,mip", "--out", str(out))
    assert again.returncode == 0
    assert rows(out) == found
    assert again.stdout.splitlines() == first.stdout.splitlines()[1:]


@pytest.mark.subprocess
def test_the_table(folder: Path) -> None:
    printed = run(folder, "--engines", "bab", "--out", str(folder / "both.csv")).stdout
    lines = [line for line in printed.splitlines() if line.startswith("|")]
    assert lines[0].startswith("| # | instance | lower (bab) | upper (bab) | gap % (bab) |")
    assert lines[2].startswith("| 1 | tiny linf(0.125) 0->1 |")
    assert lines[3].startswith("| 2 | tiny brightness([0,0.1]) unclipped 0->1 |")
    assert lines[-1].startswith("| bab | 2 of 2 |")


@pytest.mark.subprocess
@pytest.mark.parametrize("only", ["2", "brightness"])
def test_only_some_into_json(folder: Path, only: str) -> None:
    out = folder / f"only_{only}.json"
    done = run(folder, "--only", only, "--out", str(out))
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(out.read_text())
    assert (row["number"], row["network"], row["clip"]) == (2, "tiny", False)
    confidence = json.loads((folder / "max_confidence.json").read_text())["tiny 0"]
    assert confidence["lower"] <= 0.75 <= confidence["upper"]
    assert run(folder, "--only", only, "--out", str(out)).returncode == 0
    assert json.loads(out.read_text()) == [row]


@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--engines", "bab,guess"], "unknown engine 'guess'"),
        (["--only", "conv9"], "no instance is left"),
        (["--out", "results.txt"], "must end in .csv or .json"),
    ],
)
def test_mistakes_are_named(folder: Path, arguments: list[str], complaint: str) -> None:
    refused = run(folder, *arguments)
    assert refused.returncode == 2
    assert complaint in refused.stderr


@pytest.mark.slow
@pytest.mark.subprocess
def test_the_attack_without_one_of_its_parts(folder: Path) -> None:
    done = run(folder, "--engines", "attack-without-polish", "--only", "1", "--timeout", "3")
    assert done.returncode == 0, done.stderr
    assert "| attack-without-polish |" in done.stdout
