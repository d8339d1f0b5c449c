"""Options of the test run, and what tests of several folders share."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from collections.abc import Callable, Generator
from typing import Any

# The matrices here are tiny: threads would wait for each other, at twice the time and more. This is
# said before numpy and PyTorch are imported; processes that tests start inherit it.
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

    parser.addoption(
        "--every-case",
        action="store_true",
        help="all cases of every test by default; otherwise of many a share runs",
    )


# Cases of one test that run by default: a second one tells a fault of the code from one of a case,
# and a third took the whole run half a minute on two cores.
_SHARE = 2


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a test with many cases some run by default; the others belong to the campaign.

    Which, a hash of their names decides: every k-th would meet the same value of a parameter again.
    """
    if config.getoption("--every-case"):
        return
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if not any(item.get_closest_marker(mark) for mark in ("slow", "campaign")):
            cases.setdefault(item.nodeid.split("[", maxsplit=1)[0], []).append(item)
    for many in cases.values():
        many.sort(key=lambda item: (zlib.crc32(item.nodeid.encode()), item.nodeid))
        for item in many[_SHARE:]:
            item.add_marker(pytest.mark.campaign)


_interpreters_started: list[str] = []


def _notice_interpreters(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "subprocess.Popen" and sys.executable in map(str, arguments[1]):
        _interpreters_started.append(" ".join(map(str, arguments[1]))[:100])


sys.addaudithook(_notice_interpreters)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Fail a test that starts an interpreter and does not say so."""
    _interpreters_started.clear()
    yield
    if _interpreters_started and item.get_closest_marker("subprocess") is None:
        pytest.fail(f"lacks the marker `subprocess`: it started {_interpreters_started[0]}")


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
