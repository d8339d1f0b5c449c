"""Model files as the exporters of the field write them, made by those that are installed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn

from vhagar import Problem, verify
from vhagar.network import read_onnx
from vhagar_check import check
from vhagar_check.exact import Exact
from vhagar_check.model import read_model
from vhagar_check.scores import Stated

from .conftest import float32_scores


def agrees(path: Path, shape: tuple[int, ...], output: int = 0) -> None:
    """The reader's network and onnxruntime compute the same scores."""
    network = read_onnx(path)
    inputs = np.random.default_rng(3).random((20, *shape)).astype(np.float32)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    name, expected = session.get_inputs()[0].name, []
    for each in inputs:
        expected.append(np.asarray(session.run(None, {name: each[None]})[output]).reshape(-1))
    found = network.forward(inputs.reshape(20, -1).astype(np.float64))
    np.testing.assert_allclose(found, np.array(expected), rtol=1e-4, atol=1e-4)


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.second = nn.Conv2d(4, 4, 3, padding=1)
        self.last = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.first(x)))
        x = torch.relu(x + self.second(x))
        return self.last(x.mean(dim=(2, 3)))


MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "dense": (
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(32, 8), nn.ReLU(), nn.Linear(8, 3)),
        (2, 4, 4),
    ),
    "convolutions and pooling": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.LeakyReLU(0.1), nn.MaxPool2d(2),
            nn.Conv2d(4, 4, 2, stride=2), nn.ReLU6(), nn.AvgPool2d(1), nn.Dropout(), nn.Flatten(),
            nn.Linear(4, 3),
        ),
        (2, 4, 4),
    ),
    "residual": (Residual, (2, 4, 4)),
}  # fmt: skip


def exported(name: str, path: Path, **options: Any) -> tuple[int, ...]:
    torch.manual_seed(4)
    make, shape = MODULES[name]
    module = make().eval()
    for norm in module.modules():
        if isinstance(norm, nn.BatchNorm2d):
            norm.running_mean.uniform_(-1, 1)
            norm.running_var.uniform_(0.5, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporters announce their own end
        torch.onnx.export(module, (torch.rand(1, *shape),), str(path), **options)
    return shape


@pytest.mark.parametrize("opset", [11, 13, 17])
@pytest.mark.parametrize("name", MODULES)
def test_the_older_exporter_of_torch(tmp_path: Path, name: str, opset: int) -> None:
    path = tmp_path / "model.onnx"
    shape = exported(name, path, dynamo=False, opset_version=opset)
    agrees(path, shape)


@pytest.mark.parametrize("name", MODULES)
def test_the_older_exporter_with_an_open_batch(tmp_path: Path, name: str) -> None:
    path = tmp_path / "model.onnx"
    axes = {"images": {0: "batch"}, "scores": {0: "batch"}}
    names = {"input_names": ["images"], "output_names": ["scores"]}
    agrees(path, exported(name, path, dynamo=False, dynamic_axes=axes, **names))


@pytest.mark.slow
@pytest.mark.parametrize("name", MODULES)
def test_the_newer_exporter_of_torch(tmp_path: Path, name: str) -> None:
    pytest.importorskip("onnxscript", reason="torch's newer exporter needs onnxscript")
    path = tmp_path / "model.onnx"
    agrees(path, exported(name, path, dynamo=True))


SCALERS = ("StandardScaler", "MinMaxScaler", "RobustScaler", "MaxAbsScaler", "some columns")
LABELS = {2: np.array(["benign", "malignant"]), 3: np.arange(3)}


@pytest.mark.slow
@pytest.mark.parametrize("zipmap", [True, False])
@pytest.mark.parametrize("classes", LABELS)
@pytest.mark.parametrize("scaler", [None, *SCALERS])
def test_the_classifier_of_scikit_learn(
    tmp_path: Path, scaler: str | None, classes: int, zipmap: bool
) -> None:
    """It gives labels first; the probabilities that follow are those of the scores.

    Those of two classes come from one score, which the model gives as `[1 - p, p]`.
    """
    skl2onnx = pytest.importorskip("skl2onnx", reason="scikit-learn's exporter")
    from sklearn import preprocessing
    from sklearn.compose import make_column_transformer
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline

    rng = np.random.default_rng(5)
    x = (rng.random((60, 6)) * 5 - 1).astype(np.float32)
    y = LABELS[classes][np.digitize(x[:, 0] + x[:, 1], [2, 5][: classes - 1])]
    network = MLPClassifier((8, 8), max_iter=30, random_state=0)
    first = getattr(preprocessing, scaler)() if scaler in SCALERS[:-1] else None
    if scaler == "some columns":
        first = make_column_transformer(
            (preprocessing.StandardScaler(), [4, 1]), ("passthrough", [0, 3])
        )
    model = network if first is None else make_pipeline(first, network)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 30 rounds do not converge
        model.fit(x, y)
    path = tmp_path / "model.onnx"
    options = {"options": {id(model): {"zipmap": zipmap}}, "target_opset": 17}
    path.write_bytes(skl2onnx.to_onnx(model, x[:1], **options).SerializeToString())
    read = read_onnx(path)
    scores = read.forward(x)
    np.testing.assert_array_equal(model.predict(x), LABELS[classes][scores.argmax(axis=1)])
    shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(shares, model.predict_proba(x), atol=1e-5)
    np.testing.assert_allclose(float32_scores(read.model, x), scores, atol=1e-4)
    checker = read_model(path.read_bytes(), Stated.of(read.scores.plain()))
    for row, expected in zip(x[:5].astype(np.float64), scores, strict=False):
        exact = checker.exact_scores(Exact.of(row)).fractions()
        np.testing.assert_allclose([float(score) for score in exact], expected, atol=1e-9)
    if scaler == "StandardScaler" and zipmap:
        proof = tmp_path / "proof.cert"
        problem = Problem(read, perturbation="linf(0.05)", source=1)
        result = verify(problem, workers=0, timeout=5, certificate=proof)
        verdict = check(proof, model=path)
        assert (verdict.lower, verdict.upper) == (result.lower, result.upper)
