"""Show witnesses as pictures: the input, its perturbed version, and the difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array
from vhagar.dataset import Neighbour
from vhagar.drawing.colours import diverging_pixels
from vhagar.drawing.figure import AbstractFigure, Cell, slug
from vhagar.drawing.shapes import Drawing, Line, Picture, Rect, Shape, Text
from vhagar.perturbation import Domain
from vhagar.problem import classed
from vhagar.report.class_labels import extra_width, short_name
from vhagar.report.data import Entry
from vhagar.result import Witness
from vhagar.result.evidence import feature_changes
from vhagar.result.figure import has_units, largest_change, picture
from vhagar.result.numbers import down

_SIDE, _SPACE, _TOP = 118.0, 14.0, 40.0
_BARS = 150.0  # the width of all bars of scores
# A table of features: heights of rows, widths of columns, and how many rows there are at most.
_ROW, _COLUMN, _MOST_ROWS = 16.0, 116.0, 16


@dataclass(frozen=True, eq=False)
class WitnessFigure(AbstractFigure):
    """One witness and, if there is a data set, its nearest input.

    Images are `(rows, columns)` or `(rows, columns, 3)`; other inputs are `(1, size)`. Features
    with names are a table instead.
    """

    number: int
    label: str
    source: int
    witness: Witness
    low: float
    high: float
    neighbour: Neighbour | None = None
    domain: Domain | None = None

    @property
    def title(self) -> str:  # type: ignore[override]
        return f"witness: {self.label}"

    @property
    def name(self) -> str:
        return slug("witness", self.number, self.label)

    def columns(self) -> Sequence[str]:
        return ("entry", "x", "x_p")

    def rows(self) -> Sequence[Sequence[Cell]]:
        x = self.witness.x.reshape(-1)
        x_p = self.witness.x_p
        other = [None] * x.size if x_p is None else x_p.reshape(-1).tolist()
        return list(zip(range(x.size), x.tolist(), other, strict=True))

    @property
    def tabular(self) -> bool:
        """Whether entries are features with names, which a table shows."""
        return self.domain is not None and has_units(self.domain)

    @property
    def moved(self) -> int:
        """The number of features that the perturbation changes."""
        return 0 if self.domain is None else len(feature_changes(self.witness, self.domain))

    def features(self) -> list[tuple[str, ...]]:
        """A row for each feature: name, input and what else there is; the largest changes first."""
        assert self.domain is not None
        shown = [self.witness.x, self.witness.x_p]
        shown += [] if self.neighbour is None else [self.neighbour.x]
        columns = [x.reshape(-1) for x in shown if x is not None]
        moved = feature_changes(self.witness, self.domain)
        order = [*moved, *(k for k in range(self.domain.size) if k not in moved)]
        return [
            (self.domain.entry_name(k), *(f"{column[k]:.6g}" for column in columns)) for k in order
        ]

    def pictures(self) -> list[tuple[str, NDArray[np.uint8]]]:
        """The pictures with their headings; without a perturbation there is only the input."""
        found = [("input", self._shades(self.witness.x))]
        if self.witness.x_p is not None:
            found.append(("perturbed", self._shades(self.witness.x_p)))
            change = self.change()
            reach = float(abs(change).max())
            found.append(("difference", diverging_pixels(change, reach)))
        if self.neighbour is not None:
            found.append(("nearest data", self._shades(self.neighbour.x)))
        return found

    def change(self) -> Array:
        """The difference; in a colour image, that of the channel that changes most."""
        assert self.witness.x_p is not None
        change = largest_change(picture(self.witness.x_p) - picture(self.witness.x))
        return change if change.ndim == 2 else change[None]

    def _shades(self, x: Array) -> NDArray[np.uint8]:
        values = picture(x)
        values = values if values.ndim > 1 else values[None]
        share = np.clip((values - self.low) / (self.high - self.low), 0.0, 1.0)
        return np.round(255 * share).astype(np.uint8)

    def draw(self) -> Drawing:
        if self.tabular:
            return self._draw_table()
        shapes: list[Shape] = []
        pictures = self.pictures()
        for k, (heading, pixels) in enumerate(pictures):
            x = _SPACE + k * (_SIDE + _SPACE)
            rgb = pixels if pixels.ndim == 3 else np.repeat(pixels[..., None], 3, axis=2)
            above, below = self._captions(heading)
            shapes += [
                Text(x, 16, heading, 13, bold=True),
                Text(x, 32, above, 11.5, fill="muted"),
                Picture(x, _TOP, _SIDE, _SIDE, rgb),
                Rect(x, _TOP, _SIDE, _SIDE, "none", "grid"),
                Text(x, _TOP + _SIDE + 16, below, 11.5, fill="muted"),
            ]
        left = _SPACE + len(pictures) * (_SIDE + _SPACE) + 10
        return self._beside_scores(shapes, left, _TOP + _SIDE + 28)

    def _draw_table(self) -> Drawing:
        """Draw the features in rows, those that change in bold, with the scores beside them."""
        rows = self.features()
        heads = ["feature", "input"] + (["perturbed"] if self.witness.x_p is not None else [])
        heads += [] if self.neighbour is None else ["nearest data"]
        first = 20 + 7.0 * max(len(short_name(name)) for name, *_ in rows)
        ends = [_SPACE, *(_SPACE + first + _COLUMN * (k + 1) for k in range(len(heads) - 1))]
        shapes: list[Shape] = []
        for k, (x, head) in enumerate(zip(ends, heads, strict=True)):
            anchor = "end" if k else "start"
            shapes.append(Text(x, 16, head, 13, anchor, bold=True))
            caption = self._captions(head)[0] if k else ""
            shapes.append(Text(x, 32, caption, 11.5, anchor, fill="muted"))
            for place, row in enumerate(rows[:_MOST_ROWS]):
                word, bold = row[k] if k else short_name(row[k]), place < self.moved
                y = _TOP + 12 + _ROW * place
                shapes.append(Text(x, y, word, 11.5, anchor, bold=bold))
        bottom = _TOP + 12 + _ROW * min(len(rows), _MOST_ROWS)
        more = len(rows) - _MOST_ROWS
        sure = f"confidence {down(self.witness.confidence)}"
        note = f"{sure}; {more} more features" if more > 0 else sure
        shapes.append(Text(_SPACE, bottom + 6, note, 11.5, fill="muted"))
        return self._beside_scores(shapes, ends[-1] + 24, max(bottom + 18, _TOP + _SIDE + 28))

    def _beside_scores(self, shapes: list[Shape], left: float, height: float) -> Drawing:
        """Draw the shapes, and to their right the scores."""
        width = left + 176 + extra_width([self._name(k) for k in range(len(self.witness.scores))])
        return Drawing(width, height, self.title, [*shapes, *self._scores(left)])

    def _captions(self, heading: str) -> tuple[str, str]:
        """The captions above and below a picture."""
        witness = self.witness
        if heading == "input":
            return classed(self._name(self.source)), f"confidence {down(witness.confidence)}"
        if heading == "perturbed":
            target = "" if witness.target is None else classed(self._name(witness.target))
            return target, "an exact tie" if witness.tie else ""
        if heading == "nearest data":
            return self._neighbour_captions()
        return "", f"largest {abs(self.change()).max():.3g}"

    def _name(self, label: int) -> str:
        return str(label) if self.domain is None else self.domain.class_name(label)

    def _neighbour_captions(self) -> tuple[str, str]:
        assert self.neighbour is not None
        near = self.neighbour
        label = "" if near.label is None else f", label {self._name(near.label)}"
        return f"input {near.row}{label}", f"differs by {100 * near.distance:.3g} %"

    def _scores(self, left: float) -> list[Shape]:
        """Draw the scores of both inputs as bars, class by class."""
        names = [short_name(self._name(k)) for k in range(len(self.witness.scores))]
        left += extra_width(names)
        rows = [self.witness.scores]
        if self.witness.scores_p is not None:
            rows.append(self.witness.scores_p)
        values = np.stack(rows)
        low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
        reach = (high - low) or 1.0
        zero = left + 16 + _BARS * (0.0 - low) / reach
        step = min((_SIDE + 4) / values.shape[1], 24.0)
        bar = max((step - 2) / len(rows), 1.0)
        shapes: list[Shape] = [
            Text(left, 16, "scores", 13, bold=True),
            Rect(left + 52, 24, 8, 8, "robust"),
            Text(left + 63, 32, "input", 10.5, fill="muted"),
        ]
        if len(rows) > 1:
            shapes += [
                Rect(left + 98, 24, 8, 8, "attackable"),
                Text(left + 109, 32, "perturbed", 10.5, fill="muted"),
            ]
        for label in range(values.shape[1]):
            y = _TOP + label * step
            shapes.append(Text(left + 8, y + step / 2 + 3, names[label], 10, "end", "muted"))
            for k, colour in enumerate(("robust", "attackable")[: len(rows)]):
                score = float(values[k, label])
                x = min(zero, zero + _BARS * score / reach)
                length = max(abs(_BARS * score / reach), 0.5)
                tip = f"score of {classed(self._name(label))}: {score:.4g}"
                shapes.append(Rect(x, y + k * bar, length, bar, colour, tip=tip))
        shapes.append(Line([(zero, _TOP - 2), (zero, _TOP + step * values.shape[1])], "muted"))
        return shapes


def witness_figure(entry: Entry) -> WitnessFigure | None:
    """The figure of an entry's best witness; None without a witness."""
    witness = entry.witness
    if witness is None:
        return None
    shown = [witness.x] if witness.x_p is None else [witness.x, witness.x_p]
    low, high = entry.question.input_range
    low = min(low, *(float(array.min()) for array in shown))
    high = max(high, *(float(array.max()) for array in shown))
    label = f"{entry.group.label}, {entry.pair}"
    known = entry.neighbour, entry.question.domain
    return WitnessFigure(entry.number, label, entry.source, witness, low, high, *known)
