"""The figure of `--plot`: the witness, its image, their difference, and the bounds over time.

AbstractResult -> plain data (`figure_data`) -> picture (`figure_drawing.py`); the data is what is
tested.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from vhagar.array_types import Array
from vhagar.dataset import Neighbour
from vhagar.errors import InvalidInput
from vhagar.perturbation import Domain
from vhagar.problem import Problem
from vhagar.result.numbers import down, interval, span
from vhagar.result.values import AbstractResult, Status
from vhagar.result.witness import Witness
from vhagar.result.words import outcome

FORMATS = ("png", "pdf", "svg")


@dataclass(frozen=True, eq=False)
class InputPanel:
    """One input: `(rows, columns)` grey, `(rows, columns, 3)` colour, or `(size,)` no image.

    `entries` says what the entries of an input that is no image are.
    """

    title: str
    values: Array
    low: float
    high: float
    entries: str = "input entry"
    names: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class BoundsPanel:
    """The interval over time, on an axis that ends at `ceiling`: below the first bounds if they
    would squeeze the rest into a line."""

    title: str
    seconds: Array
    lower: Array
    upper: Array
    ceiling: float
    lower_text: str
    upper_text: str


@dataclass(frozen=True, eq=False)
class FigureData:
    """The panels of the figure, in order after `nearest`; one with nothing to show is None.

    `plausible` are the same four of the witness near the data set: a second row.
    """

    title: str
    witness: InputPanel | None
    image: InputPanel | None
    difference: InputPanel | None
    bounds: BoundsPanel | None
    nearest: InputPanel | None = None
    plausible: tuple[InputPanel | None, ...] = ()


def figure_format(path: Path) -> str:
    """The format that a file's name asks for."""
    suffix = path.suffix.lower().removeprefix(".")
    if suffix not in FORMATS:
        raise InvalidInput(
            f"cannot tell the format of the plot {path}; end its name with .png, .pdf or .svg"
        )
    return suffix


def figure_data(result: AbstractResult) -> FigureData:
    """What the figure shows, as plain data."""
    witness, image, difference = input_panels(result.witness, result.problem)
    near, second = _nearest_panel(result.nearest, result.problem, witness), result.plausible
    row: tuple[InputPanel | None, ...] = ()
    if second is not None:
        row = input_panels(second.witness, result.problem)
        row = (_nearest_panel(second.nearest, result.problem, row[0]), *row)
    return FigureData(str(result.problem), witness, image, difference, _bounds(result), near, row)


def _nearest_panel(
    found: Neighbour | None, problem: Problem, witness: InputPanel | None
) -> InputPanel | None:
    """The input of the data set that is nearest to a witness, on the witness's scale."""
    if found is None or witness is None:
        return None
    label = "" if found.label is None else f": {problem.class_name(found.label)}"
    title = f"nearest of the data{label}\ndistance {100 * found.distance:.3g} %"
    x = _in_range(found.x.reshape(problem.network.input_shape), problem)
    return replace(witness, title=title, values=picture(x))


def input_panels(
    witness: Witness | None, problem: Problem
) -> tuple[InputPanel | None, InputPanel | None, InputPanel | None]:
    """Build the panels of the witness, its image and their difference; None for a missing one."""
    if witness is None:
        return None, None, None
    inputs = [witness.x] if witness.x_p is None else [witness.x, witness.x_p]
    title = f"classified {problem.source_name}\nconfidence {down(witness.confidence)}"
    first = input_panel(title, inputs, problem)
    if witness.x_p is None or witness.margin is None:
        return first, None, None
    fate = "an exact tie with" if witness.tie else "classified"
    title = f"perturbed: {fate} {problem.class_name(witness.target)}\nmargin {down(witness.margin)}"
    second = replace(first, title=title, values=picture(_in_range(witness.x_p, problem)))
    change = largest_change(second.values - first.values)
    most = float(abs(change).max())
    part = f"{100 * most:.3g} % of a range" if has_units(problem.domain) else f"{most:.3g}"
    title = f"difference\nlargest change {part}"
    low, high = -(most or 1.0), most or 1.0
    return first, second, replace(first, title=title, values=change, low=low, high=high)


def input_panel(title: str, inputs: Sequence[Array], problem: Problem) -> InputPanel:
    """Build the panel of the first input, on a scale that all of them fit into.

    Without clipping, a perturbed input may leave the input range.
    """
    shown = [_in_range(x, problem) for x in inputs]
    ends = problem.domain.lower, problem.domain.upper
    about: tuple[str, tuple[str, ...]] = InputPanel.entries, ()
    if has_units(problem.domain):
        ends, about = (0.0, 1.0), ("part of the feature's range", problem.domain.features)
    low = min(ends[0], *(float(array.min()) for array in shown))
    high = max(ends[1], *(float(array.max()) for array in shown))
    return InputPanel(title, picture(shown[0]), low, high, *about)


def has_units(domain: Domain) -> bool:
    """Whether entries are features, each in units of its own, so that one scale shows nothing."""
    return len(domain.shape) == 1 and bool(domain.features)


def _in_range(x: Array, problem: Problem) -> Array:
    """Features as parts of their ranges in the domain; other inputs as they are."""
    if not has_units(problem.domain):
        return x
    domain = problem.domain
    width = domain.high - domain.low
    found: Array = (x - domain.low) / np.where(width > 0, width, domain.width)
    return found


def picture(x: Array) -> Array:
    """An input as an image where it is one, else flat."""
    if x.ndim == 2:
        return x
    if x.ndim == 3 and x.shape[0] == 1:
        return x.reshape(x.shape[1:])
    if x.ndim == 3 and x.shape[0] == 3:
        return x.transpose(1, 2, 0)
    return x.reshape(-1)


def largest_change(difference: Array) -> Array:
    """Keep, at each pixel of a colour image, the signed change of the channel that changes most."""
    if difference.ndim < 3:
        return difference
    strongest = abs(difference).argmax(axis=-1)
    change: Array = np.take_along_axis(difference, strongest[..., None], axis=-1)[..., 0]
    return change


def _bounds(result: AbstractResult) -> BoundsPanel:
    problem = result.problem
    moments = [moment for moment in result.history if math.isfinite(moment.upper)]
    upper = np.array([moment.upper for moment in moments])
    ending = outcome(result)
    if result.witness is None and result.status is not Status.ROBUST:
        what = "attackable input" if problem.targets else f"input classified {problem.source_name}"
        ending += f"; no {what} was found"
    return BoundsPanel(
        f"interval {span(result.lower, result.upper)}\n{ending}",
        np.array([moment.seconds for moment in moments]),
        np.array([moment.lower for moment in moments]),
        upper,
        _ceiling(upper),
        *interval(result.lower, result.upper),
    )


def _ceiling(upper: Array) -> float:
    """End the axis above the highest bound, unless that is far above the final one."""
    if upper.size == 0:
        return 1.0
    highest, final = float(upper.max()) or 1.0, float(upper[-1])
    return 1.05 * (min(highest, 4 * final) if final > 0 else highest)
