"""Spatial heatmaps: where in the image a square does the most harm.

A pixel's colour is the largest bound among the squares that cover it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from vhagar.array_types import Array
from vhagar.drawing.colours import ramp_pixels
from vhagar.drawing.figure import AbstractFigure, Cell, slug
from vhagar.drawing.shapes import Drawing, Picture, Rect, Shape, Text, legend
from vhagar.perturbation import parse
from vhagar.perturbation.occlusion import Occlusion
from vhagar.perturbation.patch import Patch
from vhagar.report.data import Entry, StudyData
from vhagar.report.pairs import MEASURES, measured, scale_end, standing_words
from vhagar.result.numbers import down, exact, up
from vhagar.sweep.class_coverage import over

_SIDE, _LEFT, _TOP = 252.0, 40.0, 62.0


@dataclass(frozen=True)
class Square:
    """One square, its row and column counted from 1, with its bounds and its problem's number."""

    row: int
    column: int
    width: int
    lower: float
    upper: float
    number: int

    def value(self, measure: str) -> float:
        return measured(self.lower, self.upper, measure)


@dataclass(frozen=True)
class Map:
    """The squares of one kind for one network, source and target (None for any target)."""

    network: str
    fingerprint: str
    kind: str
    source: int
    target: int | None
    height: int
    width: int
    squares: tuple[Square, ...]

    @property
    def kind_label(self) -> str:
        return f"{self.network}, {self.kind}"

    @property
    def pair(self) -> str:
        return f"{self.source} to {'any other' if self.target is None else self.target}"

    @property
    def label(self) -> str:
        toward = "any other class" if self.target is None else str(self.target)
        return f"{self.network}, {self.kind}, class {self.source} to {toward}"


@dataclass(frozen=True)
class SpatialHeatmap(AbstractFigure):
    """A heatmap of one bound over the image."""

    map: Map
    measure: str
    largest: float

    @property
    def title(self) -> str:  # type: ignore[override]
        return f"{self.map.label}: {self.measure}, {MEASURES[self.measure]}"

    @property
    def name(self) -> str:
        return slug("spatial", self.map.label, self.map.fingerprint[:6], self.measure)

    def columns(self) -> Sequence[str]:
        return ("network", "kind", "source", "target", "row", "column", "width", "lower", "upper")

    def rows(self) -> Sequence[Sequence[Cell]]:
        found = self.map
        toward = "any" if found.target is None else found.target
        head = (found.network, found.kind, found.source, toward)
        return [
            (
                *(*head, square.row, square.column, square.width, square.lower),
                square.upper if math.isfinite(square.upper) else None,
            )
            for square in found.squares
        ]

    def pixels(self) -> Array:
        """The largest value among the squares that cover each pixel; NaN if there is none."""
        found = np.full((self.map.height, self.map.width), np.nan)
        for square in self.map.squares:
            rows = slice(square.row - 1, square.row - 1 + square.width)
            columns = slice(square.column - 1, square.column - 1 + square.width)
            part = found[rows, columns]
            found[rows, columns] = np.fmax(part, square.value(self.measure))
        return found

    def draw(self) -> Drawing:
        height = _SIDE * self.map.height / self.map.width
        scale = _SIDE / self.map.width
        shares = self.pixels() / self.largest if self.largest > 0 else 0.0 * self.pixels()
        shares = np.minimum(shares, 1.0)
        heading = f"{self.map.pair}: {self.measure}"
        shapes: list[Shape] = [
            Text(_LEFT, 20, heading, 15, bold=True),
            Text(_LEFT, 37, MEASURES[self.measure], 12, fill="muted"),
            Picture(_LEFT, _TOP, _SIDE, height, ramp_pixels(shares)),
        ]
        for square in self.map.squares:
            x, y = _LEFT + scale * (square.column - 1), _TOP + scale * (square.row - 1)
            side = scale * square.width
            ends = f"{down(square.lower)} to {up(square.upper)}"
            tip = f"square at row {square.row}, column {square.column}: {ends}"
            shapes.append(Rect(x, y, side, side, "none", "paper", tip, f"#problem-{square.number}"))
        for k in sorted({1, self.map.width // 2, self.map.width}):
            shapes.append(Text(_LEFT + scale * (k - 0.5), _TOP - 6, str(k), 11, "middle", "muted"))
        for k in sorted({1, self.map.height // 2, self.map.height}):
            shapes.append(Text(_LEFT - 6, _TOP + scale * (k - 0.5) + 4, str(k), 11, "end", "muted"))
        clipped = any(square.value(self.measure) > self.largest for square in self.map.squares)
        shapes += legend(_LEFT, _TOP + height + 14, _SIDE, self.largest, clipped)
        bounds = [(square.lower, square.upper) for square in self.map.squares]
        standing = f"squares: {standing_words(bounds, 0)}"
        shapes.append(Text(_LEFT, _TOP + height + 60, standing, 11, fill="muted"))
        return Drawing(_LEFT + _SIDE + 16, _TOP + height + 70, self.title, shapes)


def spatial_heatmaps(study: StudyData) -> list[SpatialHeatmap]:
    """Make all heatmaps of kinds of squares with at least two positions."""
    heatmaps = []
    for found in _maps(study):
        largest = scale_end([square.value("upper") for square in found.squares])
        heatmaps += [SpatialHeatmap(found, measure, largest) for measure in MEASURES]
    return heatmaps


def _maps(study: StudyData) -> Iterator[Map]:
    kinds: dict[tuple[str, str, int], list[tuple[Entry, int, int, int]]] = defaultdict(list)
    for entry in study.entries:
        square = _square(entry)
        if square is not None:
            kind, row, column, width = square
            key = (entry.group.fingerprint, kind + over(entry.group.domain_name), entry.source)
            kinds[key].append((entry, row, column, width))
    for (fingerprint, kind, source), found in kinds.items():
        if len({(row, column) for _, row, column, _ in found}) < 2:
            continue
        facts = next(facts for facts in study.networks if facts.fingerprint == fingerprint)
        height, width = facts.input_shape[-2:]
        every = {each.target for entry, *_ in found for each in entry.targets}
        targets = sorted(target for target in every if target is not None)
        shown: list[int | None] = [*targets]
        if len(targets) == facts.classes - 1:
            shown.insert(0, None)
        for target in shown:
            squares = _squares(found, target, facts.classes)
            yield Map(facts.name, fingerprint, kind, source, target, height, width, squares)


def _square(entry: Entry) -> tuple[str, int, int, int] | None:
    """The kind and position of a perturbation that is one square; None for any other."""
    if entry.group.perturbation is None:
        return None
    found = parse(entry.group.perturbation)
    if not isinstance(found, Occlusion | Patch):
        return None
    widest = found.width[1]
    if found.row[0] != found.row[1] or found.column[0] != found.column[1]:
        return None
    kind = f"occlusion of width {widest}"
    if isinstance(found, Patch):
        kind = f"patch of width {widest}, limit {exact(found.limit)}"
    elif found.width[0] != widest:
        return None
    return kind, found.row[0], found.column[0], widest


def _squares(
    found: Sequence[tuple[Entry, int, int, int]], target: int | None, classes: int
) -> tuple[Square, ...]:
    """The squares for one target, or, with None, with the largest bounds over all targets."""
    by_place: dict[tuple[int, int, int], list[tuple[float, float, int]]] = defaultdict(list)
    seen: dict[tuple[int, int, int], set[int]] = defaultdict(set)
    for entry, row, column, width in found:
        for each in entry.targets:
            if each.target is not None and target in (None, each.target):
                place = (row, column, width)
                by_place[place].append((each.lower, each.upper, entry.number))
                seen[place].add(each.target)
    squares = []
    for (row, column, width), bounds in sorted(by_place.items()):
        lower = max(low for low, _, _ in bounds)
        upper = max(high for _, high, _ in bounds)
        if target is None and len(seen[row, column, width]) < classes - 1:
            upper = math.inf  # a target that was not asked about might exceed it
        number = max(bounds)[2]
        squares.append(Square(row, column, width, lower, upper, number))
    return tuple(squares)
