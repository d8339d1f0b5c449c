"""The homogeneous form by hand: small networks and pieces whose last input scales the biases."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.homogeneous import (
    BiasPiece,
    WithBiasInput,
    _outward,
    bias_pieces,
    homogeneous_network,
)
from vhagar_check.layers import Dense, Network
from vhagar_check.perturbations import pieces
from vhagar_check.pieces import Domain

WEIGHT, BIAS = np.array([[1.0, -2.0, 0.5], [0.0, 3.0, -1.0]]), np.array([0.25, -4.0])


@pytest.mark.parametrize("carries", [False, True])
def test_a_layer_with_its_bias_as_an_input(carries: bool) -> None:
    layer = WithBiasInput(Dense(WEIGHT, BIAS), carries)
    matrix = np.concatenate([WEIGHT, BIAS[:, None]], axis=1)
    if carries:
        matrix = np.concatenate([matrix, [[0.0, 0.0, 0.0, 1.0]]])
    assert (layer.in_size, layer.out_size, layer.joins) == (4, len(matrix), True)
    assert layer.terms == 3 + 1
    assert not layer.bias.any()
    rng = np.random.default_rng(1)
    z, p = rng.integers(-8, 9, (2, 4)) / 4, rng.integers(-8, 9, (3, len(matrix))) / 4
    kernels = (layer.kernel, matrix), (layer.size, abs(matrix)), (3 * layer.kernel, 3 * matrix)
    for kernel, expected in kernels:
        assert layer.forward(kernel, z).tolist() == (z @ expected.T).tolist()
        assert layer.backward(kernel, p).tolist() == (p @ expected).tolist()
    forward = layer.exact_forward(Exact.of(z[0])).fractions()
    assert forward == [Fraction(v) for v in (matrix @ z[0]).tolist()]
    backward = layer.exact_backward(Exact.of(p[0])).fractions()
    assert backward == [Fraction(v) for v in (p[0] @ matrix).tolist()]


def test_a_wide_layer_sums_a_product_for_every_output() -> None:
    layer = WithBiasInput(Dense(np.ones((7, 2)), np.zeros(7)), carries=True)
    assert layer.terms == 8


def test_the_last_input_is_carried_by_linear_units() -> None:
    first, second = Dense(WEIGHT, BIAS), Dense(np.eye(2), np.ones(2))
    last = Dense(np.ones((3, 2)), np.arange(3.0))
    mask = np.array([True, False])
    for linear, expected in (((), [False, False, True]), ((mask,), [True, False, True])):
        network = Network(((first, second), (second, last)), (3,), linear)
        three = Network(
            ((first,), (second,), (second, second, last)), (3,), linear and (mask, mask)
        )
        longer = homogeneous_network(three)
        carried = [layer.carries for stage in longer.stages for layer in stage]
        assert carried == [True, True, True, True, False]
        assert longer.relu_sizes_and_classes == [3, 3, 3]
        assert longer.linear_units(1).tolist() == expected
        found = homogeneous_network(network)
        assert found.input_shape == (4,)
        assert found.relu_sizes_and_classes == [3, 3]
        assert found.linear_units(0).tolist() == expected
        carried = [layer.carries for stage in found.stages for layer in stage]
        assert carried == [True, True, True, False]
        x = [Fraction(1, 2), Fraction(3), Fraction(-1)]
        whole = found.exact_scores(Exact.of_fractions([*x, Fraction(1)])).fractions()
        assert whole == network.exact_scores(Exact.of_fractions(x)).fractions()
    empty = homogeneous_network(Network(((), (last,)), (2,)))
    assert empty.input_shape == (3,)
    assert empty.relu_sizes_and_classes == [3, 3]
    with pytest.raises(Rejected, match="ends with a ReLU"):
        homogeneous_network(Network(((first,), ()), (3,)))
    with pytest.raises(Rejected, match="ends with a ReLU"):
        homogeneous_network(Network(((first,), (second,), ()), (3,)))


@pytest.mark.parametrize("box", [None, (np.array([0.25, 0.0]), np.array([0.5, 1.0]))])
@pytest.mark.parametrize(
    ("scales", "rises", "falls"),
    [((0.5, 2.0), True, True), ((1.0, 2.0), True, False), ((0.5, 1.0), False, True)],
)
def test_a_piece_that_scales_the_biases(
    scales: tuple[float, float], rises: bool, falls: bool, box: tuple | None
) -> None:
    piece = BiasPiece(Domain((2,), 0.0, 1.0, box), scales)
    assert piece.domain.shape == (3,)
    assert piece.rises.tolist() == [False, False, rises]
    assert piece.falls.tolist() == [False, False, falls]
    assert piece.image[0].tolist() == [0.0, 0.0, scales[0]]
    assert piece.image[1].tolist() == [1.0, 1.0, scales[1]]
    if box is None:
        assert piece.domain.box is None
    else:
        assert [side.tolist() for side in piece.domain.inputs] == [
            [0.25, 0.0, 0.0],
            [0.5, 1.0, 1.0],
        ]
    a, b = np.random.default_rng(2).normal(size=(2, 4, 3))
    joint = a + b
    best = np.maximum(joint[:, :2], 0.0).sum(axis=1) + a[:, 2]
    best = best + np.maximum(b[:, 2] * scales[0], b[:, 2] * scales[1])
    np.testing.assert_allclose(piece.largest(a, b), best)
    share = piece.share(a, b)
    assert share.tolist() == np.where(np.arange(3) < 2, joint, 0.0).tolist()
    for row in range(4):
        exact = piece.exact_support(Exact.of(a[row]), Exact.of(b[row]))
        assert float(exact) == pytest.approx(best[row])
    with pytest.raises(Rejected, match="the question itself"):
        piece.exact_image([Fraction(0)] * 3, [])


def test_supports_over_other_ranges() -> None:
    piece = BiasPiece(Domain((2,), -2.0, 3.0), (0.5, 2.0))
    a, b = np.random.default_rng(3).normal(size=(2, 4, 3))
    joint = (a + b)[:, :2]
    best = np.maximum(-2 * joint, 3 * joint).sum(axis=1) + a[:, 2]
    best = best + np.maximum(b[:, 2] / 2, b[:, 2] * 2)
    np.testing.assert_allclose(piece.largest(a, b), best)
    for row in range(4):
        exact = piece.exact_support(Exact.of(a[row]), Exact.of(b[row]))
        assert float(exact) == pytest.approx(best[row])


def test_which_pieces_have_the_form() -> None:
    domain = Domain((1, 1, 2), 0.0, 1.0)
    for text, clip, fine in (
        ("contrast([0.5,0.75])", True, True),
        ("contrast([0.5,1])", True, True),
        ("contrast([1.5,2])", False, True),
        ("contrast([1.5,2])", True, False),
        ("brightness([0,0.5])", False, False),
        ("linf(0.1)", True, False),
        ("occlusion(1,1,1)", True, False),
        ("contrast([1,2])", True, False),
    ):
        given = pieces(text, domain, clip)
        if fine:
            assert len(bias_pieces(given, domain)) == len(given)
        else:
            with pytest.raises(Rejected, match="homogeneous form is for contrast"):
                bias_pieces(given, domain)
    for ends in ((0.0, 2.0), (-1.0, 1.0)):
        other = Domain((1, 1, 2), *ends)
        with pytest.raises(Rejected, match="from 0 to 1"):
            bias_pieces(pieces("contrast([0.5,0.75])", other, False), other)


def test_scales_are_rounded_outward() -> None:
    assert _outward(Fraction(1, 4), np.inf) == 0.25
    third = Fraction(1, 3)
    assert Fraction(_outward(third, -np.inf)) < third < Fraction(_outward(third, np.inf))
    domain = Domain((1, 1, 2), 0.0, 1.0)
    (piece,) = bias_pieces(pieces("contrast([3,7])", domain, False), domain)
    least, most = (Fraction(float(side[-1])) for side in piece.image)
    assert 0 < Fraction(1, 7) - least < Fraction(1, 10**15)
    assert 0 < most - third < Fraction(1, 10**15)
    (piece,) = bias_pieces(pieces("contrast([2,8])", domain, False), domain)
    assert (piece.image[0][-1], piece.image[1][-1]) == (0.125, 0.5)
