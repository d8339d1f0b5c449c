"""The progress bar of notebooks, in a notebook that is played."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from vhagar import Problem, verify
from vhagar.result.live import NotebookBar, notebook_bar

Make = Callable[..., Any]


class Page:
    """What a notebook would show: one place, and what stood in it."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.places = 0

    def display(self, html: str, display_id: bool) -> Page:
        assert display_id
        self.places += 1
        self.update(html)
        return self

    def update(self, html: str) -> None:
        self.shown.append(html)


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Page:
    page, shell = Page(), SimpleNamespace(kernel=object())
    ipython, display = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: shell  # type: ignore[attr-defined]
    display.HTML, display.display = str, page.display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return page


@pytest.fixture
def problem(make_problem: Make) -> Problem:
    problem: Problem = make_problem()
    return problem


def test_there_is_a_bar_in_notebooks_only(
    problem: Problem, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert notebook_bar(problem, None) is not None
    terminal = SimpleNamespace()
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: terminal)
    assert notebook_bar(problem, None) is None
    monkeypatch.delitem(sys.modules, "IPython")
    assert notebook_bar(problem, None) is None


def test_a_run_updates_one_place_and_leaves_its_answer(problem: Problem, page: Page) -> None:
    result = verify(problem, timeout=20, workers=0)
    assert page.places == 1
    assert str(problem) in page.shown[0]
    assert page.shown[-1] == f"<div>{result}</div>"
    shown = len(page.shown)
    verify(problem, timeout=20, workers=0, on_progress=lambda progress: None)
    assert len(page.shown) == shown


@pytest.mark.parametrize("upper", [math.inf, 60.0, 15.0, 0.0])
def test_the_bar_is_shared_out(upper: float, problem: Problem, make_progress: Make) -> None:
    progress = make_progress(0.0 if upper == 0 else 3.75, upper, initial_upper=60.0)
    html = NotebookBar(problem, 60.0).html(progress)
    shares = [float(text.split("%")[0]) for text in html.split("width:")[2:]]
    assert sum(shares) == pytest.approx(100, abs=0.05)
    if upper == 15.0:
        assert shares == [25.0, 25.0, 50.0]
    assert "search, 1.0 s of 60.0 s: [" in html


def test_updates_have_a_pace(problem: Problem, page: Page, make_progress: Make) -> None:
    bar = NotebookBar(problem, None)
    for _ in range(1000):
        bar(make_progress(1.0, 2.0))
    assert len(page.shown) < 10


def test_a_display_that_fails_does_not_end_the_run(
    problem: Problem, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError("the kernel is gone")

    monkeypatch.setattr(sys.modules["IPython.display"], "display", fail)
    assert verify(problem, timeout=20, workers=0).upper >= 0
