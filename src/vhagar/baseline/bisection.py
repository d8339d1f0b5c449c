"""Where a binary search asks next, when some questions are too hard to be answered."""

from __future__ import annotations

from dataclasses import dataclass, field

# Least distance of a query from other queries and from known ends, relative to the upper end.
RESOLUTION = 1e-3


@dataclass
class Bisection:
    """Halves the interval; steps aside where an answer did not come in time.

    The very first question is whether there is anything to be found at all: it is about the
    smallest number that is told from 0, and mostly answered at once.

    The hardest questions are those near the truth. An unanswered one therefore divides the interval
    into a part below, where inputs are easier to find, and one above, where it is easier to prove
    that there are none. The wider part is halved next. Once neither is worth a question, the
    unanswered ones are asked again with `patience` (a factor of the time for one question) doubled.
    """

    patience: float = 1.0
    _begun: bool = False
    _unanswered: list[float] = field(default_factory=list)

    def next(self, lower: float, upper: float) -> float:
        """The next number to ask about, strictly between the ends (if float64 has one there)."""
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
        """No answer came to this question."""
        self._unanswered.append(delta)
