"""Regions: a piece or a part of it, the bounds of its neurons, and which neurons have multipliers.

A region's block says which neurons are on, off, undecided or equal in both copies, and how the
bounds of some layers were refined: by multipliers, which prove tighter hexagons by the same
formula.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar_check.container import split_json
from vhagar_check.cuts import Cut
from vhagar_check.errors import Rejected
from vhagar_check.formula import Bounds, Choose, Decisions, Ranges, directions, from_sides
from vhagar_check.layers import Floats, Indices, Network
from vhagar_check.moved import identity
from vhagar_check.neuron_bounds import quick_bounds
from vhagar_check.pieces import Domain, Piece, Span, part_of
from vhagar_check.rational import ExactBounds

OFF, ON, PAIR, EQUAL = range(4)

Status = list[NDArray[np.uint8]]

# Sides of a range: a region about one image has a single copy.
_OF_ONE_IMAGE = 2


@dataclass(frozen=True, eq=False)
class Form:
    """The network and pieces of the trees, and the network `alone` of the tree without a piece."""

    network: Network
    pieces: list[Piece]
    alone: Network
    domain: Domain

    def of(self, number: Any) -> tuple[Network, Piece]:
        """The network and the piece of a region."""
        if number is None:
            return self.alone, identity(self.domain)
        if type(number) is not int or not 0 <= number < len(self.pieces):
            raise Rejected("a region is about a piece that the perturbation does not have")
        return self.network, self.pieces[number]


@dataclass(frozen=True, eq=False)
class Scope:
    """The pairs for which tightened bounds hold: they are attacked toward one target, or any if it
    is None, obey the decisions, and have at least the confidence `level`."""

    target: int | None
    level: float
    decisions: Decisions

    def covers(self, target: int | None, node: Decisions) -> bool:
        """Whether the scope contains all pairs of a node with at least its confidence."""
        return (
            self.target in (None, target)
            and all(node.sides.get(pixel) == side for pixel, side in self.decisions.sides.items())
            and all(
                node.signs.get(place, {}).get(copy) == sign
                for place, signs in self.decisions.signs.items()
                for copy, sign in signs.items()
            )
        )


@dataclass(frozen=True, eq=False)
class Region:
    """A piece or a part of it, the bounds of its neurons, and which neurons have multipliers.

    With a `scope` the bounds hold for its pairs only, and nothing below its level is proved.
    `entries` are the ranges of whole numbers that the region is about; it is `empty` if they leave
    no input, and its bounds are then those of the whole piece.
    """

    piece_number: int | None
    bounds: Bounds
    status: Status
    scope: Scope | None = None
    entries: Ranges = field(default_factory=dict)
    empty: bool = False
    cuts: tuple[Cut, ...] = ()

    def width(self, classes: int, has_target: bool) -> int:
        """The length of a proof's vector."""
        neurons = sum(2 * int((k == PAIR).sum()) + int((k == EQUAL).sum()) for k in self.status)
        return neurons + (classes - 1) * (2 if has_target else 1) + len(self.cuts)


class Regions:
    """Reads regions, and keeps the last piece's bounds for other regions of the same piece."""

    def __init__(self, form: Form, exact: bool = False) -> None:
        self._form = form
        self._kind = ExactBounds if exact else Bounds
        self._last: tuple[int | None, Span | None, Ranges, Bounds] | None = None

    def read(self, raw: bytes, refined: Iterable[bytes] = ()) -> Region:
        """Read the region of a REGN block and its REFN blocks, and compute its bounds."""
        about, data = split_json(raw)
        number, span = about["piece"], about["span"]
        network, piece = self._form.of(number)
        sizes = network.relu_sizes_and_classes[:-1]
        if span is not None:
            piece = part_of(piece, piece.read_span(span))
        elif piece.span is not None:
            raise Rejected("a region does not say which part of the parameter's range it is about")
        entries = _entries(about.get("entries", []), piece)
        part = piece.domain.narrowed(entries) if entries else piece.domain
        if entries and part is not None:
            piece = piece.within(part)
        if about["layers"] != sizes:
            raise Rejected("a region has other layers than the network")
        reader = Numbers(data)
        status = read_status(reader, network)
        bounds = self._bounds(number, network, piece, entries if part is not None else {})
        scope = _decided(bounds, about["decisions"]) if "decisions" in about else None
        for entry in about["refined"]:
            _refine(bounds, status, entry, reader)
        reader.finish()
        for block in refined:
            entry, data = split_json(block)
            reader = Numbers(data)
            _refine(bounds, status, entry, reader)
            reader.finish()
        return Region(number, bounds, status, scope, entries, part is None)

    def _bounds(
        self, number: int | None, network: Network, piece: Piece, entries: Ranges
    ) -> Bounds:
        if self._last is None or self._last[:3] != (number, piece.span, entries):
            self._last = number, piece.span, entries, quick_bounds(network, piece, self._kind)
        return self._last[3].copy()


def _entries(given: Any, piece: Piece) -> Ranges:
    """Read which part of the domain a region is about: an entry and two ends each."""
    found: Ranges = {}
    for entry, low, high in given:
        if type(entry) is not int or not 0 <= entry < piece.domain.size or entry in found:
            raise Rejected("a region narrows an entry that there is not, or one twice")
        found[entry] = float(low), float(high)
        if not all(map(math.isfinite, found[entry])):
            raise Rejected("a region narrows an entry to a range that is not finite")
    return found


class Numbers:
    """Reads arrays that follow each other in a block."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    def take(self, kind: Any, count: int) -> NDArray[Any]:
        length = np.dtype(kind).itemsize * count
        if count < 0 or length > len(self._data) - self._place:
            raise Rejected("a block of the certificate has too few numbers")
        found = np.frombuffer(self._data, kind, count, self._place)
        self._place += length
        return found

    def finish(self) -> None:
        if self._place != len(self._data):
            raise Rejected("a block of the certificate has too many numbers")


def read_status(reader: Numbers, network: Network) -> Status:
    """Read the status of every unit of every ReLU layer."""
    status = [reader.take(np.uint8, size) for size in network.relu_sizes_and_classes[:-1]]
    if any((layer > EQUAL).any() for layer in status):
        raise Rejected("a region gives a neuron an unknown status")
    for layer, linear in zip(status, network.linear, strict=False):
        if linear is not None and (layer[linear] != ON).any():
            raise Rejected("a region has a linear unit that is not on")
    return status


def _decided(bounds: Bounds, steps: Any) -> Scope:
    """Cut the ranges of neurons with decided signs at 0, in a region about one image.

    A decision that leaves nothing of a range leaves it as it is: then no version obeys it.
    """
    network, decisions = bounds.network, Decisions()
    sizes = network.relu_sizes_and_classes[:-1]
    if bounds.piece.sides != _OF_ONE_IMAGE or not isinstance(steps, list):
        raise Rejected("a region has decisions that it may not have")
    for step in steps:
        if not isinstance(step, list) or [type(part) for part in step] != [int] * 3:
            raise Rejected("a region has a decision that is none")
        layer, neuron, positive = step
        if not 0 <= layer < len(sizes) or not 0 <= neuron < sizes[layer]:
            raise Rejected("a region decides about a neuron that there is not")
        linear = network.linear_units(layer)
        if positive not in (0, 1) or (linear is not None and linear[neuron]):
            raise Rejected("a region has a decision that is none")
        if (layer, neuron) in decisions.signs:
            raise Rejected("a region decides twice about a neuron")
        decisions.signs[layer, neuron] = {0: 1 if positive else -1}
        known = bounds.hexagons[layer]
        cut = np.full((6, sizes[layer]), np.inf)
        if known.high[neuron] >= 0 >= known.low[neuron]:
            cut[0 if positive else 1, neuron] = 0.0
        bounds.replace(layer, known.meet(from_sides(list(cut), known.ratio)).tightened())
    return Scope(None, -np.inf, decisions)


def _refine(bounds: Bounds, status: Status, entry: Any, reader: Numbers) -> None:
    """Tighten the hexagons of some neurons of a layer, by given multipliers in the layers below."""
    layer = entry["layer"]
    if type(layer) is not int or not 0 < layer < len(status):
        raise Rejected("a region refines a layer that there is not")
    chosen = ascending(entry["neurons"], len(status[layer]))
    if not len(chosen):
        raise Rejected("a region refines no neurons")
    undecided = undecided_among(status[:layer], entry.get("seen"))
    count, tables = bounds.piece.sides * len(chosen), []
    for seen in undecided:
        p, q = (reader.take("<f4", count * len(seen)).reshape(count, len(seen)) for _ in "pq")
        if not (np.isfinite(p).all() and np.isfinite(q).all()):
            raise Rejected("a region is refined by numbers that are not finite")
        tables.append((p, q))
    part, places, units = bounds.around(layer, chosen)
    rows = np.zeros((len(chosen), part.network.relu_sizes_and_classes[layer]))
    rows[np.arange(len(chosen)), places] = 1.0
    found = [np.full(len(status[layer]), np.inf) for _ in directions(1.0)]
    for k, (on_s, on_t) in enumerate(directions(bounds.piece.ratio)[: bounds.piece.sides]):
        own = slice(k * len(chosen), (k + 1) * len(chosen))
        mine = [(p[own].astype(np.float64), q[own].astype(np.float64)) for p, q in tables]
        choose = from_tables(status, mine, undecided, units)
        found[k][chosen] = part.upper(layer, on_s * rows, on_t * rows, choose)[0]
    known = bounds.hexagons[layer]
    bounds.replace(layer, known.meet(from_sides(found, bounds.piece.ratio)).tightened())


def ascending(numbers: Any, size: int) -> Indices:
    """Check that these are different neurons of a layer, in ascending order."""
    if not isinstance(numbers, list) or not all(type(number) is int for number in numbers):
        raise Rejected("a region names neurons by something that is no number")
    found = np.array(numbers, dtype=np.int64)
    if len(found) and (found[0] < 0 or found[-1] >= size or (np.diff(found) <= 0).any()):
        raise Rejected("a region names neurons that there are not, or not in order")
    return found


def undecided_among(status: Status, seen: Any) -> list[Indices]:
    """The neurons of the layers below that have multipliers: all undecided ones, or those named."""
    every = [np.flatnonzero(layer >= PAIR) for layer in status]
    if seen is None:
        return every
    if not isinstance(seen, list) or len(seen) != len(status):
        raise Rejected("a proof of bounds does not say of every layer which neurons it uses")
    named = [ascending(own, len(layer)) for own, layer in zip(seen, status, strict=True)]
    if any((layer[own] < PAIR).any() for own, layer in zip(named, status, strict=True)):
        raise Rejected("a proof of bounds has multipliers of neurons that are not undecided")
    return named


def from_tables(
    status: Status,
    tables: list[tuple[Floats, Floats]],
    undecided: list[Indices] | None = None,
    units: list[Indices] | None = None,
) -> Choose:
    """Choose multipliers of undecided neurons from tables, `(a, b)` if a neuron is on, else 0.

    The tables are about the neurons `undecided`, by default all undecided ones. With `units`, only
    these units of each layer are in the network; multipliers of others are ignored.
    """

    def choose(layer: int, a: Floats, b: Floats) -> tuple[Floats, Floats]:
        own = status[layer] if units is None else status[layer][units[layer]]
        p, q = np.where(own == ON, a, 0.0), np.where(own == ON, b, 0.0)
        if undecided is None:
            p[:, own >= PAIR], q[:, own >= PAIR] = tables[layer]
            return p, q
        columns, there = undecided[layer], np.ones(len(undecided[layer]), dtype=np.bool_)
        if units is not None:
            places = np.searchsorted(units[layer], undecided[layer])
            there = places < len(units[layer])
            there[there] = units[layer][places[there]] == undecided[layer][there]
            columns = places[there]
        p[:, columns], q[:, columns] = (table[:, there] for table in tables[layer])
        return p, q

    return choose
