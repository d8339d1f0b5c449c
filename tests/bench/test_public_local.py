"""The recipe for local questions: the first test images that are classified correctly."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from bench.public_local import FIELDS, main
from vhagar.network import read_onnx, write_onnx

from ..local.test_local import network


def test_the_first_correct_images_are_asked_about(tmp_path: Path) -> None:
    write_onnx(network(2), tmp_path / "net.onnx")
    net = read_onnx(tmp_path / "net.onnx")
    images = np.random.default_rng(0).integers(0, 256, (12, *net.input_shape), dtype=np.uint8)
    labels = net.forward(images / 255).argmax(axis=1).astype(np.uint8)
    labels[[0, 2]] = (labels[[0, 2]] + 1) % 3  # these are classified wrongly
    np.savez(tmp_path / "data.npz", x_test=images, y_test=labels)
    words = [str(tmp_path / "data.npz"), str(tmp_path / "net.onnx"), "--count", "3"]
    main([*words, "--epsilon", "0.03", "--epsilon", "0.05", "--out", str(tmp_path / "out")])
    with (tmp_path / "out" / "local.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == list(FIELDS)
    assert [row["image"] for row in rows] == [f"net_{k}" for k in (1, 1, 3, 3, 4, 4)]
    assert [row["epsilon"] for row in rows[:2]] == ["0.03", "0.05"]
    saved = np.load(tmp_path / "out" / "net_1.npy")
    np.testing.assert_allclose(saved, images[1] / 255, atol=1e-6)
