"""What multipliers of quadratic facts prove, in float64 with all rounding bounded and added.

The float64 multipliers count as exact numbers, and so do the rows of the compact network; the
errors of these are added. With the coordinates eliminated, the lead is at most `beta` if

    [[4 (beta - constant), right'], [right, matrix]]

is positive definite. Its entries are computed in float64. Their distance from the exact ones is
bounded by the same sums with absolute values, times a bound on the relative error of any sum here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vhagar.array_types import Array
from vhagar.local.compact import Compact, dense
from vhagar.local.quadratic import (
    LARGEST,
    SMALLEST,
    Facts,
    Lead,
    Multipliers,
    QuadraticSearch,
)
from vhagar.relaxation.interval import HALF_ULP
from vhagar.relaxation.positive_definite import is_positive_definite

# More than any product here loses to underflow, since neither multipliers nor rows are extreme.
_UNDERFLOW = 1e-200
# Evaluations of multipliers: for the first lead, and for each one; and how fast they are, in
# products of two numbers per second.
_FIRST, _EACH, _PER_SECOND = 100, 50, 5e10
# Most neurons, and most coefficients of them on what moves: they take memory, also the checker's.
_MOST_NEURONS, _MOST_COEFFICIENTS = 2_000, 2**25
# A bound that is to be certified is below 0 by so many times what it has for rounding: a thousandth
# of it is the checker's, which rounds about as much.
_CLEARLY = 4_000.0
# Relative distances above the value in float64 at which a proof is tried.
_ROOM = (1e-9, 1e-6, 1e-4, 1e-2)


@dataclass(frozen=True, eq=False)
class FactsProof:
    """The multipliers of a bound as a certificate states them: of the facts about the neurons, of
    the parameters (none if the versions do not move along them), and of the input's entries, 0 for
    those that do not move on their own."""

    neurons: Array
    parameters: Array
    entries: Array

    @classmethod
    def of(cls, compact: Compact, multipliers: Multipliers) -> FactsProof:
        versions = compact.versions
        *neurons, moves = multipliers.parts
        along, own = np.split(moves, [versions.directions.shape[1]])
        entries = np.zeros(len(versions.room))
        entries[versions.room > 0] = own
        return cls(np.concatenate(neurons), along, entries)

    def numbers(self, parameters: int, alpha: Array) -> Array:
        """All numbers, for a piece with so many parameters."""
        along = self.parameters if len(self.parameters) else np.zeros(parameters)
        return np.concatenate([self.neurons, along, self.entries, alpha])


class QuadraticBounds:
    """Bounds on leads of scores by quadratic facts about the neurons of a compact network."""

    def __init__(self, compact: Compact, certified: bool = False) -> None:
        """With `certified`, bounds are so far below 0 that the checker has room to prove them."""
        self._compact, self._facts = compact, Facts.of(compact)
        self._clearly = _CLEARLY if certified else 0.0
        self._search = QuadraticSearch(self._facts)
        self.proof: FactsProof | None = None

    def bound(self, start: Array, known: float, stop: Callable[[], bool]) -> float:
        """A proven bound on `start @ scores` below 0; infinity if none is found.

        `proof` then holds what proves it.
        """
        found, self.proof = np.inf, None

        def proves(multipliers: Multipliers) -> bool:
            nonlocal found
            found = proven_bound(
                self._compact, self._facts, start, multipliers, self._clearly, stop
            )
            if found < 0:
                self.proof = FactsProof.of(self._compact, multipliers)
            return bool(found < 0)

        self._search.improve(Lead.of(self._compact, self._facts, start), known, stop, proves)
        return found if found < 0 else np.inf


def are_possible(compact: Compact) -> bool:
    """Whether there is anything undecided to bound, and not too much of it."""
    versions = compact.versions
    moves = versions.directions.shape[1] > 0 or bool((versions.room > 0).any())
    coefficients = compact.undecided * sum(versions.directions.shape)
    return moves and 0 < compact.undecided <= _MOST_NEURONS and coefficients <= _MOST_COEFFICIENTS


def likely_seconds(compact: Compact, leads: int) -> float:
    """How long it may take to bound so many leads."""
    neurons = compact.undecided
    products = neurons**2 * (len(compact.versions.centre) + 2.0 * neurons)
    return products * (_FIRST + _EACH * leads) / _PER_SECOND


def proven_bound(
    compact: Compact,
    facts: Facts,
    start: Array,
    multipliers: Multipliers,
    clearly: float = 0.0,
    stop: Callable[[], bool] = lambda: False,
) -> float:
    """A proven upper bound on `start @ scores` over all versions; infinity without a proof.

    With `clearly`, there is none either if the bound is above so many times what it has for
    rounding, below 0.
    """
    lead, sizes = Lead.of(compact, facts, start), _sizes(compact, facts, start)
    numbers = multipliers.all
    usable = (numbers >= SMALLEST).all() and (numbers <= LARGEST).all()
    usable &= all(np.isfinite(part).all() and (part <= LARGEST).all() for part in sizes)
    if not usable:
        return float(np.inf)
    with np.errstate(all="ignore"):
        matrix, right, constant = _sums(facts, lead, multipliers)
        radius, right_radius, constant_radius = _radii(facts, sizes, multipliers)
        room = 1.01 * (constant_radius + _slack(facts, lead, multipliers))
        try:
            value = constant + float(right @ np.linalg.solve(matrix, right)) / 4
        except np.linalg.LinAlgError:
            return float(np.inf)
        whole, around = np.zeros((2, len(right) + 1, len(right) + 1))
        whole[1:, 1:], whole[0, 1:], whole[1:, 0] = matrix, right, right
        around[1:, 1:], around[0, 1:], around[1:, 0] = radius, right_radius, right_radius
        for share in _ROOM:
            if stop():
                break
            beta = value + room + share * (abs(value) + abs(constant) + room)
            whole[0, 0] = 4 * (beta - constant)
            around[0, 0] = 4.1 * room + 8 * HALF_ULP * (abs(beta) + abs(constant)) + _UNDERFLOW
            if clearly and not beta < clearly * (value - beta):
                break
            if np.isfinite(beta) and is_positive_definite(whole, around):
                return float(beta)
    return float(np.inf)


def _sums(facts: Facts, lead: Lead, multipliers: Multipliers) -> tuple[Array, Array, float]:
    """The matrix, the linear coefficients and the constant, with the coordinates eliminated."""
    curve, zero, line, above, range_, box = multipliers.parts
    slopes = facts.chord * above - line
    on_inputs = lead.on_inputs + slopes @ facts.on_inputs
    scaled = facts.on_inputs * (curve[:, None] / 2) / np.sqrt(box)
    coupling = facts.on_neurons * (curve[:, None] / 2)
    matrix = np.tril(-(scaled @ scaled.T) - coupling)
    matrix[np.diag_indices(len(curve))] += curve + range_
    matrix += np.tril(matrix, -1).T
    right = lead.on_neurons + zero + line - above + slopes @ facts.on_neurons
    right = right + range_ * facts.upper
    right = right + curve * (facts.bias + facts.on_inputs @ (on_inputs / (2 * box)))
    constant = lead.constant + slopes @ facts.bias - (facts.chord * above) @ facts.lower
    constant += box.sum() + (on_inputs**2 / (4 * box)).sum()
    return matrix, right, float(constant)


_Sizes = tuple[Array, Array, Array, Array, Array, Array]


def _sizes(compact: Compact, facts: Facts, start: Array) -> _Sizes:
    """The absolute terms of the neurons' rows and of the lead: by `e`, by `z`, and without."""
    centre, spread = abs(compact.versions.centre), abs(facts.spread)
    size = len(centre)
    weights = [abs(block.weight[:, :size]) for block in compact.blocks]
    offsets = [
        abs(block.bias) + own @ centre for block, own in zip(compact.blocks, weights, strict=True)
    ]
    assert compact.scores is not None
    lead = abs(start) @ abs(dense(compact.scores.weight))
    return (
        np.concatenate([own @ spread for own in weights]),
        abs(facts.on_neurons),
        np.concatenate(offsets),
        lead[:size] @ spread,
        lead[size:],
        np.array([abs(start) @ abs(compact.scores.bias) + lead[:size] @ centre]),
    )


def _radii(facts: Facts, sizes: _Sizes, multipliers: Multipliers) -> tuple[Array, Array, float]:
    """The radii of what `_sums` computes.

    Every entry is a product of at most four sums over entries of a version, coordinates or neurons,
    and of some numbers.
    """
    by_inputs, by_neurons, bias, lead_by_inputs, lead_by_neurons, lead = sizes
    curve, zero, line, above, range_, box = multipliers.parts
    terms = facts.spread.shape[0] + facts.spread.shape[1] + len(bias) + 64
    relative = 8 * terms * HALF_ULP * (1 + 1e-6)
    slopes = facts.chord * above + line
    on_inputs = lead_by_inputs + slopes @ by_inputs
    # By Cauchy-Schwarz, sums over the coordinates of products of two rows are at most this.
    norms = (curve / 2) * np.sqrt((by_inputs**2 / box).sum(axis=1))
    coupling = by_neurons * (curve[:, None] / 2)
    matrix = np.outer(norms, norms) + coupling + coupling.T
    matrix[np.diag_indices(len(curve))] += curve + range_
    right = lead_by_neurons + zero + line + above + slopes @ by_neurons
    right = right + range_ * facts.upper
    right = right + curve * (bias + by_inputs @ (on_inputs / (2 * box)))
    constant = lead[0] + slopes @ bias + (facts.chord * above) @ abs(facts.lower)
    constant += box.sum() + (on_inputs**2 / (4 * box)).sum()
    radii = (relative * part + _UNDERFLOW for part in (matrix, right))
    return *radii, float(relative * constant + _UNDERFLOW)


def _slack(facts: Facts, lead: Lead, multipliers: Multipliers) -> float:
    """What the facts may be below 0, because the rows have errors and the chords are rounded."""
    curve, _, line, above, _, _ = multipliers.parts
    steep = facts.chord * above
    by_rows = (curve * facts.upper + line + steep) @ facts.error
    return float(by_rows + above @ facts.upper * 8 * HALF_ULP + lead.error)
