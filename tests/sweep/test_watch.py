"""What a sweep shows: plain lines in a pipe, a panel in a terminal."""

from __future__ import annotations

import io
import math
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from vhagar.cli.sweep_live import LiveSweepWatch
from vhagar.cli.sweep_plain import PlainSweepWatch
from vhagar.sweep import watch as watch_module
from vhagar.sweep.question import Question
from vhagar.sweep.store import Store
from vhagar.sweep.watch import Pace, SweepState, ending_words, words

from .checks import require_sound

NAMES = {"f": "net"}
PAIR = Question("f", "linf(0.1)", 2, (3,))


def _state(done: int, running: int = 1, left: float | None = None) -> SweepState:
    counts = {"closed": done, "open": 10 - done}
    working = dict.fromkeys(range(running), (PAIR, 1.2345, 2.5, 3.0))
    return SweepState(counts, working, NAMES, left)


def test_a_question_in_a_few_words() -> None:
    assert words(PAIR, NAMES) == "net, linf(0.1), 2 to 3"
    assert words(Question("f", "linf(0.1)", 2, (1, 3)), NAMES) == "net, linf(0.1), 2 to any other"
    assert words(Question("f", None, 2, ()), NAMES) == "net, confidence in 2"


def test_what_became_of_the_problems() -> None:
    state = SweepState({"open": 2, "timeout": 1, "closed": 3}, {}, NAMES)
    assert ending_words(state) == "3 closed, 1 out of time, 2 open"
    assert (state.total, state.done) == (6, 4)


def test_the_time_left_comes_from_the_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(watch_module.time, "monotonic", lambda: clock[0])
    pace = Pace()
    assert pace.left(_state(2)) is None  # what was done before tells nothing
    clock[0] += 10
    assert pace.left(_state(4, running=0)) == pytest.approx(30.0)  # 5 s each, 6 to go
    assert pace.left(_state(4, running=0, left=12.0)) == 12.0


def test_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    shown = PlainSweepWatch()
    shown.begin(_state(2), 5.0)
    shown.update(_state(3))
    shown.improved(7, PAIR, 1.0, 2.0)
    shown.finished(7, PAIR, 1.2345, 2.5, "the time was up")
    shown.note("something happened")
    shown.end(_state(10, running=0))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "10 problems, 5.0 s each, 2 of them already done"
    assert re.fullmatch(
        r" +0\.0 s  3/10(, .* left)?  net, linf\(0\.1\), 2 to 3: \[1\.2, 2\.5\], the time was up",
        lines[1].replace("1.23", "1.2").replace("2.50", "2.5"),
    )
    assert lines[2] == "note: something happened"
    assert lines[3].startswith("10 of 10 problems after 0.0 s: 10 closed")
    assert len(lines) == 4


def test_every_improvement_where_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    shown = PlainSweepWatch(every_improvement=True)
    shown.improved(7, PAIR, 0.1 + 0.2, None)
    assert capsys.readouterr().out == "problem 7: [0.30000000000000004, None]\n"


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_panel(width: int) -> None:
    console = Console(file=io.StringIO(), width=width, height=40, force_terminal=True)
    shown = LiveSweepWatch(console)
    shown.begin(_state(2), 5.0)
    shown.update(_state(3, running=20))
    shown.finished(7, PAIR, 1.2345, math.inf, "the time was up")
    with console.capture() as capture:
        console.print(shown.render())
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capture.get())
    shown.end(_state(10, running=0))
    assert "3 of 10" in text
    assert "[1.23, 2.50]" in text
    assert "and 8 more" in text
    assert all(len(line) <= width for line in text.splitlines())


@pytest.mark.slow  # the same of one search runs by default
@pytest.mark.subprocess
def test_a_reader_that_goes_away_ends_the_sweep(
    hard_model: str, tmp_path: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    process = start(
        *("sweep", "--network", hard_model, "--perturbation", "linf(0.2)", "--timeout", "60"),
        *("--store", str(tmp_path / "s.db"), "--verbose"),
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=120) == 130
    require_sound(tmp_path / "s.db")
    with Store(tmp_path / "s.db") as store:
        assert all(row["owner"] is None for row in store.rows("problems"))
        assert store.rows("runs")[0]["ended"] is not None
