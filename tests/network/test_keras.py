"""Keras models, as tf2onnx writes them: channels last, with transpositions and shapes in the graph.

TensorFlow is large and not among the extras: these tests run where it is installed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar.network import read_onnx

pytestmark = pytest.mark.slow


def _models(layers: Any, keras: Any) -> dict[str, Any]:
    return {
        "dense": [
            keras.Input((6,)),
            layers.Dense(8, activation="relu"),
            layers.Dense(8),
            layers.LeakyReLU(),
            layers.Dense(3, activation="softmax"),
        ],
        "convolutional": [
            keras.Input((12, 12, 3)),
            layers.Conv2D(4, 3, padding="same", activation="relu"),
            layers.BatchNormalization(),
            layers.MaxPooling2D(),
            layers.Conv2D(6, 3, strides=2),
            layers.ReLU(max_value=6.0),
            layers.Flatten(),
            layers.Dropout(0.5),
            layers.Dense(3),
        ],
        "one score": [
            keras.Input((8, 8, 1)),
            layers.DepthwiseConv2D(3),
            layers.ReLU(),
            layers.GlobalAveragePooling2D(),
            layers.Dense(1, activation="sigmoid"),
        ],
    }


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", ["dense", "convolutional", "one score"])
def test_a_keras_model_computes_the_same(tmp_path: Path, name: str) -> None:
    tensorflow = pytest.importorskip("tensorflow", reason="Keras needs TensorFlow")
    tf2onnx = pytest.importorskip("tf2onnx", reason="the exporter of TensorFlow")
    import keras

    keras.utils.set_random_seed(1)
    model = keras.Sequential(_models(keras.layers, keras)[name])
    shape = model.input_shape[1:]
    given = [tensorflow.TensorSpec((None, *shape), tensorflow.float32, name="x")]
    scores = tensorflow.function(lambda x: model(x, training=False), input_signature=given)
    path = tmp_path / "model.onnx"
    tf2onnx.convert.from_function(scores, input_signature=given, opset=17, output_path=str(path))
    image = len(shape) == 3
    network = read_onnx(path, layout="hwc" if image else None)
    x = np.random.default_rng(0).random((5, *shape)).astype(np.float32)
    wanted = model(x, training=False).numpy()
    ours = x.transpose(0, 3, 1, 2) if image else x
    found = network.forward(ours.reshape(5, -1).astype(np.float64))
    if name == "dense":  # the softmax at the end is ignored
        found = np.exp(found) / np.exp(found).sum(axis=1, keepdims=True)
    if name == "one score":
        found = 1 / (1 + np.exp(-found[:, 1:]))
    np.testing.assert_allclose(found, wanted, atol=1e-5)
