"""Quadratic proofs: multipliers of facts about the differences between the copies.

`docs/certificate.md`, "The quadratic bound", explains the mathematics. Only the multipliers come
from the certificate. The coefficients of the differences, their errors and the box of the input's
change are derived from the model here. Definiteness is proved by the remainder of the matrix after
subtracting a triangular product, or in rational arithmetic if the matrix is small.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from vhagar_check.definite import Entries, is_above, is_semidefinite_exactly
from vhagar_check.entering import Entering
from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.formula import Decisions
from vhagar_check.layers import HALF_ULP, UNDERFLOW, Floats, Indices, Mask, gamma
from vhagar_check.rational import exact_upper
from vhagar_check.regions import EQUAL, OFF, ON, PAIR, Region

# Multipliers outside the first two prove nothing; inside, no product loses more than the third to
# underflow.
_SMALLEST, _LARGEST, _TINY = 2.0**-200, 2.0**200, 2.0**-600
# Most pairs and inputs for which rational arithmetic decides what float64 leaves open.
_FEW_PAIRS, _FEW_INPUTS = 24, 40
# Most products for deciding exactly the states of neurons that depend on rounding.
_MOST_PRODUCTS = 2**22
# The functions that are at most 0 for a neuron that is off, on or equal: coefficients of both
# copies.
_AT_MOST_0 = {
    OFF: ((1.0, 0.0), (0.0, 1.0)),
    ON: ((-1.0, 0.0), (0.0, -1.0)),
    EQUAL: ((1.0, -1.0), (-1.0, 1.0)),
}


@dataclass(frozen=True, eq=False)
class _Slopes:
    """The slopes of each ReLU layer that are 1, and the free ones; all others are 0."""

    on: list[Mask]
    free: list[Mask]


@dataclass(frozen=True, eq=False)
class _Rows:
    """Coefficients of the differences of the lead and of the free pairs, the last layer's first.

    `on_inputs` is `(1 + pairs, inputs)` and `on_pairs` `(1 + pairs, pairs)`; each comes with bounds
    on its absolute values and on its errors.
    """

    on_inputs: Floats
    input_sizes: Floats
    input_errors: Floats
    on_pairs: Floats
    pair_sizes: Floats
    pair_errors: Floats
    places: Indices  # of each pair among the region's undecided ones


class QuadraticProver:
    """Judges quadratic proofs of one region for one target.

    If they are `tied`, the unknowns are the inputs themselves, or the first entry's change where it
    is that of all, and the change is a linear function of them; otherwise the unknowns are the
    entries of the change.
    """

    def __init__(
        self, region: Region, source: int, target: int, claim: float, tied: bool = False
    ) -> None:
        self._region = region
        self._network = region.bounds.network
        self._claim = claim
        self._lead = np.zeros(self._network.classes)
        self._lead[source], self._lead[target] = 1.0, -1.0
        piece = region.bounds.piece
        self._entering = Entering.of(piece, tied)
        self._inputs = self._entering.inputs
        self._low, self._high = self._entering.low, self._entering.high
        self._check_status()

    @staticmethod
    def width(region: Region) -> int:
        """The length of a proof: one number for each undecided pair, and one for each input."""
        pairs = sum(int((layer == PAIR).sum()) for layer in region.status)
        return pairs + region.bounds.piece.domain.size

    def _check_status(self) -> None:
        """Check that a slope is taken as 0 or 1 only by the hexagons, or for a linear unit."""
        for k, (status, hexagons) in enumerate(
            zip(self._region.status, self._region.bounds.hexagons, strict=True)
        ):
            passes = self._network.linear_units(k)
            passing = np.zeros(len(status), np.bool_) if passes is None else passes
            on = passing | ((hexagons.low >= 0) & (hexagons.low_p >= 0))
            off = ~passing & (hexagons.high <= 0) & (hexagons.high_p <= 0)
            same = (hexagons.gap_low == 0) & (hexagons.gap_high == 0) & (hexagons.ratio == 1)
            doubtful = ((status == ON) & ~on) | ((status == OFF) & ~off & ~same)
            doubtful |= (status == EQUAL) & ~same
            if doubtful.any() and not self._is_exact(k, np.flatnonzero(doubtful)):
                raise Rejected("a quadratic proof rests on a neuron's state that is not proved")

    def _is_exact(self, layer: int, units: Indices) -> bool:
        """Whether rational arithmetic proves states that float64 misses by rounding at most."""
        stages = self._network.stages[: layer + 1]
        way = sum(each.terms * min(each.in_size, each.out_size) for s in stages for each in s)
        if 2 * len(units) * way > _MOST_PRODUCTS:
            return False
        bounds = self._region.bounds
        zero = np.zeros(len(self._region.status[layer]))
        for unit in units:
            for on_s, on_t in _AT_MOST_0[int(self._region.status[layer][unit])]:
                first, second = zero.copy(), zero.copy()
                first[unit], second[unit] = on_s, on_t
                starts = Exact.of(first), Exact.of(second)
                value = exact_upper(bounds, layer, *starts, bounds.quick, Decisions())
                if value is None or value > 0:
                    return False
        return True

    def value(self, vector: Floats, case: Decisions) -> float:
        """The claim, if the multipliers prove it; else infinity."""
        slopes = self._slopes(case)
        rows = self._composed(slopes)
        pairs = len(vector) - self._region.bounds.piece.domain.size
        slope_facts, box_facts = vector[:pairs][rows.places], vector[pairs:][self._inputs]
        given = np.concatenate([slope_facts, box_facts])
        if not np.isfinite(given).all() or (given <= 0).any():
            raise Rejected("a quadratic proof has a multiplier that is not a positive number")
        if ((given < _SMALLEST) | (given > _LARGEST)).any():
            return float(np.inf)
        matrix, radius = self._enclosed(rows, slope_facts, box_facts)
        if is_definite(matrix, radius):
            return self._claim
        inputs = max(len(self._inputs), len(self._entering.changed))
        few = len(rows.places) <= _FEW_PAIRS and inputs <= _FEW_INPUTS
        if few and self._entering.is_exact:
            exact = self._exact_matrix(slopes, slope_facts, box_facts)
            if is_semidefinite_exactly(exact):
                return self._claim
        return float(np.inf)

    def _slopes(self, case: Decisions) -> _Slopes:
        status = self._region.status
        found = _Slopes([layer == ON for layer in status], [layer == PAIR for layer in status])
        for (layer, unit), signs in case.signs.items():
            if found.free[layer][unit]:
                hexagons = self._region.bounds.hexagons[layer]
                ends = (hexagons.low, hexagons.high), (hexagons.low_p, hexagons.high_p)
                known = [
                    signs.get(copy, 1 if low[unit] >= 0 else -1 if high[unit] <= 0 else 0)
                    for copy, (low, high) in enumerate(ends)
                ]
                if known[0] == known[1] != 0:
                    found.free[layer][unit], found.on[layer][unit] = False, known[0] > 0
        for (layer, unit), slope in case.slopes.items():
            if found.free[layer][unit]:
                found.free[layer][unit], found.on[layer][unit] = False, slope
        return found

    def _composed(self, slopes: _Slopes) -> _Rows:
        """Go backwards; at a free pair, the coefficients from above end and its own row starts."""
        values, sizes, lost = self._lead[None], abs(self._lead)[None], np.zeros(len(self._lead))
        terms, starts = 8, np.cumsum([0, *(int((s == PAIR).sum()) for s in self._region.status)])
        met: list[tuple[Floats, Floats, Floats]] = []
        places: list[Indices] = []
        for k in range(len(self._network.stages) - 1, -1, -1):
            for layer in reversed(self._network.stages[k]):
                values = layer.backward(layer.kernel, values)
                sizes = layer.backward(layer.size, sizes)
                lost = 1.01 * layer.backward(layer.size, lost[None])[0]
                lost = lost + UNDERFLOW * (layer.terms + 1)
                terms += layer.terms + 2
            if k == 0:
                break
            free, on = slopes.free[k - 1], slopes.on[k - 1]
            errors = gamma(terms) * sizes[:, free] + lost[free]
            met.append((values[:, free], sizes[:, free] + errors, errors))
            undecided = self._region.status[k - 1] == PAIR
            places.append(starts[k - 1] + np.flatnonzero(free[undecided]))
            unit = np.eye(len(free))[free]
            values, sizes = (np.concatenate([part * on, unit]) for part in (values, sizes))
        errors = gamma(terms) * sizes + lost
        pairs = sum(len(part) for part in places)
        wholes = np.zeros((3, 1 + pairs, pairs))
        column = 0
        for block in met:
            rows, width = block[0].shape
            for whole, part in zip(wholes, block, strict=True):
                whole[:rows, column : column + width] = part
            column += width
        every = np.concatenate(places) if places else np.zeros(0, dtype=np.int64)
        on_inputs = self._entering.pulled(values, sizes + errors, errors)
        return _Rows(*on_inputs, wholes[0], wholes[1], wholes[2], every)

    def _enclosed(self, rows: _Rows, slopes: Floats, box: Floats) -> tuple[Floats, Floats]:
        """The matrix that proves the claim, and bounds on the errors of its entries."""
        middle = (self._low + self._high) / 2
        reach = np.maximum(self._high - middle, middle - self._low) * (1 + 4 * HALF_ULP) + _TINY
        sums = gamma(len(box) + 32)
        lead, lead_size, lead_error = rows.on_inputs[0], rows.input_sizes[0], rows.input_errors[0]
        on_u, size_u, error_u = rows.on_inputs[1:], rows.input_sizes[1:], rows.input_errors[1:]

        constant = lead @ middle + (lead**2 / (4 * box)).sum() + (box * reach**2).sum()
        spread = lead_size @ abs(middle) + (lead_size**2 / box).sum() + (box * reach**2).sum()
        slip = lead_error @ abs(middle) + (lead_error * lead_size / box).sum() + sums * spread

        shift, shift_size = lead / (2 * box) + middle, lead_size / (2 * box) + abs(middle)
        right = rows.on_pairs[0] + slopes * (on_u @ shift)
        right_slip = rows.pair_errors[0] + slopes * (
            error_u @ shift_size + size_u @ (lead_error / box) + sums * (size_u @ shift_size)
        )
        right_slip += sums * rows.pair_sizes[0]

        half = slopes / 2
        coupling = half[:, None] * rows.on_pairs[1:]
        coupling_slip = half[:, None] * (rows.pair_errors[1:] + sums * rows.pair_sizes[1:])
        crossed = (on_u / box) @ on_u.T * np.outer(half, half)
        mixed = (error_u / box) @ size_u.T
        crossed_slip = (mixed + mixed.T + sums * ((size_u / box) @ size_u.T)) * np.outer(half, half)
        lower = np.tril(np.diag(slopes) - coupling - coupling.T - crossed)

        order = len(slopes) + 1
        matrix, radius = np.zeros((2, order, order))
        matrix[1:, 1:] = lower + np.tril(lower, -1).T
        matrix[0, 1:] = matrix[1:, 0] = right
        matrix[0, 0] = 4 * (self._claim - constant)
        radius[1:, 1:] = coupling_slip + coupling_slip.T + crossed_slip
        radius[1:, 1:] += sums * np.diag(slopes)
        radius[0, 1:] = radius[1:, 0] = right_slip
        radius[0, 0] = 4 * slip + sums * (self._claim + abs(constant))
        return matrix, radius * (1 + 1e-6) + _TINY

    def _exact_matrix(self, slopes: _Slopes, facts: Floats, box: Floats) -> list[list[Fraction]]:
        """The matrix of `_enclosed` in rational numbers."""
        on_inputs, on_pairs = self._exact_rows(slopes)
        low, high, d, t = (
            [Fraction(x) for x in part.tolist()] for part in (self._low, self._high, box, facts)
        )
        middle = [(a + b) / 2 for a, b in zip(low, high, strict=True)]
        lead = on_inputs[0]
        constant = sum((c * m for c, m in zip(lead, middle, strict=True)), Fraction(0))
        for k, c in enumerate(lead):
            constant += c * c / (4 * d[k]) + d[k] * ((high[k] - low[k]) / 2) ** 2
        shift = [c / (2 * w) + m for c, w, m in zip(lead, d, middle, strict=True)]
        order = len(t) + 1
        found = [[Fraction(0)] * order for _ in range(order)]
        found[0][0] = 4 * (Fraction(self._claim) - constant)
        for i in range(1, order):
            own = on_inputs[i]
            moved = sum((a * s for a, s in zip(own, shift, strict=True)), Fraction(0))
            found[0][i] = found[i][0] = on_pairs[0][i - 1] + t[i - 1] * moved
            for j in range(1, i + 1):
                cross = sum(
                    (a * b / w for a, b, w in zip(own, on_inputs[j], d, strict=True)), Fraction(0)
                )
                entry = -t[i - 1] * t[j - 1] * cross / 4
                entry -= (t[i - 1] * on_pairs[i][j - 1] + t[j - 1] * on_pairs[j][i - 1]) / 2
                found[i][j] = found[j][i] = entry + (t[i - 1] if i == j else 0)
        return found

    def _exact_rows(self, slopes: _Slopes) -> tuple[list[list[Fraction]], list[list[Fraction]]]:
        """As `_composed`: coefficients on inputs and on pairs, the lead's first."""
        rows = [Exact.of(self._lead)]
        on_pairs: list[list[Fraction]] = [[]]
        for k in range(len(self._network.stages) - 1, -1, -1):
            for layer in reversed(self._network.stages[k]):
                rows = [layer.exact_backward(row) for row in rows]
            if k == 0:
                break
            free, on = slopes.free[k - 1], slopes.on[k - 1]
            for row, known in zip(rows, on_pairs, strict=True):
                every = row.fractions()
                known += [every[unit] for unit in np.flatnonzero(free)]
            before = len(on_pairs[0]) - int(free.sum())
            rows = [Exact(np.where(on, row.numerators, 0), row.denominator) for row in rows]
            for unit in np.flatnonzero(free):
                rows.append(Exact.of(np.eye(len(free))[unit]))
                on_pairs.append([Fraction(0)] * (before + int(free.sum())))
        return [self._entering.pulled_exactly(row.fractions()) for row in rows], on_pairs


def is_definite(matrix: Floats, radius: Floats) -> bool:
    """Whether every symmetric matrix within the radius is proved to have no negative eigenvalue."""
    diagonal = matrix.diagonal()
    if not (np.isfinite(matrix).all() and np.isfinite(radius).all() and (diagonal > 0).all()):
        return False
    # Scale by powers of two, which is exact: all diagonal entries become about 1.
    power = -(np.frexp(diagonal)[1] // 2)
    powers = power[:, None] + power[None, :]
    scaled, sized = np.ldexp(matrix, powers), np.ldexp(radius, powers)
    # `y'Ey <= sum of y_i^2 * row sum_i` for every symmetric E within the radius.
    sums = sized.sum(axis=1) * (1 + 1e-9) + _TINY
    np.fill_diagonal(scaled, np.nextafter(scaled.diagonal() - sums, -np.inf))
    return is_above(Entries.of(scaled), 0.0)
