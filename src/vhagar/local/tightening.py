"""Tightens the ranges of undecided neurons with slopes that are optimised for each of them.

CROWN takes the same slopes whatever is bounded. A few first-order steps find better ones for each
end of each neuron's range; float64, with its rounding added, then proves what they are worth.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array, Index
from vhagar.local.compact import Compact, Rows, upper_bounds
from vhagar.local.dual import Dual, Steps
from vhagar.relaxation.refinement import rounded_multipliers

Floats = NDArray[np.float32]

# First-order steps for each end of a range.
_STEPS = Steps(20, 0.2, 0.9)
# Entries of one batch of coefficients; keeps memory bounded.
BATCH_ENTRIES = 1_000_000


def tighten(
    found: Compact,
    rows: Rows,
    neurons: Index,
    ends: tuple[Array, Array],
    stop: Callable[[], bool],
    kept: Floats | None,
) -> None:
    """Tighten the ends of some neurons' ranges in place, given the blocks of the layers before.

    `kept` `(2, neurons, undecided before)` holds the multipliers that prove the ends, and is
    brought up to date; a certificate states them.
    """
    if not found.undecided:
        return
    count = max(1, BATCH_ENTRIES // rows.weight.shape[1])
    places = np.flatnonzero((ends[0][neurons] < 0) & (ends[1][neurons] > 0))
    for begin in range(0, len(places), count):
        if stop():
            return
        some = places[begin : begin + count]
        own = rows.take(neurons[some])
        for side, sign in enumerate((-1.0, 1.0)):
            best, p = _optimised(found, own, sign * np.eye(len(some)))
            before = sign * ends[side][neurons[some]]
            ends[side][neurons[some]] = sign * np.fmin(before, best)
            if kept is not None:
                better = best < before
                kept[side, some[better]] = p[better]


def _optimised(found: Compact, rows: Rows, start: Array) -> tuple[Array, Floats]:
    """Upper bounds on `start @ rows`, and the multipliers that prove them."""
    dual = Dual(found, rows, start, lambda values: np.asarray(values, dtype=np.float32))
    p = rounded_multipliers(dual.improve(dual.begin(), _STEPS, 0.0)[1].p, np.float32)
    parts = [block.part for block in dual.blocks]
    return upper_bounds(found, rows, start, lambda k, a: p[:, parts[k]].astype(np.float64)), p
