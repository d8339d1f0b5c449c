"""Sampling finds pairs where inputs have few entries; what it finds passes the witness check."""

from __future__ import annotations

import numpy as np
import pytest

from vhagar import Network, Problem
from vhagar.attack.sampling import Sampler, confidence_gradients
from vhagar.network import Affine, Relu
from vhagar.options import Options
from vhagar.result import Run, Witness


def thin(width: float) -> Network:
    """Class 1 wins only in a thin slab of the first entry, next to class 0."""
    weight = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    bias = np.array([-0.5, -0.5 - width, -0.5 - 2 * width])
    scores = np.array([[0.0, 0.0, 0.0], [1.0, -2.0, 0.0], [0.0, 0.0, 0.0]])
    layers = (
        Affine(weight, bias, (2,), (3,)),
        Relu((3,)),
        Affine(scores, np.array([0.0, -width / 4, -1.0]), (3,), (3,)),
    )
    return Network(layers, (2,))


@pytest.mark.parametrize("width", [0.1, 0.01])
def test_a_thin_region_is_found(width: float) -> None:
    problem = Problem(thin(width), perturbation="linf(0.05)", source=1, targets=0)
    sampler = Sampler(problem, 0, 0, seed=0)
    for _ in range(40):
        sampler.round()
    assert sampler.best is not None
    assert sampler.best.confidence > 0.9 * min(0.75 * width, 0.05)  # the largest there is


def test_what_is_found_is_a_witness() -> None:
    problem = Problem(thin(0.1), perturbation="linf(0.05)", source=1, targets=0)
    sampler = Sampler(problem, 0, 0, seed=1)
    while sampler.best is None:
        sampler.round()
    run = Run(problem, Options(workers=0))
    verdict = run.interval.offer_witness(0, sampler.best.x, 0, sampler.best.parameters)
    assert isinstance(verdict, Witness)
    assert verdict.confidence == pytest.approx(sampler.best.confidence)


def test_given_inputs_are_tried() -> None:
    problem = Problem(thin(1e-4), perturbation="linf(0.05)", source=1, targets=0)
    sampler = Sampler(problem, 0, 0, seed=2)
    sampler.round(np.array([[0.5001, 0.3]]))
    assert sampler.best is not None
    np.testing.assert_array_equal(sampler.best.x, [0.5001, 0.3])


def test_the_same_seed_samples_the_same() -> None:
    problem = Problem(thin(0.05), perturbation="linf(0.05)", source=1, targets=0)
    found = []
    for _ in range(2):
        sampler = Sampler(problem, 0, 0, seed=5)
        for _ in range(10):
            sampler.round()
        assert sampler.best is not None
        found.append(sampler.best.x)
    np.testing.assert_array_equal(*found)


def test_gradients_are_those_of_the_confidence() -> None:
    network = thin(0.2)
    x, step = np.array([[0.55, 0.2], [0.9, 0.1]]), 1e-6
    confidence, gradient = confidence_gradients(network, 1, x)
    moved, _ = confidence_gradients(network, 1, x + np.array([step, 0.0]))
    np.testing.assert_allclose((moved - confidence) / step, gradient[:, 0], atol=1e-4)
