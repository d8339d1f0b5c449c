"""Whether an input lies in a domain, as nodes of an ONNX graph.

Nodes decide only what they can prove. Ranges, whole numbers and orders are comparisons of float32
numbers, which are exact. Linear rows and zonotopes are computed in float64, and what rounding can
amount to for any input of the box is subtracted from their room. A row whose sum rounding cannot
change, because its terms are multiples of one unit, is compared as it is: so equalities are
decided.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from vhagar.array_types import Array
from vhagar.errors import InvalidInput
from vhagar.perturbation import Domain
from vhagar.perturbation.domain.linear_rows import LinearRows, joined_rows, linear_rows
from vhagar.perturbation.ranges import number
from vhagar.relaxation.rounding import float32_above

Float32 = NDArray[np.float32]

# More than products that underflow can lose, even where subnormal numbers are flushed to 0.
_LOST = 1e-300
# Binary digits of float64, and exponents far from its limits.
_DIGITS, _MOST_EXPONENT = 53, 400
# Inequalities of more entries are not compared exactly: ties are rare among images.
_MOST_ENTRIES = 64
# How the names of matrices end that propose the coordinates of inputs in a zonotope.
PROPOSAL = "_proposal"
Proposals = Mapping[str, Array]


def add_membership(
    graph: Any, domain: Domain, entries: str, prefix: str, proposals: Proposals
) -> str:
    """Add nodes for inputs `entries` `(batch, size)`; return the name of their verdict.

    The verdict `(batch, 1)` is true for inputs that certainly lie in the domain. `proposals` holds
    matrices that an earlier graph has proposed coordinates with: libraries do not agree on the last
    digits of such matrices, and any matrix will do.
    """
    nodes = _Nodes(graph, prefix, proposals)
    parts = [*_ranges(nodes, domain, entries), *_groups(nodes, domain, entries)]
    rows, zonotope = _summed_rows(domain), domain.zonotope
    if rows is not None or zonotope is not None:
        exact = nodes.add("Cast", entries, to=TensorProto.DOUBLE)
        parts += [] if rows is None else _rows(nodes, domain, rows, exact)
        parts += [] if zonotope is None else [_zonotope(nodes, domain, exact)]
    every = nodes.add("Cast", nodes.add("Concat", *parts, axis=1), to=TensorProto.FLOAT)
    return nodes.add("Cast", nodes.add("ReduceMin", every, axes=[1]), to=TensorProto.BOOL)


class _Nodes:
    """Appends nodes and constants to a graph, under names that begin alike."""

    def __init__(self, graph: Any, prefix: str, proposals: Proposals) -> None:
        self._graph, self._prefix, self._count = graph, prefix, 0
        self._proposals = proposals

    def constant(self, values: NDArray[Any], name: str = "") -> str:
        name = name or self._name("constant")
        self._graph.initializer.append(numpy_helper.from_array(values.copy(order="C"), name))
        return name

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = self._name(kind.lower())
        self._graph.node.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def between(self, values: str, low: NDArray[Any], high: NDArray[Any]) -> str:
        """Whether values `(batch, count)` lie between constants `(count,)`; NaN does not."""
        above = self.add("GreaterOrEqual", values, self.constant(low))
        return self.add("And", above, self.add("LessOrEqual", values, self.constant(high)))

    def columns(self, values: str, places: NDArray[np.int64]) -> str:
        return self.add("Gather", values, self.constant(places), axis=1)

    def proposal(self, matrix: Array) -> str:
        """The matrix that proposes coordinates: the earlier one if there is one of that shape."""
        name = f"{self._prefix}{PROPOSAL}"
        given = self._proposals.get(name, matrix)
        fits = given.shape == matrix.shape and given.dtype == matrix.dtype
        return self.constant(given if fits else matrix, name)

    def _name(self, what: str) -> str:
        self._count += 1
        return f"{self._prefix}_{what}{self._count}"


def _ranges(nodes: _Nodes, domain: Domain, entries: str) -> Iterator[str]:
    low, high = _float32_box(domain)
    empty = np.flatnonzero(low > high)
    if len(empty):
        k = int(empty[0])
        raise InvalidInput(
            f"the ONNX guard takes float32 inputs, and none lies in the domain {domain}: entry "
            f"{domain.place(k)} is from {number(domain.low[k])} to {number(domain.high[k])}; widen "
            "its range to a float32 number and verify again, or use the guard in Python, which "
            "takes float64"
        )
    yield nodes.between(entries, low, high)


def _float32_box(domain: Domain) -> tuple[Float32, Float32]:
    """The ends of all entries, rounded inward to float32.

    Entries that no component of the zonotope moves have the ends that its residual leaves.
    """
    ends = float32_above(domain.low), -float32_above(-domain.high)
    zonotope = domain.zonotope
    if zonotope is None:
        return ends
    for k in np.flatnonzero(~(zonotope.components != 0).any(axis=0)):
        mean, residual = (Fraction(float(part[k])) for part in (zonotope.mean, zonotope.residual))
        ends[0][k] = max(ends[0][k], _fraction_up(mean - residual))
        ends[1][k] = min(ends[1][k], -_fraction_up(-mean - residual))
    return ends


def _fraction_up(value: Fraction) -> np.float32:
    """The smallest float32 number that is not below a fraction."""
    near = float(value)
    near = near if Fraction(near) >= value else float(np.nextafter(near, np.inf))
    return np.float32(float32_above(np.array(near)))


def _groups(nodes: _Nodes, domain: Domain, entries: str) -> Iterator[str]:
    """Whole numbers, and the order of ordered groups; sums of one-hot groups are rows."""
    if len(domain.groups.whole):
        own = nodes.columns(entries, domain.groups.whole)
        yield nodes.add("Equal", own, nodes.add("Floor", own))
    pairs = [pair for group in domain.groups.ordered for pair in pairwise(group)]
    if pairs:
        first, second = (
            nodes.columns(entries, np.array(side, dtype=np.int64))
            for side in zip(*pairs, strict=True)
        )
        yield nodes.add("LessOrEqual", first, second)


def _summed_rows(domain: Domain) -> LinearRows | None:
    """The rows that were given and the sums of one-hot groups."""
    size, hot = domain.size, domain.groups.one_hot
    sums = [linear_rows(dict.fromkeys(group, 1.0), size, equal=1.0) for group in hot]
    own = domain.own_rows
    return joined_rows([*([] if own is None else [own]), *sums])


def _rows(nodes: _Nodes, domain: Domain, rows: LinearRows, exact: str) -> Iterator[str]:
    """Whether the rows hold; those with the same unit are decided together."""
    magnitude = np.maximum(abs(domain.low), abs(domain.high))
    sizes = np.asarray(abs(rows.matrix) @ magnitude)
    room = sizes * 2.0**-51 * (np.diff(rows.matrix.indptr) + 8) + _LOST
    low = _inward(rows.low + room, rows.low, np.inf)
    high = _inward(rows.high - room, rows.high, -np.inf)
    units = [_unit(rows, row, float(sizes[row]), magnitude) for row in range(rows.count)]
    for row in np.flatnonzero(low > high):
        if units[row] is None:
            raise InvalidInput(
                f"row {int(row) + 1} of the domain {domain} leaves less room than rounding needs, "
                "so that the ONNX guard could call no input robust; give the row two ends that are "
                "further apart (at_least, at_most) and verify again, or use the guard in Python, "
                "which computes such rows exactly"
            )
    for unit in dict.fromkeys(units):
        own = np.array([k for k, each in enumerate(units) if each == unit])
        matrix = rows.matrix[own].toarray().T
        value = nodes.add("MatMul", exact, nodes.constant(matrix))
        sure = nodes.between(value, low[own], high[own])
        if unit is not None:
            plain = nodes.between(value, rows.low[own], rows.high[own])
            multiples = _multiples(nodes, exact, unit, (matrix != 0).astype(np.float64))
            sure = nodes.add("Or", sure, nodes.add("And", plain, multiples))
        yield sure


def _inward(moved: Array, ends: Array, towards: float) -> Array:
    """Ends that were moved inward, rounded in the same direction; infinite ones stay."""
    return np.where(np.isfinite(ends), np.nextafter(moved, towards), ends)


def _unit(rows: LinearRows, row: int, size: float, magnitude: Array) -> int | None:
    """An exponent `e`: if all entries of a row are multiples of `2**e`, no sum of it is rounded.

    None if hardly any input is. `size` bounds the sum of the absolute terms. If weights are
    multiples of `2**t`, terms are multiples of `2**(t + e)`, and all sums are at most `2**53` of
    these.
    """
    entries, weights = rows.parts[row]
    if not len(entries):
        return 0
    if len(entries) > _MOST_ENTRIES and rows.low[row] < rows.high[row]:
        return None
    if not np.isfinite(size):
        return None
    mantissas, exponents = np.frexp(weights)
    whole = np.ldexp(abs(mantissas), _DIGITS).astype(np.int64)
    lowest = np.frexp((whole & -whole).astype(np.float64))[1] - 1
    least = int((exponents - _DIGITS + lowest).min())
    found = int(np.frexp(size * (1 + 2.0**-40))[1]) - _DIGITS - least
    most = max(abs(found), abs(least))
    useful = most <= _MOST_EXPONENT and np.ldexp(1.0, found) <= magnitude[entries].max()
    return found if useful else None


def _multiples(nodes: _Nodes, exact: str, unit: int, used: Array) -> str:
    """Whether all entries that a row uses `(size, rows)` are multiples of `2**unit`."""
    scaled = nodes.add("Mul", exact, nodes.constant(np.array(2.0**-unit)))
    whole = nodes.add("Equal", scaled, nodes.add("Floor", scaled))
    others = nodes.add("Cast", nodes.add("Not", whole), to=TensorProto.DOUBLE)
    count = nodes.add("MatMul", others, nodes.constant(used))
    return nodes.add("Equal", count, nodes.constant(np.array(0.0)))


def _zonotope(nodes: _Nodes, domain: Domain, exact: str) -> str:
    """Whether the coordinates by least squares prove that an input lies in the zonotope.

    Any coordinates in their ranges would be a proof, so those need not be computed exactly.
    """
    own = domain.zonotope
    assert own is not None
    largest = np.maximum(abs(domain.low), abs(domain.high))
    reach = abs(own.mean) + largest + own.ranges @ abs(own.components)
    room = (own.count + 8) * 2.0**-51 * reach + _LOST
    moved = (own.components != 0).any(axis=0)
    limit = np.where(moved, np.nextafter(own.residual - room, -np.inf), np.inf)
    if (limit < 0).any():
        raise InvalidInput(
            f"the zonotope of the domain {domain} has a residual that is smaller than rounding at "
            f"entry {domain.place(int(np.flatnonzero(limit < 0)[0]))}, so that the ONNX guard "
            "could call no input robust; give it a larger one and verify again"
        )
    gap = nodes.add("Sub", exact, nodes.constant(own.mean))
    inverse = np.asarray(np.linalg.pinv(own.components), dtype=np.float64)
    z = nodes.add("MatMul", gap, nodes.proposal(inverse))
    z = nodes.add("Min", z, nodes.constant(own.ranges))
    z = nodes.add("Max", z, nodes.constant(-own.ranges))
    rest = nodes.add("Sub", gap, nodes.add("MatMul", z, nodes.constant(own.components)))
    return nodes.add("LessOrEqual", nodes.add("Abs", rest), nodes.constant(limit))
