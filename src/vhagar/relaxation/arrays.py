"""What numpy and torch call differently, so that the mathematics is written once for both.

Both modules know `where`, `maximum`, `minimum`, `stack` and `empty_like`, and both kinds of arrays
the operators, `sum(axis=1)`, `clip(min=0)` and the built-in `abs`; that is most of what is needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vhagar.runtime.devices import require_torch

# A numpy array or a torch tensor.
AnyArray = Any


def namespace(values: AnyArray) -> Any:
    """The module that an array belongs to: numpy or torch."""
    return np if isinstance(values, np.ndarray) else require_torch()


def zeros(shape: tuple[int, ...], like: AnyArray) -> AnyArray:
    """Zeros of the same kind, precision and device as another array."""
    if isinstance(like, np.ndarray):
        return np.zeros(shape, dtype=like.dtype)
    return like.new_zeros(shape)
