"""Tightenings: hexagons that hold for the pairs of a subtree with enough confidence.

A pair that is attacked toward the target, obeys the decisions and has at least the confidence
`level` has leads `D_source - D_j >= level` in the first copy, and `D_target - D_j >= 0` in the
second. So for all `alpha, mu >= 0` a side `d.(s, t)` of a neuron's hexagon is at most

    d.(s, t) + sum of alpha_j (D_source - D_j - level)(x) + sum of mu_j (D_target - D_j)(x_p),

which the formula bounds: it starts with `alpha` and `mu` at the scores, and `d` joins the
coefficients on the neuron's pre-activations.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from vhagar_check.container import split_json
from vhagar_check.errors import Rejected
from vhagar_check.formula import Added, Decisions, directions, from_sides
from vhagar_check.layers import Floats, Network
from vhagar_check.proofs import Prover, Question
from vhagar_check.regions import Numbers, Region, Scope, Status, read_status

_PIXELS = -1
# How many sides are bounded at once.
_BATCH = 256


def tightened(region: Region, raw: bytes, source: int) -> Region:
    """Apply the tightening of a TIGH block to a region."""
    about, data = split_json(raw)
    network = region.bounds.network
    scope = _scope(about, region, network.classes, source)
    sides = _sides(about["sides"], region.status, network)
    reader = Numbers(data)
    status = read_status(reader, network)
    width = region.width(network.classes, has_target=True)
    vectors = reader.take("<f4", len(sides) * width).reshape(len(sides), width)
    reader.finish()
    found = region.bounds.copy()
    values = _values(region, scope, source, sides, vectors.astype(np.float64), about["level"])
    ratio = region.bounds.piece.ratio
    for layer in sorted({side[0] for side in sides}):
        known = found.hexagons[layer]
        tighter = [np.full(len(status[layer]), np.inf) for _ in directions(1.0)]
        for (own, neuron, direction), value in zip(sides, values, strict=True):
            if own == layer:
                tighter[direction][neuron] = min(tighter[direction][neuron], value)
        found.replace(layer, known.meet(from_sides(tighter, ratio)).tightened())
    return replace(region, bounds=found, status=status, scope=scope)


def _scope(about: Any, region: Region, classes: int, source: int) -> Scope:
    """The pairs of the tightening among those of the region."""
    target, level = about["target"], about["level"]
    if type(target) is not int or not 0 <= target < classes or target == source:
        raise Rejected("a tightening is about a target that there is not")
    if type(level) not in (int, float) or not math.isfinite(level):
        raise Rejected("a tightening is for a confidence that is no number")
    decisions, before = Decisions(), region.scope
    if before is not None:
        if target != before.target:
            raise Rejected("a tightening builds on one for another target")
        level = max(level, before.level)
        decisions.sides.update(before.decisions.sides)
        for place, signs in before.decisions.signs.items():
            decisions.signs[place] = dict(signs)
    for step in about["decisions"]:
        _decide(decisions, step, region)
    return Scope(target, float(level), decisions)


def _decide(decisions: Decisions, step: Any, region: Region) -> None:
    """Add one decision, `[layer, neuron, copy, positive]`, unless there is one about the place."""
    if not isinstance(step, list) or len(step) != 4 or any(type(part) is not int for part in step):
        raise Rejected("a tightening has a decision that is none")
    layer, neuron, copy, positive = step
    network = region.bounds.network
    sizes = network.relu_sizes_and_classes[:-1]
    if not _PIXELS <= layer < len(sizes) or copy not in (0, 1) or positive not in (0, 1):
        raise Rejected("a tightening has a decision that is none")
    size = region.bounds.piece.domain.size if layer == _PIXELS else sizes[layer]
    linear = None if layer == _PIXELS else network.linear_units(layer)
    if not 0 <= neuron < size or (linear is not None and linear[neuron]):
        raise Rejected("a tightening decides about a neuron that there is not")
    sign = 1 if positive else -1
    if layer == _PIXELS:
        decisions.sides.setdefault(neuron, sign)
    else:
        decisions.signs.setdefault((layer, neuron), {}).setdefault(copy, sign)


def _sides(given: Any, status: Status, network: Network) -> list[tuple[int, int, int]]:
    """Read which sides are new: a layer, a neuron and a direction each."""
    if not isinstance(given, list) or not given:
        raise Rejected("a tightening has no sides")
    found = []
    for side in given:
        if not isinstance(side, list) or [type(part) for part in side] != [int] * 3:
            raise Rejected("a tightening names a side that there is not")
        layer, neuron, direction = side
        if not 0 <= layer < len(status) or not 0 <= neuron < len(status[layer]):
            raise Rejected("a tightening names a side that there is not")
        linear = network.linear_units(layer)
        if not 0 <= direction < len(directions(1.0)) or (linear is not None and linear[neuron]):
            raise Rejected("a tightening names a side that there is not")
        found.append((layer, neuron, direction))
    return found


def _values(
    region: Region,
    scope: Scope,
    source: int,
    sides: list[tuple[int, int, int]],
    vectors: Floats,
    level: float,
) -> Floats:
    """The bounds on each side that the multipliers prove."""
    prover = Prover(region, Question(source, scope.target, math.inf))
    ways = directions(region.bounds.piece.ratio)
    values = np.full(len(sides), np.inf)
    for layer in sorted({side[0] for side in sides}):
        mine = [k for k, side in enumerate(sides) if side[0] == layer]
        for begin in range(0, len(mine), _BATCH):
            rows = mine[begin : begin + _BATCH]
            on_s, on_t = np.zeros((2, len(rows), len(region.status[layer])))
            for row, k in enumerate(rows):
                on_s[row, sides[k][1]], on_t[row, sides[k][1]] = ways[sides[k][2]]
            added = Added(layer, on_s, on_t)
            values[rows] = prover.sides(added, vectors[rows], scope.decisions, Fraction(level))
    return values
