"""Both copies of the network in one mixed-integer model, with concrete bounds and relations.

Values that are equal in both copies share their columns, and therefore their boolean: this is how a
relation removes variables. Other relations become rows. The rows between booleans are valid because
a neuron may be called active exactly where its value is positive, and the order is kept there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from vhagar.dependency.ranges import Ranges
from vhagar.dependency.relation import Relations
from vhagar.dependency.relus import Neurons, add_outputs, add_pairs, add_relu
from vhagar.network import AbstractLayer, AbstractLinear, Network, Relu
from vhagar.perturbation import AbstractPiece
from vhagar.perturbation.relaxed import Expression, add_conditions
from vhagar.relaxation import Bounds
from vhagar.relaxation.hexagon import Hexagons
from vhagar.solver.linear_model import Columns, LinearModel


@dataclass(frozen=True, eq=False)
class Copies:
    """Columns of the input (index 0) and of the outputs of layer i (index i + 1), in both copies.

    `active` holds the booleans of a ReLU layer's neurons, -1 if there is none.
    """

    first: list[Columns] = field(default_factory=list)
    second: list[Columns] = field(default_factory=list)
    active: list[Columns] = field(default_factory=list)
    active_p: list[Columns] = field(default_factory=list)
    parameters: Expression | None = None


def add_copies(
    model: LinearModel,
    network: Network,
    piece: AbstractPiece,
    ranges: Ranges,
    relations: Sequence[Relations],
    hexagons: Sequence[Hexagons] | None = None,
) -> Copies:
    """Add both copies up to the last layer that `relations` is given for (index 0: the input).

    With the hexagons of every ReLU layer's inputs, neurons are in the lambda formulation.
    """
    left = None if hexagons is None else iter(hexagons)
    x = model.add_columns(ranges.first[0].lower, ranges.first[0].upper)
    add_conditions(model, piece.domain, x)
    image = piece.add_rows(model, x)
    copies = Copies(parameters=image.parameters)
    none = np.full(len(x), -1)
    _append(copies, x, image.x_p, none, none)
    add_order(model, x, image.x_p, relations[0])
    for position, layer in enumerate(network.layers[: len(relations) - 1]):
        known = relations[position + 1]
        if isinstance(layer, AbstractLinear):
            _add_linear(model, copies, layer, ranges, known)
        else:
            assert isinstance(layer, Relu)
            _add_relus(model, copies, layer, ranges, known, None if left is None else next(left))
        add_order(model, copies.first[-1], copies.second[-1], known)
        add_order(model, copies.active[-1], copies.active_p[-1], known.signs())
    return copies


def add_copy(
    model: LinearModel, layers: Sequence[AbstractLayer], box: Bounds, bounds: Sequence[Bounds]
) -> list[Columns]:
    """Add one copy alone, and return its columns: of the input, then of each layer's outputs.

    `bounds` are those of the outputs of each layer, for inputs in the box.
    """
    found = [model.add_columns(box.lower, box.upper)]
    entering = box
    for layer, leaving in zip(layers, bounds, strict=False):
        if isinstance(layer, AbstractLinear):
            values = model.add_columns(leaving.lower, leaving.upper)
            bias = layer.flat_bias
            model.add_rows([(values, 1.0), (found[-1], -layer.matrix)], bias, bias)
            found.append(values)
        else:
            assert isinstance(layer, Relu)
            found.append(add_relu(model, found[-1], entering, layer.linear)[0])
        entering = leaving
    return found


def _append(copies: Copies, z: Columns, z_p: Columns, a: Columns, a_p: Columns) -> None:
    for part, columns in (
        (copies.first, z),
        (copies.second, z_p),
        (copies.active, a),
        (copies.active_p, a_p),
    ):
        part.append(columns)


def add_order(model: LinearModel, z: Columns, z_p: Columns, known: Relations) -> None:
    """Add `gap_lower <= z_p - z <= gap_upper` for pairs of different columns."""
    one, two = z[known.first], z_p[known.second]
    needed = (one != two) & (one >= 0) & (two >= 0) & known.known
    if needed.any():
        sides = known.gap_lower[needed], known.gap_upper[needed]
        model.add_rows([(two[needed], 1.0), (one[needed], -1.0)], *sides)


def _add_linear(
    model: LinearModel, copies: Copies, layer: AbstractLinear, ranges: Ranges, known: Relations
) -> None:
    position = len(copies.first)
    one, two = ranges.first[position], ranges.second[position]
    equal = known.kept(known.equal)
    low, high = one.lower.copy(), one.upper.copy()
    np.maximum.at(low, equal.first, two.lower[equal.second])
    np.minimum.at(high, equal.first, two.upper[equal.second])
    matrix, bias = layer.matrix, layer.flat_bias
    s = model.add_columns(low, high)
    model.add_rows([(s, 1.0), (copies.first[-1], -matrix)], bias, bias)
    s_p, own = _shared(s, equal)
    if own.any():
        s_p[own] = model.add_columns(two.lower[own], two.upper[own])
        blocks = [(s_p[own], 1.0), (copies.second[-1], -matrix[np.flatnonzero(own)])]
        model.add_rows(blocks, bias[own], bias[own])
    none = np.full(len(s), -1)
    _append(copies, s, s_p, none, none)


def _add_relus(
    model: LinearModel,
    copies: Copies,
    layer: Relu,
    ranges: Ranges,
    known: Relations,
    hexagons: Hexagons | None,
) -> None:
    position = len(copies.first) - 1
    equal = known.kept(known.equal)
    add = add_relu if hexagons is None else add_outputs
    s, s_p = copies.first[-1], copies.second[-1]
    z, a = add(model, s, ranges.first[position], layer.linear)
    z_p, own = _shared(z, equal)
    a_p, _ = _shared(a, equal)
    two = ranges.second[position]
    mine = Bounds(two.lower[own], two.upper[own])
    linear = None if layer.linear is None else layer.linear[own]
    z_p[own], a_p[own] = add(model, s_p[own], mine, linear)
    if hexagons is not None:
        add_pairs(model, Neurons(s, z, a), Neurons(s_p, z_p, a_p), hexagons)
    _append(copies, z, z_p, a, a_p)


def _shared(columns: Columns, equal: Relations) -> tuple[Columns, np.ndarray]:
    """Return the columns that the second copy shares with the first, and a mask of the others."""
    shared = np.full(len(columns), -1)
    shared[equal.second] = columns[equal.first]
    own = np.ones(len(columns), dtype=np.bool_)
    own[equal.second] = False
    return shared, own
