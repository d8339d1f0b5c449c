"""Evaluates proofs: from multipliers to bounds on the confidence."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from vhagar_check.cuts import Weighted
from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.formula import (
    Added,
    Choose,
    Decisions,
)
from vhagar_check.hexagon import exact_offset
from vhagar_check.layers import HALF_ULP, Floats
from vhagar_check.rational import exact_upper, rounded_up
from vhagar_check.regions import EQUAL, PAIR, Region, from_tables

QUICK, MULTIPLIERS, CONTRADICTION, EMPTY, QUADRATIC = range(5)
SPECTRAL, BOXES, TIED, WINDOWS, FACTS = range(5, 10)
_BATCH = 256


@dataclass(frozen=True, eq=False)
class Question:
    """The source whose confidence is bounded, the target that must win in the second copy, if any,
    and the claim."""

    source: int
    target: int | None
    claim: float
    signed: bool = False  # whether it matters how far below 0 the confidence is


class Prover:
    """Evaluates proofs of one region for one question."""

    def __init__(self, region: Region, question: Question) -> None:
        self._region = region
        self._question = question
        self._network = region.bounds.network
        self._last = len(self._network.stages) - 1
        classes = range(self._network.classes)
        self._others = [j for j in classes if j != question.source]
        self._rivals = [j for j in classes if j != question.target]

    def values(
        self, kinds: NDArray[np.uint8], vectors: Floats, decisions: list[Decisions]
    ) -> Floats:
        """An upper bound on the confidence in each case; infinity if nothing is proved."""
        found = np.full(len(kinds), np.inf)
        quick = np.flatnonzero(kinds == QUICK)
        if len(quick):
            found[quick] = self._quick()
        empty = np.flatnonzero(kinds == EMPTY)
        found[empty] = [-np.inf if self._is_empty(decisions[k]) else np.inf for k in empty]
        given = np.flatnonzero((kinds == MULTIPLIERS) | (kinds == CONTRADICTION))
        for begin in range(0, len(given), _BATCH):
            rows = given[begin : begin + _BATCH]
            part = vectors[begin : begin + _BATCH]
            found[rows] = self._by_multipliers(kinds[rows], part, [decisions[k] for k in rows])
        return np.where(np.isnan(found), np.inf, found)

    def _quick(self) -> float:
        """Bound how far the lead of source over target can shift from one copy to the other.

        The confidence is at most the lead in the first copy, and the lead is at most 0 in the
        second.
        """
        if self._question.target is None:
            return float(np.inf)
        lead = np.zeros((1, self._network.classes))
        lead[0, self._question.source], lead[0, self._question.target] = 1.0, -1.0
        bounds = self._region.bounds
        return float(bounds.upper(self._last, lead, -lead, bounds.quick)[0][0])

    def _is_empty(self, case: Decisions) -> bool:
        """Whether no pair is left: the region has no input, or a neuron no corner."""
        return self._region.empty or any(
            exact_offset(self._region.bounds.hexagons[layer], neuron, signs, (Fraction(0),) * 4)
            is None
            for (layer, neuron), signs in case.signs.items()
        )

    def _by_multipliers(
        self, kinds: NDArray[np.uint8], vectors: Floats, decisions: list[Decisions]
    ) -> Floats:
        tables, alpha, mu, rho = self._parts(vectors)
        negative = any((part < 0).any() for part in (alpha, mu, rho))
        if negative or not np.isfinite(vectors).all():
            raise Rejected("a proof has a negative weight or a number that is not finite")
        alpha = np.where((kinds == CONTRADICTION)[:, None], 0.0, alpha)
        a, b = self._start(alpha, mu)
        bounds, cuts = self._region.bounds, Weighted(self._region.cuts, rho)
        with np.errstate(all="ignore"):
            value, width = bounds.upper(self._last, a, b, self._choice(tables), decisions, cuts)
            room = self._start_room(alpha, mu)
            value, width = value + room, width + 2 * room
        found = np.empty(len(kinds))
        for k, kind in enumerate(kinds):
            judge = self._contradicted if kind == CONTRADICTION else self._confidence
            found[k] = judge(float(value[k]), alpha[k])
            doubtful = not found[k] <= self._question.claim
            if doubtful and judge(float(value[k] - width[k]), alpha[k]) <= self._question.claim:
                exact = self._exact(vectors[k], alpha[k], decisions[k])
                if exact is not None:
                    found[k] = judge(exact, alpha[k])
        return found

    def sides(self, added: Added, vectors: Floats, case: Decisions, level: Fraction) -> Floats:
        """Upper bounds on the functions `added`, for attacked pairs with confidence >= `level`.

        For these pairs, `sum of alpha_j (score_source - score_j - level)` is at least 0.
        """
        tables, alpha, mu, _ = self._parts(vectors)
        if (alpha < 0).any() or (mu < 0).any() or not np.isfinite(vectors).all():
            raise Rejected("a tightening has a negative weight or a number that is not finite")
        bounds, cases = self._region.bounds, [case] * len(vectors)
        values = bounds.upper_with(added, *self._start(alpha, mu), self._choice(tables), cases)
        found = np.full(len(vectors), np.inf)
        with np.errstate(all="ignore"):
            values = values + self._start_room(alpha, mu)
        for k in np.flatnonzero(np.isfinite(values)):
            total = sum((Fraction(float(part)) for part in alpha[k]), Fraction(0))
            found[k] = rounded_up(Fraction(float(values[k])) - level * total)
        return found

    def _start_room(self, alpha: Floats, mu: Floats) -> Floats:
        """A bound on the error by rounding the sums in `_start`."""
        room = HALF_ULP * 2 * len(self._others) * self._region.bounds.score_size
        found: Floats = room * (alpha.sum(axis=1) + mu.sum(axis=1))
        return found

    def _confidence(self, value: float | Fraction, alpha: Floats) -> float:
        """Bound the confidence, from a bound on the sum of `alpha_j (score_source - score_j)`.

        The confidence is the least of these leads, so it is at most that sum divided by the sum of
        the alphas. Values below 0 do not matter: such inputs are not of the source class.
        """
        total = sum((Fraction(float(part)) for part in alpha), Fraction(0))
        if total <= 0 or not np.isfinite(float(value)):
            return float(-np.inf) if value == -np.inf else float(np.inf)
        found = Fraction(value) / total
        return rounded_up(found if self._question.signed else max(found, Fraction(0)))

    def _contradicted(self, value: float | Fraction, alpha: Floats) -> float:
        """Minus infinity if a sum that is at least 0 for attacked pairs is proved negative."""
        return float(-np.inf) if value < 0 else float(np.inf)

    def _parts(self, vectors: Floats) -> tuple[list[tuple[Floats, Floats]], Floats, Floats, Floats]:
        """The multipliers of each layer's undecided neurons, alpha, mu and the cuts' weights."""
        tables, place = [], 0
        for status in self._region.status:
            pairs, equals = int((status == PAIR).sum()), int((status == EQUAL).sum())
            ends = np.cumsum([place, pairs, pairs, equals])
            on_p, on_q, on_equal = (vectors[:, i:j] for i, j in itertools.pairwise(ends))
            undecided = status[status >= PAIR]
            p, q = np.zeros((2, len(vectors), len(undecided)))
            p[:, undecided == PAIR], q[:, undecided == PAIR] = on_p, on_q
            p[:, undecided == EQUAL] = on_equal
            tables.append((p, q))
            place = int(ends[-1])
        begin, end = place + len(self._others), vectors.shape[1] - len(self._region.cuts)
        return tables, vectors[:, place:begin], vectors[:, begin:end], vectors[:, end:]

    def _start(self, alpha: Floats, mu: Floats) -> tuple[Floats, Floats]:
        a, b = np.zeros((2, len(alpha), self._network.classes))
        a[:, self._others], a[:, self._question.source] = -alpha, alpha.sum(axis=1)
        if self._question.target is not None:
            b[:, self._rivals], b[:, self._question.target] = -mu, mu.sum(axis=1)
        return a, b

    def _choice(self, tables: list[tuple[Floats, Floats]]) -> Choose:
        return from_tables(self._region.status, tables)

    def _exact(self, vector: Floats, alpha: Floats, case: Decisions) -> Fraction | float | None:
        """The formula's value in exact arithmetic; None if it is unknown."""
        tables, _, mu, rho = self._parts(vector[None])
        a, b = self._exact_start(alpha, mu[0])
        choice = self._choice(tables)
        cuts = Weighted(self._region.cuts, rho)
        return exact_upper(self._region.bounds, self._last, a, b, choice, case, cuts)

    def _exact_start(self, alpha: Floats, mu: Floats) -> tuple[Exact, Exact]:
        found = []
        for weights, others, label in (
            (alpha, self._others, self._question.source),
            (mu, self._rivals, self._question.target),
        ):
            row = [Fraction(0)] * self._network.classes
            if label is not None:
                for weight, other in zip(weights, others, strict=True):
                    row[other] -= Fraction(float(weight))
                    row[label] += Fraction(float(weight))
            found.append(Exact.of_fractions(row))
        return found[0], found[1]
