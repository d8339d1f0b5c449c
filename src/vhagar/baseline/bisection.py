"""A binary search in which some queries may time out."""

from __future__ import annotations

from dataclasses import dataclass, field

# Least distance of a query from other queries and from known ends, relative to the upper end.
RESOLUTION = 1e-3


@dataclass
class Bisection:
    """Halves the interval, and avoids values whose query timed out.

    The first query is whether there is any attackable input at all: it is about the smallest value
    that is distinguished from 0, and usually answered quickly.

    The hardest queries are those near the answer. One that times out therefore divides the interval
    into a part below, where inputs are easier to find, and one above, where it is easier to prove
    that there are none. The wider part is halved next. When neither is worth a query, the
    unanswered ones are asked again with `patience` (a factor of the time per query) doubled.
    """

    patience: float = 1.0
    _begun: bool = False
    _unanswered: list[float] = field(default_factory=list)

    def next(self, lower: float, upper: float) -> float:
        """Return the next value to ask about, strictly between the ends if float64 has one."""
        if not self._begun:
            self._begun = True
            if lower < RESOLUTION * upper:
                return RESOLUTION * upper
        open_questions = sorted(delta for delta in self._unanswered if lower < delta < upper)
        if open_questions:
            below, above = open_questions[0] - lower, upper - open_questions[-1]
            if max(below, above) > RESOLUTION * upper:
                start = lower if below >= above else open_questions[-1]
                return start + max(below, above) / 2
            self.patience *= 2
            self._unanswered.clear()
        return lower + (upper - lower) / 2

    def unanswered(self, delta: float) -> None:
        """Record that the query about `delta` timed out."""
        self._unanswered.append(delta)
