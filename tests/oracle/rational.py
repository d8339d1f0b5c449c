"""Exact quantities for the oracle: z3 terms over the reals, each with an exact interval.

Nothing here is rounded: floats enter as the rationals they are, and z3 computes with rationals.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import z3

# What z3 answers in a second can take it hours with other names of variables, or in another order.
# So names depend on no earlier question. Attempts, and the milliseconds of the first one.
_ATTEMPTS, _FIRST_TIMEOUT = 16, 1000


@dataclass(frozen=True, eq=False)
class Value:
    """A quantity of the model: its z3 term, and an interval that holds all its values."""

    term: z3.ArithRef
    low: Fraction
    high: Fraction


class RationalModel:
    """Linear constraints and maxima over the rationals."""

    def __init__(self) -> None:
        self._constraints: list[z3.BoolRef] = []
        self._variables = 0

    def variable(self, low: Fraction, high: Fraction) -> Value:
        """Any number in `[low, high]`."""
        self._variables += 1
        term = z3.Real(f"x{self._variables}")
        self._constraints += [term >= number(low), term <= number(high)]
        return Value(term, low, high)

    def constant(self, value: Fraction) -> Value:
        return Value(number(value), value, value)

    def combination(
        self, weights: Iterable[Fraction], values: Sequence[Value], constant: Fraction = Fraction(0)
    ) -> Value:
        """`sum of weight * value, plus the constant`."""
        pairs = [(w, v) for w, v in zip(weights, values, strict=True) if w != 0]
        low = constant + sum(min(w * v.low, w * v.high) for w, v in pairs)
        high = constant + sum(max(w * v.low, w * v.high) for w, v in pairs)
        terms = [number(w) * v.term for w, v in pairs]
        return Value(z3.Sum([number(constant), *terms]), Fraction(low), Fraction(high))

    def difference(self, left: Value, right: Value) -> Value:
        return self.combination([Fraction(1), Fraction(-1)], [left, right])

    def larger(self, left: Value, right: Value) -> Value:
        """The maximum of two values."""
        if left.low >= right.high:
            return left
        if right.low >= left.high:
            return right
        found = self.variable(max(left.low, right.low), max(left.high, right.high))
        self._constraints += [
            found.term >= left.term,
            found.term >= right.term,
            z3.Or(found.term <= left.term, found.term <= right.term),
        ]
        return found

    def negative(self, value: Value) -> Value:
        return self.combination([Fraction(-1)], [value])

    def smaller(self, left: Value, right: Value) -> Value:
        """The minimum of two values."""
        return self.negative(self.larger(self.negative(left), self.negative(right)))

    def clipped(self, value: Value, low: Fraction, high: Fraction) -> Value:
        return self.smaller(self.larger(value, self.constant(low)), self.constant(high))

    def require(self, value: Value, at_least: Fraction | Value = Fraction(0)) -> None:
        """Only points where `value >= at_least` count."""
        bound = at_least.term if isinstance(at_least, Value) else number(at_least)
        self._constraints.append(value.term >= bound)

    def require_whole(self, value: Value) -> None:
        """Only points where the value is a whole number count."""
        values = range(math.ceil(value.low), math.floor(value.high) + 1)
        self._constraints.append(z3.Or([value.term == whole for whole in values]))

    def maximum(self, objective: Value) -> Fraction | None:
        """The exact maximum, None if no point satisfies the constraints."""
        for attempt in range(_ATTEMPTS):
            optimiser, handle = self._optimiser(objective, attempt)
            outcome = optimiser.check()
            if outcome != z3.unknown:
                break
        if outcome == z3.unsat:
            return None
        assert outcome == z3.sat, f"z3 gave up: {optimiser.reason_unknown()}"
        found = optimiser.upper(handle)
        # All variables are bounded and all constraints closed: the maximum is attained.
        assert z3.is_int_value(found) or z3.is_rational_value(found), f"no maximum: {found}"
        return Fraction(found.as_string())

    def _optimiser(
        self, objective: Value, attempt: int
    ) -> tuple[z3.Optimize, z3.OptimizeObjective]:
        """Set z3 up; later attempts have another order of the constraints, and more time."""
        constraints = list(self._constraints)
        if attempt:
            random.Random(attempt).shuffle(constraints)
        context = z3.Context()
        optimiser = z3.Optimize(ctx=context)
        optimiser.set("timeout", _FIRST_TIMEOUT * 2 ** (attempt // 2))
        optimiser.add(*(constraint.translate(context) for constraint in constraints))
        return optimiser, optimiser.maximize(objective.term.translate(context))


def number(value: Fraction) -> z3.RatNumRef:
    return z3.Q(value.numerator, value.denominator)
