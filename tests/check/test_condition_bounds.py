"""Bounds under conditions on inputs, in floats and in fractions, and what malformed ones meet."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from vhagar_check.box_supports import exact_box_support
from vhagar_check.conditions import Conditions, Row, _best, read_conditions
from vhagar_check.errors import Rejected
from vhagar_check.zonotope import Zonotope

INF = np.inf


def row(entries: list[int], weights: list[float], low: float, high: float) -> Row:
    return Row(np.array(entries, dtype=np.int64), np.array(weights), low, high)


def of_rows(*rows: Row) -> Conditions:
    return Conditions(rows, (), (), (), None, False)


def exact_value(own: Row, x: list[float]) -> Fraction:
    pairs = zip(own.weights.tolist(), own.entries.tolist(), strict=True)
    return sum((Fraction(w) * Fraction(x[k]) for w, k in pairs), Fraction(0))


def mixed(rng: np.random.Generator, *shape: int, spread: float = 6.0) -> np.ndarray:
    """Numbers of many sizes, so that sums round."""
    return rng.normal(size=shape) * 10.0 ** rng.uniform(-spread, spread, shape)


def test_missing_ends_of_a_row_follow_from_the_box() -> None:
    box = np.array([-1.0, 2.0, 0.0]), np.array([3.0, 5.0, 0.5])
    both = row([0, 1], [2.0, -1.0], -7.0, 11.0)
    assert both.within(box) == (-7.0, 11.0)
    low, high = row([0, 1], [2.0, -1.0], -INF, 4.0).within(box)
    assert high == 4.0
    assert low == -7.0 - 11 * 2.0**-40  # 11 is the most that the sum can be
    low, high = row([0, 1], [2.0, -1.0], 0.5, INF).within(box)
    assert low == 0.5
    assert high == 4.0 + 11 * 2.0**-40
    low, high = row([], [], -INF, INF).within(box)
    assert low < 0 < high


def test_missing_ends_are_rounded_outward() -> None:
    rng = np.random.default_rng(1)
    for _ in range(12):
        low = mixed(rng, 6)
        box = low, low + abs(mixed(rng, 6))
        own = row(list(range(6)), mixed(rng, 6).tolist(), -INF, INF)
        found = own.within(box)
        ends = [
            [Fraction(w) * Fraction(float(side[k])) for side in box]
            for k, w in enumerate(own.weights.tolist())
        ]
        assert Fraction(found[0]) < sum(map(min, ends), Fraction(0))
        assert Fraction(found[1]) > sum(map(max, ends), Fraction(0))
        assert found[1] - found[0] < 1.001 * float(sum(max(e) - min(e) for e in ends)) + 1e-3 * abs(
            found[1]
        )


@pytest.mark.parametrize(
    ("ends", "holds"),
    [
        ((-INF, INF), [True, True, True]),
        ((1.0, INF), [False, True, True]),
        ((-INF, 1.0), [True, True, False]),
        ((1.0, 1.0), [False, True, False]),
    ],
)
def test_whether_a_row_holds(ends: tuple[float, float], holds: list[bool]) -> None:
    own = row([2, 0], [2.0, -1.0], *ends)
    for x, expected in zip(([1, 9, 0], [1, 9, 1], [0, 9, 1]), holds, strict=True):
        assert own.holds([Fraction(value) for value in x]) == expected


def test_the_best_multiplier_of_a_row() -> None:
    """max 3 x + y over [0, 1]^2 with x + y <= 1 is 3, by the multiplier 3 or any from 1."""
    box = np.zeros(2), np.ones(2)
    conditions = of_rows(row([0, 1], [1.0, 1.0], -INF, 1.0))
    s = np.array([[3.0, 1.0], [-1.0, -2.0], [2.0, 2.0]])
    found = conditions.support(box, s)
    np.testing.assert_allclose(found, [3.0, 0.0, 2.0], atol=1e-12)
    assert (found > [3.0, 0.0, 2.0]).all()  # rounded up
    exact = [conditions.exact_support(box, [Fraction(v) for v in each]) for each in s.tolist()]
    assert exact == [3, 0, 2]


def test_equalities_and_weights_of_both_signs() -> None:
    """x - 2 y = -1 over [0, 1]^2: the segment from (0, 1/2) to (1, 1)."""
    box = np.zeros(2), np.ones(2)
    conditions = of_rows(row([0, 1], [1.0, -2.0], -1.0, -1.0))
    s = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0], [1.0, -3.0]])
    np.testing.assert_allclose(conditions.support(box, s), [1.0, 0.0, 1.0, -0.5, -1.5], atol=1e-12)


def test_rows_that_share_entries_are_improved_in_turns() -> None:
    """max x + y + z with x + y <= 1 and y + z <= 1 over [0, 1]^3 is 2; with x = z, too."""
    box = np.zeros(3), np.ones(3)
    first, second = row([0, 1], [1.0, 1.0], -INF, 1.0), row([1, 2], [1.0, 1.0], -INF, 1.0)
    conditions = of_rows(first, second)
    assert conditions.support(box, np.array([[1.0, 1.5, 1.0]]))[0] <= 2.5
    assert conditions.support(box, np.array([[0.0, 3.0, 0.0]]))[0] == pytest.approx(3.0)
    apart = of_rows(row([0], [1.0], -INF, 0.25), row([2], [2.0], -INF, 0.5), row([], [], -1.0, 1.0))
    assert apart.support(box, np.array([[1.0, 1.0, 1.0]]))[0] == pytest.approx(1.5)


def slow_multipliers(conditions: Conditions, box: Any, s: list[float], sweeps: int) -> list[float]:
    """The rows' multipliers, each the best of all kinks, the rows in turns."""
    y = [0.0] * len(conditions.rows)
    for _ in range(sweeps):
        for k, own in enumerate(conditions.rows):
            rest = list(s)
            for j, other in enumerate(conditions.rows):
                for weight, n in zip(other.weights, other.entries, strict=True):
                    rest[n] -= (j != k) * y[j] * weight
            low, high = own.within(box)
            values = {}
            for at in [0.0, *(rest[n] / w for w, n in zip(own.weights, own.entries, strict=True))]:
                left = np.array(rest)
                left[own.entries] -= at * own.weights
                values[at] = (
                    max(at * low, at * high) + np.maximum(left * box[0], left * box[1]).sum()
                )
            y[k] = min(values, key=values.__getitem__)
    return y


@pytest.mark.parametrize("shared", [False, True])
def test_multipliers_are_the_best_of_all_kinks(shared: bool) -> None:
    """Rows that share entries are improved three times, others once, which is enough."""
    rng = np.random.default_rng(17)
    improved = 0
    for _ in range(12):
        low = rng.normal(size=6)
        box, s = (low, low + rng.uniform(0.1, 3, 6)), rng.normal(size=6)
        entries = [[0, 1, 2], [2, 3, 1], [1, 5]] if shared else [[0, 4], [2, 3, 1], [5]]
        rows = []
        for own in entries:
            middle = rng.normal(size=len(own)) * 2
            value = float(middle @ (low[own] + 0.5))
            width = rng.uniform(0, 0.5)
            ends = [(-INF, value), (value, INF), (value - width, value + width)][rng.integers(3)]
            rows.append(row(own, middle.tolist(), *ends))
        conditions = of_rows(*rows)
        found = conditions._rows_support(box, s[None])[0]

        def bound(sweeps: int, of: Conditions = conditions, box: Any = box, s: Any = s) -> float:
            y = np.array(slow_multipliers(of, box, s.tolist(), sweeps))
            return float(of._exact_rows(box, [Fraction(v) for v in s.tolist()], y))

        assert found == pytest.approx(bound(3 if shared else 1), abs=1e-9)
        improved += bound(3) < bound(1) - 1e-6
    assert (improved > 0) == shared


@pytest.mark.parametrize("side", ["low", "high"])
def test_rounding_is_counted_where_an_end_is_0(side: str) -> None:
    """Of two ends the larger counts, whichever it is."""
    rng = np.random.default_rng(19)
    for _ in range(25):
        wide = abs(mixed(rng, 8, spread=1))
        box = (np.zeros(8), wide) if side == "high" else (-wide, np.zeros(8))
        s = mixed(rng, 1, 8, spread=1)
        own = row([0, 1, 2], [0.1, 0.7, -0.3], *((0.0, 1e9) if side == "high" else (-1e9, 0.0)))
        many = of_rows(*[own] * 3)
        for conditions, over in ((of_rows(own), box), (many, tuple(1e-9 * end for end in box))):
            found, y = conditions._rows_support(over, s)[0], conditions._multipliers(over, s)[0]
            exact = conditions._exact_rows(over, [Fraction(v) for v in s[0].tolist()], y)
            assert Fraction(float(found)) >= exact


@pytest.mark.parametrize("case", ["box", "rows", "cancelling", "large"])
def test_the_bound_in_floats_is_never_below_the_exact_one(case: str) -> None:
    """For the same multipliers; every part of it rounds."""
    rng = np.random.default_rng(7)
    for _ in range(25):
        size, shape = 8, (3, 8)
        low = mixed(rng, size, spread=1)
        width = abs(mixed(rng, size, spread=1))
        ends = np.sort(mixed(rng, 4, 2, spread=1), axis=1)
        if case == "box":
            low, width, ends = 1e6 * low, 1e6 * width, 1e-6 * ends
        if case == "rows":
            low, width, ends = 1e-9 * low, 1e-9 * width, 1e6 * ends
        s = mixed(rng, *shape, spread=1)
        if case == "cancelling":
            s = np.tile(s[:, :1], size) * (1 + 1e-9 * s)
        if case == "large":
            s = 1e150 * s
        rows = [
            row(rng.permutation(size)[:4].tolist(), mixed(rng, 4, spread=1).tolist(), *pair)
            for pair in ends.tolist()
        ]
        conditions, box = of_rows(*rows), (low, low + width)
        found, y = conditions._rows_support(box, s), conditions._multipliers(box, s)
        for k, each in enumerate(s.tolist()):
            exact = conditions._exact_rows(box, [Fraction(v) for v in each], y[k])
            assert Fraction(float(found[k])) >= exact
            parts = abs(s[k]) @ np.maximum(abs(box[0]), abs(box[1])) + sum(
                abs(y[k, j])
                * (max(abs(r.low), abs(r.high)) + abs(r.weights).sum() * abs(low).max())
                for j, r in enumerate(rows)
            )
            assert found[k] <= float(exact) + 1e-10 * parts


def test_what_underflow_takes_is_added() -> None:
    box = np.full(2, -(2.0**300)), np.full(2, 2.0**300)
    conditions = of_rows(row([0, 1], [2.0**-700, 2.0**-700], -1.0, 1.0))
    s = np.array([[2.0**-1070, -(2.0**-1070)]])
    y = conditions._multipliers(box, s)
    found = conditions._rows_support(box, s)[0]
    assert Fraction(float(found)) >= conditions._exact_rows(
        box, [Fraction(v) for v in s[0].tolist()], y[0]
    )
    nothing = of_rows(row([0], [1.0], 0.0, 0.0)).support(
        (np.zeros(1), np.zeros(1)), np.zeros((1, 1))
    )
    assert 0 < nothing[0] < 1e-200


def test_infinite_numbers_are_no_multipliers() -> None:
    box = np.zeros(2), np.ones(2)
    own = row([0, 1], [1e-300, 1.0], -1.0, 1.0)
    with np.errstate(all="ignore"):
        found = _best(np.array([[1e300, 1.0]]), own, box)
    assert found.tolist() == [0.0]
    huge = np.full(2, -1e308), np.full(2, 1e308)
    conditions = of_rows(row([0, 1], [1e300, 1e300], -INF, 1.0))
    with np.errstate(all="ignore"):
        assert not conditions.support(huge, np.array([[1.0, 1.0]]))[0] < 1e308


def zonotope(scale: float = 1.0) -> Zonotope:
    return Zonotope(
        scale * np.array([1.0, -2.0, 0.5]),
        scale * np.array([[0.5, 0.25, 0.0], [0.0, -1.0, 2.0]]),
        np.array([2.0, 0.5]),
        scale * np.array([0.0, 0.125, 1.0]),
    )


def test_the_support_of_a_zonotope() -> None:
    own = zonotope()
    s = np.array([[1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [1.0, 1.0, 1.0], [-1.0, 2.0, -3.0]])
    exact = [own.exact_support([Fraction(v) for v in each]) for each in s.tolist()]
    # s.mean, plus the components' shares times their ranges, plus the residuals.
    assert exact == [2, 2 + Fraction(1, 2) + Fraction(1, 2) + Fraction(1, 8), Fraction(21, 8),
                     Fraction(-13, 2) + 0 + 4 + Fraction(13, 4)]  # fmt: skip
    found = own.support(s)
    np.testing.assert_allclose(found, [float(value) for value in exact], atol=1e-12)
    assert all(Fraction(float(f)) > e for f, e in zip(found, exact, strict=True))
    joined, box = Conditions((), (), (), (), own, False), (np.full(3, -9.0), np.full(3, 9.0))
    assert joined.support(box, s).tolist() == found.tolist()
    assert joined.exact_support(box, [Fraction(1)] * 3) == exact[2]


def test_a_box_and_a_zonotope_bound_together() -> None:
    """`x = z + r` in both entries, and `x` at most 1, `y` at least 0: `x - y` is at most 1/2."""
    own = Zonotope(np.zeros(2), np.ones((1, 2)), np.array([4.0]), np.full(2, 0.25))
    box, s = (np.array([-9.0, 0.0]), np.array([1.0, 9.0])), np.array([[1.0, -1.0], [1.0, -2.0]])
    # With `y` at least 0, `x - 2 y` is at most 1/2, where `y` is 0; with the zonotope alone 19/4.
    np.testing.assert_allclose(own.shared_support(box, s), [0.5, 0.5], atol=0.2)
    exact = [own.exact_shared(box, [Fraction(v) for v in each]) for each in s.tolist()]
    assert all(Fraction(1, 2) <= value < Fraction(7, 10) for value in exact)
    assert own.exact_support([Fraction(1), Fraction(-2)]) == Fraction(19, 4)
    for far in ((np.full(2, -50.0), np.full(2, 50.0)), (np.full(2, -0.1), np.full(2, 0.1))):
        share = own.share(far, s)
        assert (share == (s if far[1][0] > 1 else 0)).all()


@pytest.mark.parametrize("large", ["box", "zonotope", "coefficients"])
def test_a_shared_bound_is_rounded_up(large: str) -> None:
    rng = np.random.default_rng(13)
    for _ in range(25):
        own = Zonotope(
            mixed(rng, 7, spread=1),
            mixed(rng, 3, 7, spread=1),
            abs(mixed(rng, 3, spread=1)),
            abs(mixed(rng, 7, spread=1)),
        )
        low = own.mean - abs(mixed(rng, 7, spread=1))
        box = low, low + abs(mixed(rng, 7, spread=1)) * (1e6 if large == "box" else 1.0)
        s = mixed(rng, 3, 7, spread=1) * (1e150 if large == "coefficients" else 1.0)
        if large == "zonotope":
            box = (1e-9 * low, 1e-9 * box[1])
        share, found = own.share(box, s, stops=True), own.shared_support(box, s)
        for k, each in enumerate(s.tolist()):
            part = [Fraction(v) for v in share[k].tolist()]
            rest = [Fraction(v) - own for v, own in zip(each, part, strict=True)]
            exact = own.exact_support(part) + exact_box_support(box, rest)
            exact = min(exact, own.exact_support([Fraction(v) for v in each]))
            assert own.exact_shared(box, [Fraction(v) for v in each]) == exact
            assert Fraction(float(found[k])) >= exact
            reach = abs(own.mean) + own.ranges @ abs(own.components) + own.residual
            size = np.array([abs(v) for v in each]) @ (reach + abs(box[0]) + abs(box[1]))
            assert found[k] <= float(exact) + 1e-10 * size


def test_terms_that_cancel_are_rounded_up() -> None:
    """The zonotope is everywhere, and the box a single input at which `s` is nearly 0."""
    rng = np.random.default_rng(23)
    own = Zonotope(np.zeros(7), np.ones((1, 7)), np.ones(1), np.full(7, 1e9))
    for _ in range(25):
        x, s = mixed(rng, 7, spread=1), mixed(rng, 7, spread=1)
        x[0], s[6] = 0.0, -(s[:6] @ x[:6]) / x[6]
        exact = own.exact_shared((x, x), [Fraction(v) for v in s.tolist()])
        assert Fraction(float(own.shared_support((x, x), s[None])[0])) >= exact


def slow_share(own: Zonotope, box: Any, s: list[float], stops: bool = False) -> list[float]:
    """What the rounds are said to find: both sides answer the other's average so far.

    With `stops`, where the box limits all entries, it gets no help.
    """
    size, count = len(s), len(own.ranges)
    share, at = [0.0] * size, [0.0] * count
    for turn in range(32):
        answer = list(s)
        for k, weight in enumerate(s):
            moved = sum(own.components[j][k] * own.ranges[j] * at[j] for j in range(count))
            if weight > 0:
                limited = own.mean[k] + moved + own.residual[k] < box[1][k]
            else:
                limited = own.mean[k] + moved - own.residual[k] > box[0][k]
            answer[k] = weight if limited else 0.0
        if stops and not any(answer):
            return [0.0] * size
        step = 2 / (turn + 2)
        share = [(1 - step) * old + step * new for old, new in zip(share, answer, strict=True)]
        along = [sum(own.components[j][k] * share[k] for k in range(size)) for j in range(count)]
        at = [(1 - step) * z + step * np.sign(v) for z, v in zip(at, along, strict=True)]
    return share


def test_shares_are_what_the_rounds_find() -> None:
    rng, stopped = np.random.default_rng(21), []
    for _ in range(12):
        mean, parts, ranges = rng.normal(size=6), rng.normal(size=(2, 6)), rng.uniform(0.3, 2, 2)
        own = Zonotope(mean, parts, ranges, rng.uniform(0.1, 0.4, 6))
        low = mean - rng.uniform(0, 1, 6)
        box, s = (low, low + rng.uniform(0.5, 2, 6)), rng.normal(size=(4, 6))
        s[:, 4], s[2:] = 0.0, s[2:] * (rng.random((2, 6)) < 0.5)
        before = s.copy()
        whole = [slow_share(own, box, each) for each in s.tolist()]
        np.testing.assert_allclose(own.share(box, s), whole, atol=1e-9)
        expected = [slow_share(own, box, each, stops=True) for each in s.tolist()]
        np.testing.assert_allclose(own.share(box, s, stops=True), expected, atol=1e-9)
        assert (s == before).all()
        stopped += [
            np.any(one) and not np.any(other) for one, other in zip(whole, expected, strict=True)
        ]
    assert 0 < sum(stopped) < len(stopped)


def test_a_case_that_the_box_limits_alone_shares_nothing() -> None:
    """And costs the bounds of others nothing: each is what it is alone."""
    own = Zonotope(np.full(3, 0.5), np.array([[0.25, -0.25, 0.0]]), np.ones(1), np.full(3, 0.25))
    box = (np.array([0.0, 0.25, 0.4]), np.array([1.25, 0.75, 0.6]))
    s = np.array([[0.0, 0.0, 2.0], [1.0, -1.0, 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    found = own.share(box, s, stops=True)
    assert (found[0] == 0).all()
    assert found[1, 0] > 0
    assert found.tolist() == [own.share(box, each[None], stops=True)[0].tolist() for each in s]
    assert own.share(box, s[:0], stops=True).shape == (0, 3)


def test_rows_and_a_zonotope_bound_together() -> None:
    """Rows take their part first; the box, or box and zonotope together, bound what is left."""
    rng, better = np.random.default_rng(27), []
    for turn in range(24):
        own = zonotope_around(rng, wide=10.0 if turn % 3 == 0 else 0.2)
        low = own.mean - rng.uniform(0, 1, 6)
        box, s = (low, low + rng.uniform(0.5, 2, 6)), rng.normal(size=6)
        rows = [row([0, 2], [1.5, -0.5], -0.1, 0.1), row([1, 3, 5], [1.0, 2.0, 0.5], -INF, -0.2)]
        both = Conditions(tuple(rows), (), (), (), own, False)
        assert both.linear
        y = slow_multipliers(both, box, s.tolist(), 1)
        rest, paid = s.copy(), 0.0
        for weight, each in zip(y, rows, strict=True):
            rest[each.entries] -= weight * each.weights
            paid += max(weight * end for end in each.within(box))
        taken = s - rest + slow_share(own, box, rest.tolist())
        np.testing.assert_allclose(both.pulled(box, s[None])[0], taken, atol=1e-9)
        left = [np.maximum(rest * box[0], rest * box[1]).sum()]
        left.append(own.shared_support(box, rest[None])[0])
        better.append(left[1] < left[0] - 1e-6)
        given = [Fraction(v) for v in s.tolist()]
        assert both._rows_support(box, s[None])[0] == pytest.approx(paid + min(left), abs=1e-9)
        assert float(both._exact_rows(box, given, np.array(y))) == pytest.approx(
            paid + min(left), abs=1e-9
        )
    assert 0 < sum(better) < len(better)


def test_what_counts_as_linear() -> None:
    own, only = zonotope(), row([0], [2.0], 0.0, 1.0)
    assert Conditions((), (), (), (), own, False).linear
    assert of_rows(only).linear
    assert not Conditions((), (0,), (), (), None, True).linear
    box, s = (np.full(3, -0.5), np.full(3, 2.0)), np.array([[3.0, 0.5, 1.0]])
    assert of_rows(only).pulled(box, s).tolist() == [[3.0, 0.0, 0.0]]
    alone = Conditions((), (), (), (), own, False).pulled(box, s)
    assert alone.tolist() == own.share(box, s).tolist()


def zonotope_around(rng: np.random.Generator, wide: float) -> Zonotope:
    parts, ranges = rng.normal(size=(2, 6)), rng.uniform(0.3, 1, 2)
    return Zonotope(rng.normal(size=6), parts, ranges, wide * rng.uniform(0.5, 1, 6))


def test_what_underflow_takes_from_a_shared_bound_is_added() -> None:
    """Half of the products is lost where numbers are as small as they can be."""
    own = Zonotope(np.zeros(2), np.ones((1, 2)), np.array([2.0**-600]), np.full(2, 2.0**-600))
    box, s = (np.zeros(2), np.full(2, 2.0**-600)), [2.0**-475, 2.0**-475]
    exact = own.exact_shared(box, [Fraction(v) for v in s])
    assert Fraction(float(own.shared_support(box, np.array([s]))[0])) >= exact > 0


def test_numbers_that_overflow_share_nothing() -> None:
    own = Zonotope(np.full(2, 1e300), np.full((1, 2), 1e300), np.ones(1), np.ones(2))
    with np.errstate(all="ignore"):
        found = own.shared_support((np.zeros(2), np.full(2, 1e300)), np.full((1, 2), 1e300))
        assert not found[0] < 1e308
    huge = [Fraction(10) ** 400, Fraction(0)]
    assert own.exact_shared((np.zeros(2), np.ones(2)), huge) == own.exact_support(huge)


@pytest.mark.parametrize("large", ["mean", "components", "ranges", "residual"])
def test_the_support_of_a_zonotope_is_rounded_up(large: str) -> None:
    rng = np.random.default_rng(11)
    for _ in range(25):
        parts = {
            "mean": mixed(rng, 7, spread=2),
            "components": mixed(rng, 3, 7, spread=2),
            "ranges": abs(mixed(rng, 3, spread=2)),
            "residual": abs(mixed(rng, 7, spread=2)),
        }
        parts = {name: (1e4 if name == large else 1e-4) * part for name, part in parts.items()}
        own = Zonotope(**parts)
        s = mixed(rng, 2, 7, spread=2)
        for each, found in zip(s.tolist(), own.support(s), strict=True):
            exact = own.exact_support([Fraction(v) for v in each])
            assert Fraction(float(found)) >= exact
            assert found <= float(exact) + 1e-10 * (
                abs(np.array(each))
                @ (abs(own.mean) + own.ranges @ abs(own.components) + own.residual)
            )


def test_what_underflow_takes_from_a_zonotope_is_added() -> None:
    own = Zonotope(np.zeros(2), np.full((1, 2), 2.0**-600), np.array([2.0**1000]), np.zeros(2))
    s = [2.0**-480, 2.0**-480]
    exact = own.exact_support([Fraction(v) for v in s])
    assert Fraction(float(own.support(np.array([s]))[0])) >= exact > 0
    zero = Zonotope(np.zeros(1), np.zeros((1, 1)), np.zeros(1), np.zeros(1))
    assert 0 < zero.support(np.zeros((1, 1)))[0] < 1e-200


def test_the_smaller_bound_counts() -> None:
    box = np.zeros(3), np.ones(3)
    rows = (row([0, 1, 2], [1.0, 1.0, 1.0], -INF, 1.0),)
    small = Zonotope(np.zeros(3), np.zeros((1, 3)), np.zeros(1), np.full(3, 0.125))
    both = Conditions(rows, (), (), (), small, False)
    s = np.array([[1.0, 0.0, 0.0], [-1.0, -1.0, -1.0], [4.0, 4.0, 4.0]])
    np.testing.assert_allclose(both.support(box, s), [0.125, 0.0, 1.5], atol=1e-12)
    exact = [both.exact_support(box, [Fraction(v) for v in each]) for each in s.tolist()]
    assert exact == [Fraction(1, 8), 0, Fraction(3, 2)]
    none = Conditions((), (0,), (), (), None, True)
    assert none.support(box, s).tolist() == [INF] * 3
    assert none.exact_support(box, [Fraction(1)] * 3) is None


def test_groups_are_rows_too() -> None:
    own = (row([3], [1.0], 0.0, 1.0),)
    conditions = Conditions(own, (), ((0, 1),), ((2, 3, 4),), None, False)
    found = [(r.entries.tolist(), r.weights.tolist(), r.low, r.high) for r in conditions.rows]
    assert found == [
        ([3], [1.0], 0.0, 1.0),
        ([0, 1], [1.0, 1.0], 1.0, 1.0),
        ([2, 3], [1.0, -1.0], -INF, 0.0),
        ([3, 4], [1.0, -1.0], -INF, 0.0),
    ]


def test_every_group_and_coordinate_is_looked_at() -> None:
    half, one, zero = Fraction(1, 2), Fraction(1), Fraction(0)
    given: dict[str, Any] = {"integer": [0, 4], "one_hot": [[1, 2]], "ordered": [[2, 3]]}
    conditions = read_conditions(given, 5)
    assert conditions is not None
    assert conditions.contains([one, zero, one, one, zero], None)
    for k, value in ((0, half), (4, half), (1, one), (2, zero), (3, half)):
        x = [one, zero, one, one, zero]
        x[k] = value
        assert not conditions.contains(x, None), k
    hot = read_conditions({"one_hot": [[0, 1, 2]]}, 3)
    assert hot is not None
    assert not hot.contains([Fraction(2), Fraction(-1), zero], None)
    assert not hot.contains([half, half, zero], None)
    assert not hot.contains([zero, zero, zero], None)
    shape = {"mean": [0.5, 0.5], "components": [[1.0, 0.0], [0.0, 0.5]], "ranges": [0.5, 1.0]}
    both = read_conditions({"zonotope": {**shape, "residual": [0.0, 0.25]}, "integer": [0]}, 2)
    assert both is not None
    assert both.contains([one, one], [0.5, 0.5])
    assert both.contains([one, Fraction(5, 4)], [0.5, 1.0])
    assert both.contains([zero, Fraction(-1, 4)], [-0.5, -1.0])
    assert not both.contains([one, Fraction(5, 4)], [0.5, 0.75])
    assert not both.contains([one, one], [0.5])
    assert not both.contains([one, one], [0.5, 0.5, 0.0])
    assert not both.contains([one, one], None)
    assert not both.contains([one, one], [0.5, 1.25])
    assert not both.contains([one, one], [-0.75, 0.5])
    assert not both.contains([half, one], [0.0, 0.5])


ZONOTOPE = {
    "mean": [0.0, 0.0],
    "components": [[1.0, 0.0]],
    "ranges": [1.0],
    "residual": [0.0, 0.0],
}
ROW = {"entries": [0, 1], "weights": [1.0, 2.0], "at_least": 0.0, "at_most": 1.0}


@pytest.mark.parametrize(
    "given",
    [
        {"integer": [2]},
        {"integer": [-1]},
        {"integer": [0, 0]},
        {"integer": [True]},
        {"integer": [0.0]},
        {"one_hot": [[0, 2]]},
        {"ordered": [[0, 0]]},
        {"something": 1},
        {"perturbed_inside": 1},
        {"perturbed_inside": None},
        {"rows": [{**ROW, "more": 1}]},
        {"rows": [{**ROW, "entries": [0]}]},
        {"rows": [{**ROW, "weights": [1.0, INF]}]},
        {"rows": [{**ROW, "weights": [1.0, 0.0]}]},
        {"rows": [{**ROW, "weights": [1.0, np.nan]}]},
        {"rows": [{**ROW, "at_least": 2.0}]},
        {"rows": [{**ROW, "at_least": INF, "at_most": None}]},
        {"rows": [{**ROW, "at_least": None, "at_most": -INF}]},
        {"rows": [{**ROW, "at_least": np.nan}]},
        {"zonotope": {**ZONOTOPE, "more": 1}},
        {"zonotope": {**ZONOTOPE, "mean": [0.0]}},
        {"zonotope": {**ZONOTOPE, "components": [[1.0]]}},
        {"zonotope": {**ZONOTOPE, "components": [[1.0, 0.0]] * 2}},
        {"zonotope": {**ZONOTOPE, "residual": [0.0]}},
        {"zonotope": {**ZONOTOPE, "residual": [0.0, -1.0]}},
        {"zonotope": {**ZONOTOPE, "ranges": [-1.0]}},
        {"zonotope": {**ZONOTOPE, "ranges": [INF]}},
        {"zonotope": {**ZONOTOPE, "components": [[1.0, 0.0]] * 2, "ranges": [1.0, -1.0]}},
        {"zonotope": {**ZONOTOPE, "ranges": [[1.0]]}},
        {"zonotope": {**ZONOTOPE, "mean": [0.0, np.nan]}},
        {"zonotope": {**ZONOTOPE, "components": [[INF, 0.0]]}},
    ],
)
def test_malformed_conditions_are_refused(given: Any) -> None:
    with pytest.raises(Rejected):
        read_conditions(given, 2)


def test_well_formed_conditions_are_read() -> None:
    for key, value in (
        ("integer", [0, 1]), ("one_hot", [[1, 0]]), ("ordered", [[1, 0]]), ("rows", [ROW]),
        ("zonotope", ZONOTOPE), ("perturbed_inside", True),
    ):  # fmt: skip
        found = read_conditions({"lower": [0, 0], "upper": [1, 1], key: value}, 2)
        assert found is not None
        assert found.perturbed_inside == (key == "perturbed_inside")
    assert read_conditions({"integer": [], "one_hot": [], "rows": []}, 2) is None
    found = read_conditions({"rows": [{**ROW, "at_least": None}, {**ROW, "at_most": None}]}, 2)
    assert found is not None
    assert [(each.low, each.high) for each in found.own_rows] == [(-INF, 1.0), (0.0, INF)]
    equal = read_conditions({"rows": [{**ROW, "at_least": 1.0}]}, 2)
    assert equal is not None
    assert equal.own_rows[0].low == equal.own_rows[0].high == 1.0
    empty = read_conditions({"zonotope": {**ZONOTOPE, "ranges": [0.0], "residual": [0, 0]}}, 2)
    assert empty is not None


def test_the_numbers_and_words_name_every_condition() -> None:
    given = {
        "integer": [0], "one_hot": [[1, 2]], "ordered": [[2, 3]], "perturbed_inside": True,
        "rows": [{"entries": [0, 3], "weights": [1.0, -2.0], "at_least": -0.0, "at_most": 3.0}],
        "zonotope": {
            "mean": [0.5] * 4, "components": [[1.0, 0.0, 2.0, -0.0]], "ranges": [0.25],
            "residual": [0.125, 0.0, 0.0, 0.0],
        },
    }  # fmt: skip
    found = read_conditions(given, 4)
    assert found is not None
    whole = lambda *numbers: np.array(numbers, dtype="<i8").tobytes()  # noqa: E731
    real = lambda *numbers: np.array(numbers, dtype="<f8").tobytes()  # noqa: E731
    assert found.numbers == (
        b"integer" + whole(0) + b"one_hot" + whole(1, 2) + b"ordered" + whole(2, 3)
        + b"rows" + whole(2, 0, 3) + real(1.0, -2.0, 0.0, 3.0)
        + b"zonotope" + whole(1, 4) + real(0.5, 0.5, 0.5, 0.5) + real(1.0, 0.0, 2.0, 0.0)
        + real(0.25) + real(0.125, 0.0, 0.0, 0.0) + b"perturbed"
    )  # fmt: skip
    assert found.words == [
        "entry 0 is a whole number",
        "one of the entries 1, 2 is 1, the others are 0",
        "the entries 2, 3 do not descend",
        "1 linear rows hold",
        "the input lies in a zonotope of 1 components with residuals",
        "the perturbed input lies in the domain, too",
    ]
    ends = {"entries": [1], "weights": [2.0], "at_least": -1.0, "at_most": -0.0}
    negative = read_conditions({"rows": [ends]}, 4)
    assert negative is not None
    assert negative.numbers == b"rows" + whole(1, 1) + real(2.0, -1.0, 0.0)
    only = read_conditions({"integer": [3]}, 4)
    assert only is not None
    assert only.numbers == b"integer" + whole(3)
    assert only.words == ["entry 3 is a whole number"]
