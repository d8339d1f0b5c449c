"""Bounds in rational arithmetic, for claims that float64 misses by its own rounding.

The formula is that of `formula`, evaluated without rounding; only the sides of hexagons, which are
kept as floats, are rounded outward. A side of exactly 0 stays 0, and so a tie stays a tie.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from vhagar_check.cuts import Weighted
from vhagar_check.exact import Exact
from vhagar_check.formula import Bounds, Choose, Decisions
from vhagar_check.hexagon import exact_offset
from vhagar_check.intervals import Box, leaving
from vhagar_check.layers import Floats, Linear, Network

# Directions of a hexagon's sides: each takes one evaluation of the formula.
_SIDES = 6


class ExactBounds(Bounds):
    """As `Bounds`, but every bound is the smaller of the float64 and the exact one."""

    def upper(
        self,
        stage: int,
        a: Floats,
        b: Floats,
        choose: Choose,
        decisions: list[Decisions] | None = None,
        cuts: Weighted | None = None,
    ) -> tuple[Floats, Floats]:
        value, room = super().upper(stage, a, b, choose, decisions, cuts)
        cases = decisions or [Decisions()] * len(a)
        for row, case in enumerate(cases):
            starts = Exact.of(a[row]), Exact.of(b[row])
            own = None if cuts is None else cuts.row(row)
            found = exact_upper(self, stage, *starts, choose, case, own)
            if found is not None:
                value[row] = np.fmin(value[row], rounded_up(found))
        return value, room

    def entering(self, k: int, boxes: list[Box]) -> list[Box]:
        layers = self.network.stages[k]
        rows = [Exact.of(row) for row in np.eye(self.network.relu_sizes_and_classes[k])]
        found = []
        for known, (low, high) in zip(super().entering(k, boxes), boxes, strict=True):
            if not (np.isfinite(low).all() and np.isfinite(high).all()):
                found.append(known)
                continue
            ends = [_range(layers, row, low, high) for row in rows]
            least = np.array([-rounded_up(-bottom) for bottom, _ in ends])
            most = np.array([rounded_up(top) for _, top in ends])
            found.append((np.fmax(known[0], least), np.fmin(known[1], most)))
        return found


def exact_upper(
    bounds: Bounds,
    stage: int,
    a: Exact,
    b: Exact,
    choose: Choose,
    case: Decisions,
    cuts: Weighted | None = None,
) -> Fraction | float | None:
    """The formula's value; minus infinity if a case is empty, None if it is not rational.

    `cuts` have the weights of a single case.
    """
    try:
        return _exact_upper(bounds, stage, a, b, choose, case, cuts)
    except (OverflowError, ValueError):  # an infinite or undefined side, multiplier or limit
        return None


def _exact_upper(
    bounds: Bounds,
    stage: int,
    a: Exact,
    b: Exact,
    choose: Choose,
    case: Decisions,
    cuts: Weighted | None,
) -> Fraction | float | None:
    constant = Fraction(0)
    for k in range(stage, -1, -1):
        for layer in reversed(bounds.network.stages[k]):
            bias = Exact.of(layer.bias)
            constant += a.dot(bias) + b.dot(bias)
            a, b = layer.exact_backward(a), layer.exact_backward(b)
        if k == 0:
            break
        if cuts is not None:
            a, b, price = cuts.exactly_taken_off(k - 1, a, b)
            constant += price
        below = _through_relus(bounds, k - 1, a, b, choose, case)
        if below is None:
            return float(-np.inf)
        a, b, paid = below
        constant += paid
    if cuts is not None:
        a, b = cuts.exactly_taken_off_inputs(a, b)
    support = bounds.piece.exact_within(a, b)
    return None if support is None else constant + support


def _through_relus(
    bounds: Bounds, layer: int, a: Exact, b: Exact, choose: Choose, case: Decisions
) -> tuple[Exact, Exact, Fraction] | None:
    """Coefficients on the pre-activations, and their offsets' sum; None if the case is empty.

    A coefficient that is passed on unchanged is passed on exactly.
    """
    hexagons, paid = bounds.hexagons[layer], Fraction(0)
    exact = list(zip(a.fractions(), b.fractions(), strict=True))
    rounded = np.array([[float(u), float(v)] for u, v in exact]).reshape(-1, 2).T
    p, q = (part[0].tolist() for part in choose(layer, rounded[:1], rounded[1:]))
    found: list[tuple[Fraction, Fraction]] = []
    for n, (u, v) in enumerate(exact):
        passes = (p[n], q[n]) == (rounded[0, n], rounded[1, n])
        left, right = (u, v) if passes else (Fraction(p[n]), Fraction(q[n]))
        found.append((left, right))
        signs = case.signs.get((layer, n), {})
        if passes and hexagons.linear is not None and hexagons.linear[n]:
            continue
        if not signs and not (u or v or left or right):
            continue
        offset = exact_offset(hexagons, n, signs, (u, v, left, right))
        if offset is None:
            return None
        paid += offset
    first, second = (Exact.of_fractions([pair[k] for pair in found]) for k in (0, 1))
    return first, second, paid


def _range(
    layers: tuple[Linear, ...], row: Exact, low: Floats, high: Floats
) -> tuple[Fraction, Fraction]:
    """The least and the largest value of one row on a stage's outputs, over a box of its inputs."""
    constant = Fraction(0)
    for layer in reversed(layers):
        constant += row.dot(Exact.of(layer.bias))
        row = layer.exact_backward(row)
    least = most = constant
    ends = zip(row.fractions(), Exact.of(low).fractions(), Exact.of(high).fractions(), strict=True)
    for weight, bottom, top in ends:
        if weight:
            products = weight * bottom, weight * top
            least, most = least + min(products), most + max(products)
    return least, most


def exact_ceiling(network: Network, box: Box, label: int) -> float:
    """Bound the confidence in a class over a box of inputs, by exact interval arithmetic."""
    try:
        for k in range(len(network.stages) - 1):
            ends = [
                _range(network.stages[k], Exact.of(row), *box)
                for row in np.eye(network.relu_sizes_and_classes[k])
            ]
            least = np.array([-rounded_up(-bottom) for bottom, _ in ends])
            box = leaving(network, k, (least, np.array([rounded_up(top) for _, top in ends])))
        tops = []
        for other in range(network.classes):
            lead = np.zeros(network.classes)
            lead[other] -= 1.0
            lead[label] += 1.0
            tops += [] if other == label else [_range(network.stages[-1], Exact.of(lead), *box)[1]]
        return rounded_up(min(tops))
    except (OverflowError, ValueError):
        return float(np.inf)


def exact_work(network: Network, regions: int, proofs: int) -> int:
    """Estimate the number of products in the exact evaluation of regions and proofs."""
    weights = bounds = 0
    for stage, size in zip(network.stages, network.relu_sizes_and_classes, strict=True):
        weights += sum(layer.terms * min(layer.in_size, layer.out_size) for layer in stage)
        bounds += 2 * _SIDES * size * weights
    return (regions + 1) * bounds + proofs * weights


def rounded_up(value: Fraction | float) -> float:
    """The smallest float that is at least a number."""
    try:
        nearest = float(value)
    except OverflowError:
        return float(np.inf) if value > 0 else float(np.finfo(np.float64).min)
    below = nearest not in (np.inf, -np.inf) and Fraction(nearest) < value
    return float(np.nextafter(nearest, np.inf)) if below else nearest
