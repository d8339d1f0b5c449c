"""When everything must be over: one object, which every phase of a run polls."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real

from vhagar.errors import InvalidInput


class OutOfTime(Exception):
    """The deadline passed in the middle of work that is worthless half done."""


@dataclass(frozen=True)
class Deadline:
    """A time of `time.monotonic()`, infinite without a limit.

    It travels to other processes and machines as a time of the wall clock, because only that means
    the same there.
    """

    at: float = math.inf

    @classmethod
    def after(cls, seconds: float | None) -> Deadline:
        """The deadline `seconds` from now; `NEVER` for None."""
        check_timeout(seconds)
        return NEVER if seconds is None or seconds == math.inf else cls(time.monotonic() + seconds)

    @property
    def passed(self) -> bool:
        return time.monotonic() > self.at

    def is_late(self) -> bool:
        """Whether the deadline has passed, as a function that can be passed on."""
        return self.passed

    @property
    def left(self) -> float:
        """Seconds until the deadline, at least 0."""
        return max(self.at - time.monotonic(), 0.0)

    def sooner(self, seconds: float) -> Deadline:
        """This deadline or `seconds` from now, whichever comes first."""
        return Deadline(min(self.at, time.monotonic() + seconds))

    def before(self, seconds: float) -> Deadline:
        """The deadline `seconds` earlier, so that last messages still arrive."""
        return Deadline(self.at - seconds)

    def check(self) -> bool:
        """Raise `OutOfTime` once the deadline has passed; else return False, as a `should_stop`."""
        if self.passed:
            raise OutOfTime
        return False

    def __reduce__(self) -> tuple[Callable[[float], Deadline], tuple[float]]:
        return _at_wall_clock, (self.at - time.monotonic() + time.time(),)


class WorkLimit:
    """A limit of `seconds` of this process's CPU time, or of `times` as much wall-clock time."""

    def __init__(self, seconds: float, times: float) -> None:
        self._work = time.process_time() + seconds
        self._latest = Deadline.after(times * seconds)

    @property
    def passed(self) -> bool:
        return time.process_time() > self._work or self._latest.passed


class CoreShare:
    """The share of a core that this process has had since the creation, on a busy machine."""

    def __init__(self) -> None:
        self._begun, self._worked = time.monotonic(), time.process_time()

    def __call__(self) -> float:
        seconds = time.monotonic() - self._begun
        if seconds < _SHORTEST:
            return 1.0
        return min(max((time.process_time() - self._worked) / seconds, _LEAST_CORE), 1.0)


NEVER = Deadline()
# The smallest share of a core to reckon with.
_LEAST_CORE = 0.1
# Seconds from which on there is something to tell.
_SHORTEST = 0.05


def check_timeout(timeout: float | None) -> None:
    """Raise an error unless a timeout is a number of seconds from 0, or None."""
    if timeout is not None and not (isinstance(timeout, Real) and timeout >= 0):  # NaN is not
        raise InvalidInput(
            f"the timeout must be a number of seconds from 0, or None for no limit, not {timeout!r}"
        )


def _at_wall_clock(seconds: float) -> Deadline:
    return Deadline(seconds - time.time() + time.monotonic())
