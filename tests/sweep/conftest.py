"""Small models on disk, and studies about them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vhagar
from vhagar.network import Affine, Network, Relu
from vhagar.sweep.study import Study

ROOT = Path(vhagar.__file__).parents[1]


def small_network(seed: int = 3, hidden: tuple[int, ...] = (6,), classes: int = 3) -> Network:
    """Random weights on images of 4x4 pixels."""
    rng = np.random.default_rng(seed)
    sizes = (16, *hidden, classes)
    layers: list[Any] = []
    for k, (before, after) in enumerate(pairwise(sizes)):
        weight = rng.normal(size=(after, before)).astype(np.float32).astype(np.float64)
        shape = (1, 4, 4) if k == 0 else (before,)
        layers += [Affine(weight, np.zeros(after), shape, (after,)), Relu((after,))]
    return Network(tuple(layers[:-1]), (1, 4, 4))


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A model that is verified in no time."""
    path = tmp_path / "small.onnx"
    vhagar.write_onnx(small_network(), path)
    return str(path)


@pytest.fixture
def hard_model(tmp_path: Path) -> str:
    """A model that keeps any engine busy, and its interval moving."""
    path = tmp_path / "hard.onnx"
    vhagar.write_onnx(small_network(4, (24, 20, 16), 5), path)
    return str(path)


@pytest.fixture
def pairs(model: str) -> Study:
    """All six pairs of classes under two perturbations, the second of which contains the first."""
    return Study((model,), ("linf(0.05)", "linf(0.1)"), timeout=30.0)


@pytest.fixture
def start() -> Callable[..., subprocess.Popen[str]]:
    """Starts `vhagar` in a process of its own."""

    def started(*arguments: str, stderr: int = subprocess.STDOUT) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        return subprocess.Popen(
            [sys.executable, "-m", "vhagar", *arguments],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env=environment,
        )

    return started
