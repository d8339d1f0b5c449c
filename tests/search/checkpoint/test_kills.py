"""A search that is killed at random moments, by the system's own means, goes on each time."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

import vhagar
from vhagar import Problem, Result

from .conftest import small_problem

# The command line, with checkpoints in quick succession.
COMMAND = """
import sys
from vhagar.cli.main import main
from vhagar.search.checkpoint import keeper
keeper.PAUSES = keeper.Pauses(0.2, 0.2)
sys.exit(main(sys.argv[1:]))
"""
ROOT = Path(vhagar.__file__).parents[1]


def started(model: Path, *arguments: str) -> subprocess.Popen[str]:
    words = ("verify", str(model), "--perturbation", "linf(0.3)", "--source", "0", "--target", "1")
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, *words, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def reached(path: Path, problem: Problem) -> tuple[float, float]:
    """The interval of a checkpoint."""
    result = vhagar.verify(problem, resume=path, timeout=0.0, workers=0)
    return result.lower, result.upper


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.onnx"
    vhagar.write_onnx(small_problem().network, path)
    return path


@pytest.fixture(scope="module")
def problem(model: Path) -> Problem:
    return Problem(str(model), perturbation="linf(0.3)", source=0, targets=1)


@pytest.fixture(scope="module")
def reference(problem: Problem) -> Result:
    """What a search that nobody kills finds."""
    return vhagar.verify(problem, timeout=10.0, workers=0)


# Searches, and how often each of them is killed: a hundred times in all.
SEARCHES, KILLS = 10, 10


@pytest.mark.slow  # test_resuming.py kills in the same process
@pytest.mark.subprocess
@pytest.mark.parametrize("number", range(SEARCHES))
def test_killed_at_random_moments_a_search_goes_on(
    number: int, model: Path, problem: Problem, reference: Result, tmp_path: Path
) -> None:
    path, dice = tmp_path / "checkpoint", random.Random(number)
    lower, upper, resumed = 0.0, float("inf"), 0
    for k in range(KILLS):
        known = ("--resume", str(path)) if path.exists() else ("--checkpoint", str(path))
        resumed += known[0] == "--resume"
        process = started(model, *known, "--workers", str(1 + k % 2), "--gap", "0.001")
        if not path.exists():  # the first kill is after the first checkpoint
            while not path.exists() and process.poll() is None:
                time.sleep(0.05)
        time.sleep(dice.uniform(0.0, 2.0))
        process.kill()
        output, _ = process.communicate()
        assert "Traceback" not in output
        assert "error" not in output
        before = lower, upper
        lower, upper = reached(path, problem)
        assert before[0] <= lower <= reference.upper
        assert reference.lower <= upper <= before[1]
    assert resumed >= KILLS - 1
    answer = tmp_path / "answer.json"
    process = started(model, "--resume", str(path), "--timeout", "3", "--json", str(answer))
    output, _ = process.communicate()
    assert process.returncode == 0, output
    final = json.loads(answer.read_text())
    assert lower <= final["lower"] <= reference.upper
    assert reference.lower <= final["upper"] <= upper
