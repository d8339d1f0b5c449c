"""The conditions of a domain in a VNN-LIB 2.0 file are those of the domain, point by point."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from vhagar import Domain, InvalidInput, Problem
from vhagar.export.export import Exported, export
from vhagar.network import Affine, Network, Relu
from vhagar.perturbation import Zonotope, linear_rows

from .queries import assertions, expressions, holds

SIZE = 7
RNG = np.random.default_rng(5)
ZONOTOPE = Zonotope(
    np.linspace(1, 3, SIZE), RNG.normal(size=(2, SIZE)), [1.0, 0.5], np.full(SIZE, 0.25)
)
KINDS: dict[str, dict[str, Any]] = {
    "ranges": {"lower": [0.5] * 6 + [1], "upper": [3] * SIZE},
    "fixed": {"fixed": {2: 1.5}},
    "integer": {"integer": [0, 4]},
    "one_hot": {"one_hot": [[1, 2, 3], [5, 6]]},
    "whole one_hot": {"one_hot": [[1, 2, 3]], "integer": [0, 2]},
    "ordered": {"ordered": [[4, 2, 0], [5, 6]]},
    "rows": {
        "rows": [
            linear_rows({0: 1.0, 3: -0.3}, SIZE, at_most=1.0),
            linear_rows({1: 2.0, 2: 0.1}, SIZE, at_least=-1.0, at_most=4.0),
            linear_rows({5: 1.0}, SIZE, at_least=0.25),
        ]
    },
    "equality": {"rows": linear_rows({0: 1.0, 5: 0.5}, SIZE, equal=2.0)},
    "zonotope": {"zonotope": ZONOTOPE},
    "all": {
        "lower": 0.0,
        "integer": [0],
        "one_hot": [[1, 2, 3]],
        "ordered": [[4, 5]],
        "fixed": {6: 2.0},
        "rows": linear_rows({0: 1.0, 4: 1.0}, SIZE, at_most=5.0),
        "zonotope": Zonotope(
            np.linspace(1, 2, SIZE), RNG.normal(size=(2, SIZE)), [1.0, 0.5], np.full(SIZE, 3.0)
        ),
    },
}


def network() -> Network:
    rng = np.random.default_rng(1)
    first = Affine(rng.normal(size=(4, SIZE)) / 3, rng.normal(size=4), (SIZE,), (4,))
    return Network(
        (first, Relu((4,)), Affine(rng.normal(size=(3, 4)), rng.normal(size=3), (4,), (3,))),
        (SIZE,),
    )


def asked(inside: bool = False, **given: Any) -> Problem:
    ends = {"lower": 0.0, "upper": 4.0, "range": (0.0, 4.0), "name": "some"}
    domain = Domain((SIZE,), **{**ends, "perturbed_inside": inside, **given})
    return Problem(network(), perturbation="linf(0.5)", source=0, targets=(1,), domain=domain)


def about(place: Exported, mark: str) -> list[Any]:
    """The assertions about the domain's tensors of inputs, or those of perturbed inputs."""
    own, other = (r"\b[XZP]\[", r"_p\[") if mark == "" else (r"_p\[", r"\b[XZP]\[")
    found = [one for one in assertions(place.vnnlib) if not re.search(r"\bY", str(one))]
    return [one for one in found if re.search(own, str(one)) and not re.search(other, str(one))]


@lru_cache(4)
def session(model: bytes) -> Any:
    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])


def points(model: bytes, z: np.ndarray) -> np.ndarray:
    return session(model).run(None, {"z": z})[0]


def satisfied(place: Exported, domain: Domain, x: Any, mark: str = "") -> bool:
    """Whether an input satisfies the conditions, with the coordinates that the domain finds."""
    tensors = {"X": x[None]}
    if place.zonotope is not None:
        z = domain.zonotope.witnesses(x[None])[0]
        tensors |= {"Z": z, "P": points(place.zonotope.read_bytes(), z)}

    def value(name: str) -> float:
        kind, place = re.fullmatch(r"(\w+)\[([\d,]+)\]", name).groups()
        return float(tensors[kind.removesuffix("_p")][tuple(map(int, place.split(",")))])

    return all(holds(one, value) for one in about(place, mark))


def near(domain: Domain, rng: np.random.Generator) -> np.ndarray:
    """An input that satisfies all conditions or breaks a few."""
    x = domain.project(rng.uniform(0, 4, SIZE))
    moved = rng.random(SIZE) < rng.choice([0.0, 0.0, 0.15])
    return np.where(moved, np.clip(x + rng.choice([-0.5, 0.7, 1.0], SIZE), 0, 4), x)


@pytest.mark.parametrize("inside", [False, True], ids=["x", "both"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_point_is_in_the_file_if_it_is_in_the_domain(
    kind: str, inside: bool, tmp_path: Path
) -> None:
    problem = asked(inside, **KINDS[kind])
    domain, rng = problem.domain, np.random.default_rng(3)
    (place,) = export(problem, 0.1, tmp_path / "question.vnnlib", version=2)
    seen = set()
    for _ in range(150):
        x = near(domain, rng)
        expected = bool(domain.contains(x[None])[0])
        seen.add(expected)
        assert satisfied(place, domain, x) == expected
        if inside and satisfied(place, domain, x, "_p") != expected:
            # Whatever else is said of perturbed inputs holds in the range.
            raise AssertionError(x)
    assert seen == {True, False}


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_package_vnnlib_reads_conditions(kind: str, inside: bool, tmp_path: Path) -> None:
    vnnlib = pytest.importorskip("vnnlib", reason="the package vnnlib is not installed")
    if not hasattr(vnnlib, "parse_query_file"):
        pytest.skip("this version of the package vnnlib reads VNN-LIB 1.0 only")
    problem = asked(inside, **KINDS[kind])
    (place,) = export(problem, 0.1, tmp_path / "question.vnnlib", version=2)
    query = vnnlib.parse_query_file(str(place.vnnlib))
    further = ["zonotope", "zonotope_p"][: 1 + inside] if place.zonotope else []
    assert [one.name for one in query.networks] == ["original", "perturbed", *further]
    assert len(query.assertions) == len(assertions(place.vnnlib))
    assert expressions(place.vnnlib)[0] == ["vnnlib-version", "<2.0>"]


def test_the_numbers_of_a_zonotope_are_not_rounded(tmp_path: Path) -> None:
    problem = asked(zonotope=ZONOTOPE)
    (place,) = export(problem, 0.1, tmp_path / "q.vnnlib", tmp_path / "copy.onnx", version=2)
    assert place.zonotope == tmp_path / "copy_zonotope.onnx"
    z = RNG.uniform(-0.5, 0.5, (1, 2))
    found = points(place.zonotope.read_bytes(), z)
    np.testing.assert_allclose(found, ZONOTOPE.at(z), rtol=1e-14)


def test_version_1_names_the_conditions_that_it_lacks(tmp_path: Path) -> None:
    problem = asked(True, **KINDS["all"])
    message = "integer, one_hot, ordered, rows, zonotope, perturbed_inside.*--format 2"
    with pytest.raises(InvalidInput, match=message):
        export(problem, 0.1, tmp_path / "question.vnnlib")
    assert not list(tmp_path.iterdir())


def test_a_whole_number_of_many_values_is_refused(tmp_path: Path) -> None:
    domain = Domain((SIZE,), 0.0, 1e6, integer=[3], features=[*"abcdefg"])
    problem = Problem(network(), perturbation="linf(0.5)", source=0, domain=domain)
    with pytest.raises(InvalidInput, match="entry d is a whole number from 0 to 1000000"):
        export(problem, 0.1, tmp_path / "question.vnnlib", version=2)
    assert not list(tmp_path.iterdir())
