"""Keep the interval of a run: the only place where a bound can enter it.

Only an accepted witness raises `lower`; only a finite number offered as an upper bound lowers
`upper`. NaN, infinities and refuted bounds change nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from vhagar.errors import VhagarError
from vhagar.problem import Problem, Target
from vhagar.relaxation import Bounds, network_bounds
from vhagar.result.values import BoundKind, Interval, Moment
from vhagar.result.witness import Rejection, Witness, WitnessCheck

# A gap this small relative to the first (interval arithmetic) bound counts as closed: solvers
# cannot tell a bound of exactly 0 from one within their tolerances.
_NEGLIGIBLE = 1e-6
# So does a gap this small relative to the scores: rounding alone can turn 0 into it.
_ROUNDING = 1e-12
# If a certificate is requested, stated bounds are enlarged by this share of themselves and of the
# first bound, and by rounding: the checker rounds differently, but must arrive at no larger bound.
_ROOM = 1e-9
# Bounds that rely on another program: a witness may refute them.
_ON_TRUST = (BoundKind.SOLVER, BoundKind.MARABOU)


class IntervalKeeper:
    """The interval and the best witness of each target, and the history.

    A target is a class, or None if nothing is attacked.

    `on_change` is called after every improvement, `note` with messages for the user.
    """

    def __init__(
        self,
        problem: Problem,
        relative_gap: float,
        certified: bool = False,
        on_change: Callable[[], None] = lambda: None,
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._problem = problem
        self._relative_gap = relative_gap
        self._certified = certified
        self._on_change = on_change
        self._note = note
        self._started = time.monotonic()
        self._check = WitnessCheck(problem)
        # Upper bounds as they are stated, and as they were computed.
        targets = problem.search_targets
        self._uppers: dict[Target, dict[BoundKind, float]] = {k: {} for k in targets}
        self._computed: dict[Target, dict[BoundKind, float]] = {k: {} for k in targets}
        self._witnesses: dict[Target, Witness] = {}
        self._distrusted: set[tuple[Target, BoundKind]] = set()
        self._rounding = _ROUNDING * _score_size(problem)
        self._history: list[Moment] = []
        self._initial_upper = math.inf

    @property
    def lower(self) -> float:
        return max((w.confidence for w in self._witnesses.values()), default=0.0)

    @property
    def upper(self) -> float:
        return max(self.target_upper(target) for target in self._problem.search_targets)

    def witness(self, target: Target) -> Witness | None:
        """The best witness of a target."""
        return self._witnesses.get(target)

    def target_lower(self, target: Target) -> float:
        witness = self._witnesses.get(target)
        return witness.confidence if witness else 0.0

    def target_upper(self, target: Target) -> float:
        return min(self._uppers[target].values(), default=math.inf)

    def computed_upper(self, target: Target) -> float:
        """A target's upper bound as computed, without the room for the checker's rounding."""
        return min(self._computed[target].values(), default=math.inf)

    def settled(self, target: Target) -> bool:
        """Whether searching this target further can no longer change the answer."""
        return self._is_closed(self.lower, self.target_upper(target))

    @property
    def closed(self) -> bool:
        return self._is_closed(self.lower, self.upper)

    def _is_closed(self, lower: float, upper: float) -> bool:
        if not math.isfinite(upper):
            return False
        negligible = _NEGLIGIBLE * self._initial_upper if self._history else 0.0
        enough = max(self._relative_gap * upper, negligible, self._rounding)
        return upper - lower <= enough + self._room(upper)

    def _room(self, value: float) -> float:
        """How much a stated bound is enlarged for the checker; one of 0 needs no arithmetic."""
        if not self._certified or value == 0:
            return 0.0
        first = self._initial_upper if self._history else value
        return _ROOM * (value + first) + self._rounding

    def offer_upper(self, target: Target, value: float, kind: BoundKind) -> bool:
        """Take a valid upper bound for a target and return whether it improves on the known one."""
        if not math.isfinite(value) or (target, kind) in self._distrusted:
            return False
        computed = max(float(value), 0.0)  # delta* is 0 where nothing can be attacked
        value = computed + self._room(computed)
        if value >= self.target_upper(target):
            return False
        if value < self.target_lower(target):
            self._refute(target, value, kind)
            return False
        self._uppers[target][kind] = value
        self._computed[target][kind] = computed
        self._record()
        return True

    def raise_upper(self, target: Target, value: float) -> None:
        """Raise the upper bounds of a target to what its certificate proves, if that is finite."""
        if not math.isfinite(value):
            return
        for bounds in (self._uppers[target], self._computed[target]):
            for kind, bound in bounds.items():
                bounds[kind] = max(bound, value)

    def offer_witness(
        self,
        target: Target,
        x: NDArray[np.float64],
        piece_index: int | None = None,
        parameters: NDArray[np.float64] | None = None,
    ) -> Witness | Rejection:
        """Check a candidate and, if it is a witness and the best one, raise the lower bound.

        `piece_index` is the index of its piece in the problem's pieces.
        """
        verdict = self._check(target, x, piece_index, parameters)
        if isinstance(verdict, Rejection) or verdict.confidence <= self.target_lower(target):
            return verdict
        self._witnesses[target] = verdict
        for kind, bound in list(self._uppers[target].items()):
            if bound < verdict.confidence:
                self._refute(target, bound, kind)
        self._record()
        return verdict

    def _refute(self, target: Target, value: float, kind: BoundKind) -> None:
        """Drop a bound that a checked witness contradicts; the witness stays.

        What computed the bound is no longer trusted: later bounds of its kind for this target are
        ignored.
        """
        if kind not in _ON_TRUST:
            raise VhagarError(
                f"a witness of confidence {self.target_lower(target)} contradicts the bound "
                f"{value} ({kind.value}); this is a bug in vhagar, please report it"
            )
        self._uppers[target].pop(kind, None)
        self._computed[target].pop(kind, None)
        self._distrusted.add((target, kind))
        self._note(
            f"a bound {value!r} for target {target} ({kind.value}) was refuted by a witness and "
            "dropped"
        )

    def _record(self) -> None:
        if not self._history:
            if not math.isfinite(self.upper):
                return  # no interval yet
            self._initial_upper = self.upper
        moment = Moment(time.monotonic() - self._started, self.lower, self.upper)
        last = self._history[-1] if self._history else None
        if last is None or (last.lower, last.upper) != (moment.lower, moment.upper):
            self._history.append(moment)
            self._on_change()

    @property
    def initial_upper(self) -> float:
        """The first upper bound; infinite before there is one."""
        return self._initial_upper

    @property
    def history(self) -> tuple[Moment, ...]:
        """The interval after every improvement."""
        return tuple(self._history)

    @property
    def witnesses(self) -> dict[Target, Witness]:
        """The best witness of each target that has one."""
        return dict(self._witnesses)

    def intervals(self) -> dict[int, Interval]:
        """The interval of each target."""
        return {
            target: Interval(
                self.target_lower(target), self.target_upper(target), self.kind(target)
            )
            for target in self._problem.targets
        }

    @property
    def deciding(self) -> Target:
        """The target with the largest upper bound, which is the upper end of the interval."""
        return max(self._problem.search_targets, key=self.target_upper)

    def kind(self, target: Target) -> BoundKind:
        """The kind of a target's upper bound."""
        bounds = self._uppers[target]
        return min(bounds, key=lambda kind: bounds[kind], default=BoundKind.INTERVAL)


def _score_size(problem: Problem) -> float:
    """Bound the absolute scores of all inputs; 0 if no finite bound is known."""
    domain = problem.domain
    box = Bounds(domain.low, domain.high)
    largest = float(network_bounds(problem.network, box)[-1].magnitude.max())
    return largest if math.isfinite(largest) else 0.0
