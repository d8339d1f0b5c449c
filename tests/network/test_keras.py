"""Keras models, as Keras and tf2onnx write them: channels last, transposed in the graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from vhagar.errors import InvalidNetwork
from vhagar.network import read_onnx

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]

IMAGE = (8, 8, 3)
WAYS = ("tf2onnx", "Keras")


def residual(keras: Any) -> Any:
    layers = keras.layers
    image = keras.Input(IMAGE)
    x = layers.Conv2D(4, 3, padding="same", use_bias=False)(image)
    x = layers.ReLU()(layers.BatchNormalization()(x))
    x = layers.ReLU()(layers.Add()([x, layers.Conv2D(4, 3, padding="same")(x)]))
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(image, layers.Dense(3, activation="softmax")(x))


def branches(keras: Any) -> Any:
    layers = keras.layers
    image = keras.Input(IMAGE)
    narrow = layers.Conv2D(2, 1, activation="relu")(image)
    mean = layers.AveragePooling2D(3, strides=1, padding="same")(image)
    x = layers.Flatten()(layers.Concatenate()([narrow, mean]))
    return keras.Model(image, layers.Dense(3)(x))


def models(keras: Any) -> dict[str, Any]:
    layers, row, image = keras.layers, keras.Input((6,)), keras.Input(IMAGE)
    chains = {
        "dense": [
            row,
            layers.Dense(8, activation="relu"),
            layers.Dense(8),
            layers.LeakyReLU(),
            layers.Dense(3, activation="softmax"),
        ],
        "convolutional": [
            image,
            layers.Rescaling(2.0, -1.0),
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
            image,
            layers.DepthwiseConv2D(3),
            layers.ReLU(),
            layers.GlobalAveragePooling2D(),
            layers.Dense(1, activation="sigmoid"),
        ],
        "shapes": [
            image,
            layers.ZeroPadding2D(1),
            layers.SeparableConv2D(4, 3, activation="relu"),
            layers.UpSampling2D(2),
            layers.Cropping2D(2),
            layers.Permute((3, 1, 2)),
            layers.PReLU(),
            layers.Reshape((-1,)),
            layers.Dense(3),
        ],
        "transposed": [
            image,
            layers.Conv2DTranspose(3, 2, strides=2, activation="relu"),
            layers.GlobalMaxPooling2D(),
            layers.Dense(4, activation="hard_sigmoid"),
            layers.Dense(3),
        ],
    }
    sequential = {name: keras.Sequential(chain) for name, chain in chains.items()}
    return {**sequential, "residual": residual(keras), "branches": branches(keras)}


NAMES = (
    "dense", "convolutional", "one score", "shapes", "transposed", "residual", "branches",
)  # fmt: skip


def exported(model: Any, path: Path, way: str) -> None:
    if way == "Keras":
        model.export(str(path), format="onnx", verbose=False)
        return
    import tensorflow
    import tf2onnx

    given = [tensorflow.TensorSpec((None, *model.input_shape[1:]), tensorflow.float32, name="x")]
    scores = tensorflow.function(lambda x: model(x, training=False), input_signature=given)
    tf2onnx.convert.from_function(scores, input_signature=given, opset=17, output_path=str(path))


def keras_and_exporter() -> Any:
    pytest.importorskip("tensorflow", reason="Keras needs TensorFlow: vhagar[keras]")
    pytest.importorskip("tf2onnx", reason="the exporter of TensorFlow: vhagar[keras]")
    import keras

    keras.utils.set_random_seed(1)
    return keras


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NAMES)
def test_a_keras_model_computes_the_same(tmp_path: Path, name: str, way: str) -> None:
    keras = keras_and_exporter()
    model = models(keras)[name]
    for each in model.weights:  # as after training: a new one's statistics change nothing
        if "normalization" in each.path:
            each.assign(np.random.default_rng(1).uniform(0.5, 1.5, each.shape))
    shape = model.input_shape[1:]
    x = np.random.default_rng(0).random((5, *shape)).astype(np.float32)
    wanted = model(x, training=False).numpy()
    path = tmp_path / "model.onnx"
    exported(model, path, way)
    image = len(shape) == 3
    network = read_onnx(path, layout="hwc" if image else None)
    ours = x.transpose(0, 3, 1, 2) if image else x
    found = network.forward(ours.reshape(5, -1).astype(np.float64))
    if name in {"dense", "residual"}:  # the softmax at the end is ignored
        found = np.exp(found) / np.exp(found).sum(axis=1, keepdims=True)
    if name == "one score":
        found = 1 / (1 + np.exp(-found[:, 1:]))
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    run = session.run(None, {session.get_inputs()[0].name: x})[0]
    np.testing.assert_allclose(run, wanted, atol=1e-5)


def test_constants_that_keras_exports_as_inputs_are_named(tmp_path: Path) -> None:
    """Keras makes the mean and the variance of this layer inputs of the graph, without values."""
    keras = keras_and_exporter()
    scaled = keras.layers.Normalization(mean=0.5, variance=2.0)
    model = keras.Sequential([keras.Input((6,)), scaled, keras.layers.Dense(3)])
    model(np.zeros((1, 6), np.float32))
    path = tmp_path / "model.onnx"
    exported(model, path, "Keras")
    with pytest.raises(InvalidNetwork, match="export one in which the others are constants"):
        read_onnx(path)
