"""The figure's data, and that each kind of it can be drawn."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar import Domain
from vhagar.errors import InvalidInput
from vhagar.result import Moment, Status
from vhagar.result.figure import FigureData, figure_data, figure_format
from vhagar.result.figure_drawing import draw, figure

Make = Callable[..., Any]


@pytest.fixture
def grey(make_problem: Make, make_result: Make, make_witness: Make) -> FigureData:
    return figure_data(make_result(16.7741, Status.TIMEOUT, make_witness()))


def test_a_grey_image(grey: FigureData) -> None:
    assert grey.title == "tiny, linf(0.1), class 2 to 3"
    assert grey.witness is not None
    assert grey.image is not None
    assert grey.difference is not None
    assert grey.witness.title == "classified 2\nconfidence 16.21"
    assert grey.image.title == "perturbed: classified 3\nmargin 0.01562"
    assert grey.witness.values.shape == grey.image.values.shape == (3, 3)
    np.testing.assert_allclose(grey.difference.values, 0.1)
    # The two images share one scale; the difference's is symmetric about 0.
    assert (grey.witness.low, grey.witness.high) == (0.0, 1.0)
    assert (grey.image.low, grey.image.high) == (0.0, 1.0)
    assert grey.difference.low == -grey.difference.high == -abs(grey.difference.values).max()


def test_an_image_out_of_range_widens_the_scale(
    make_problem: Make, make_result: Make, make_witness: Make
) -> None:
    x = np.full((1, 3, 3), 0.9)
    result = make_result(20.0, Status.TIMEOUT, make_witness(x=x, x_p=x + 0.5))
    data = figure_data(replace(result, problem=make_problem("brightness([0,0.5])", clip=False)))
    assert data.witness is not None
    assert (data.witness.low, data.witness.high) == (0.0, 1.4)


def test_a_colour_image(make_problem: Make, make_result: Make, make_witness: Make) -> None:
    x = np.full((3, 4, 5), 0.5)
    x_p = x.copy()
    x_p[0, 1, 2], x_p[2, 1, 2] = 0.6, 0.1
    result = make_result(20.0, Status.TIMEOUT, make_witness(x=x, x_p=x_p))
    data = figure_data(replace(result, problem=make_problem(shape=(3, 4, 5))))
    assert data.image is not None
    assert data.difference is not None
    assert data.image.values.shape == (4, 5, 3)
    np.testing.assert_array_equal(data.image.values[1, 2], [0.6, 0.5, 0.1])
    expected = np.zeros((4, 5))
    expected[1, 2] = -0.4  # the channel that changes most, with its sign
    np.testing.assert_allclose(data.difference.values, expected)


@pytest.mark.parametrize("shape", [(7,), (2, 3, 3), (1, 2, 2, 2)])
def test_what_is_no_image_is_flat(
    shape: tuple[int, ...], make_problem: Make, make_result: Make, make_witness: Make
) -> None:
    x = np.random.default_rng(0).uniform(size=shape)
    result = make_result(20.0, Status.TIMEOUT, make_witness(x=x, x_p=x))
    data = figure_data(replace(result, problem=make_problem(shape=shape)))
    assert data.witness is not None
    assert data.difference is not None
    np.testing.assert_array_equal(data.witness.values, x.reshape(-1))
    assert data.difference.low < data.difference.high  # although nothing changes


def test_features_are_parts_of_their_ranges(
    make_problem: Make, make_result: Make, make_witness: Make
) -> None:
    """In their units, the feature with the largest numbers would be all that is seen."""
    box = [0.0, 100.0, 0.5], [1.0, 900.0, 0.5]
    domain = Domain((3,), *box, range=(-10.0, 1000.0), features=["a", "b", "c"])
    problem = make_problem(shape=(3,))
    object.__setattr__(problem, "domain", domain)
    x, x_p = np.array([0.25, 300.0, 0.5]), np.array([0.25, 500.0, 0.5])
    result = make_result(20.0, Status.TIMEOUT, make_witness(x=x, x_p=x_p))
    data = figure_data(replace(result, problem=problem))
    assert data.witness is not None
    assert data.difference is not None
    np.testing.assert_allclose(data.witness.values, [0.25, 0.25, 0.0])
    np.testing.assert_allclose(data.difference.values, [0.0, 0.25, 0.0])
    assert (data.witness.low, data.witness.high) == (0.0, 1.0)
    assert "largest change 25 % of a range" in data.difference.title
    assert "feature's range" in data.witness.entries
    assert data.witness.names == ("a", "b", "c")
    drawn = figure(data)
    labels = [[tick.get_text() for tick in ax.get_yticklabels()] for ax in drawn.axes[:2]]
    assert labels[0] == ["a", "b", "c"]  # beside the first panel only
    assert not any(labels[1])


def test_a_tie_is_called_a_tie(make_problem: Make, make_result: Make, make_witness: Make) -> None:
    result = make_result(20.0, Status.TIMEOUT, make_witness(tie=True))
    data = figure_data(result)
    assert data.image is not None
    assert data.image.title == "perturbed: an exact tie with 3\nmargin 0"


def test_without_a_witness_only_the_bounds(make_problem: Make, make_result: Make) -> None:
    data = figure_data(make_result(20.0, Status.TIMEOUT))
    assert data.witness is data.image is data.difference is None
    assert data.bounds.title.endswith("; no attackable input was found")
    robust = figure_data(make_result(0.0, Status.ROBUST))
    assert robust.bounds.title == "interval 0\nnothing can be attacked, after 1:40 min"


def test_of_a_maximal_confidence_only_the_input(
    make_problem: Make, make_result: Make, make_witness: Make
) -> None:
    result = make_result(39.2, Status.CLOSED, make_witness(39.1, target=None))
    data = figure_data(replace(result, problem=make_problem(None, None)))
    assert data.witness is not None
    assert data.image is data.difference is None


def test_bounds(make_problem: Make, make_result: Make) -> None:
    history = (
        Moment(0.0, 0.0, math.inf),
        Moment(0.5, 0.0, 300.0),
        Moment(2.0, 1.0, 12.0),
        Moment(9.0, 4.0, 10.0),
    )
    result = make_result(10.0, Status.TIMEOUT, history=history)
    bounds = figure_data(result).bounds
    np.testing.assert_array_equal(bounds.seconds, [0.5, 2.0, 9.0])  # no infinity can be drawn
    np.testing.assert_array_equal(bounds.lower, [0.0, 1.0, 4.0])
    np.testing.assert_array_equal(bounds.upper, [300.0, 12.0, 10.0])
    assert 12.0 < bounds.ceiling < 300.0  # the first bound would squeeze the rest into a line
    assert bounds.upper_text == "10.00"


@pytest.mark.parametrize(
    ("name", "expected"), [("a.png", "png"), ("A.PDF", "pdf"), ("x.svg", "svg")]
)
def test_formats(name: str, expected: str) -> None:
    assert figure_format(Path(name)) == expected


@pytest.mark.parametrize("name", ["a", "a.jpg", "png"])
def test_other_formats_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"end its name with \.png, \.pdf or \.svg"):
        figure_format(Path(name))


def test_drawing_every_format(
    grey: FigureData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)  # its global state is not touched
    starts = {"a.png": b"\x89PNG", "a.pdf": b"%PDF", "a.svg": b"<?xml"}
    for name, start in starts.items():
        draw(grey, tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(starts)


@pytest.mark.parametrize("shape", [(3, 4, 5), (7,), (200,)])
def test_drawing_every_input(
    shape: tuple[int, ...],
    make_problem: Make,
    make_result: Make,
    make_witness: Make,
    tmp_path: Path,
) -> None:
    x = np.random.default_rng(0).uniform(size=shape)
    result = make_result(20.0, Status.TIMEOUT, make_witness(x=x, x_p=1 - x))
    draw(figure_data(replace(result, problem=make_problem(shape=shape))), tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("upper", "history"),
    [
        (math.inf, (Moment(0.0, 0.0, math.inf),)),
        (0.0, (Moment(0.0, 0.0, 0.0),)),
        (0.0, (Moment(0.0, 0.0, 10.0), Moment(8.0, 0.0, 0.0))),
        (5.0, (Moment(0.01, 0.0, 90.0), Moment(0.1, 0.0, 6.0), Moment(60.0, 0.0, 5.0))),
        (5.0, (Moment(0.01, 0.0, 90.0), Moment(55.0, 0.0, 6.0), Moment(60.0, 0.0, 5.0))),
    ],
)
def test_drawing_every_course_of_bounds(
    upper: float, history: Any, make_problem: Make, make_result: Make, tmp_path: Path
) -> None:
    result = make_result(upper, Status.INTERRUPTED, history=history)
    draw(figure_data(result), tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 1000
