"""Sparse layers and ReLU layers with linear units: what skip connections are made of."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from scipy import sparse

from vhagar.attack.score_gradients import scores_and_pull
from vhagar.errors import InvalidNetwork
from vhagar.network import Affine, Network, Relu, SparseAffine, onnx_bytes

RNG = np.random.default_rng(11)
LINEAR = np.array([True, False, False, True, False])


def sparse_layer() -> SparseAffine:
    weight = RNG.normal(size=(5, 6)) * (RNG.random((5, 6)) < 0.4)
    weight[2] = 0.0  # a row without entries
    return SparseAffine(weight, RNG.normal(size=5), (1, 2, 3), (5,))


def dense(layer: SparseAffine) -> Affine:
    return Affine(layer.weight.toarray(), layer.bias, layer.in_shape, layer.out_shape)


def test_a_sparse_layer_is_the_dense_one() -> None:
    layer = sparse_layer()
    same = dense(layer)
    x, y = RNG.normal(size=(4, 6)), RNG.normal(size=(4, 5))
    np.testing.assert_allclose(layer.forward(x), same.forward(x), rtol=1e-12)
    np.testing.assert_allclose(layer.times(x), same.times(x), rtol=1e-12)
    np.testing.assert_allclose(layer.pull(y), same.pull(y), rtol=1e-12)
    np.testing.assert_array_equal(layer.matrix.toarray(), same.weight)
    np.testing.assert_array_equal(layer.absolute.matrix.toarray(), abs(same.weight))
    np.testing.assert_array_equal(layer.absolute.flat_bias, abs(same.bias))
    assert layer.fan_in == np.count_nonzero(same.weight, axis=1).max()


def test_entries_given_twice_are_added_and_zeros_are_none() -> None:
    entries = sparse.coo_array(([1.0, 2.0, 0.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    layer = SparseAffine(sparse.csr_array(entries), np.zeros(2), (2,), (2,))
    assert layer.matrix.nnz == 1
    np.testing.assert_array_equal(layer.matrix.toarray(), [[0.0, 3.0], [0.0, 0.0]])


def test_a_sparse_layer_refuses_what_does_not_fit() -> None:
    with pytest.raises(InvalidNetwork, match="needs a weight of shape"):
        SparseAffine(np.zeros((2, 3)), np.zeros(2), (4,), (2,))
    with pytest.raises(InvalidNetwork, match="NaN or infinity"):
        SparseAffine(np.full((2, 3), np.inf), np.zeros(2), (3,), (2,))


def test_linear_units_pass_on_what_they_receive() -> None:
    layer = Relu((5,), LINEAR)
    x = np.array([[-1.0, -2.0, 3.0, 4.0, -5.0]])
    np.testing.assert_array_equal(layer.forward(x), [[-1.0, 0.0, 3.0, 4.0, 0.0]])
    assert layer.neurons == 3
    assert Relu((5,)).neurons == 5
    assert Relu((5,), np.zeros(5, dtype=bool)).linear is None
    with pytest.raises(InvalidNetwork, match="a mask"):
        Relu((4,), LINEAR)


@pytest.mark.parametrize("in_order", [False, True])
def test_onnxruntime_computes_the_same(in_order: bool) -> None:
    mask = np.sort(LINEAR) if in_order else LINEAR
    last = Affine(RNG.normal(size=(3, 5)), RNG.normal(size=3), (5,), (3,))
    network = Network((sparse_layer(), Relu((5,), mask), last), (1, 2, 3))
    assert network.hidden_neurons == 3
    session = onnxruntime.InferenceSession(onnx_bytes(network))
    x = RNG.uniform(-1, 1, size=(7, 1, 2, 3)).astype(np.float32)
    (found,) = session.run(None, {"image": x})
    np.testing.assert_allclose(found, network.forward(x), rtol=1e-4, atol=1e-5)


def test_gradients_are_those_of_finite_differences() -> None:
    last = Affine(RNG.normal(size=(3, 5)), RNG.normal(size=3), (5,), (3,))
    network = Network((sparse_layer(), Relu((5,), LINEAR), last), (1, 2, 3))
    x, on_scores = RNG.normal(size=(4, 6)), RNG.normal(size=(4, 3))
    _, pull = scores_and_pull(network, x)
    found = pull(on_scores)
    step = 1e-6 * np.eye(6)
    ahead, behind = (
        np.stack([network.forward(x + sign * own) for own in step], axis=1) for sign in (1, -1)
    )
    expected = np.einsum("nij,nj->ni", (ahead - behind) / 2e-6, on_scores)
    np.testing.assert_allclose(found, expected, atol=1e-6)
