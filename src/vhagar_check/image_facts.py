"""Proofs about one image by quadratic facts about all of its undecided neurons at once.

`docs/certificate.md`, "Facts about one image", explains the mathematics. Only the multipliers come
from the certificate. What a neuron's pre-activation is in terms of the version's moves and of the
outputs of earlier undecided neurons is derived from the model here, and so are the neurons' ranges,
by the region. A number that is not known exactly is replaced by a float64 number and a *slip*, a
bound on the distance of the two; slips are paid for in the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from vhagar_check.errors import Rejected
from vhagar_check.layers import HALF_ULP, TINY, Floats, Mask, gamma
from vhagar_check.one_image import OneImage
from vhagar_check.proofs import Question
from vhagar_check.quadratic import is_definite
from vhagar_check.rational import rounded_up
from vhagar_check.regions import EQUAL, OFF, ON, PAIR, Region

# Most undecided neurons, and most coefficients of them on what moves; numbers at once on the way.
MOST_NEURONS, MOST_COEFFICIENTS, _AT_ONCE = 2000, 2**25, 2**22
# Multipliers outside the first two, and coefficients above the second, prove nothing; inside, no
# product loses more than the third to underflow.
_SMALLEST, _LARGEST, _TINY = 2.0**-100, 2.0**100, 2.0**-500
# Facts of each neuron.
_FACTS = 5


@dataclass(frozen=True, eq=False)
class _Rows:
    """Functions `on_moves @ e + on_neurons @ z + constant` of moves `|e| <= 1` and outputs `z` of
    undecided neurons, each up to its `slip`."""

    on_moves: Floats
    on_neurons: Floats
    constant: Floats
    slip: Floats

    @property
    def sizes(self) -> _Rows:
        return _Rows(abs(self.on_moves), abs(self.on_neurons), abs(self.constant), self.slip)

    def of_moves(self, some: Mask) -> _Rows:
        """The functions without the moves that are not marked, which become slips."""
        idle = abs(self.on_moves[:, ~some]).sum(axis=1)
        return _Rows(self.on_moves[:, some], self.on_neurons, self.constant, self.slip + idle)


@dataclass(frozen=True, eq=False)
class _Ranges:
    """What is known of undecided neurons: `0 <= z <= top` and `z <= chord s + offset`."""

    top: Floats
    chord: Floats
    offset: Floats

    @classmethod
    def of(cls, low: Floats, high: Floats) -> _Ranges:
        """From `low <= s <= high`: any chord between 0 and 1 has an offset, attained at an end."""
        crossing = (low < 0) & (high > 0)
        chord = np.where(crossing, high / np.where(crossing, high - low, 1.0), low >= 0)
        offset = np.maximum(np.maximum(-chord * low, (1 - chord) * high), 0.0)
        return cls(np.maximum(high, 0.0), chord, offset * (1 + 16 * HALF_ULP) + TINY)


@dataclass(frozen=True, eq=False)
class _Multipliers:
    """One number for each neuron, or each move, that is in use.

    Of `z (s - z) = 0`, `z >= 0`, `z >= s`, `z <= chord s + offset`, `z (top - z) >= 0` and
    `1 - e^2 >= 0`.
    """

    curve: Floats
    zero: Floats
    line: Floats
    above: Floats
    within: Floats
    moves: Floats


class FactsProver:
    """Judges the proofs by facts of one region."""

    def __init__(self, region: Region) -> None:
        piece, self._bounds = region.bounds.piece, region.bounds
        if not isinstance(piece, OneImage):
            raise Rejected("a proof by facts about one image is about no image")
        if any((layer == PAIR).any() for layer in region.status):
            raise Rejected("a proof by facts about one image has neurons of two copies")
        self._status = region.status
        self._undecided = [np.flatnonzero(layer == EQUAL) for layer in region.status]
        self._starts = np.cumsum([0, *map(len, self._undecided)])
        self._neurons = int(self._starts[-1])
        self._piece = piece
        self._along = np.flatnonzero((piece.directions != 0).any(axis=0))
        self._free = np.flatnonzero(piece.room > 0)
        numbers = self._neurons * (len(self._along) + len(self._free))
        if self._neurons > MOST_NEURONS or numbers > MOST_COEFFICIENTS:
            raise Rejected("a proof by facts is about more neurons than this checker takes")
        self._ranges = self._known_ranges()
        self._strays = [self._stray(layer) for layer in range(len(region.status))]
        self._rows = self._neuron_rows()

    @staticmethod
    def width(region: Region) -> int:
        """The length of a proof: of each neuron's facts, of each parameter and entry, and alpha."""
        neurons = sum(int((layer == EQUAL).sum()) for layer in region.status)
        piece = region.bounds.piece
        parameters = len(piece.span[0]) if isinstance(piece, OneImage) else 0
        others = region.bounds.network.classes - 1
        return _FACTS * neurons + parameters + piece.domain.size + others

    def value(self, vector: Floats, question: Question) -> float:
        """The claim, if the multipliers prove it; else infinity."""
        if not np.isfinite(vector).all() or (vector < 0).any():
            raise Rejected("a proof by facts has a negative multiplier or one that is not finite")
        others = self._bounds.network.classes - 1
        by_neuron, moving, alpha = np.split(vector, [_FACTS * self._neurons, len(vector) - others])
        outside = (vector < _SMALLEST) | (vector > _LARGEST)
        if (outside & (vector != 0)).any() or not alpha.any() or not np.isfinite(question.claim):
            return float(np.inf)
        parameters = len(self._piece.span[0])
        moves = np.concatenate([moving[self._along], moving[parameters + self._free]])
        used = moves > 0
        curve, zero, line, above, within = by_neuron.reshape(_FACTS, self._neurons)
        if (curve + within == 0).any():
            return float(np.inf)  # the matrix would have a diagonal entry that is not above 0
        multipliers = _Multipliers(curve, zero, line, above, within, moves[used])
        rows, lead = self._rows.of_moves(used), self._lead(alpha, question).of_moves(used)
        total = sum((Fraction(weight) for weight in alpha.tolist()), Fraction(0))
        limit = -rounded_up(-Fraction(question.claim) * total)
        matrix, radius = _enclosed(rows, lead, self._ranges, multipliers, limit)
        return question.claim if is_definite(matrix, radius) else float(np.inf)

    def _lead(self, alpha: Floats, question: Question) -> _Rows:
        """The sum of `alpha_j (score_source - score_j)`."""
        network = self._bounds.network
        others = [j for j in range(network.classes) if j != question.source]
        start = np.zeros((1, network.classes))
        start[0, others], start[0, question.source] = -alpha, alpha.sum()
        found = self._traced(len(network.stages) - 1, start)
        rounded = 2 * HALF_ULP * len(others) * self._bounds.score_size * alpha.sum()
        return _Rows(found.on_moves, found.on_neurons, found.constant, found.slip + 1.01 * rounded)

    def _known_ranges(self) -> _Ranges:
        hexagons = self._bounds.hexagons
        pairs = list(zip(hexagons, self._undecided, strict=True))
        low = np.concatenate([np.zeros(0), *(each.low[own] for each, own in pairs)])
        high = np.concatenate([np.zeros(0), *(each.high[own] for each, own in pairs)])
        return _Ranges.of(low, high)

    def _stray(self, layer: int) -> Floats:
        """How far a unit's output may be from what its status says: `s` if it is on, 0 if off."""
        status, hexagons = self._status[layer], self._bounds.hexagons[layer]
        found = np.where(status == ON, np.maximum(-hexagons.low, 0.0), 0.0)
        found = np.where(status == OFF, np.maximum(hexagons.high, 0.0), found)
        linear = self._bounds.network.linear_units(layer)
        return found if linear is None else np.where(linear, 0.0, found)

    def _neuron_rows(self) -> _Rows:
        """The pre-activations of all undecided neurons, layer by layer, some at once."""
        sizes, found = self._bounds.network.relu_sizes_and_classes, []
        widest = max(self._piece.domain.size, *sizes)
        count = max(1, _AT_ONCE // widest)
        for layer, units in enumerate(self._undecided):
            for begin in range(0, len(units), count):
                some = units[begin : begin + count]
                start = np.zeros((len(some), sizes[layer]))
                start[np.arange(len(some)), some] = 1.0
                found.append(self._traced(layer, start))
        if not found:
            found = [self._traced(0, np.zeros((0, sizes[0])))]
        columns = zip(*((r.on_moves, r.on_neurons, r.constant, r.slip) for r in found), strict=True)
        return _Rows(*(np.concatenate(column) for column in columns))

    def _traced(self, stage: int, a: Floats) -> _Rows:
        """Trace functions `a` of a stage's outputs back, up to undecided neurons and the moves."""
        constant, slip = np.zeros((2, len(a)))
        on_neurons = np.zeros((len(a), self._neurons))
        for k in range(stage, -1, -1):
            nothing = np.zeros_like(a)
            a, _, constant, slip = self._bounds.through_stage(k, a, nothing, constant, slip)
            if k == 0:
                break
            ends = slice(self._starts[k - 1], self._starts[k])
            on_neurons[:, ends] = a[:, self._undecided[k - 1]]
            slip = slip + abs(a) @ self._strays[k - 1]
            a = a * (self._status[k - 1] == ON)
        return self._entered(a, on_neurons, constant, slip)

    def _entered(self, a: Floats, on_neurons: Floats, constant: Floats, slip: Floats) -> _Rows:
        """Put in the versions: `centre + directions v + w` with `abs(w) <= room`."""
        piece = self._piece
        along, room = piece.directions[:, self._along], piece.room[self._free]
        moves = np.concatenate([a @ along, a[:, self._free] * room], axis=1)
        reach = abs(piece.centre) + abs(piece.directions).sum(axis=1) + piece.room
        terms = 2 * a.shape[1] + len(self._along) + 16
        constant = constant + a @ piece.centre
        slip = slip + gamma(terms) * (abs(a) @ reach) + 4 * HALF_ULP * abs(constant)
        return _Rows(moves, on_neurons, constant, 1.001 * slip + TINY)


def _enclosed(
    rows: _Rows, lead: _Rows, ranges: _Ranges, given: _Multipliers, limit: float
) -> tuple[Floats, Floats]:
    """The matrix that proves the limit, and bounds on the errors of its entries."""
    matrix, right, constant = _summed(rows, lead, ranges, given, -1.0)
    sizes = _summed(rows.sizes, lead.sizes, ranges, given, 1.0)
    # A term of any entry is rounded at most so often.
    share = gamma(4 * sum(rows.on_moves.shape) + 64) * (1 + 1e-6)
    order = len(right) + 1
    whole, radius = np.zeros((2, order, order))
    whole[1:, 1:], whole[0, 1:], whole[1:, 0] = matrix, right, right
    whole[0, 0] = 4 * (limit - constant)
    radius[1:, 1:], radius[0, 1:], radius[1:, 0] = (share * part for part in (*sizes[:2], sizes[1]))
    slips = given.curve * ranges.top + given.line + given.above * ranges.chord
    paid = float(slips @ rows.slip) + float(lead.slip[0])
    radius[0, 0] = 4.001 * (share * sizes[2] + paid) + 16 * HALF_ULP * (abs(limit) + abs(constant))
    largest = np.max([abs(part).max(initial=0.0) for part in _parts(rows, lead, ranges)])
    if not largest <= _LARGEST:
        radius[0, 0] = np.inf
    return whole, radius + _TINY


def _parts(rows: _Rows, lead: _Rows, ranges: _Ranges) -> tuple[Floats, ...]:
    numbers = [part for r in (rows, lead) for part in (r.on_moves, r.on_neurons, r.constant)]
    return (*numbers, ranges.top, ranges.offset)


def _summed(
    rows: _Rows, lead: _Rows, ranges: _Ranges, given: _Multipliers, minus: float
) -> tuple[Floats, Floats, float]:
    """The matrix, the linear coefficients and the constant, with the moves eliminated.

    With the sizes of rows and 1 for `minus`, these are the sums of all terms' absolute values.
    """
    on_rows = ranges.chord * given.above + minus * given.line
    on_moves = lead.on_moves[0] + on_rows @ rows.on_moves
    shift = rows.constant + rows.on_moves @ (on_moves / (2 * given.moves))
    right = lead.on_neurons[0] + on_rows @ rows.on_neurons
    right = right + given.zero + given.line + minus * given.above
    right = right + given.curve * shift + given.within * ranges.top
    half = given.curve / 2
    coupling = half[:, None] * rows.on_neurons
    crossed = (rows.on_moves / given.moves) @ rows.on_moves.T * np.outer(half, half)
    # Rows have entries for earlier neurons only, below the diagonal.
    lower = np.diag(given.curve + given.within) + np.tril(minus * (coupling + crossed))
    matrix = lower + np.tril(lower, -1).T
    constant = lead.constant[0] + on_rows @ rows.constant + given.above @ ranges.offset
    constant = constant + given.moves.sum() + (on_moves**2 / (4 * given.moves)).sum()
    return matrix, right, float(constant)
