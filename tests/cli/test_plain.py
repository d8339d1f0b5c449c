"""Plain lines: few, complete, and without control codes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from vhagar.cli import plain
from vhagar.cli.plain import PlainScreen
from vhagar.result import BoundKind, Interval, Status

Make = Callable[..., Any]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which stands still until a test moves it."""
    now = [0.0]
    monkeypatch.setattr(plain.time, "monotonic", lambda: now[0])
    return now


def test_at_most_one_line_a_second_and_signs_of_life(
    clock: list[float],
    make_problem: Make,
    make_progress: Make,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with PlainScreen().watch(make_problem(), 60.0) as watch:
        for tick in range(400):  # 100 seconds, with a change at every tick in the first ten
            clock[0] = tick / 4
            watch(make_progress(0.0, max(50.0 - tick, 10.0), seconds=clock[0]))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "tiny, linf(0.1), class 2 to 3, at most 60.0 s of search"
    changes = [f"{second}.0" for second in range(11)]
    assert [line.split()[0] for line in lines[1:]] == [*changes, "40.0", "70.0"]


def test_every_first_witness_has_its_line(
    clock: list[float],
    make_problem: Make,
    make_progress: Make,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with PlainScreen().watch(make_problem(targets=None), None) as watch:
        watch(make_progress(0.0, 50.0, targets={0: (0.0, 50.0), 1: (0.0, 50.0)}))
        watch(make_progress(3.0, 50.0, targets={0: (0.0, 50.0), 1: (3.0, 50.0)}))
        watch(make_progress(4.0, 50.0, targets={0: (0.0, 50.0), 1: (4.0, 50.0)}))
        watch(make_progress(4.0, 50.0, targets={0: (1.0, 50.0), 1: (4.0, 50.0)}))
    lines = capsys.readouterr().out.splitlines()[2:]
    assert [line.rsplit(", ")[-1] for line in lines] == [
        "first witness for target 1",
        "first witness for target 0",
    ]


def test_the_end(
    make_problem: Make,
    make_result: Make,
    make_witness: Make,
    capsys: pytest.CaptureFixture[str],
) -> None:
    screen = PlainScreen()
    targets = {
        1: Interval(0.0, 8.0, BoundKind.SOLVER),
        3: Interval(16.2134, 16.7741, BoundKind.SOLVER),
    }
    with screen.watch(make_problem(targets=(1, 3)), None) as watch:
        watch.finish(make_result(16.7741, Status.TIMEOUT, make_witness(), targets))
    screen.conclude([("wrote", "out.json")], "the answer")
    assert capsys.readouterr().out.splitlines()[1:] == [
        "target 1: [0, 8.00]",
        "target 3: [16.21, 16.78]",
        "interval: [16.21, 16.78], gap 0.57 (3.4 %)",
        "status:   the time was up, after 1:40 min",
        "wrote:    out.json",
        "the answer",
    ]


def test_an_interrupt_that_comes_through_leaves_the_interval(
    make_problem: Make, make_progress: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    def search() -> None:
        with PlainScreen().watch(make_problem(), None) as watch:
            watch(make_progress(0.0, 50.0))
            watch(make_progress(1.0, 40.0))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search()
    assert capsys.readouterr().out.splitlines()[-1] == "interval: [1.00, 40.00], gap 39.00 (97.5 %)"
