"""What notebooks show of a result."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from vhagar import Network, Problem
from vhagar.network import Affine
from vhagar.perturbation import Domain
from vhagar.result import (
    BoundKind,
    Coverage,
    CoverageCounts,
    Interval,
    Result,
    Status,
    Witness,
)


def test_a_result_shows_interval_witness_and_history(
    make_result: Callable[..., Result], make_witness: Callable[..., Witness]
) -> None:
    html = make_result(16.7766, Status.TIMEOUT, make_witness())._repr_html_()
    assert "[16.21, 16.78]" in html
    assert "tiny (1x3x3 inputs, 0 hidden neurons, 4 classes); linf(0.1); class 2 to 3" in html
    assert "Counterexample at 16.21." in html
    assert html.count("data:image/png") == 3
    assert "the time was up" in html
    assert "<svg" in html


def test_without_a_witness_and_with_several_targets(make_result: Callable[..., Result]) -> None:
    targets = {k: Interval(0.0, float(k), BoundKind.TWIN) for k in (1, 3)}
    html = make_result(3.0, Status.EXHAUSTED, targets=targets, notes=("<b>odd</b>",))._repr_html_()
    assert "data:image" not in html
    assert html.index("to 3") < html.index("to 1")
    assert "&lt;b&gt;odd&lt;/b&gt;" in html


@pytest.mark.parametrize("shape", [(9,), (3, 3, 1), (1, 9)])
def test_inputs_that_are_no_image(
    make_result: Callable[..., Result],
    make_witness: Callable[..., Witness],
    shape: tuple[int, ...],
) -> None:
    x = np.linspace(0, 1, 9).reshape(shape)
    html = make_result(20.0, Status.TIMEOUT, make_witness(x=x, x_p=1 - x))._repr_html_()
    assert html.count("data:image/png") == 3


def test_nothing_proven(make_result: Callable[..., Result]) -> None:
    html = make_result(math.inf, Status.TIMEOUT)._repr_html_()
    assert "unknown" in html


def test_features_are_a_table_and_classes_have_names(
    make_result: Callable[..., Result], make_witness: Callable[..., Witness]
) -> None:
    classes = ("low", "middle", "high", "<top>")
    domain = Domain((3,), 0, 100, features=("age", "dose", "<ward>"), classes=classes)
    network = Network((Affine(np.eye(4, 3), np.zeros(4), (3,), (4,)),), (3,), "tiny")
    problem = Problem(network, perturbation="features([1],5)", source=2, domain=domain)
    witness = make_witness(x=[40.0, 2.5, 7.0], x_p=[40.0, 7.5, 7.0])
    targets = {k: Interval(0.0, 20.0, BoundKind.TWIN) for k in (0, 3)}
    counts = CoverageCounts(5, 3, 1)
    result = replace(
        make_result(20.0, Status.TIMEOUT, witness, problem=problem, targets=targets),
        coverage=Coverage(9, counts, None, 30.0, 0.1),
    )
    html = result._repr_html_()
    assert "data:image" not in html
    assert "<td><b>dose</b></td><td><b>2.5</b></td><td><b>7.5</b></td>" in html
    assert "<td><span>age</span></td><td><span>40</span></td><td><span>40</span></td>" in html
    assert "&lt;ward&gt;" in html
    assert "perturbed: classified &lt;top&gt;" in html
    assert "<td>to low</td>" in html
    assert "of 5 inputs classified high, 3 (60 %) are proven robust" in html
