"""The checker's parts of domains with whole numbers: no input is lost, and supports hold there."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from vhagar.perturbation import parse
from vhagar_check.conditions import Conditions, read_conditions
from vhagar_check.exact import Exact
from vhagar_check.perturbations import pieces
from vhagar_check.whole_numbers import _cut, _narrow, narrow_whole

from ..perturbation.domain.test_parts import SIZE, checked, inputs_of, random_whole


def conditions_of(
    weights: list[float], at_least: float | None, at_most: float | None
) -> Conditions:
    row = {"entries": [0, 1], "weights": weights, "at_least": at_least, "at_most": at_most}
    found = read_conditions({"integer": [0], "rows": [row]}, 2)
    assert found is not None
    return found


@pytest.mark.parametrize("step", [1.0, 3.0])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_limit_between_two_floats_is_rounded_outward(sign: float, step: float) -> None:
    # The entry is at most a float plus a step, and that is no float.
    low, high = np.array([-(2.0**60), step]), np.array([2.0**60, step])
    assert narrow_whole(conditions_of([sign, -1.0], None, 2.0**53), low, high)
    limit = 2**53 + int(step)
    if sign > 0:
        assert low[0] == -(2.0**60)
        assert limit <= float(high[0]) <= limit + 1
    else:
        assert high[0] == 2.0**60
        assert -limit - 1 <= float(low[0]) <= -limit


@pytest.mark.parametrize("weight", [5e-324, -5e-324])
def test_a_limit_beyond_all_floats_cuts_nothing(weight: float) -> None:
    low, high = np.zeros(2), np.array([7.0, 1.0])
    assert narrow_whole(conditions_of([weight, 1.0], -1.0, 2.0), low, high)
    assert (low.tolist(), high.tolist()) == ([0, 0], [7, 1])
    # And none is left if the limit lies beyond all floats on the other side.
    assert not narrow_whole(conditions_of([weight, 1.0], 2.0, None), low, high)
    assert not narrow_whole(conditions_of([weight, 1.0], None, -1.0), low, high)


def rows_of(*rows: tuple[list[int], list[float], float | None, float | None]) -> Conditions:
    """Rows on seven whole numbers."""
    names = ("entries", "weights", "at_least", "at_most")
    given = [dict(zip(names, row, strict=True)) for row in rows]
    found = read_conditions({"integer": list(range(7)), "rows": given}, 7)
    assert found is not None
    return found


def test_all_rows_narrow_four_times() -> None:
    """The format says so: a certificate may rely on four rounds and on no more."""
    chain = [([k, k + 1], [1.0, -1.0], None, 0.0) for k in range(6)]
    low, high = np.zeros(7), np.array([9.0] * 6 + [0.0])
    assert narrow_whole(rows_of(*chain), low, high)
    assert high.tolist() == [9, 9, 0, 0, 0, 0, 0]


def test_no_row_and_no_entry_may_be_without_a_value() -> None:
    fine, never = ([0], [1.0], None, 5.0), ([1], [1.0], 9.0, None)
    between = ([2], [1.0], 0.2, 0.7)
    for rows in ((fine, never), (never, fine), (fine, between)):
        assert not narrow_whole(rows_of(*rows), np.zeros(7), np.full(7, 5.0))
    low, high = np.zeros(7), np.full(7, 5.0)
    assert narrow_whole(rows_of(fine), low, high)
    low[6] = 6.0  # an entry of no row
    assert not narrow_whole(rows_of(fine), low, high)


def random_rows(rng: np.random.Generator, count: int, one_sided: bool) -> Conditions:
    """Rows on the whole numbers 0, 1 and 2, and on the number 3; all of them are exact floats."""
    rows = []
    for _ in range(count):
        entries = rng.permutation(4)[: rng.integers(1, 5)].tolist()
        weights = rng.choice([-3, -1, -0.5, 0.25, 0.5, 1, 2], len(entries)).tolist()
        ends = np.sort(rng.integers(-12, 13, 2) / 4).tolist()
        ends[int(rng.integers(2))] = None if one_sided or rng.random() < 0.3 else ends[0]
        if None not in ends:
            ends = sorted(ends)
        rows.append(
            {"entries": entries, "weights": weights, "at_least": ends[0], "at_most": ends[1]}
        )
    found = read_conditions({"integer": [0, 1, 2], "rows": rows}, 4)
    assert found is not None
    return found


def left_of(conditions: Conditions, low: np.ndarray, high: np.ndarray) -> list[tuple[int, ...]]:
    """All whole numbers in their ranges for which the last entry has a value."""
    ranges = [
        range(math.ceil(a), math.floor(b) + 1) for a, b in zip(low[:3], high[:3], strict=True)
    ]
    found = []
    for whole in itertools.product(*ranges):
        ends = [(Fraction(float(low[3])), Fraction(float(high[3])))]
        for row in conditions.rows:
            weights = dict(zip(row.entries.tolist(), map(Fraction, row.weights), strict=True))
            own = weights.pop(3, Fraction(0))
            rest = sum((weight * whole[k] for k, weight in weights.items()), Fraction(0))
            sides = [(row.low, 1), (row.high, -1)]
            for side, sign in ((end, sign) for end, sign in sides if math.isfinite(end)):
                # `sign * (own * y + rest - side) >= 0`
                slope, start = sign * own, sign * (rest - Fraction(side))
                if slope == 0:
                    ends += [] if start >= 0 else [(Fraction(1), Fraction(0))]
                else:
                    cut = -start / slope
                    ends.append((cut, Fraction(1000)) if slope > 0 else (Fraction(-1000), cut))
        if max(a for a, _ in ends) <= min(b for _, b in ends):
            found.append(whole)
    return found


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("one_sided", [False, True])
def test_ranges_contain_every_input_and_are_tight_for_one_row(seed: int, one_sided: bool) -> None:
    rng, empty, cut = np.random.default_rng([seed, 11]), 0, 0
    for _ in range(60):
        given = random_rows(rng, 1 if one_sided else int(rng.integers(1, 4)), one_sided)
        low, high = np.sort(rng.integers(-6, 9, (2, 4)) / 2, axis=0)
        low[:3], high[:3] = np.ceil(low[:3]), np.floor(high[:3])
        if not (low <= high).all():
            continue
        left = np.array(left_of(given, low, high)).reshape(-1, 3)
        ends = low.copy(), high.copy()
        found = narrow_whole(given, *ends)
        assert found or not len(left)
        if one_sided:
            assert found == bool(len(left))
        if not found:
            empty += 1
            continue
        assert (left >= ends[0][:3]).all()
        assert (left <= ends[1][:3]).all()
        assert (ends[0][3], ends[1][3]) == (low[3], high[3])
        cut += int((ends[0] > low).any() or (ends[1] < high).any())
        if one_sided:
            assert left.min(axis=0).tolist() == ends[0][:3].tolist()
            assert left.max(axis=0).tolist() == ends[1][:3].tolist()
    assert empty > 0
    assert cut > 0


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "text",
    [
        "linf(0.3)",
        "brightness([0.1,0.4])",
        "brightness([-0.4,-0.1])",
        "contrast([0.5,0.8])",
        "contrast([1.5,3])",
    ],
)
@pytest.mark.parametrize("clip", [False, True])
def test_supports_over_a_part_hold_its_inputs(text: str, clip: bool, seed: int) -> None:
    domain, rng = random_whole(seed), np.random.default_rng([seed, 7])
    whole, x = checked(domain), inputs_of(domain, rng)
    ours = pieces(text, whole, clip)
    for _ in range(8):
        low, high = np.sort(rng.integers(-1, 3, 2)).tolist()
        k = int(rng.integers(3))
        inside = x[(x[:, k] >= low) & (x[:, k] <= high)]
        part = whole.narrowed({k: (float(low), float(high))})
        if part is None:
            assert not len(inside)
            continue
        a, b = rng.normal(size=(2, 12, SIZE))
        for piece, theirs in zip(ours, parse(text).pieces(domain, clip), strict=True):
            narrow = piece.within(part)
            ends = theirs.parameter_bounds
            e = rng.uniform(*ends, (len(inside), len(ends[0])))
            images = theirs.apply(inside, e)
            values = a @ inside.T + b @ images.T
            least, most = narrow.image_box
            assert ((images >= least - 1e-12) & (images <= most + 1e-12)).all()
            found = narrow.support(a, b)
            assert (values.max(axis=1, initial=-np.inf) <= found + 1e-12).all()
            exact = narrow.exact_within(Exact.of(a[0]), Exact.of(b[0]))
            if exact is not None and len(inside):
                assert Fraction(float(values[0].max())) <= exact + Fraction(1, 10**12)


def test_a_row_that_leaves_no_whole_number_is_noticed_at_once() -> None:
    """In the first round: 2 x = 1 leaves 0 at most, and then nothing from 1 on."""
    (row,) = conditions_of([2.0, 1.0], 1.0, 1.0).rows
    assert not _narrow(row, {0}, np.zeros(2), np.array([1.0, 0.0]))
    assert not _cut(0, Fraction(1, 2), False, np.zeros(1), np.zeros(1))
    assert not _cut(0, Fraction(-1, 2), True, np.zeros(1), np.zeros(1))
    assert _cut(0, Fraction(1, 2), True, np.zeros(1), np.zeros(1))
