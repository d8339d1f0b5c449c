"""The ascent over slopes: what it reaches is reached, and no start keeps it from beginning."""

from __future__ import annotations

import numpy as np

from vhagar.relaxation.quadratic import Differences, ascend


def test_no_change_at_all_is_no_trap() -> None:
    """Random slopes say that the one input had better be 0, where no slope makes a difference.

    The lead is `w_2 - 100 w_1` with `w_i = theta_i u` and `u` in [0,1]: 1 at the slopes 0 and 1.
    """
    rows = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, -100.0, 1.0]])
    known = Differences(
        rows,
        abs(rows),
        0.0,
        np.array([0.5]),
        np.array([0.5]),
        np.array([0]),
        ((0, 0), (0, 1)),
        tied=True,
    )
    found = ascend(known)
    assert found.value == 1.0
    np.testing.assert_array_equal(found.changes, [1.0, 1.0])
    np.testing.assert_array_equal(found.weights, [-100.0, 1.0])
