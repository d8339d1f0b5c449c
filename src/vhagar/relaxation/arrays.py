"""What numpy and torch call differently, so that the mathematics is written once for both.

Both modules know `where`, `maximum`, `minimum`, `stack`, `amax` and `empty_like`, and both kinds
of arrays the operators, `sum(axis=1)`, `clip(min=0)` and the built-in `abs`. That is nearly all
that is needed; the rest, mostly sums in place, is here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from vhagar.runtime.devices import require_torch

# A numpy array or a torch tensor.
AnyArray = Any

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
    """The numbers below a count, to index an array with."""
    if isinstance(like, np.ndarray):
        return np.arange(count)
    return require_torch().arange(count, device=like.device)


def contiguous(values: AnyArray) -> AnyArray:
    """The array in memory without gaps, as kernels read it."""
    return np.ascontiguousarray(values) if isinstance(values, np.ndarray) else values.contiguous()


def buffer(like: AnyArray) -> AnyArray | None:
    """Room for products of that shape; torch needs none."""
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
    """The rows `(rows, entries)` in blocks that stay in a core's cache; on a GPU all at once."""
    rows, entries = values.shape
    at_once = max(1, _BLOCK_ENTRIES // max(entries, 1))
    if not isinstance(values, np.ndarray) and values.is_cuda:
        at_once = max(rows, 1)
    for begin in range(0, rows, at_once):
        yield slice(begin, min(begin + at_once, rows))
