"""Layers against their matrices written out, in floats, absolute values and fractions."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.layers import (
    HALF_ULP,
    TINY,
    UNDERFLOW,
    Conv,
    Dense,
    Linear,
    Network,
    Scale,
    Transposed,
    gamma,
    interval,
)


def test_the_numbers_that_errors_are_computed_from() -> None:
    assert (HALF_ULP, TINY, UNDERFLOW) == (2.0**-53, 2.0**-900, 2.0**-1022)
    assert gamma(0) == 1.01 * 4 * 2.0**-53
    assert gamma(10) == 1.01 * 14 * 2.0**-53


def check_layer(layer: Linear, matrix: np.ndarray, terms: int) -> None:
    """Forwards and backwards with the kernel, with absolute values, and exactly."""
    rows, columns = matrix.shape
    assert (layer.out_size, layer.in_size, layer.terms) == (rows, columns, terms)
    assert layer.bias.shape == (rows,)
    assert not layer.joins
    rng = np.random.default_rng(1)
    z, p = rng.integers(-8, 9, (2, columns)) / 4, rng.integers(-8, 9, (3, rows)) / 4
    for kernel, expected in ((layer.kernel, matrix), (layer.size, abs(matrix))):
        assert layer.forward(kernel, z).tolist() == (z @ expected.T).tolist()
        assert layer.backward(kernel, p).tolist() == (p @ expected).tolist()
    forward = layer.exact_forward(Exact.of(z[0])).fractions()
    assert forward == [Fraction(v) for v in (matrix @ z[0] + layer.bias).tolist()]
    backward = layer.exact_backward(Exact.of(p[0])).fractions()
    assert backward == [Fraction(v) for v in (p[0] @ matrix).tolist()]


@pytest.mark.parametrize("shape", [(2, 5), (5, 2)])
def test_a_dense_layer(shape: tuple[int, int]) -> None:
    weight = np.random.default_rng(2).integers(-8, 9, shape) / 8
    check_layer(Dense(weight, np.arange(shape[0]) - 0.5), weight, 5)


def test_a_scale() -> None:
    factor, divisor = np.array([3.0, -1.0, 0.0, 8.0]), np.array([2.0, 4.0, -8.0, 1.0])
    layer = Scale(factor, divisor, np.array([0.5, 0.0, -1.0, 2.0]))
    check_layer(layer, np.diag([1.5, -0.25, -0.0, 8.0]) + 0.0, 3)
    third = Scale(np.ones(1), np.full(1, 3.0), np.zeros(1))
    assert third.exact_forward(Exact.of(np.ones(1))).fractions() == [Fraction(1, 3)]
    assert third.exact_backward(Exact.of(np.ones(1))).fractions() == [Fraction(1, 3)]


@pytest.mark.parametrize(
    ("factor", "divisor", "fine"),
    [
        (2.0**-1000, 2.0**22, True),
        (2.0**-1000, 2.0**23, False),
        (-(2.0**-1000), 2.0**23, False),
        (2.0**-1000, -(2.0**23), False),
        (0.0, 2.0**1000, True),
        (5e-324, 1.0, True),
        (5e-324, -1.0, True),
        (5e-324, 2.0, False),
        (2.0**1000, 2.0**-23, True),
        (2.0**1000, 2.0**-24, False),
        (1.0, 0.0, False),
        (0.0, 0.0, False),
    ],
)
def test_scales_beyond_float64_are_refused(factor: float, divisor: float, fine: bool) -> None:
    given = (np.array([1.0, part]) for part in (factor, divisor))
    with np.errstate(all="ignore"):
        if fine:
            Scale(*given, np.zeros(2))
        else:
            with pytest.raises(Rejected, match="range of float64"):
                Scale(*given, np.zeros(2))


GEOMETRIES = [
    ((1, 1), (0, 0, 0, 0), (1, 1), 1),
    ((2, 1), (1, 0, 2, 1), (1, 1), 1),
    ((1, 2), (0, 2, 1, 0), (2, 1), 2),
    ((3, 2), (1, 1, 0, 2), (1, 2), 2),
]


def convolution(geometry: tuple, filters: int = 4, channels: int = 2) -> tuple[Conv, np.ndarray]:
    """A convolution of some channels of 5 x 6 pixels, and its matrix from the definition."""
    stride, padding, dilation, groups = geometry
    rng = np.random.default_rng(3)
    weight = rng.integers(-4, 5, (filters, channels // groups, 2, 3)) / 4
    conv = Conv(
        weight, np.arange(filters) - 1.5, (channels, 5, 6), stride, padding, dilation, groups
    )
    heights = (5 + padding[0] + padding[2] - dilation[0] - 1) // stride[0] + 1
    widths = (6 + padding[1] + padding[3] - 2 * dilation[1] - 1) // stride[1] + 1
    assert conv.out_shape == (filters, heights, widths)
    matrix = np.zeros((filters, heights, widths, channels, 5, 6))
    for f, y, x, c, i, j in itertools.product(
        range(filters), range(heights), range(widths), range(channels // groups), range(2), range(3)
    ):
        channel = f // (filters // groups) * (channels // groups) + c
        row = y * stride[0] + i * dilation[0] - padding[0]
        column = x * stride[1] + j * dilation[1] - padding[1]
        if 0 <= row < 5 and 0 <= column < 6:
            matrix[f, y, x, channel, row, column] += weight[f, c, i, j]
    return conv, matrix.reshape(filters * heights * widths, channels * 30)


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_a_convolution(geometry: tuple) -> None:
    conv, matrix = convolution(geometry)
    groups = geometry[3]
    check_layer(conv, matrix, max(2 // groups, 4 // groups) * 6)
    places = conv.out_size // 4
    assert conv.bias.tolist() == np.repeat([-1.5, -0.5, 0.5, 1.5], places).tolist()


def test_terms_are_those_of_the_longer_way() -> None:
    """Forwards a product for each channel, backwards for each filter."""
    wide, _ = convolution(GEOMETRIES[0], filters=1)
    assert wide.terms == 2 * 6


def test_groups_of_several_channels() -> None:
    conv, matrix = convolution(GEOMETRIES[2], filters=6, channels=4)
    check_layer(conv, matrix, 3 * 6)


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_a_transposed_convolution(geometry: tuple) -> None:
    conv, matrix = convolution(geometry)
    bias = np.arange(60) / 4
    layer = Transposed(conv, bias)
    check_layer(layer, matrix.T, conv.terms)


def test_a_network() -> None:
    """A stage without layers passes on; linear units pass what is below 0."""
    first = Dense(np.array([[1.0, -1.0], [2.0, 0.5], [0.0, 1.0]]), np.array([0.0, -1.0, 0.25]))
    scale = Scale(np.array([2.0, 1.0, -1.0]), np.ones(3), np.zeros(3))
    last = Dense(np.array([[1.0, 1.0, 1.0], [0.0, -1.0, 2.0]]), np.array([0.5, 0.0]))
    plain = Network(((first, scale), (), (last,)), (2,))
    assert plain.relu_sizes_and_classes == [3, 3, 2]
    assert plain.classes == 2
    assert plain.linear_units(0) is None
    mask = np.array([True, False, False])
    for linear, hidden in (((), [0.0, 1.75, 0.0]), ((mask, mask), [-1.0, 1.75, 0.0])):
        network = Network(plain.stages, (2,), linear)
        if linear:
            assert network.linear_units(1) is mask
        x = Exact.of(np.array([1.0, 1.5]))
        scores = np.array(hidden) @ last.weight.T + last.bias
        assert network.exact_scores(x).fractions() == [Fraction(v) for v in scores.tolist()]
    first_only = Network(plain.stages, (2,), (mask, None))
    found = first_only.exact_scores(Exact.of(np.array([1.0, 1.5]))).fractions()
    assert found == [Fraction(9, 4), Fraction(-7, 4)]
    minus = Scale(-np.ones(3), np.ones(3), np.zeros(3))
    turned = Network(((first, scale), (minus,), (last,)), (2,), (mask, None))
    found = turned.exact_scores(Exact.of(np.array([1.0, 1.5]))).fractions()
    assert found == [Fraction(3, 2), Fraction(0)]
    wider = Network(((first, Dense(np.ones((4, 3)), np.zeros(4))),), (2,))
    assert wider.relu_sizes_and_classes == [4]
    empty = Network(((), (last,)), (3,))
    assert empty.relu_sizes_and_classes == [3, 2]


@pytest.mark.parametrize("seed", range(4))
def test_an_interval_holds_all_values(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weight, bias = rng.normal(size=(4, 5)), rng.normal(size=4)
    low = rng.normal(size=5)
    high = low + rng.random(5)
    least, most = interval(Dense(weight, bias), low, high)
    for k in range(4):
        exact = [Fraction(float(bias[k]))] * 2
        for w, a, b in zip(weight[k].tolist(), low.tolist(), high.tolist(), strict=True):
            ends = Fraction(w) * Fraction(a), Fraction(w) * Fraction(b)
            exact = [exact[0] + min(ends), exact[1] + max(ends)]
        assert 0 <= exact[0] - Fraction(float(least[k])) <= Fraction(1, 10**12)
        assert 0 <= Fraction(float(most[k])) - exact[1] <= Fraction(1, 10**12)


def test_the_rounding_of_an_interval() -> None:
    """The ends of `x_0 - x_1 + x_2 - 3` over a point are 0 but for the allowance."""
    layer = Dense(np.array([[1.0, -1.0, 1.0]]), np.array([-3.0]))
    point = np.array([64.0, 65.0, 4.0])
    least, most = interval(layer, point, point)
    stated = gamma(2 * 3 + 8) * (64 + 65 + 4 + 3)
    np.testing.assert_allclose([-least[0], most[0]], stated, rtol=1e-12)
    zero = np.zeros(3)
    least, most = interval(Dense(np.ones((1, 3)), np.zeros(1)), zero, zero)
    assert (least[0], most[0]) == (-TINY, TINY)


def test_the_radius_of_an_interval_is_rounded_up() -> None:
    """`(0.1 + 0.7) / 2` is rounded, and the box is not cut for it."""
    rng = np.random.default_rng(5)
    low = rng.normal(size=400)
    high = low + rng.random(400)
    ones = Scale(np.ones(400), np.ones(400), np.zeros(400))
    least, most = interval(ones, low, high)
    middle = (low + high) / 2
    radius = np.maximum(high - middle, middle - low) * (1 + 4 * HALF_ULP)
    error = gamma(2 * 3 + 8) * (abs(middle) + radius) + TINY
    assert least.tolist() == (middle - radius - error).tolist()
    assert most.tolist() == (middle + radius + error).tolist()
    assert (least < low).all()
    assert (most > high).all()
