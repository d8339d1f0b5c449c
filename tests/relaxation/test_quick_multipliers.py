"""The quick choice of multipliers: what is settled costs nothing, and nothing is lost by it."""

from __future__ import annotations

import numpy as np

from vhagar.relaxation import quick_multipliers
from vhagar.relaxation.corners import Corners
from vhagar.relaxation.hexagon import Hexagons
from vhagar.relaxation.quick_multipliers import quick_payment

from .samples import every_build, every_perturbation
from .test_one_dual import sample


@every_build
@every_perturbation
def test_units_sorted_by_kind_are_paid_as_all_together(build: str, text: str, clip: bool) -> None:
    bounds, rng, _ = sample(build, text, clip, 91)
    pay = quick_payment(bounds.corners)
    for layer, known in enumerate(bounds.corners):
        a, b = rng.normal(size=(2, 6, known.s.shape[1]))
        b[:2] = -a[:2]  # as for the difference of the copies
        b[2] = 0.0
        found, expected = pay(layer, a, b), quick_multipliers._paid(known, a, b)
        slack = 1e-9 * (abs(a) + abs(b)) * (1 + known.magnitude)
        for mine, yours in zip(found, expected, strict=True):
            assert (abs(mine - yours) <= slack).all()


def test_the_offsets_cover_every_pair_of_each_kind() -> None:
    """Units that are on, off, equal and free; equal ones with bounds of one copy that are wider."""
    sides = np.array(
        [
            (1.0, 2.0, 0.5, 2.0, -1.0, 0.5),
            (-2.0, -1.0, -2.0, 0.0, -0.5, 1.0),
            (-2.0, 3.0, -1.0, 2.0, 0.0, 0.0),
            (-2.0, 3.0, -1.5, 2.5, -1.0, 0.5),
        ]
    )
    known = Corners.of(Hexagons.of(sides.T, 1.0))
    axes = (np.linspace(-2, 3, 51),) * 2
    s, t = (axis.ravel() for axis in np.meshgrid(*axes))
    a, b = np.random.default_rng(6).normal(size=(2, 300, len(sides)))
    p, q, r = quick_payment([known])(0, a, b)
    assert (r[:, :2] == 0).all()
    for k, (low, high, low_p, high_p, gap_low, gap_high) in enumerate(sides):
        inside = (s >= low) & (s <= high) & (t >= low_p) & (t <= high_p)
        inside &= (t - s >= gap_low - 1e-12) & (t - s <= gap_high + 1e-12)
        assert inside.any()
        x, y = s[inside], t[inside]
        value = a[:, k, None] * np.maximum(x, 0) + b[:, k, None] * np.maximum(y, 0)
        value -= p[:, k, None] * x + q[:, k, None] * y
        assert (r[:, k] >= value.max(axis=1) - 1e-9).all()
