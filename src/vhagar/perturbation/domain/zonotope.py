"""Zonotopes of inputs, for example from the principal components of a data set."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vhagar.array_types import Array, Mask
from vhagar.errors import InvalidInput

# Most linear programs that one membership test solves, for inputs that least squares leaves open.
_MOST_PROGRAMS = 256
# Points found for an input keep this relative distance from the ends of the residuals.
_INSIDE = 1e-6
# The tolerance of the linear programs that find such points: a small part of this distance.
_TOLERANCE = 1e-9
# Most numbers in the components of a small zonotope.
_SMALL = 2000
# Coordinates that are remembered.
_MOST_RECENT = 4


@dataclass(frozen=True, eq=False, init=False)
class Zonotope:
    """The inputs `x = mean + components' z + r` with `|z_k| <= ranges_k` and `|r_i| <= residual_i`.

    `components` has one row per component. Entries that the components move need a residual,
    because otherwise hardly any float64 number would lie in the zonotope.
    """

    mean: Array = field()
    components: Array = field()
    ranges: Array = field()
    residual: Array = field()
    _recent: deque[Array] = field(repr=False)

    def __init__(
        self, mean: ArrayLike, components: ArrayLike, ranges: ArrayLike, residual: ArrayLike
    ) -> None:
        flat = _numbers(mean, "mean").reshape(-1)
        size = len(flat)
        rows = _numbers(components, "components")
        count = len(rows) if rows.ndim else 0
        if not count or rows.size != count * size:
            raise InvalidInput(
                f"the components of the zonotope have shape {rows.shape}; they must be one input "
                f"of {size} entries each"
            )
        rows = rows.reshape(count, size)
        ends = []
        for given, what, length in ((ranges, "ranges", count), (residual, "residual", size)):
            values = _numbers(given, what).reshape(-1)
            if values.size not in (1, length) or (values < 0).any():
                raise InvalidInput(
                    f"{what} of the zonotope must be {length} numbers, or one, and none negative"
                )
            ends.append(np.array(np.broadcast_to(values, (length,))))
        stuck = np.flatnonzero((rows != 0).any(axis=0) & (ends[1] == 0))
        if len(stuck):
            raise InvalidInput(
                f"the zonotope has no residual at entry {int(stuck[0])}, which its components "
                "move: hardly any number of float64 would lie in it; give it a small one"
            )
        with np.errstate(over="ignore"):
            reach = 4 * (abs(flat) + ends[0] @ abs(rows) + ends[1])
        if not np.isfinite(reach).all():
            raise InvalidInput("the zonotope reaches beyond the numbers of float64")
        object.__setattr__(self, "_recent", deque(maxlen=_MOST_RECENT))
        named = ("mean", "components", "ranges", "residual")
        for name, value in zip(named, (flat, rows, *ends), strict=True):
            value.setflags(write=False)
            object.__setattr__(self, name, value)

    @property
    def size(self) -> int:
        return len(self.mean)

    @property
    def count(self) -> int:
        return len(self.components)

    @property
    def small(self) -> bool:
        """Whether its rows make linear programs hardly slower: those of tables do not."""
        return self.components.size <= _SMALL

    def part(self, entries: NDArray[np.int64]) -> Zonotope:
        """The zonotope's projection onto some entries."""
        own = self.components[:, entries]
        return Zonotope(self.mean[entries], own, self.ranges, self.residual[entries])

    @cached_property
    def box(self) -> tuple[Array, Array]:
        """The ends `(size,)` of the range of every entry, rounded outward."""
        reach = self.ranges @ abs(self.components) + self.residual
        room = (self.count + 8) * 2.0**-51 * (reach + abs(self.mean)) + 1e-300
        return self.mean - reach - room, self.mean + reach + room

    def coordinates(self, x: Array) -> Array:
        """The components' coordinates `(batch, count)` by least squares, clipped to the ranges."""
        found: Array = (x - self.mean) @ self._inverse
        return np.clip(found, -self.ranges, self.ranges)

    @cached_property
    def _inverse(self) -> Array:
        return np.asarray(np.linalg.pinv(self.components), dtype=np.float64)

    def at(self, z: Array) -> Array:
        """The inputs at coordinates `(batch, count)`, without residual."""
        found: Array = self.mean + z @ self.components
        return found

    def admits(self, x: Array, z: Array) -> Mask:
        """Which inputs these coordinates prove to lie in the zonotope."""
        reach = abs(self.mean) + abs(x) + abs(z) @ abs(self.components)
        room = (self.count + 8) * 2.0**-51 * reach + 1e-300
        close = abs(x - self.at(z)) + room <= self.residual
        # An entry that no component moves may lie exactly at the end of its range.
        still, gap = ~(self.components != 0).any(axis=0), abs(x - self.mean)
        open_ = ~close & still & (gap * (1 - 2.0**-50) <= self.residual)
        for case, k in zip(*np.nonzero(open_), strict=True):
            exact = abs(Fraction(float(x[case, k])) - Fraction(float(self.mean[k])))
            close[case, k] = exact <= Fraction(float(self.residual[k]))
        return np.asarray(close.all(axis=1) & (abs(z) <= self.ranges).all(axis=1))

    def witnesses(self, x: Array, slack: float = -_INSIDE / 2) -> tuple[Array, Mask]:
        """Coordinates of inputs `(batch, size)`, and which inputs they prove to be inside.

        The proof may fail for an input very close to the boundary. Coordinates that were noted are
        taken if entries exceed the residuals by no more than the share `slack`. A negative share
        means that a linear program would find coordinates, too, in any other process.
        """
        z = self.coordinates(x)
        inside = self.admits(x, z)
        low, high = self.box
        open_ = np.flatnonzero(~inside & ((x >= low) & (x <= high)).all(axis=1))
        for case in open_[:_MOST_PROGRAMS]:
            z[case] = self._near(x[case], z[case], slack)
            inside[case] = bool(self.admits(x[[case]], z[[case]])[0])
        return z, inside

    def note(self, z: Array) -> None:
        """Remember coordinates `(count,)`: the inputs asked about next may be near them."""
        self._recent.append(np.clip(z, -self.ranges, self.ranges))

    def _near(self, x: Array, known: Array, slack: float) -> Array:
        """The coordinates of a point as near to an input as possible, relative to residuals."""
        for z in tuple(self._recent):  # threads may note others meanwhile
            if (abs(x - self.at(z)) <= (1 + slack) * self.residual).all():
                return z
        found = self._program(x)
        if found is None:
            return known
        self.note(found)
        return found

    def _program(self, x: Array) -> Array | None:
        """The coordinates that minimise the largest distance to an input, relative to residuals."""
        from scipy.optimize import linprog

        moved = np.flatnonzero((self.components != 0).any(axis=0))
        # Divided by the residuals, to which the solver's tolerance is then relative.
        rows = self.components[:, moved].T / self.residual[moved][:, None]
        gap, one = (x - self.mean)[moved] / self.residual[moved], np.ones((len(moved), 1))
        found = linprog(
            np.append(np.zeros(self.count), 1.0),
            np.block([[rows, -one], [-rows, -one]]),
            np.concatenate([gap, -gap]),
            bounds=[*((-end, end) for end in self.ranges.tolist()), (0.0, None)],
            method="highs",
            options={"primal_feasibility_tolerance": _TOLERANCE},
        )
        return None if found.x is None else np.clip(found.x[:-1], -self.ranges, self.ranges)

    def nearest(self, x: Array, z: Array | None = None) -> Array:
        """Inputs `(batch, size)` in the zonotope, close to the given ones and to `z`, if given."""
        centre = self.at(self.coordinates(x) if z is None else z)
        room = self.residual * (1 - _INSIDE)
        return np.clip(x, centre - room, centre + room)

    def plain(self) -> dict[str, Any]:
        """The zonotope in JSON's own types."""
        names = ("mean", "components", "ranges", "residual")
        return {name: getattr(self, name).tolist() for name in names}

    @property
    def numbers(self) -> bytes:
        """All numbers as bytes, for the domain's fingerprint."""
        parts = (self.mean, self.components, self.ranges, self.residual)
        head = np.array([self.count, self.size], dtype="<i8").tobytes()
        return head + b"".join((part + 0.0).astype("<f8").tobytes() for part in parts)


def _numbers(given: Any, what: str) -> Array:
    try:
        values = np.array(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"{what} of the zonotope is not made of numbers: {error}") from error
    if not np.isfinite(values).all():
        raise InvalidInput(f"{what} of the zonotope holds a number that is not finite")
    return values
