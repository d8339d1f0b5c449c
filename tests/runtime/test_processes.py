"""Worker processes: what they say arrives, each ends once, and none is left behind."""

from __future__ import annotations

import importlib
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import vhagar
from vhagar import Network, Problem, Status, verify
from vhagar.network import Affine
from vhagar.reduction import reduce_problem
from vhagar.runtime.pool import Finished
from vhagar.runtime.processes import ProcessPool
from vhagar.search import ENGINES, engine_named
from vhagar.search.mip import engine as mip_engine
from vhagar.search.mip.messages import UpperFound
from vhagar.search.mip.options import MipOptions
from vhagar.search.mip.preparation import UNPREPARED

from ..marks import mostly_slow

pytestmark = pytest.mark.subprocess

PATIENCE = 60.0
ChildrenOf = Callable[[int], set[int]]


def wait_until(condition: Any, what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"still waiting: {what}"
        time.sleep(0.05)


def hear(pool: ProcessPool) -> tuple[Any, Any]:
    """The next message, however long it takes."""
    heard = pool.next_message(math.inf, PATIENCE)
    assert heard is not None
    return heard


def collect(job: Any) -> list[Any]:
    """All that a worker says until it ends."""
    with ProcessPool() as pool:
        pool.start("name", job)
        heard: list[Any] = []
        while not heard or not isinstance(heard[-1], Finished):
            name, message = hear(pool)
            assert name == "name"
            heard.append(message)
        assert "name" not in pool
        assert pool.next_message(math.inf, 0.3) is None  # its end is told once
    return heard


def test_messages_arrive_in_order(hidden: Network) -> None:
    problem = Problem(hidden, perturbation="linf(0.125)", source=0, targets=1)
    reduced, options = reduce_problem(problem, ()), MipOptions()
    *messages, last = collect((mip_engine._search, (reduced, 1, options, UNPREPARED)))
    assert last.error is None
    values = [message.value for message in messages if isinstance(message, UpperFound)]
    assert values
    assert values == sorted(values, reverse=True)


def test_an_error_in_a_worker_is_its_last_word() -> None:
    (last,) = collect((mip_engine._search, ("no problem", 1)))
    assert "ValueError" in last.error


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Jobs in a module that workers can import."""
    (tmp_path / "jobs_of_a_test.py").write_text(_JOBS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return importlib.import_module("jobs_of_a_test")


_JOBS = """
import os, time

def die(argument, channel):
    os._exit(argument)

def sleep(argument, channel):
    channel.send(os.getpid())
    time.sleep(argument)

def print_and_send(argument, channel):
    print("solvers print", flush=True)
    os.write(1, b"wherever they like")
    channel.send(argument)

class Unreadable:
    def __reduce__(self):
        return int, ("no number",)

def send_unreadable(argument, channel):
    channel.send(Unreadable())
    time.sleep(1000)

def echo(argument, channel):
    while True:
        channel.send((argument, channel.receive()))
"""


def test_a_worker_that_dies_says_so(jobs: ModuleType) -> None:
    (last,) = collect((jobs.die, 3))
    assert last.error == "the worker ended unexpectedly"


def test_what_a_worker_prints_is_no_message(jobs: ModuleType) -> None:
    heard, last = collect((jobs.print_and_send, "a message"))
    assert heard == "a message"
    assert last.error is None


def test_a_message_that_cannot_be_read_ends_its_worker(
    jobs: ModuleType, children_of: ChildrenOf
) -> None:
    before = children_of(os.getpid())
    (last,) = collect((jobs.send_unreadable, None))
    assert "unreadable message: ValueError" in last.error
    assert children_of(os.getpid()) == before


def test_a_stopped_worker_is_gone(jobs: ModuleType, children_of: ChildrenOf) -> None:
    before = children_of(os.getpid())
    with ProcessPool() as pool:
        pool.start("name", (jobs.sleep, 1000))
        _, pid = hear(pool)
        assert children_of(os.getpid()) - before == {pid}
        pool.stop("name")
        assert children_of(os.getpid()) == before
        pool.stop("name")  # again: nothing happens
        assert pool.next_message(math.inf, 0.3) is None


def test_a_killed_worker_is_reported_once(jobs: ModuleType) -> None:
    with ProcessPool() as pool:
        pool.start("name", (jobs.sleep, 1000))
        _, pid = hear(pool)
        os.kill(pid, signal.SIGKILL)
        name, last = hear(pool)
        assert (name, last.error) == ("name", "the worker ended unexpectedly")
        assert "name" not in pool
        assert pool.next_message(math.inf, 0.3) is None


def test_each_worker_hears_what_it_is_told(jobs: ModuleType) -> None:
    with ProcessPool() as pool:
        for name in ("first", "second"):
            pool.start(name, (jobs.echo, name.upper()))
        for k in range(3):
            pool.tell("first", k)
            pool.tell("second", -k)
        heard = [hear(pool) for _ in range(6)]
        assert [message for name, message in heard if name == "first"] == [
            ("FIRST", k) for k in range(3)
        ]
        assert [message for name, message in heard if name == "second"] == [
            ("SECOND", -k) for k in range(3)
        ]


def test_a_name_can_be_used_again(jobs: ModuleType) -> None:
    """Nothing that the first of that name has said is heard then."""
    with ProcessPool() as pool:
        pool.start("name", (jobs.echo, "first"))
        pool.tell("name", 1)
        hear(pool)
        pool.tell("name", 2)
        time.sleep(0.3)  # the answer is waiting by now
        pool.stop("name")
        pool.start("name", (jobs.echo, "second"))
        with pytest.raises(ValueError, match="already"):
            pool.start("name", (jobs.echo, "third"))
        pool.tell("name", 3)
        assert hear(pool) == ("name", ("second", 3))


def test_closing_leaves_no_worker(jobs: ModuleType, children_of: ChildrenOf) -> None:
    before = children_of(os.getpid())

    def interrupted() -> None:
        with ProcessPool() as pool:
            for k in range(2):
                pool.start(k, (jobs.sleep, 1000))
            hear(pool)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert children_of(os.getpid()) == before


def test_the_deadline_is_kept() -> None:
    begun = time.monotonic()
    assert ProcessPool().next_message(begun + 0.05, PATIENCE) is None
    assert ProcessPool().next_message(begun, PATIENCE) is None  # in the past
    assert time.monotonic() - begun < PATIENCE / 2


@pytest.fixture
def three_classes(hidden: Network) -> Network:
    """Class 2 is always far below class 1: it is settled long before class 1 is."""
    last = Affine(np.array([[1.0], [0.0], [0.0]]), np.array([0.0, 0.25, -9.0]), (1,), (3,))
    return Network((*hidden.layers[:-1], last), hidden.input_shape)


@pytest.mark.parametrize("engine", mostly_slow(list(ENGINES), 2))
def test_targets_settled_at_different_times(
    three_classes: Network, engine: str, children_of: ChildrenOf
) -> None:
    before = children_of(os.getpid())
    problem = Problem(three_classes, perturbation="linf(0.125)", source=0)
    result = verify(problem, timeout=PATIENCE, engine=engine_named(engine), workers=2)
    assert result.status is Status.CLOSED
    assert result.lower <= 0.25 <= result.upper
    assert result.targets[2].upper <= result.upper
    assert not result.notes
    assert children_of(os.getpid()) == before


def test_a_worker_ends_when_its_parent_is_killed(jobs: ModuleType) -> None:
    """Nobody is left to stop it, and it says nothing that could fail: it must notice."""
    paths = [Path(jobs.__file__).parent, Path(vhagar.__file__).parents[1]]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT], env=environment, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        assert runs(worker)
        parent.kill()
    wait_until(lambda: not runs(worker), "the worker's end")


_PARENT = """
import math, time
import jobs_of_a_test
from vhagar.runtime.processes import ProcessPool

pool = ProcessPool()
pool.start("name", (jobs_of_a_test.sleep, 1000))
print(pool.next_message(math.inf, 60)[1], flush=True)
time.sleep(1000)
"""


def runs(pid: int) -> bool:
    """Whether there is such a process; one that ended without a parent leaves nothing."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
