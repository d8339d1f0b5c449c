"""Threads beside the one that waits for them."""

from __future__ import annotations

from threading import Event

import pytest

from vhagar.runtime.threads import in_background


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
