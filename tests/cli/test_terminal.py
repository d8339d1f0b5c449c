"""The live display: what it says, and that it fits."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from vhagar import Problem
from vhagar.cli.terminal import LiveScreen, LiveWatch
from vhagar.perturbation import Domain
from vhagar.result import Status

Make = Callable[..., Any]

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def _console(width: int, encoding: str = "utf-8", **settings: Any) -> Console:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    return Console(file=file, force_terminal=True, width=width, height=40, **settings)


def _printed(console: Console) -> str:
    stream: Any = console.file
    stream.flush()
    text: str = stream.buffer.getvalue().decode(stream.encoding)
    return text


def _drawn(console: Console, watch: LiveWatch) -> str:
    console.print(watch.render())
    return _printed(console)


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("several", [False, True])
def test_it_fits_with_room_for_an_echoed_ctrl_c(
    width: int, several: bool, make_problem: Make, make_progress: Make
) -> None:
    console = _console(width, no_color=True)
    watch = LiveWatch(console, make_problem(targets=None), 100.0)
    targets = {k: (k / 2, 20.0 + k) for k in range(9)} if several else None
    watch(make_progress(16.2103, 28.0, targets=targets))
    lines = COLOUR.sub("", _drawn(console, watch)).splitlines()
    assert max(map(len, lines)) == min(width - 2, 100)


def test_what_it_says(make_problem: Make, make_progress: Make) -> None:
    console = _console(80, no_color=True)
    watch = LiveWatch(console, make_problem(), 100.0)
    watch(make_progress(15.0, 30.0))
    text = COLOUR.sub("", _drawn(console, watch))
    assert "tiny, linf(0.1), class 2 to 3" in text
    assert "lower 15.00" in text
    assert "upper 30.00" in text
    assert "gap 15.00 (50.0 %)" in text
    assert "search  0.0 s of 1:40 min" in text


def test_the_bar_shows_what_is_proven(make_problem: Make, make_progress: Make) -> None:
    console = _console(80)
    watch = LiveWatch(console, make_problem(), None)
    watch(make_progress(3.75, 15.0, initial_upper=60.0))
    text = _drawn(console, watch)
    # 72 cells for 60, with square roots: a quarter, a quarter, a half; each in its own colour.
    assert f"\x1b[31m{'█' * 18}\x1b[0m\x1b[33m{'▒' * 18}\x1b[0m\x1b[94m{'━' * 36}\x1b[0m" in text


def test_no_color(make_problem: Make, make_progress: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    console = _console(80)
    watch = LiveWatch(console, make_problem(), None)
    watch(make_progress(15.0, 30.0))
    text = _drawn(console, watch)
    assert not re.search(r"\x1b\[3[0-7]m", text)
    assert "█▒" in text
    assert "▒━" in text


def test_a_terminal_without_unicode(make_problem: Make, make_progress: Make) -> None:
    console = _console(80, encoding="ascii", no_color=True)
    watch = LiveWatch(console, make_problem(), None)
    watch(make_progress(3.75, 15.0, initial_upper=60.0))
    assert "#" * 18 + "?" * 18 + "-" * 36 in COLOUR.sub("", _drawn(console, watch))


def test_only_the_targets_that_hold_the_interval_open(
    make_problem: Make, make_progress: Make
) -> None:
    console = _console(80, no_color=True)
    watch = LiveWatch(console, make_problem(targets=None), None)
    watch(make_progress(4.0, 28.0, targets={k: (k / 2, 20.0 + k) for k in range(9)}))
    text = COLOUR.sub("", _drawn(console, watch))
    assert re.findall(r"to (\d) ", text) == ["8", "7", "6", "5", "4"]
    assert "and 4 more, at most 23.00" in text


def test_the_clock_runs_without_news(make_problem: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("vhagar.cli.terminal.time.monotonic", lambda: now[0])
    console = _console(80, no_color=True)
    watch = LiveWatch(console, make_problem(), 60.0)
    now[0] = 12.3
    assert "start  12.3 s of 60.0 s" in COLOUR.sub("", _drawn(console, watch))


def test_the_end_shows_the_result(
    make_problem: Make, make_progress: Make, make_result: Make, make_witness: Make
) -> None:
    console = _console(80, no_color=True)
    screen = LiveScreen(console)
    with screen.watch(make_problem(), 60.0) as watch:
        watch(make_progress(0.0, 60.0))
        watch.finish(make_result(16.7741, Status.INTERRUPTED, make_witness()))
    screen.conclude([("wrote", "[bold]out.json")], "the [answer]")
    text = COLOUR.sub("", _printed(console))
    last = text[text.rindex("╭") :]
    assert "16.21..16.78" in last
    assert Status.INTERRUPTED.value in last
    assert "wrote  [bold]out.json" in last  # a file's name is no markup
    assert last.rstrip().endswith("the [answer]")


def test_targets_have_the_names_of_their_classes(make_problem: Make, make_progress: Make) -> None:
    network = make_problem().network
    domain = Domain(network.input_shape, classes=("low", "middle", "high", "top"))
    problem = Problem(network, perturbation="linf(0.1)", source="high", domain=domain)
    console = _console(80, no_color=True)
    watch = LiveWatch(console, problem, 100.0)
    watch(make_progress(2.0, 20.0, targets={0: (1.0, 5.0), 3: (2.0, 20.0)}))
    text = COLOUR.sub("", _drawn(console, watch))
    assert text.index("to top") < text.index("to low")
