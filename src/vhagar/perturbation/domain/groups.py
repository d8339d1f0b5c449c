"""Groups of an input's entries that are whole numbers, one-hot or in ascending order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array, Mask
from vhagar.errors import InvalidInput
from vhagar.perturbation.domain.linear_rows import LinearRows, joined_rows, linear_rows

Group = tuple[int, ...]


@dataclass(frozen=True)
class Groups:
    """Entries that are whole numbers, and groups of entries that share a condition.

    In a one-hot group one entry is 1 and the others are 0. The values of an ordered group do not
    descend.
    """

    integer: Group = ()
    one_hot: tuple[Group, ...] = ()
    ordered: tuple[Group, ...] = ()

    @classmethod
    def of(
        cls,
        size: int,
        integer: Sequence[int],
        one_hot: Sequence[Sequence[int]],
        ordered: Sequence[Sequence[int]],
    ) -> Groups:
        """The groups that a user has given for inputs of `size` entries."""
        for what, groups in (("one_hot", one_hot), ("ordered", ordered)):
            if any(isinstance(group, int | np.integer | str) for group in groups):
                raise InvalidInput(f"{what} of the domain must be groups, such as [[3, 4, 5]]")
        hot = tuple(_group(group, size, "one_hot", 1) for group in one_hot)
        every = [k for group in hot for k in group]
        if len(set(every)) != len(every):
            raise InvalidInput("an entry belongs to two one_hot groups of the domain")
        row = tuple(_group(group, size, "ordered", 2) for group in ordered)
        return cls(tuple(sorted(_group(integer, size, "integer", 0))), hot, row)

    @property
    def any(self) -> bool:
        return bool(self.integer or self.one_hot or self.ordered)

    @cached_property
    def whole(self) -> NDArray[np.int64]:
        """All entries that are whole numbers, in ascending order."""
        hot = [k for group in self.one_hot for k in group]
        return np.array(sorted({*self.integer, *hot}), dtype=np.int64)

    def narrowed(self, low: Array, high: Array) -> tuple[Array, Array]:
        """The ends of all entries, narrowed by the groups."""
        low, high, whole = low.copy(), high.copy(), self.whole
        hot = [k for group in self.one_hot for k in group]
        low[hot], high[hot] = np.maximum(low[hot], 0.0), np.minimum(high[hot], 1.0)
        low[whole], high[whole] = np.ceil(low[whole]), np.floor(high[whole])
        return low, high

    def rows(self, size: int) -> LinearRows | None:
        """Linear rows for the sums of one-hot groups and the order of ordered groups."""
        found = [linear_rows(dict.fromkeys(group, 1.0), size, equal=1.0) for group in self.one_hot]
        found += [
            linear_rows({one: 1.0, other: -1.0}, size, at_most=0.0)
            for group in self.ordered
            for one, other in pairwise(group)
        ]
        return joined_rows(found)

    def contains(self, x: Array) -> Mask:
        """Which inputs `(batch, size)` have whole numbers where they must; `rows` says the rest."""
        values = x[:, self.whole]
        return np.asarray((values == np.rint(values)).all(axis=1))

    def plain(self) -> dict[str, Any]:
        """The groups that are not empty, in JSON's own types."""
        found = {
            "integer": list(self.integer),
            "one_hot": [list(group) for group in self.one_hot],
            "ordered": [list(group) for group in self.ordered],
        }
        return {name: given for name, given in found.items() if given}

    @property
    def numbers(self) -> bytes:
        """All numbers as bytes, for the domain's fingerprint; empty without groups."""
        found = [(b"integer", self.integer)] if self.integer else []
        found += [(b"one_hot", group) for group in self.one_hot]
        found += [(b"ordered", group) for group in self.ordered]
        return b"".join(tag + np.array(group, dtype="<i8").tobytes() for tag, group in found)


def _group(given: Sequence[int], size: int, what: str, least: int) -> Group:
    whole = all(isinstance(k, int | np.integer) and not isinstance(k, bool) for k in given)
    if not whole or len(given) < least or len(set(given)) != len(given):
        raise InvalidInput(
            f"{what} of the domain must be {'at least two ' if least > 1 else ''}numbers of "
            f"different entries, not {list(given)}"
        )
    if any(not 0 <= k < size for k in given):
        raise InvalidInput(f"{what} of the domain names an entry that is not among 0 to {size - 1}")
    return tuple(int(k) for k in given)


def checked_shape(given: Any) -> tuple[int, ...]:
    """The shape of an input, of whole sizes from 1."""
    sizes = tuple(given) if isinstance(given, list | tuple) else (None,)
    if not all(isinstance(size, int | np.integer) and size > 0 for size in sizes):
        raise InvalidInput(
            f"the shape of a domain is a tuple of sizes, such as (1, 28, 28) or (784,), not "
            f"{given!r}"
        )
    return tuple(map(int, sizes))


def per_entry(given: Any, shape: tuple[int, ...], what: str) -> Array:
    """Expand one number, one per channel, or one per entry to `(size,)`."""
    try:
        values = np.array(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
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
