"""Forged certificates whose numbers are at the ends of float64's range, consistent in all else."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from vhagar import Bab, Network, Problem, verify
from vhagar.network import Affine, Relu, onnx_bytes, read_onnx
from vhagar_check import Rejected, check
from vhagar_check.container import scan
from vhagar_check.statement import Statement
from vhagar_check.zonotope import Zonotope

from .editing import MULTIPLIERS, Certificate, Proof, Region


def _float32(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float32).astype(np.float64)


def one_layer(path: Path, weight: np.ndarray, bias: np.ndarray) -> Path:
    """A model in float64 without hidden layers."""
    classes, entries = weight.shape
    values = {"w": weight.T, "b": bias}
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w", "b"], ["scores"])],
        "one layer",
        [helper.make_tensor_value_info("x", TensorProto.DOUBLE, [1, entries])],
        [helper.make_tensor_value_info("scores", TensorProto.DOUBLE, [1, classes])],
        [numpy_helper.from_array(np.ascontiguousarray(v), k) for k, v in values.items()],
    )
    opset = [helper.make_opsetid("", 13)]
    onnx.save(helper.make_model(graph, opset_imports=opset), str(path))
    return path


def contrast_certificate(ends: tuple[float, float], upper: float) -> Certificate:
    """The claim about `contrast([1,1.09])` over all inputs, with the multipliers 1 and 1."""
    low, high = ends
    claim = {"lower": 0.0, "upper": upper}
    head = {
        "format": 1,
        "producer": "a forger",
        "model": {"name": "model.onnx", "sha256": None},
        "problem": {
            "perturbation": "contrast([1,1.09])",
            "clip": True,
            "clipped_pixels": None,
            "domain": {"lower": [low], "upper": [high]},
            "source": 0,
            "targets": [1],
            "input_range": [low, high],
            "input_shape": [1],
        },
        "claims": {**claim, "targets": {"1": claim}},
        "witnesses": [],
        "trees": [{"target": 1, "piece": 0}],
        "nodes": 1,
    }
    region = Region({"piece": 0, "span": [1.0, 1.09], "layers": [], "refined": []}, b"")
    region.proofs = [(0, [Proof(0, MULTIPLIERS, np.array([1.0, 1.0]))])]
    return Certificate(head, regions=[region])


@pytest.mark.parametrize(("size", "words"), [(1e200, "is not proved"), (1.5e308, "range")])
def test_a_clip_in_the_widest_ranges(size: float, words: str, tmp_path: Path) -> None:
    """A contrast of 1.09 takes the lead from 1.8e7 to 0; it changes it by 2.5e7 at most.

    In a range that is wider than the largest float, the point where the clip begins is unknown.
    """
    weight = np.array([[-1.5e8 / size], [0.0]])
    model = one_layer(tmp_path / "model.onnx", weight, np.array([7.5e7, 0.0]))
    ends = -size, size
    with pytest.raises(Rejected, match=words):
        check(contrast_certificate(ends, 1e6).write(tmp_path / "forged.cert"), model=model)
    if words != "range":
        path = contrast_certificate(ends, 2.6e7).write(tmp_path / "true.cert")
        assert check(path, model=model).upper == 2.6e7


@pytest.mark.slow
def test_where_float64_knows_nothing_rationals_decide(tmp_path: Path) -> None:
    """What may underflow in eight layers is multiplied by 1e296 in the next ones."""
    layers: list[Any] = []
    shape: tuple[int, ...] = (1, 1, 2)
    for size in (*[1e-37] * 8, *[1e37] * 8):
        weight = np.array([[0.75, 0.5]] if len(layers) == 0 else [[1.0]]) * size
        layers += [Affine(_float32(weight), np.zeros(1), shape, (1,)), Relu((1,))]
        shape = (1,)
    last = Affine(np.array([[3.0], [1.0]]), np.array([0.0, 1.0]), shape, (2,))
    model = tmp_path / "model.onnx"
    model.write_bytes(onnx_bytes(Network((*layers, last), (1, 1, 2))))
    problem = Problem(read_onnx(model), perturbation="linf(0.125)", source=0)
    path = tmp_path / "proof.cert"
    result = verify(problem, engine=Bab(attack=False), workers=0, timeout=2, certificate=path)
    assert not result.notes
    with np.errstate(all="ignore"):
        statement = Statement(path, model, scan(path))
        assert statement.ceiling() > 1e12
    assert statement.ceiling(exact=True) < 2
    assert check(path, model=model).upper == result.upper < 2


def test_a_zonotope_that_is_smaller_than_any_number() -> None:
    """What a range times its component loses to underflow is multiplied by a huge coefficient."""
    rng = np.random.default_rng(3)
    for _ in range(40):
        components = rng.uniform(0.5, 1.0, (1, 5)) * 2.0**-600
        own = Zonotope(np.zeros(5), components, np.array([2.0**-600]), np.zeros(5))
        s = rng.normal(size=5) * 2.0**900
        exact = own.exact_support([Fraction(float(v)) for v in s])
        assert Fraction(float(own.support(s[None])[0])) >= exact > 0
