"""The checker's parts of domains with whole numbers: no input is lost, and supports hold there."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from vhagar.perturbation import parse
from vhagar_check.conditions import Conditions, read_conditions
from vhagar_check.exact import Exact
from vhagar_check.perturbations import pieces
from vhagar_check.pieces import Domain
from vhagar_check.whole_numbers import narrow_whole

from ..perturbation.test_domain_parts import SIZE, checked, inputs_of, random_whole


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
        part = whole.narrowed({int(rng.integers(3)): (float(low), float(high))})
        if part is None:
            continue
        assert isinstance(part, Domain)
        assert part.box is not None
        inside = x[((x >= part.box[0]) & (x <= part.box[1])).all(axis=1)]
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
