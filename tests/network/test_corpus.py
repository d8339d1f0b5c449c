"""Every operator, in every form and every operator set, against onnxruntime."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from vhagar.network import SUPPORTED_OPERATORS, AbstractLinear, Relu, read_onnx

from .corpus import IMAGE, MODELS

# float32 computes the right side; sums of a few hundred products err by about this much.
NOISE = 2e-6


@pytest.mark.parametrize("name", MODELS)
def test_scores_are_those_of_onnxruntime(
    build: type, save: Callable, onnxruntime_scores: Callable, name: str
) -> None:
    batch = np.random.default_rng(5).normal(size=(20, *IMAGE)).astype(np.float32)
    for opset in MODELS[name].opsets:
        path = save(MODELS[name].built(build, opset))
        network = read_onnx(path)
        found = network.forward(batch)
        expected = onnxruntime_scores(network.model, batch)
        assert found.shape == expected.shape == (20, network.classes)
        assert np.ptp(expected, axis=0).min() > 0  # no score is stuck: the test sees the network
        assert abs(found - expected).max() <= NOISE * abs(expected).max(), f"opset {opset}"
        if not network.notes:
            assert (onnxruntime_scores(str(path), batch) == expected).all()


@pytest.mark.parametrize("name", MODELS)
def test_layers_are_linear_stages_and_relus(build: type, save: Callable, name: str) -> None:
    network = read_onnx(save(MODELS[name].built(build)))
    batch = np.random.default_rng(6).normal(size=(3, *IMAGE))
    values = batch.reshape(3, -1)
    for layer in network.layers:
        assert isinstance(layer, AbstractLinear | Relu)
        after = layer.forward(values)
        if isinstance(layer, AbstractLinear):
            by_matrix = (layer.matrix @ values.T).T + layer.flat_bias
            assert by_matrix == pytest.approx(after, abs=1e-12 * max(abs(after).max(), 1))
        elif layer.linear is not None:
            # The units come first, then what is carried.
            assert not layer.linear[: layer.neurons].any()
            assert layer.linear[layer.neurons :].all()
        values = after
    relus = [layer for layer in network.layers if isinstance(layer, Relu)]
    assert network.hidden_neurons == sum(layer.neurons for layer in relus)
    assert network.hidden_neurons + network.linear_units == sum(layer.in_size for layer in relus)


def test_every_operator_is_there(build: type) -> None:
    used = {
        node.op_type
        for entry in MODELS.values()
        for opset in (entry.opsets[0], entry.opsets[-1])
        for node in entry.built(build, opset).nodes
    }
    assert used >= set(SUPPORTED_OPERATORS) - {"Constant"}  # which test_reader.py has


def test_the_second_opinion_knows_no_softmax(
    build: type, save: Callable, onnxruntime_scores: Callable
) -> None:
    batch = np.random.default_rng(7).normal(size=(4, *IMAGE))
    for name in ("softmax", "logarithmic_softmax"):
        path = save(MODELS[name].built(build, 13))
        network = read_onnx(path)
        (note,) = network.notes
        assert "confidence is a difference of the scores" in note
        theirs = onnxruntime_scores(str(path), batch)
        ours = network.forward(batch)
        assert (theirs.argmax(axis=1) == ours.argmax(axis=1)).all()
        exponentials = np.exp(ours - ours.max(axis=1, keepdims=True))
        shares = exponentials / exponentials.sum(axis=1, keepdims=True)
        wanted = shares if name == "softmax" else np.log(shares)
        assert theirs == pytest.approx(wanted, abs=1e-5)
