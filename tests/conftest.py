"""Options of the test run, and what tests of several folders share."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

# One thread each: the workers of `pytest -n auto` have a core each. Before numpy is imported.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest

from vhagar import Network, Problem
from vhagar.network import Affine, Relu


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--oracle-cases",
        type=int,
        default=384,
        help="how many random problems every engine must get right (default: %(default)s)",
    )
    parser.addoption(
        "--kills",
        type=int,
        default=4,
        help="how many times a sweep is killed at a random moment (default: %(default)s)",
    )
    parser.addoption(
        "--soundness-share",
        type=float,
        default=1.0,
        help="how many times as many cases of the soundness campaign (default: %(default)s)",
    )


@pytest.fixture
def children_of() -> Callable[[int], set[int]]:
    """A function that lists the living children of a process."""

    def listed(parent: int) -> set[int]:
        table = subprocess.run(
            ["ps", "-A", "-o", "pid=,ppid=,stat=,args="], capture_output=True, text=True, check=True
        )
        rows = [line.split(maxsplit=3) for line in table.stdout.splitlines()]
        return {
            int(pid)
            for pid, its_parent, state, command in rows
            if int(its_parent) == parent and not state.startswith("Z") and "ps -A" not in command
        }

    return listed


@pytest.fixture
def hidden() -> Network:
    """`relu(x1 - x2)` against a constant 1/4, over two pixels: confidence 3/4 at most."""
    return Network(
        (
            Affine(np.array([[1.0, -1.0]]), np.zeros(1), (1, 1, 2), (1,)),
            Relu((1,)),
            Affine(np.array([[1.0], [0.0]]), np.array([0.0, 0.25]), (1,), (2,)),
        ),
        (1, 1, 2),
    )


@pytest.fixture
def problem(hidden: Network) -> Problem:
    """Both pixels may come 1/8 closer to each other: the optimum is 1/4."""
    return Problem(hidden, perturbation="linf(0.125)", source=0, targets=1)
