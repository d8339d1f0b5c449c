"""Estimate how long one linear program of a region takes, from its bounds, before it is built."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vhagar.array_types import Mask
from vhagar.relaxation.layerwise import TwinBounds

# Iterations of the simplex method per row, and seconds per iteration and entry of the matrix.
# Measured: conv2 of the paper `linf(0.05)` 0.2 s (0.2 estimated), VNN-COMP's mnistfc 256x2 2 to 4 s
# (3.3), a network of 561 inputs and 500 neurons 2.4 s (3.4), ACAS Xu 1.9 s (0.1), on one core.
_ITERATIONS, _SECONDS = 4.0, 1e-9
# Rows of a pair of undecided neurons, and of one whose copies are equal.
_PAIR_ROWS, _EQUAL_ROWS = 3, 2


def lp_seconds(bounds: TwinBounds) -> float:
    """Estimated seconds for the LP of a region with these bounds, to within a small factor."""
    rows, entries = 0.0, 0.0
    below: Mask | None = None
    for stage, hexagons in zip(bounds.stages, bounds.hexagons, strict=False):
        undecided = ~hexagons.on & ~hexagons.off
        equal = undecided & hexagons.equal
        pairs = undecided & ~hexagons.equal
        rows += _PAIR_ROWS * pairs.sum() + _EQUAL_ROWS * equal.sum()
        weights = _entries(stage.matrix(), below)
        entries += 2 * weights[pairs].sum() + weights[equal].sum()
        below = ~hexagons.off
    return float(_SECONDS * _ITERATIONS * rows * entries)


def _entries(matrix: sparse.csr_array, columns: Mask | None) -> NDArray[np.int64]:
    """The number of nonzero entries of each row in the given columns."""
    if columns is None:
        return np.asarray(np.diff(matrix.indptr), dtype=np.int64)
    counts = np.add.accumulate(np.concatenate([[0], columns[matrix.indices]]))
    return np.asarray(counts[matrix.indptr[1:]] - counts[matrix.indptr[:-1]], dtype=np.int64)
