"""The parameter of a piece that explains a given image best."""

from __future__ import annotations

import numpy as np

from vhagar.array_types import Array
from vhagar.perturbation.piece import AbstractPiece

# The search for the nearest parameter: values that it tries in each round, and its rounds.
_SEARCH_VALUES, _SEARCH_ROUNDS = 9, 3


def nearest_parameters(piece: AbstractPiece, x: Array, x_p: Array) -> Array:
    """Roughly the value of the one parameter whose image of `x` `(size,)` is nearest to `x_p`.

    For solutions of relaxations that leave the parameter out.
    """
    assert piece.span is not None  # all other relaxations contain the parameters
    low, high = piece.span
    for _ in range(_SEARCH_ROUNDS):
        values = np.linspace(low, high, _SEARCH_VALUES)
        images = piece.apply(np.tile(x, (len(values), 1)), values[:, None])
        best = int(abs(images - x_p).sum(axis=1).argmin())
        low, high = values[max(best - 1, 0)], values[min(best + 1, len(values) - 1)]
    return values[[best]]
