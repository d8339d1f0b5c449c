"""Operations that numpy and torch spell differently, so that the same formulas serve both.

Both modules provide `where`, `maximum`, `minimum`, `stack`, `amax` and `empty_like`; both kinds of
arrays support the operators, `sum(axis=1)`, `clip(min=0)` and the built-in `abs`. That is nearly
all that is needed; this module adds the rest, mostly in-place sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from vhagar.runtime.devices import require_torch

# A numpy array or a torch tensor.
AnyArray = Any
Whole = TypeVar("Whole", np.int32, np.int64)

# Entries of a block of rows: some twenty buffers of this many numbers fit into a core's cache.
_BLOCK_ENTRIES = 2**14


def namespace(values: AnyArray) -> Any:
    """The module that an array belongs to: numpy or torch."""
    return np if isinstance(values, np.ndarray) else require_torch()


def zeros(shape: tuple[int, ...], like: AnyArray) -> AnyArray:
    """Zeros of the same kind, precision and device as another array."""
    if isinstance(like, np.ndarray):
        return np.zeros(shape, dtype=like.dtype)
    return like.new_zeros(shape)


def arange(count: int, like: AnyArray) -> AnyArray:
    """The integers from 0 to `count - 1`, on the device of `like`, as an index."""
    if isinstance(like, np.ndarray):
        return np.arange(count)
    return require_torch().arange(count, device=like.device)


def contiguous(values: AnyArray) -> AnyArray:
    """The array in contiguous memory, as the kernels require it."""
    return np.ascontiguousarray(values) if isinstance(values, np.ndarray) else values.contiguous()


def distinct(values: NDArray[Whole]) -> NDArray[Whole]:
    """The different entries of an array of integers in ascending order.

    What `np.unique` gives, which takes several times as long for a few and imports masked arrays.
    """
    ordered = np.sort(values, axis=None)
    found: NDArray[Whole] = ordered[np.diff(ordered, prepend=ordered[:1] - 1) > 0]
    return found


def buffer(like: AnyArray) -> AnyArray | None:
    """Scratch memory of the same shape for products; torch needs none."""
    return np.empty_like(like) if isinstance(like, np.ndarray) else None


def add_product(
    total: AnyArray, x: AnyArray, y: AnyArray, spare: AnyArray | None, sign: int = 1
) -> None:
    """`total += sign * x * y`, in place; `spare` is a `buffer`."""
    if spare is None:
        total.addcmul_(x, y, value=sign)
    elif sign > 0:
        total += np.multiply(x, y, out=spare)
    else:
        total -= np.multiply(x, y, out=spare)


def put(target: AnyArray, values: AnyArray | float, mask: AnyArray) -> None:
    """`target = values` where the mask is set, in place."""
    if isinstance(target, np.ndarray):
        np.copyto(target, values, where=mask)
    elif isinstance(values, float):
        target.masked_fill_(mask, values)
    else:
        require_torch().where(mask, values, target, out=target)


def row_blocks(values: AnyArray) -> Iterator[slice]:
    """Divide the rows of `(rows, entries)` into blocks that fit a core's cache; one on a GPU."""
    rows, entries = values.shape
    at_once = max(1, _BLOCK_ENTRIES // max(entries, 1))
    if not isinstance(values, np.ndarray) and values.is_cuda:
        at_once = max(rows, 1)
    for begin in range(0, rows, at_once):
        yield slice(begin, min(begin + at_once, rows))
