"""Workers in a real local Ray cluster: the same promises as those of local processes."""

from __future__ import annotations

import fcntl
import math
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from vhagar.runtime.pool import Channel, Finished

pytest.importorskip("ray", reason="Ray is not installed: pip install 'vhagar[ray]'")
# Ray's own code is not free of warnings.
pytestmark = pytest.mark.filterwarnings("ignore")

from vhagar.runtime.ray_pool import RayPool  # noqa: E402

Work = Callable[[Any, Channel], None]


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayPool]:
    """One cluster for all tests, and one at a time on this machine."""
    with (tmp_path_factory.getbasetemp().parent / "ray.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with RayPool() as pool:
            yield pool


def hear(pool: RayPool) -> tuple[Any, Any]:
    """The next message, however long it takes."""
    heard = pool.next_message(math.inf, 60)
    assert heard is not None
    return heard


# Functions within functions travel by value: a test's module cannot be imported in the cluster.


def echo() -> Work:
    def work(argument: Any, channel: Channel) -> None:
        channel.send(os.getpid())
        while (message := channel.receive()) != "end":
            channel.send((argument, message))

    return work


def fail() -> Work:
    def work(argument: Any, channel: Channel) -> None:
        channel.send("before")
        raise MemoryError(argument)

    return work


def write() -> Work:
    def work(argument: Any, channel: Channel) -> None:
        told = channel.receive()
        argument += 1
        told += 1
        channel.send((argument, told))

    return work


def test_arrays_belong_to_those_who_get_them(pool: RayPool) -> None:
    pool.start("name", (write(), np.zeros(300_000)))
    pool.tell("name", np.zeros(300_000))
    heard = hear(pool)[1]
    assert isinstance(heard, tuple), heard  # not the end, with an error
    for array in heard:
        np.add(array, 1, out=array)
        np.testing.assert_array_equal(array, 2)
    assert isinstance(hear(pool)[1], Finished)


def test_a_worker_hears_what_it_is_told_in_order(pool: RayPool) -> None:
    pool.start("name", (echo(), 7))
    hear(pool)
    for k in range(50):
        pool.tell("name", k)
    pool.tell("name", "end")
    assert [hear(pool) for _ in range(50)] == [("name", (7, k)) for k in range(50)]
    name, last = hear(pool)
    assert isinstance(last, Finished)
    assert (name, last.error) == ("name", None)
    assert len(pool) == 0


def test_an_error_is_its_last_word(pool: RayPool) -> None:
    pool.start("name", (fail(), "all of it"))
    assert hear(pool) == ("name", "before")
    assert hear(pool)[1].error == "MemoryError: all of it"
    assert len(pool) == 0


def test_a_killed_worker_is_reported_once(pool: RayPool) -> None:
    pool.start("name", (echo(), 0))
    os.kill(hear(pool)[1], signal.SIGKILL)
    assert "Died" in hear(pool)[1].error
    assert len(pool) == 0
    assert pool.next_message(math.inf, 0.5) is None


@pytest.mark.slow
def test_a_stopped_worker_is_gone_and_silent(pool: RayPool) -> None:
    pool.start("name", (echo(), 0))
    process = hear(pool)[1]
    pool.tell("name", "still there?")
    pool.stop("name")
    assert pool.next_message(math.inf, 1.0) is None
    deadline = time.monotonic() + 30
    while _runs(process):
        assert time.monotonic() < deadline, "a stopped worker goes on"
        time.sleep(0.05)
    pool.start("name", (echo(), 1))
    assert isinstance(hear(pool)[1], int)
    pool.stop("name")


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
