"""Results that are saved and read again are the same in every respect."""

from __future__ import annotations

import math
import zipfile
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar import InvalidInput, Network, Problem, Result, read_onnx, verify
from vhagar.network import Affine, Relu, save_model
from vhagar.perturbation.user import UserPerturbation
from vhagar.result import BoundKind, Estimate, Interval, Status, Witness


@pytest.fixture
def model(tmp_path: Path) -> Path:
    rng = np.random.default_rng(3)
    layers = (
        Affine(rng.normal(size=(5, 4)), rng.normal(size=5), (1, 2, 2), (5,)),
        Relu((5,)),
        Affine(rng.normal(size=(3, 5)), rng.normal(size=3), (5,), (3,)),
    )
    save_model(Network(layers, (1, 2, 2), "tiny"), tmp_path / "tiny.onnx")
    return tmp_path / "tiny.onnx"


def found(network: Network, perturbation: Any, **asked: Any) -> Result:
    scores = network.forward(np.random.default_rng(0).uniform(size=(50, 4)))
    source = int(np.bincount(scores.argmax(axis=1)).argmax())
    problem = Problem(network, perturbation=perturbation, source=source, **asked)
    return verify(problem, timeout=120, workers=0)


def same(first: Any, second: Any) -> bool:
    """Whether two values hold the same numbers, whatever they are made of."""
    if isinstance(first, np.ndarray):
        return bool(np.array_equal(first, second)) and first.dtype == second.dtype
    if isinstance(first, Problem):
        return first.recorded_maps == second.recorded_maps or str(first) == str(second)
    if isinstance(first, Witness):
        pairs = [(getattr(first, f.name), getattr(second, f.name)) for f in fields(first)]
        return all(same(*pair) for pair in pairs)
    return bool(first == second)


def saved_and_loaded(result: Result, path: Path) -> Result:
    result.save(path)
    again = Result.load(str(path))
    for field in fields(result):
        assert same(getattr(result, field.name), getattr(again, field.name)), field.name
    assert str(again) == str(result)
    assert again.to_dict() == result.to_dict()
    return again


TEXTS = [
    "linf(0.2)",
    pytest.param("brightness([0.1,0.6])", marks=pytest.mark.slow),
    "occlusion([1,2],1,1)",
    pytest.param("contrast([1,1.5])", marks=pytest.mark.slow),
    None,
]


@pytest.mark.parametrize("text", TEXTS)
def test_all_of_it_comes_back(model: Path, tmp_path: Path, text: str | None) -> None:
    result = found(read_onnx(model), text)
    again = saved_and_loaded(result, tmp_path / "result.vhagar")
    x = np.random.default_rng(1).uniform(size=(5, 4))
    mine, other = result.problem.network, again.problem.network
    np.testing.assert_array_equal(mine.forward(x), other.forward(x))
    assert other.file == mine.file
    assert verify(again.problem, timeout=120, workers=0).upper == result.upper


def test_conventions_come_back(model: Path, tmp_path: Path) -> None:
    network = read_onnx(model, mean=0.4, std=0.5)
    again = saved_and_loaded(found(network, "linf(0.1)"), tmp_path / "a.zip")
    assert again.problem.network.convention == network.convention


def test_maps_without_a_text_come_back(model: Path, tmp_path: Path) -> None:
    network = read_onnx(model)
    tint = UserPerturbation(directions=[0.1, 0.0, 0.2, 0.0], ranges=[(0, 1)], name="tint")
    result = found(network, tint, clip=False)
    again = saved_and_loaded(result, tmp_path / "a.zip")
    assert again.problem.map_fingerprint == result.problem.map_fingerprint is not None


def test_what_was_added_later_comes_back(model: Path, tmp_path: Path) -> None:
    result = replace(
        found(read_onnx(model), "linf(0.1)"),
        upper=math.inf,
        status=Status.INTERRUPTED,
        max_confidence=Interval(2.0, 2.5, BoundKind.TWIN),
        estimate=Estimate(0.25, 0.125, 100, 0.05),
        certificate=tmp_path / "proof.cert",
        notes=("a note",),
    )
    saved_and_loaded(result, tmp_path / "a.zip")


def test_files_of_other_kinds_are_refused(model: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no result at"):
        Result.load(tmp_path / "missing")
    with pytest.raises(InvalidInput, match="not a file that"):
        Result.load(model)
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as other:
        other.writestr("result.json", "{}")
    with pytest.raises(InvalidInput, match="not a file that"):
        Result.load(tmp_path / "other.zip")
