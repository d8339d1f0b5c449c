"""The domain of a problem: all inputs of a range, or some of them.

A domain is a box with optional further conditions: linear rows, a zonotope, and groups of entries
that are whole numbers, one-hot or in ascending order.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vhagar.array_types import Array, Mask
from vhagar.errors import InvalidInput
from vhagar.perturbation.domain.box import check_box, check_sizes, narrowed, range_of
from vhagar.perturbation.domain.groups import Groups, checked_shape, per_entry
from vhagar.perturbation.domain.linear_rows import LinearRows, joined_rows
from vhagar.perturbation.domain.names import Names, number_of
from vhagar.perturbation.domain.projection import approached, projected
from vhagar.perturbation.domain.support import (
    UNDERFLOW,
    multipliers,
    rows_support,
    shared_support,
    zonotope_share,
)
from vhagar.perturbation.domain.zonotope import Zonotope

Shape = tuple[int, ...]


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Domain:
    """The inputs `x` of a problem: tensors of `shape` whose entries lie in `[low, high]`.

    In `Domain(shape, 0, 1)` every entry lies in that range. `lower` and `upper` may also be arrays
    of that shape, or one number per channel: a box. `range` is then the range of all values that an
    input can have, 0 to 1 unless given. Perturbed inputs are clipped to the range, and need not lie
    in the box. `name` is what results call the domain.

    All further conditions are optional. They refer to entries by their flat numbers:

    - `fixed`: entries that have one value, `{entry: value}`;
    - `integer`: entries that are whole numbers;
    - `one_hot`: groups of entries of which one is 1 and the others are 0;
    - `ordered`: groups of entries whose values do not descend;
    - `rows`: linear rows, made by `linear_rows`;
    - `zonotope`: a `Zonotope` that inputs lie in as well;
    - `perturbed_inside`: perturbed inputs must lie in the domain, too.

    `features` and `classes` are names for use in messages and tables.

    The attributes `lower` and `upper` are the ends of the range (`lower` is black), `low` and
    `high` `(size,)` those of every entry of `x`, narrowed by the conditions. `own_rows` are the
    rows that were given; `rows` also contains the sums and orders of groups.
    """

    shape: Shape
    lower: float
    upper: float
    low: Array = field()
    high: Array = field()
    name: str = ""
    groups: Groups = field(default_factory=Groups)
    own_rows: LinearRows | None = None
    rows: LinearRows | None = None
    zonotope: Zonotope | None = None
    perturbed_inside: bool = False
    names: Names = field(default_factory=Names)

    def __init__(
        self,
        shape: Shape,
        lower: ArrayLike = 0.0,
        upper: ArrayLike = 1.0,
        *,
        range: tuple[float, float] | None = None,
        name: str = "",
        fixed: Mapping[int, float] | None = None,
        integer: Sequence[int] = (),
        one_hot: Sequence[Sequence[int]] = (),
        ordered: Sequence[Sequence[int]] = (),
        rows: LinearRows | Sequence[LinearRows] = (),
        zonotope: Zonotope | None = None,
        perturbed_inside: bool = False,
        features: Sequence[str] = (),
        classes: Sequence[str] = (),
    ) -> None:
        store = object.__setattr__
        store(self, "shape", checked_shape(shape))
        span = range_of(range, lower, upper)
        for end, value in zip(("lower", "upper"), span, strict=True):
            store(self, end, value)
        store(self, "names", Names.of(self.size, features, classes))
        low = per_entry(lower, self.shape, "lower")
        high = per_entry(upper, self.shape, "upper")
        check_box(low, high, span, self.place)
        groups = Groups.of(self.size, integer, one_hot, ordered)
        own = joined_rows([rows] if isinstance(rows, LinearRows) else list(rows))
        store(self, "groups", groups)
        store(self, "own_rows", own)
        store(self, "rows", joined_rows([part for part in (own, groups.rows(self.size)) if part]))
        store(self, "zonotope", zonotope)
        store(self, "perturbed_inside", bool(perturbed_inside))
        store(self, "name", name)
        check_sizes(self.size, own, zonotope)
        low, high = narrowed(low, high, fixed or {}, groups, zonotope)
        check_box(low, high, span, self.place, groups.whole)
        self._set_box(low, high)

    def _set_box(self, low: Array, high: Array) -> None:
        for end, ends in (("low", low), ("high", high)):
            ends.setflags(write=False)
            object.__setattr__(self, end, ends)

    def place(self, k: int) -> str:
        """The name of an entry, or its place in the shape of an input."""
        if self.features:
            return self.features[k]
        return ",".join(str(int(part)) for part in np.unravel_index(k, self.shape))

    @cached_property
    def whole(self) -> bool:
        """Whether every input of the range belongs to the domain."""
        box = bool((self.low == self.lower).all() and (self.high == self.upper).all())
        return box and not self.constrained and not self.perturbed_inside

    @property
    def constrained(self) -> bool:
        """Whether inputs must satisfy conditions other than their ranges."""
        return self.groups.any or self.rows is not None or self.zonotope is not None

    @property
    def linear(self) -> bool:
        """Whether linear rows or a zonotope limit the inputs."""
        return self.rows is not None or self.zonotope is not None

    @property
    def box(self) -> Domain:
        """The domain's box, without its other conditions."""
        if not self.constrained and not self.perturbed_inside:
            return self
        ends = self.low, self.high
        return Domain(self.shape, *ends, range=(self.lower, self.upper), name=self.name)

    @cached_property
    def restricted(self) -> Mask:
        """The entries `(size,)` whose range in the domain is smaller than the input range."""
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
        """All inputs of the range; features and classes keep their names."""
        if self.whole:
            return self
        ends, names = (self.lower, self.upper), self.names
        return Domain(self.shape, *ends, features=names.features, classes=names.classes)

    def part(self, pixels: NDArray[np.int64]) -> Domain:
        """The domain of some of the entries, with no conditions but ranges and the zonotope."""
        ends, zonotope = (self.low[pixels], self.high[pixels]), self.zonotope
        part = None if zonotope is None else zonotope.part(pixels)
        return Domain((len(pixels),), *ends, range=(self.lower, self.upper), zonotope=part)

    def with_box(self, low: Array, high: Array) -> Domain:
        """The same conditions over a smaller box, which must not be empty."""
        found = copy(self)
        for name in ("whole", "restricted", "fingerprint", "_key"):  # what depends on the box
            found.__dict__.pop(name, None)
        found._set_box(low, high)
        return found

    def extended(self) -> Domain:
        """The domain with one more entry at the end, which has the whole range.

        All conditions except ranges are dropped.
        """
        ends = np.append(self.low, self.lower), np.append(self.high, self.upper)
        return Domain((self.size + 1,), *ends, range=(self.lower, self.upper))

    def contains(self, x: Array) -> Mask:
        """Which inputs `(batch, size)` certainly belong to the domain."""
        inside = np.asarray(((x >= self.low) & (x <= self.high)).all(axis=1))
        if self.constrained and inside.any():
            inside[inside] = self._satisfies(x[inside])
        return inside

    def _satisfies(self, x: Array) -> Mask:
        found = self.groups.contains(x)
        if self.rows is not None and found.any():
            found[found] = self.rows.contains(x[found])
        if self.zonotope is not None and found.any():
            found[found] = self.zonotope.witnesses(x[found])[1]
        return found

    def project(self, x: Array) -> Array:
        """The nearest inputs `(..., size)` in the domain.

        If there are conditions other than ranges, the results are nearby inputs that often satisfy
        them, but not always.
        """
        found = np.clip(x, self.low, self.high)
        if not self.constrained:
            return found
        return projected(found, (self.low, self.high), self.groups, self.rows, self.zonotope)

    def approached(self, x: Array) -> Array:
        """As `project`, in much less time, but conditions hold only up to rounding errors."""
        if not self.constrained:
            return np.clip(x, self.low, self.high)
        return approached(x, (self.low, self.high), self.groups, self.rows, self.zonotope)

    def clipped(self, x: Array) -> Array:
        """The nearest inputs `(..., size)` in the box alone."""
        return np.clip(x, self.low, self.high)

    def farthest(self, a: Array) -> Array:
        """Inputs `(batch, size)` in the box at which `a.x` is largest."""
        return np.where(a > 0, self.high, self.low)

    def support(self, a: Array) -> Array:
        """The maximum `(batch,)` of `a.x` over the domain, or a bound on it, never rounded down."""
        value = (a * self.farthest(a)).sum(axis=1)
        size = abs(a).sum(axis=1) * self.magnitude
        found = value + 2.0**-51 * (self.size + 8) * size + UNDERFLOW * (self.size + 8)
        # NaN, from an overflow, is no bound; `fmin` ignores it.
        ends = self.low, self.high
        if self.rows is not None:
            found = np.fmin(found, rows_support(self.rows, ends, a, self.zonotope))
        if self.zonotope is not None:
            found = np.fmin(found, shared_support(self.zonotope, ends, a))
        return np.asarray(found)

    def pulled(self, a: Array) -> Array:
        """What rows and zonotope take of `a` where they bound `a.x`, `(batch, size)`.

        Rows with multipliers `y` take `C'y`, and the zonotope its share of what is left.
        """
        found, ends = np.zeros_like(a), (self.low, self.high)
        if self.rows is not None:
            found = np.asarray((self.rows.transposed @ multipliers(self.rows, ends, a).T).T)
        if self.zonotope is not None:
            found = found + zonotope_share(self.zonotope, ends, a - found)
        return found

    @cached_property
    def fingerprint(self) -> str | None:
        """The SHA-256 of the domain's numbers; None if it is all of the range.

        Certificates and results identify the domain by it. The numbers are the ends of all entries,
        as float64, little-endian, followed by those of every other condition.
        """
        return None if self.whole else hashlib.sha256(self._numbers).hexdigest()

    @property
    def _numbers(self) -> bytes:
        ends = b"".join((ends + 0.0).astype("<f8").tobytes() for ends in (self.low, self.high))
        found = [ends, self.groups.numbers]
        for tag, part in ((b"rows", self.own_rows), (b"zonotope", self.zonotope)):
            found += [] if part is None else [tag, part.numbers]
        return b"".join([*found, b"perturbed" if self.perturbed_inside else b""])

    @property
    def features(self) -> tuple[str, ...]:
        return self.names.features

    @property
    def classes(self) -> tuple[str, ...]:
        return self.names.classes

    def entry(self, feature: str | int) -> int:
        """The flat number of an entry, given its name or its number."""
        return number_of(feature, self.features, self.size, "feature")

    def entry_name(self, k: int) -> str:
        """The name of an entry, or its number."""
        return self.features[k] if self.features else str(k)

    def class_name(self, label: int) -> str:
        """The name of a class, or its number."""
        return self.classes[label] if 0 <= label < len(self.classes) else str(label)

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
        """The domain's name, or else the beginning of its fingerprint."""
        return self.name or ("all inputs" if self.fingerprint is None else self.fingerprint[:12])

    @property
    def image(self) -> tuple[int, int, int]:
        """The shape `(channels, rows, columns)`; an error if the input is not an image."""
        if len(self.shape) == 2:
            return (1, *self.shape)
        if len(self.shape) == 3:
            return self.shape
        raise InvalidInput(
            f"this perturbation needs an image (channels, rows, columns), but the network's input "
            f"has shape {self.shape}; if it is an image, give its shape with --image-shape C,H,W "
            "(image_shape=...), else use features, linf, brightness or contrast"
        )
