"""Threads beside the one that waits for them."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from threading import Event

import pytest

from vhagar.runtime import threads
from vhagar.runtime.threads import (
    blas_threads,
    has_abandoned_work,
    import_beside,
    in_background,
    one_blas_thread,
)


def test_work_in_the_background_returns_its_result() -> None:
    done, calls = Event(), []

    def meanwhile() -> None:
        calls.append(1)
        done.set()

    def work() -> int:
        done.wait(60)
        return 7

    assert in_background(work, meanwhile, Event()) == 7
    assert calls


def test_an_error_meanwhile_ends_the_work() -> None:
    stopped = Event()

    def meanwhile() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        in_background(lambda: stopped.wait(60), meanwhile, stopped)
    assert stopped.is_set()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_error_of_the_work_is_raised_here(error: type[BaseException]) -> None:
    """Whatever it is: nobody waits for work that has ended."""

    def work() -> None:
        raise error

    with pytest.raises(error):
        in_background(work, lambda: None, Event())


def test_work_that_takes_too_long_is_left_to_itself() -> None:
    stopped = Event()
    looks = iter([False, False, True, True])
    found = in_background(lambda: stopped.wait(60), lambda: None, stopped, lambda: next(looks))
    assert found is None
    assert stopped.is_set()


def test_abandoned_work_is_known_until_it_ends() -> None:
    begun, ended = Event(), Event()

    def work() -> None:
        begun.set()
        ended.wait(60)

    assert in_background(work, lambda: None, Event(), begun.is_set) is None
    assert has_abandoned_work()
    ended.set()
    while has_abandoned_work():
        pass


def test_modules_are_imported_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is missing is none of this function's business."""
    (tmp_path / "imported_beside.py").write_text("import time\ntime.sleep(0.2)\nready = 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "imported_beside", raising=False)
    import_beside("imported_beside", "no_such_module")
    assert has_abandoned_work()
    assert importlib.import_module("imported_beside").ready == 7  # whole, not half imported
    while has_abandoned_work():
        pass


_LEFT = """
import atexit, sys, time
from threading import Event
from vhagar.cli.entry import main
from vhagar.runtime.threads import in_background
in_background(lambda: time.sleep(60), lambda: None, Event(), lambda: True)
atexit.register(print, "the interpreter ended in its own way")
sys.argv = ["vhagar", "inspect", "nothing.onnx"]
sys.exit(main())
"""


@pytest.mark.subprocess
def test_the_program_ends_at_once_but_runs_what_was_registered_for_its_end() -> None:
    """Ray, for example, stops its processes there; objects of modules are not taken apart."""
    program = """
import atexit, sys
from vhagar.cli.entry import main
class Last:
    def __del__(self):
        print("the interpreter ended in its own way")
last = Last()
atexit.register(print, "registered")
sys.argv = ["vhagar", "inspect", "nothing.onnx"]
sys.exit(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "registered\n")


@pytest.mark.subprocess
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_the_program_runs_with_closed_streams(closed: str) -> None:
    program = f"{sys.executable} -c 'from vhagar.cli.entry import main; main()' --version {closed}"
    done = subprocess.run(program, shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


@pytest.mark.subprocess
def test_the_program_ends_without_those_that_are_left() -> None:
    """Native code that is cut off by the interpreter's end would end it with a crash."""
    done = subprocess.run(
        [sys.executable, "-c", _LEFT], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "nothing.onnx" in done.stderr
    assert not done.stdout


def test_matrix_products_have_as_many_threads_as_they_are_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts = [8, 1]  # of two libraries

    def library(k: int) -> tuple[object, object]:
        return lambda: counts[k], lambda count: counts.__setitem__(k, count)

    monkeypatch.setattr(threads, "_openblas", lambda: [library(0), library(1)])
    with blas_threads(3):
        assert counts == [3, 1]
        with one_blas_thread():
            assert counts == [1, 1]
        assert counts == [3, 1]
    assert counts == [8, 1]


def test_the_libraries_at_hand_can_be_told_and_are_put_back() -> None:
    before = [get() for get, _ in threads._openblas()]
    with one_blas_thread():
        assert all(get() == 1 for get, _ in threads._openblas())
    assert [get() for get, _ in threads._openblas()] == before
