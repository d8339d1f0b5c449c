"""The JSON of a result, and that its documentation says what is there."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vhagar
from vhagar.dataset import Neighbour
from vhagar.errors import InvalidInput
from vhagar.network import Affine, Network
from vhagar.network.conventions import Convention
from vhagar.network.network import ModelFile
from vhagar.network.scores import Scores
from vhagar.perturbation import Domain
from vhagar.problem import Problem
from vhagar.result import (
    BoundKind,
    Coverage,
    CoverageCounts,
    CoverageRows,
    Estimate,
    Interval,
    Moment,
    PlausibleWitness,
    Result,
    Status,
    Witness,
)
from vhagar.result.serialize import to_dict, to_json, write_json

DOCUMENT = Path(__file__).parents[2] / "docs" / "json.md"
# Objects whose keys depend on the run, and how the documentation writes such a key.
OPEN_KEYS = {"targets": "<class>", "timings": "<phase>", "witness.parameters": "<name>"}

# Objects with the fields of others, which are documented once.
AS_ABOVE = {"plausible.witness": "witness", "plausible.nearest": "nearest"}


@pytest.fixture
def problem() -> Problem:
    weight = np.random.default_rng(0).normal(size=(3, 4))
    taken = Convention((1, 2, 2), (4,), mean=(0.5,), std=(0.25,))
    layers = (Affine(weight, np.zeros(3), (1, 2, 2), (3,)),)
    file = ModelFile(Path("tiny.onnx"), "00ff")
    scores = Scores("logits", argmin=True)
    network = Network(layers, (1, 2, 2), "tiny", file=file, convention=taken, scores=scores)
    domain = Domain((1, 2, 2), [0.0, 0.25, 0.0, 0.0], np.ones(4), name="dim")
    return Problem(network, perturbation="linf(0.1)", source=0, domain=domain)


@pytest.fixture
def result(problem: Problem) -> Result:
    x = np.array([[[0.1, 1 / 3], [0.5, 1.0]]])
    witness = Witness(
        x=x,
        scores=np.array([1.0, 0.5, 0.0]),
        confidence=0.5,
        target=2,
        x_p=x - 0.1,
        scores_p=np.array([0.0, 0.5, 1.0]),
        margin=0.5,
        piece="linf(0.1)",
        parameters={"largest change": np.float64(0.1), "row": np.int64(3)},
    )
    known = Interval(0.5, 0.7, BoundKind.SOLVER)
    return Result(
        problem=problem,
        lower=0.5,
        upper=0.7,
        status=Status.TIMEOUT,
        kind=BoundKind.SOLVER,
        seconds=1.5,
        targets={1: Interval(0.0, 0.7, BoundKind.INTERVAL), 2: known},
        witness=witness,
        history=(Moment(0.0, 0.0, math.inf), Moment(1.5, 0.5, 0.7)),
        timings={"bounds": 0.1, "search": 1.4},
        engine="mip",
        notes=("a note",),
        max_confidence=Interval(2.0, 2.5, BoundKind.SOLVER),
        coverage=Coverage(
            *(10, CoverageCounts(5, 3, 1), CoverageCounts(4, 3, 0), 1.75, 0.5, 1),
            CoverageRows((0, 2, 7), (4,), (5,), (9,)),
        ),
        nearest=Neighbour(7, np.array([0.5, 0.25]), 1, 0.125),
        plausible=PlausibleWitness(witness, Neighbour(8, np.array([0.5, 0.5]), 1, 0.25), 0.9),
        certificate=Path("a proof.cert"),
        estimate=Estimate(0.25, 0.125, 100, 0.05),
    )


def _fields(value: Any, path: str = "") -> set[str]:
    """All fields of a JSON value, written as the documentation writes them."""
    if isinstance(value, dict):
        found = set()
        for key, item in value.items():
            name = OPEN_KEYS.get(path, key)
            inner = f"{path}.{name}" if path else name
            found |= {inner} | _fields(item, AS_ABOVE.get(inner, inner))
        return found
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return set().union(*(_fields(item, f"{path}[]") for item in value))
    return set()


def _documented() -> set[str]:
    return set(re.findall(r"^\| `([^`]+)` \|", DOCUMENT.read_text(), re.MULTILINE))


def test_the_documentation_lists_exactly_the_fields(result: Result, tmp_path: Path) -> None:
    write_json(result, tmp_path / "out.json")
    assert _fields(json.loads((tmp_path / "out.json").read_text())) == _documented()


def test_the_documented_example_has_exactly_the_fields() -> None:
    (example,) = re.findall(r"```json\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    # No run has them all: estimates belong to random sampling, conventions to some models.
    parts = ("estimate.", "problem.convention.", "problem.scores.", "problem.domain.", "nearest")
    parts = (*parts, "plausible", "coverage.rows")
    elsewhere = {field for field in _documented() if field.startswith(parts)}
    assert elsewhere
    assert _fields(json.loads(example)) == _documented() - elsewhere


def test_every_status_is_documented() -> None:
    text = DOCUMENT.read_text()
    for status in Status:
        assert f"`{status.name.lower()}`" in text


def test_numbers_and_arrays_come_back(result: Result) -> None:
    read = json.loads(to_json(result))
    assert (read["lower"], read["upper"], read["seconds"]) == (0.5, 0.7, 1.5)
    assert read["status"] == "timeout"
    assert read["message"] == Status.TIMEOUT.value
    assert (read["kind"], read["explanation"]) == ("solver", BoundKind.SOLVER.value)
    assert result.witness is not None
    np.testing.assert_array_equal(np.array(read["witness"]["x"]), result.witness.x)
    np.testing.assert_array_equal(np.array(read["witness"]["x_p"]), result.witness.x_p)
    assert read["witness"]["parameters"] == {"largest change": 0.1, "row": 3}
    assert read["targets"]["2"] == {"lower": 0.5, "upper": 0.7, "kind": "solver"}
    assert read["percent"] == list(result.percent or ())
    assert read["vhagar"] == vhagar.__version__
    assert read["problem"] == {
        "network": "tiny",
        "file": {"path": "tiny.onnx", "sha256": "00ff"},
        "input_shape": [1, 2, 2],
        "classes": 3,
        "perturbation": "linf(0.1)",
        "map_sha256": None,
        "source": 0,
        "targets": [1, 2],
        "clip": True,
        "input_range": [0.0, 1.0],
        "domain": {
            "name": "dim",
            "sha256": result.problem.domain.fingerprint,
            "lower": [0.0, 0.25, 0.0, 0.0],
            "upper": [1.0, 1.0, 1.0, 1.0],
        },
        "convention": {"layout": "chw", "model_shape": [4], "mean": [0.5], "std": [0.25]},
        "scores": {"output": "logits", "threshold": None, "argmin": True},
    }


def test_the_dictionary_is_what_is_written(result: Result) -> None:
    assert json.loads(to_json(result)) == to_dict(result)


def test_json_is_strict(result: Result) -> None:
    unknown = replace(result, upper=math.inf, seconds=math.nan)
    text = to_json(unknown)

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    read = json.loads(text, parse_constant=refuse)
    assert read["upper"] is read["seconds"] is read["history"][0]["upper"] is None


def test_what_is_absent_is_null(result: Result) -> None:
    bare = Problem(result.problem.network, perturbation=None, source=0)
    nothing = {"witness": None, "max_confidence": None, "targets": {}}
    read = to_dict(replace(result, problem=bare, **nothing))
    assert read["witness"] is read["max_confidence"] is read["percent"] is None
    assert read["problem"]["perturbation"] is None
    assert (read["targets"], read["problem"]["targets"]) == ({}, [])


def test_writing_replaces_in_one_step(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.json"
    path.write_text("old")

    def fail(*_: Any) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        with pytest.raises(InvalidInput, match="disk full"):
            write_json(result, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    write_json(result, path)
    assert json.loads(path.read_text())["lower"] == 0.5
    assert list(tmp_path.iterdir()) == [path]
