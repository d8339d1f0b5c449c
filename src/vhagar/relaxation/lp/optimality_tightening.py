"""Tighter hexagons for a subtree of the search, valid for the pairs that beat the incumbent.

A node's decisions, the class constraints and the confidence that is to be beaten make hexagons
smaller (optimality-based bound tightening). Each new side is the optimum of an LP: the node's own,
with the confidence at least the incumbent's, and a neuron's pre-activation as objective. Few sides
matter. The node's solution tells which: the corners that have weight, and how much moving them
would gain at the LP's multipliers. As everywhere, the LPs only propose multipliers; the bounds are
computed from them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np

from vhagar.array_types import Array
from vhagar.errors import SolverFailure
from vhagar.relaxation.corners import Corners
from vhagar.relaxation.hexagon import Hexagons
from vhagar.relaxation.layerwise import SideProofs, Tightening, TwinBounds
from vhagar.relaxation.lp.decisions import Decision
from vhagar.relaxation.lp.region_model import RegionModel
from vhagar.relaxation.refinement import rounded_multipliers
from vhagar.relaxation.starts import hexagon_directions, hexagons_of, maxima_of
from vhagar.relaxation.twin_dual import Added, Allowed
from vhagar.solver.lp_answer import LpAnswer
from vhagar.solver.simplex import Simplex

# A layer, a neuron and a direction.
Side = tuple[int, int, int]

# Most sides that one tightening moves.
_MOST_SIDES = 25
# Share of the hexagon's width by which a side is moved to estimate its gain.
_MOVED = 0.05
# Of an equal pair, only the first copy's sides are tightened; the other four follow from them.
_OF_ONE_COPY = 2
# Corner weights below this are rounding errors.
_NO_WEIGHT = 1e-9


def tightened(
    region_model: RegionModel, decisions: tuple[Decision, ...], answer: LpAnswer, level: float
) -> tuple[TwinBounds | None, int]:
    """Bounds for a node's pairs of confidence at least `level`, or None if none is tighter; and the
    simplex iterations spent.

    `answer` is the solution of the node's LP, which must be the last that was solved.
    """
    allowed = region_model.cuts.allowed(decisions)
    level = max(level, region_model.bounds.level)
    places = important_sides(region_model, answer)[:_MOST_SIDES]
    if allowed is None or not places or not 0 <= level < np.inf or region_model.target is None:
        return None, 0
    duals, iterations = _solve(region_model, decisions, places, level)
    solved = [k for k, found in enumerate(duals) if found is not None]
    if not solved:
        return None, iterations
    places = [places[k] for k in solved]
    numbers = np.array([duals[k] for k in solved])
    rounded = rounded_multipliers(numbers, np.float32).astype(np.float64)
    values = side_bounds(region_model, places, rounded, level, allowed)
    return _with_sides(region_model, decisions, level, places, rounded, values), iterations


def important_sides(region_model: RegionModel, answer: LpAnswer) -> list[Side]:
    """Sides of undecided neurons whose tightening would lower the LP's optimum, the best first.

    The gain is estimated to first order, from the weights of the corners at the LP's optimum.
    """
    if answer.primal is None or answer.duals is None:
        return []
    found: list[tuple[float, Side]] = []
    layers = region_model.formula.coefficients(answer.duals).layers
    for layer, (a, b) in enumerate(layers):
        worth = _worth(region_model, answer.primal, answer.duals, layer, (a, b))
        for k, neuron in np.argwhere(worth > 0).tolist():
            found.append((worth[k, neuron], (layer, neuron, k)))
    found.sort(key=lambda side: (-side[0], side[1]))
    return [place for _, place in found]


def _worth(
    region_model: RegionModel, primal: Array, duals: Array, layer: int, on: tuple[Array, Array]
) -> Array:
    """The estimated gain of moving each side of a layer's hexagons, `(6, neurons)`."""
    weights, hexagons = region_model.model.weights, region_model.bounds.hexagons[layer]
    used = np.flatnonzero((weights.layer == layer) & (primal[weights.column] > _NO_WEIGHT))
    mass, neurons = primal[weights.column[used]], weights.neuron[used]
    corners = region_model.bounds.corners[layer]
    distance = abs(corners.s[:, neurons] - weights.s[used])
    which = np.argmin(distance + abs(corners.t[:, neurons] - weights.t[used]), axis=0)
    rows = region_model.model.rows[layer]
    p, q = np.zeros((2, len(hexagons)))
    p[rows.pairs], q[rows.pairs] = -duals[rows.pair_rows], -duals[rows.pair_rows_p]
    p[rows.equal] = -duals[rows.equal_rows]
    a, b, p, q = (part[neurons] for part in (*on, p, q))

    def value(moved: Corners) -> Array:
        s, t, z, z_p = (part[which, neurons] for part in (moved.s, moved.t, moved.z, moved.z_p))
        return np.asarray(a * z + b * z_p - p * s - q * t)

    known, sides = value(corners), maxima_of(hexagons)
    found = np.zeros(sides.shape)
    for k in range(len(sides)):
        moved = sides.copy()
        moved[k] -= _MOVED * (sides[k - k % 2] + sides[k - k % 2 + 1])
        smaller = hexagons_of(moved, hexagons.ratio).meet(hexagons).tightened()
        np.add.at(found[k], neurons, mass * (known - value(Corners.of(smaller))))
    found[_OF_ONE_COPY:, hexagons.equal] = 0.0
    return np.where(np.isfinite(found), found, 0.0)


def _solve(
    region_model: RegionModel, decisions: tuple[Decision, ...], places: list[Side], level: float
) -> tuple[list[Array | None], int]:
    """The duals of each side's LP; the first starts from the node's basis, others from the last."""
    model = region_model.model
    simplex = Simplex(model.arrays, model.delta, region_model.left_out, region_model.deadline)
    found: list[Array | None] = [None] * len(places)
    iterations = 0
    try:
        simplex.switch_off(region_model.cuts.switched_off(decisions))
        simplex.bound_column(model.delta, level, float(model.arrays.column_upper[model.delta]))
        if region_model.simplex.has_rows_in_order:
            simplex.restore(region_model.simplex.basis())
        for k, place in enumerate(places):
            if region_model.deadline.passed:
                break
            simplex.aim(_cost(region_model, place))
            answer = simplex.solve(need_primal=False)
            iterations += answer.iterations
            if answer.duals is not None and np.isfinite(answer.duals).all():
                found[k] = answer.duals
    except SolverFailure:
        pass  # the LPs solved so far count
    return found, iterations


def _cost(region_model: RegionModel, place: Side) -> Array:
    """The objective of a side's LP: a neuron's pre-activations in one direction."""
    layer, neuron, k = place
    direction = hexagon_directions(region_model.bounds.piece.ratio)[k]
    cost = np.zeros(region_model.model.model.column_count)
    for factor, copy in zip(direction, region_model.model.entering[layer], strict=True):
        row = copy.matrix[[neuron]]
        cost[row.indices] += factor * row.data
    return cost


def side_bounds(
    region_model: RegionModel, places: list[Side], duals: Array, level: float, allowed: Allowed
) -> Array:
    """The bounds that multipliers prove for sides, for attacked pairs of confidence >= `level`."""
    directions = hexagon_directions(region_model.bounds.piece.ratio)
    values = np.full(len(places), np.inf)
    for layer, rows in _by_layer(places):
        on_s, on_t = np.zeros((2, len(rows), len(region_model.bounds.hexagons[layer])))
        for row, k in enumerate(rows):
            _, neuron, direction = places[k]
            on_s[row, neuron], on_t[row, neuron] = directions[direction]
        added = Added(layer, on_s, on_t)
        values[rows] = region_model.formula.side_bounds(duals[rows], added, level, allowed)
    return values


def _by_layer(places: list[Side]) -> Iterator[tuple[int, list[int]]]:
    for layer in sorted({place[0] for place in places}):
        yield layer, [k for k, place in enumerate(places) if place[0] == layer]


def _with_sides(
    region_model: RegionModel,
    decisions: tuple[Decision, ...],
    level: float,
    places: list[Side],
    duals: Array,
    values: Array,
) -> TwinBounds | None:
    """The region's bounds with those new sides that are tighter and leave the hexagon nonempty."""
    base = region_model.bounds
    sides = [maxima_of(hexagons) for hexagons in base.hexagons]
    kept = []
    for k, (layer, neuron, direction) in enumerate(places):
        before = sides[layer][direction, neuron]
        if not values[k] < before:
            continue
        sides[layer][direction, neuron] = values[k]
        own = base.hexagons[layer].take(np.array([neuron]))
        if _is_empty(_met(sides[layer][:, [neuron]], own)):
            sides[layer][direction, neuron] = before
            continue
        kept.append(k)
    if not kept:
        return None
    hexagons = tuple(_met(*both) for both in zip(sides, base.hexagons, strict=True))
    assert region_model.target is not None
    numbers = region_model.formula.plain_numbers(duals[kept]).astype(np.float32)
    stated = tuple((d.layer, d.neuron, d.copy, d.positive) for d in decisions)
    proofs = SideProofs(base, region_model.target, stated, np.array(places)[kept], numbers)
    digest = _digest(region_model, proofs, level, hexagons)
    return base.tightened(Tightening(digest, level, len(decisions), hexagons), proofs)


def _met(sides: Array, known: Hexagons) -> Hexagons:
    return hexagons_of(sides, known.ratio).meet(known).tightened()


def _is_empty(hexagons: Hexagons) -> bool:
    h = hexagons
    ordered = (h.lower <= h.upper) & (h.lower_p <= h.upper_p) & (h.gap_lower <= h.gap_upper)
    return not bool(ordered.all())


def _digest(
    region_model: RegionModel, proofs: SideProofs, level: float, hexagons: tuple[Hexagons, ...]
) -> bytes:
    found = hashlib.sha256(repr((region_model.piece.span, region_model.target, level)).encode())
    found.update(repr(proofs.decisions).encode() + proofs.places.tobytes())
    found.update(proofs.numbers.tobytes())
    for layer in hexagons:
        for side in layer.sides:
            found.update(np.asarray(side).tobytes())
    return found.digest()
