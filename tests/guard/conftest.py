"""A network of three classes over four pixels, all of its questions answered with certificates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vhagar
from vhagar import Domain, Network, Problem, Result
from vhagar.network import Affine, Relu

PERTURBATIONS = ("linf(0.05)", "occlusion(1,1,1)")
SHAPE = (1, 2, 2)


def domain_of(**conditions: Any) -> Domain:
    given = {"lower": 0.0, "upper": 1.0, "range": (0.0, 1.0), "name": "some", **conditions}
    return Domain(SHAPE, given.pop("lower"), given.pop("upper"), **given)


def small_network(seed: int = 7) -> Network:
    rng = np.random.default_rng(seed)
    return Network(
        (
            Affine(rng.normal(size=(5, 4)), rng.normal(size=5), (1, 2, 2), (5,)),
            Relu((5,)),
            Affine(rng.normal(size=(3, 5)), rng.normal(size=3), (5,), (3,)),
        ),
        (1, 2, 2),
        "small",
    )


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("guard") / "small.onnx"
    vhagar.write_onnx(small_network(), path)
    return path


@pytest.fixture(scope="session")
def results(model: Path) -> list[Result]:
    """For each perturbation and class, with a certificate beside the model."""
    network = vhagar.read_onnx(model)
    return [
        vhagar.verify(
            Problem(network, perturbation=text, source=source),
            workers=0,
            timeout=30,
            certificate=model.parent / f"{text}-{source}.cert",
        )
        for text in PERTURBATIONS
        for source in range(3)
    ]


@pytest.fixture(scope="session")
def inputs() -> np.ndarray:
    """Inputs that float32 has, as the model takes them."""
    return np.random.default_rng(3).random((300, 1, 2, 2)).astype(np.float32)
