"""The bundled networks and images are what examples/README.md says, and train.py still works."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from vhagar.network import read_onnx
from vhagar.sweep.study import load_models, questions, read_study

EXAMPLES = Path(__file__).parents[2] / "examples"
CLASSES = 10


@dataclass(frozen=True)
class Bundled:
    """What the README's table states about a network, with a margin below its accuracy."""

    name: str
    images: str
    hidden_neurons: int
    least_accuracy: float


BUNDLED = (
    Bundled("mnist_3x10", "mnist_images", 20, 0.85),
    Bundled("mnist_3x10_pgd", "mnist_images", 20, 0.85),
    Bundled("mnist_3x50_pgd", "mnist_images", 100, 0.85),
    Bundled("mnist_conv1", "mnist_images", 550, 0.85),
    Bundled("mnist_conv2", "mnist_images", 2077, 0.85),
    Bundled("fashion_conv1", "fashion_images", 550, 0.75),
    # Small for CIFAR-10: far from perfect, but far from the 0.1 of guessing as well.
    Bundled("cifar_conv1", "cifar_images", 664, 0.3),
    Bundled("mnist_residual", "mnist_images", 2640, 0.85),
    Bundled("mnist_wide_20k", "mnist_images", 19682, 0.9),
    Bundled("cifar_wide_50k", "cifar_images", 49850, 0.35),
)

every_network = pytest.mark.parametrize("bundled", BUNDLED, ids=lambda bundled: bundled.name)


def test_the_files_are_those_of_the_table() -> None:
    networks = {path.stem for path in EXAMPLES.glob("*.onnx")}
    images = {path.stem for path in EXAMPLES.glob("*.npz")}
    assert networks == {bundled.name for bundled in BUNDLED}
    assert images == {bundled.images for bundled in BUNDLED}


def test_the_readme_lists_every_network_with_its_neurons() -> None:
    table = [line for line in (EXAMPLES / "README.md").read_text().splitlines() if "|" in line]
    for bundled in BUNDLED:
        rows = [line for line in table if f"`{bundled.name}`" in line]
        assert len(rows) == 1
        assert f"{bundled.hidden_neurons:,}" in [cell.strip() for cell in rows[0].split("|")]


def test_the_examples_stay_small() -> None:
    files = [path for path in EXAMPLES.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert sum(path.stat().st_size for path in files) < 5_000_000


@every_network
def test_onnxruntime_classifies_most_images_correctly(bundled: Bundled) -> None:
    with np.load(EXAMPLES / f"{bundled.images}.npz") as arrays:
        pixels, labels = arrays["x"], arrays["y"]
    assert pixels.dtype == np.uint8
    assert set(labels.tolist()) == set(range(CLASSES))
    path = EXAMPLES / f"{bundled.name}.onnx"
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (scores,) = session.run(["scores"], {"image": pixels.astype(np.float32) / 255})
    assert np.mean(scores.argmax(axis=1) == labels) >= bundled.least_accuracy


@every_network
def test_hidden_neurons_are_as_stated(bundled: Bundled) -> None:
    assert read_onnx(EXAMPLES / f"{bundled.name}.onnx").hidden_neurons == bundled.hidden_neurons


def striped_images(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noise with one bright band of rows, whose place is the class: easy to learn."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count, dtype=np.uint8) % CLASSES
    pixels = rng.integers(0, 64, (count, 1, 28, 28), dtype=np.uint8)
    for image, label in zip(pixels, labels, strict=True):
        image[:, 2 * label + 4 : 2 * label + 6] = 255
    return pixels, labels


def run_training(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLES / "train.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def striped_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "stripes.npz"
    x_train, y_train = striped_images(1000, seed=0)
    x_test, y_test = striped_images(200, seed=1)
    np.savez(path, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)
    return path


@pytest.mark.slow
@pytest.mark.subprocess
@pytest.mark.parametrize("name", ["mnist_3x50_pgd", "mnist_conv1"])
def test_training_learns_and_exports(striped_data: Path, tmp_path: Path, name: str) -> None:
    options = ("--data", str(striped_data), "--out", str(tmp_path), "--epochs", "8")
    finished = run_training(name, *options, "--images", "3")
    assert finished.returncode == 0, finished.stderr
    with np.load(tmp_path / "mnist_images.npz") as arrays:
        assert np.bincount(arrays["y"]).tolist() == [3] * CLASSES
        pixels, labels = arrays["x"], arrays["y"]
    scores = read_onnx(tmp_path / f"{name}.onnx").forward(pixels / 255)
    assert np.mean(scores.argmax(axis=1) == labels) > 0.5


@pytest.mark.subprocess
def test_training_refuses_images_of_another_shape(striped_data: Path, tmp_path: Path) -> None:
    refused = run_training("cifar_conv1", "--data", str(striped_data), "--out", str(tmp_path))
    assert refused.returncode != 0
    assert "needs uint8 images of shape (3, 32, 32)" in refused.stderr
    assert not list(tmp_path.iterdir())


def test_the_study_of_four_networks_asks_about_six_perturbations() -> None:
    study = read_study(EXAMPLES / "four_networks.toml")
    models = load_models(study)
    assert len(models) == 4
    assert len(study.perturbations) == 6
    # On two cores, and with some time to spare for the start and the maximal confidences.
    assert study.total is not None
    assert study.total <= 1600
    assert len(questions(study, models)) == 240
