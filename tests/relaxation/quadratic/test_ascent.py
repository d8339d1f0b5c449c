"""The ascent over slopes: what it reaches is reached, and no start keeps it from beginning."""

from __future__ import annotations

import numpy as np
import pytest

from vhagar.relaxation.quadratic import Differences, ascend, ascent


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


def _random_layers() -> Differences:
    rng, pairs, inputs = np.random.default_rng(0), 30, 20
    rows = rng.normal(size=(2 * pairs + 1, inputs + 2 * pairs))
    rows[:pairs, inputs:] = 0.0
    rows[pairs:-1, inputs + pairs :] = 0.0
    rows[pairs:, :inputs] = rows[-1, inputs : inputs + pairs] = 0.0
    places = tuple((layer, k) for layer in (0, 1) for k in range(pairs))
    zero, one = np.zeros(inputs), np.ones(inputs)
    return Differences(rows, abs(rows), 0.0, zero, one, np.arange(inputs), places)


def test_ascents_near_the_best_one_lead_further(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two random layers: the lead as it is at the slopes found, and larger than without these."""
    known = _random_layers()
    rows, pairs, inputs = known.rows, len(known.places) // 2, len(known.inputs)
    found = ascend(known)
    theta = found.weights * found.changes > 0
    change = np.sign(found.slopes)
    first = rows[:pairs, :inputs] @ change * theta[:pairs]
    second = rows[pairs:-1, inputs : inputs + pairs] @ first * theta[pairs:]
    assert rows[-1, inputs + pairs :] @ second == pytest.approx(found.value)
    monkeypatch.setattr(ascent, "_NEARBY", 0)
    assert ascend(known).value < found.value


def test_without_unknowns_there_is_one_ascent_and_no_lead() -> None:
    """A piece that changes nothing leaves neither inputs nor pairs."""
    nothing = np.zeros((1, 0))
    none = np.zeros(0)
    known = Differences(nothing, nothing, 0.0, none, none, none.astype(np.int64), ())
    found = ascend(known)
    assert found.value == 0.0
    assert found.changes.shape == found.slopes.shape == (0,)


def test_an_ascent_that_is_to_stop_keeps_what_it_has_found() -> None:
    """It looks at the clock after every round, and each round is better than the one before."""
    known = _random_layers()
    whole = ascend(known)
    asked: list[int] = []

    def stops_at(most: int) -> float:
        asked.clear()

        def should_stop() -> bool:
            asked.append(0)
            return len(asked) >= most

        found = ascend(known, should_stop)
        assert len(asked) <= most + 1
        assert np.isfinite(found.value)
        return found.value

    values = [stops_at(most) for most in (1, 2, 20, 10**9)]
    assert values == sorted(values)
    assert values[0] < values[1] < values[3] == whole.value
