"""The inputs that a problem is about: all those of a range, or a box inside it."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vhagar.errors import InvalidInput

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Shape = tuple[int, ...]

# More than what one product loses to underflow, also where subnormal numbers count as 0.
UNDERFLOW = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Domain:
    """The inputs `x` of a problem: tensors of `shape` whose entries lie in `[low, high]`.

    `Domain(shape, 0, 1)`: every entry lies in that range. `lower` and `upper` may also be arrays of
    that shape, or one number per channel: a box. `range` is then the range of all values that an
    input can have, 0 to 1 unless given; it is what perturbed inputs are clipped to, as they need
    not lie in the box. `name` is what the domain is called in results.

    In a domain, `lower` and `upper` are the ends of the range (`lower` is black), `low` and `high`
    `(size,)` those of every entry of `x`.
    """

    shape: Shape
    lower: float
    upper: float
    low: Array = field()
    high: Array = field()
    name: str = ""

    def __init__(
        self,
        shape: Shape,
        lower: ArrayLike = 0.0,
        upper: ArrayLike = 1.0,
        *,
        range: tuple[float, float] | None = None,
        name: str = "",
    ) -> None:
        store, numbers = object.__setattr__, np.ndim(lower) == np.ndim(upper) == 0
        if range is None:
            range = (float(np.asarray(lower)), float(np.asarray(upper))) if numbers else (0.0, 1.0)
        store(self, "shape", tuple(shape))
        for end, value in zip(("lower", "upper"), range, strict=True):
            store(self, end, float(value))
        self._check_range()
        store(self, "low", _per_entry(lower, self.shape, "lower"))
        store(self, "high", _per_entry(upper, self.shape, "upper"))
        self._check_box()
        store(self, "name", name)

    def _check_range(self) -> None:
        if not (math.isfinite(self.lower) and math.isfinite(self.upper - self.lower)):
            raise InvalidInput(f"the input range {self.lower},{self.upper} is not finite")
        if self.lower >= self.upper:
            raise InvalidInput(
                f"the input range needs lower < upper, not {self.lower},{self.upper}"
            )

    def _check_box(self) -> None:
        empty = np.flatnonzero(self.low > self.high)
        if len(empty):
            k = int(empty[0])
            raise InvalidInput(
                f"the domain is empty: no number is at least {self.low[k]:g} and at most "
                f"{self.high[k]:g}, as entry {self._place(k)} would have to be"
            )
        beyond = np.flatnonzero((self.low < self.lower) | (self.high > self.upper))
        if len(beyond):
            k = int(beyond[0])
            raise InvalidInput(
                f"the domain leaves the input range [{self.lower:g},{self.upper:g}]: entry "
                f"{self._place(k)} is from {self.low[k]:g} to {self.high[k]:g}; give the range of "
                "all inputs with --input-range (range = [LOW, HIGH] in the domain's file)"
            )

    def _place(self, k: int) -> str:
        return ",".join(str(int(part)) for part in np.unravel_index(k, self.shape))

    @cached_property
    def whole(self) -> bool:
        """Whether every input of the range belongs to the domain."""
        return bool((self.low == self.lower).all() and (self.high == self.upper).all())

    @cached_property
    def restricted(self) -> Mask:
        """The entries `(size,)` that the domain narrows down."""
        return np.asarray((self.low > self.lower) | (self.high < self.upper))

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def width(self) -> float:
        return self.upper - self.lower

    @property
    def magnitude(self) -> float:
        """The largest absolute value an entry can have."""
        return max(abs(self.lower), abs(self.upper))

    @property
    def range_only(self) -> Domain:
        """All inputs of the range."""
        return self if self.whole else Domain(self.shape, self.lower, self.upper)

    def part(self, pixels: NDArray[np.int64]) -> Domain:
        """Some of the entries, in a row."""
        ends = self.low[pixels], self.high[pixels]
        return Domain((len(pixels),), *ends, range=(self.lower, self.upper))

    def extended(self) -> Domain:
        """With one more entry behind the others, which has the whole range."""
        ends = np.append(self.low, self.lower), np.append(self.high, self.upper)
        return Domain((self.size + 1,), *ends, range=(self.lower, self.upper))

    def contains(self, x: Array) -> Mask:
        """Which inputs `(batch, size)` belong to the domain."""
        return np.asarray(((x >= self.low) & (x <= self.high)).all(axis=1))

    def project(self, x: Array) -> Array:
        """The nearest inputs `(..., size)` in the domain."""
        return np.clip(x, self.low, self.high)

    def farthest(self, a: Array) -> Array:
        """Inputs `(batch, size)` in the domain at which `a.x` is largest."""
        return np.where(a > 0, self.high, self.low)

    def support(self, a: Array) -> Array:
        """The maximum `(batch,)` of `a.x` over the domain, never rounded down."""
        value = (a * self.farthest(a)).sum(axis=1)
        size = abs(a).sum(axis=1) * self.magnitude
        slack = 2.0**-51 * (self.size + 8) * size + UNDERFLOW * (self.size + 8)
        return np.asarray(value + slack)

    @cached_property
    def fingerprint(self) -> str | None:
        """The SHA-256 of the ends of all entries, as float64, little-endian; None if all are whole.

        Certificates and results name the domain by it.
        """
        return None if self.whole else hashlib.sha256(self._numbers).hexdigest()

    @property
    def _numbers(self) -> bytes:
        return b"".join((ends + 0.0).astype("<f8").tobytes() for ends in (self.low, self.high))

    def plain(self) -> dict[str, Any] | None:
        """The domain in JSON's own types; None if it is all of the range."""
        if self.whole:
            return None
        ends = {"lower": self.low.tolist(), "upper": self.high.tolist()}
        return {"name": self.name, "sha256": self.fingerprint, **ends}

    @classmethod
    def from_plain(cls, shape: Shape, span: tuple[float, float], given: Any) -> Domain:
        """The domain of inputs of a shape and range that `plain` has described."""
        if given is None:
            return cls(shape, *span)
        return cls(shape, given["lower"], given["upper"], range=span, name=given["name"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Domain) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @cached_property
    def _key(self) -> tuple[Any, ...]:
        return self.shape, self.lower, self.upper, self.fingerprint

    def __repr__(self) -> str:
        box = "" if self.whole else f", {self}"
        return f"Domain({self.shape}, {self.lower!r}, {self.upper!r}{box})"

    def __str__(self) -> str:
        """The domain's name, or what its numbers are called."""
        return self.name or ("all inputs" if self.fingerprint is None else self.fingerprint[:12])

    @property
    def image(self) -> tuple[int, int, int]:
        """`(channels, rows, columns)`; an error where the input is not an image."""
        if len(self.shape) == 2:
            return (1, *self.shape)
        if len(self.shape) == 3:
            return self.shape
        raise InvalidInput(
            f"this perturbation needs an image (channels, rows, columns), but the network's input "
            f"has shape {self.shape}; if it is an image, give its shape with --image-shape C,H,W "
            "(image_shape=...), else use linf, brightness or contrast"
        )


def _per_entry(given: Any, shape: Shape, what: str) -> Array:
    """One number for all entries, one per channel, or one for each entry, as `(size,)`."""
    try:
        values = np.array(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{what} of the domain is not made of numbers: {error}") from error
    size = math.prod(shape)
    if values.ndim == 1 and len(shape) == 3 and len(values) == shape[0] != size:
        values = np.broadcast_to(values[:, None, None], shape)
    if values.ndim and values.shape not in (shape, (size,)):
        raise InvalidInput(
            f"{what} of the domain has shape {values.shape}; it must be one number, one per "
            f"channel, or an array of the input's shape {shape}"
        )
    found = np.array(np.broadcast_to(values.reshape(-1), (size,)))
    if not np.isfinite(found).all():
        raise InvalidInput(f"{what} of the domain holds a number that is not finite")
    found.setflags(write=False)
    return found
