"""Regions and the proofs in them: from multipliers to bounds on the confidence."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.formula import (
    Choose,
    Decisions,
)
from vhagar_check.hexagon import Hexagons, exact_offset
from vhagar_check.layers import HALF_ULP, Floats
from vhagar_check.regions import EQUAL, ON, PAIR, Region, from_tables

QUICK, MULTIPLIERS, CONTRADICTION, EMPTY = range(4)
_BATCH = 256


@dataclass(frozen=True, eq=False)
class Question:
    """Whose confidence is bounded, and which class must win in the second copy, if any."""

    source: int
    target: int | None
    claim: float


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
        """An upper bound on the confidence of each case; infinity where nothing is proved."""
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
        """How far the lead of source over target can shift from one copy to the other.

        The confidence is at most that lead in the first copy, and it is at most 0 in the second.
        """
        if self._question.target is None:
            return float(np.inf)
        lead = np.zeros((1, self._network.classes))
        lead[0, self._question.source], lead[0, self._question.target] = 1.0, -1.0
        bounds = self._region.bounds
        return float(bounds.upper(self._last, lead, -lead, bounds.quick)[0][0])

    def _is_empty(self, case: Decisions) -> bool:
        return any(
            exact_offset(self._region.bounds.hexagons[layer], neuron, signs, (Fraction(0),) * 4)
            is None
            for (layer, neuron), signs in case.signs.items()
        )

    def _by_multipliers(
        self, kinds: NDArray[np.uint8], vectors: Floats, decisions: list[Decisions]
    ) -> Floats:
        tables, alpha, mu = self._parts(vectors)
        if (alpha < 0).any() or (mu < 0).any() or not np.isfinite(vectors).all():
            raise Rejected("a proof has a negative weight or a number that is not finite")
        alpha = np.where((kinds == CONTRADICTION)[:, None], 0.0, alpha)
        a, b = self._start(alpha, mu)
        bounds = self._region.bounds
        with np.errstate(all="ignore"):
            value, width = bounds.upper(self._last, a, b, self._choice(tables), decisions)
            # The sums in `_start` were rounded.
            room = HALF_ULP * 2 * len(self._others) * bounds.score_size
            room = room * (alpha.sum(axis=1) + mu.sum(axis=1))
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

    def _confidence(self, value: float | Fraction, alpha: Floats) -> float:
        """From a bound on the sum of `alpha_j (score_source - score_j)` to the confidence.

        The confidence is the least of these leads, so the sum of the alphas times it is at most
        that sum. Below 0 it does not matter: such inputs are not of the source class.
        """
        total = sum((Fraction(float(part)) for part in alpha), Fraction(0))
        if total <= 0 or not np.isfinite(float(value)):
            return float(-np.inf) if value == -np.inf else float(np.inf)
        return _rounded_up(max(Fraction(value) / total, Fraction(0)))

    def _contradicted(self, value: float | Fraction, alpha: Floats) -> float:
        """Without alphas, what is bounded is at least 0 wherever the target wins."""
        return float(-np.inf) if value < 0 else float(np.inf)

    def _parts(self, vectors: Floats) -> tuple[list[tuple[Floats, Floats]], Floats, Floats]:
        """The multipliers of the loose neurons of each layer, alpha and mu."""
        tables, place = [], 0
        for status in self._region.status:
            pairs, equals = int((status == PAIR).sum()), int((status == EQUAL).sum())
            ends = np.cumsum([place, pairs, pairs, equals])
            on_p, on_q, on_equal = (vectors[:, i:j] for i, j in itertools.pairwise(ends))
            loose = status[status >= PAIR]
            p, q = np.zeros((2, len(vectors), len(loose)))
            p[:, loose == PAIR], q[:, loose == PAIR] = on_p, on_q
            p[:, loose == EQUAL] = on_equal
            tables.append((p, q))
            place = int(ends[-1])
        alpha = vectors[:, place : place + len(self._others)]
        return tables, alpha, vectors[:, place + len(self._others) :]

    def _start(self, alpha: Floats, mu: Floats) -> tuple[Floats, Floats]:
        a, b = np.zeros((2, len(alpha), self._network.classes))
        a[:, self._others], a[:, self._question.source] = -alpha, alpha.sum(axis=1)
        if self._question.target is not None:
            b[:, self._rivals], b[:, self._question.target] = -mu, mu.sum(axis=1)
        return a, b

    def _choice(self, tables: list[tuple[Floats, Floats]]) -> Choose:
        return from_tables(self._region.status, tables)

    def _exact(self, vector: Floats, alpha: Floats, case: Decisions) -> Fraction | float | None:
        """The formula's value in exact arithmetic; None where it is not known."""
        tables, _, mu = self._parts(vector[None])
        bounds = self._region.bounds
        a, b = self._exact_start(alpha, mu[0])
        constant = Fraction(0)
        for k in range(self._last, -1, -1):
            for layer in reversed(self._network.stages[k]):
                bias = Exact.of(layer.bias)
                constant += a.dot(bias) + b.dot(bias)
                a, b = layer.exact_backward(a), layer.exact_backward(b)
            if k == 0:
                break
            below = self._exact_relu(k - 1, a, b, tables[k - 1], case)
            if below is None:
                return float(-np.inf)
            a, b, paid = below
            constant += paid
        support = bounds.piece.exact_support(a, b)
        return None if support is None else constant + support

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

    def _exact_relu(
        self, layer: int, a: Exact, b: Exact, table: tuple[Floats, Floats], case: Decisions
    ) -> tuple[Exact, Exact, Fraction] | None:
        hexagons: Hexagons = self._region.bounds.hexagons[layer]
        status, paid = self._region.status[layer], Fraction(0)
        linear = hexagons.linear
        given = iter(zip(table[0][0].tolist(), table[1][0].tolist(), strict=True))
        p, q = [], []
        for n, (u, v) in enumerate(zip(a.fractions(), b.fractions(), strict=True)):
            if status[n] >= PAIR:
                left, right = (Fraction(part) for part in next(given))
            else:
                left, right = (u, v) if status[n] == ON else (Fraction(0), Fraction(0))
            p.append(left)
            q.append(right)
            if linear is not None and linear[n]:
                continue  # on, and so it costs nothing
            offset = exact_offset(hexagons, n, case.signs.get((layer, n), {}), (u, v, left, right))
            if offset is None:
                return None
            paid += offset
        return Exact.of_fractions(p), Exact.of_fractions(q), paid


def _rounded_up(value: Fraction) -> float:
    try:
        nearest = float(value)
    except OverflowError:
        return float(np.inf)
    return nearest if Fraction(nearest) >= value else float(np.nextafter(nearest, np.inf))
