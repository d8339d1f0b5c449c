"""Adam's directions are those of its definition, in numpy and in torch."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vhagar.relaxation.adam import Adam


def test_directions_are_those_of_the_definition() -> None:
    adam, gradients = Adam(), [np.array([2.0, 0.0]), np.array([-1.0, 0.0])]
    assert adam.direction(gradients[0]).tolist() == pytest.approx([1.0, 0.0])
    mean = (0.9 * 0.1 * 2.0 - 0.1 * 1.0) / (1 - 0.9**2)
    square = (0.99 * 0.01 * 4.0 + 0.01 * 1.0) / (1 - 0.99**2)
    assert adam.direction(gradients[1]).tolist() == pytest.approx([mean / math.sqrt(square), 0.0])


def test_other_decay_rates_are_taken_as_they_are() -> None:
    adam = Adam(0.5, 0.8)
    adam.direction(np.array([2.0]))
    mean = (0.5 * 0.5 * 2.0 - 0.5 * 1.0) / (1 - 0.5**2)
    square = (0.8 * 0.2 * 4.0 + 0.2 * 1.0) / (1 - 0.8**2)
    assert adam.direction(np.array([-1.0])) == pytest.approx([mean / math.sqrt(square)], abs=1e-12)
    assert adam.direction(np.array([3.0]))[0] > 0


def test_after_a_step_that_was_too_long_half_of_the_momentum_is_left() -> None:
    fast, slow = Adam(), Adam()
    for adam in (fast, slow):
        adam.direction(np.ones(1))
    slow.slow_down()
    nothing = np.zeros(1)
    assert slow.direction(nothing)[0] == pytest.approx(fast.direction(nothing)[0] / 2)


@pytest.mark.parametrize("size", [1.0, 1e-15, 1e-25])
def test_torch_takes_the_same_steps(size: float) -> None:
    """Also in float32, where the squares of small gradients are 0: no step is then long."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    one, two = Adam(), Adam()
    for _ in range(5):
        gradient = size * rng.uniform(0.5, 1.0, 4)
        exact = one.direction(gradient)
        single = two.direction(torch.tensor(gradient, dtype=torch.float32))
        if size > 1e-19:
            assert single.numpy() == pytest.approx(exact, rel=1e-4)
        assert float(abs(single).max()) < 11
