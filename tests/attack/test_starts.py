"""The hyper-input, and the starts beside it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from vhagar import Network, Problem
from vhagar.attack.model import TorchNetwork
from vhagar.attack.starts import checked_dataset, dimmed, grown, hyper_input, more_starts
from vhagar.errors import InvalidInput
from vhagar.network import confidence
from vhagar.runtime.deadline import Deadline, OutOfTime
from vhagar.runtime.devices import torch_device


def _model(problem: Problem) -> TorchNetwork:
    return TorchNetwork(problem.network, torch_device("cpu"), double=True)


def test_starts_end_when_there_is_no_time(corner: Problem) -> None:
    """Every step of theirs asks, because one of a large network takes a tenth of a second."""
    model, rng = _model(corner), np.random.default_rng(0)
    starts = rng.uniform(size=(40, 16))
    asked: list[int] = []

    def make() -> None:
        hyper_input(corner, model, np.zeros((3000, 16)), 10, rng, lambda: asked.append(0))
        more_starts(corner, model, starts, np.zeros((0, 16)), rng, lambda: asked.append(1))

    make()
    assert asked.count(0) > 4
    assert asked.count(1) == 3 * 20
    with pytest.raises(OutOfTime):
        hyper_input(corner, model, starts, 10, rng, Deadline(0.0).check)
    with pytest.raises(OutOfTime):
        more_starts(corner, model, starts, starts, rng, Deadline(0.0).check)
    with pytest.raises(OutOfTime):
        grown(corner, model, 3, rng, Deadline(0.0).check)


def test_confidences_in_uniform_steps(corner: Problem) -> None:
    dataset = np.random.default_rng(0).uniform(size=(60, 16))
    found = hyper_input(corner, _model(corner), dataset, 10, np.random.default_rng(1))
    random = np.random.default_rng(1).uniform(size=(60, 16))
    sure = confidence(corner.network.forward(np.concatenate([dataset, random])), 0)
    of_source = np.sort(sure[sure > 0])[::-1]
    step = len(of_source) // 10
    assert step > 1
    expected = of_source[: 10 * step : step]
    np.testing.assert_allclose(confidence(corner.network.forward(found), 0), expected, rtol=1e-9)


def test_the_most_confident_where_the_source_class_is_rare(corner: Problem) -> None:
    dark = np.random.default_rng(0).uniform(0, 0.1, size=(40, 16))
    found = hyper_input(corner, _model(corner), dark, 79, np.random.default_rng(2))
    sure = confidence(corner.network.forward(found), 0)
    assert len(found) == 79
    assert (np.diff(sure) <= 0).all()
    assert (sure > 0).sum() < 79


def test_without_a_dataset_starts_are_random(hidden: Network) -> None:
    problem = Problem(hidden, perturbation="linf(0.125)", source=0, targets=1)
    found = hyper_input(problem, _model(problem), np.zeros((0, 2)), 12, np.random.default_rng(0))
    assert found.shape == (12, 2)
    assert (confidence(hidden.forward(found), 0) > 0).all()


def test_more_starts_ascend_and_stay_inside(corner: Problem) -> None:
    starts = np.full((40, 16), 0.4)
    none = np.zeros((0, 16))
    found = more_starts(corner, _model(corner), starts, none, np.random.default_rng(0))
    assert found.shape == starts.shape
    assert ((found >= 0) & (found <= 1)).all()
    sure = confidence(corner.network.forward(found), 0)
    assert sure.max() > confidence(corner.network.forward(starts), 0).max() + 1
    assert (found == starts).all(axis=1).sum() >= 20  # the paper's starts stay the majority


def test_class_means_are_among_the_starts(corner: Problem) -> None:
    dataset = np.random.default_rng(5).uniform(size=(30, 16))
    own = dataset[confidence(corner.network.forward(dataset), 0) > 0]
    found = more_starts(
        corner, _model(corner), np.full((40, 16), 0.4), dataset, np.random.default_rng(0)
    )
    assert (abs(found - own.mean(axis=0)) < 1e-12).all(axis=1).any()


@pytest.mark.parametrize(
    ("dataset", "complaint"),
    [
        (np.zeros((3, 5)), "has shape"),
        (np.zeros(16), "has shape"),
        (np.full((3, 16), 255.0), "divided by 255"),
        (np.full((3, 16), np.nan), "input range"),
        ([["a"] * 16], "not an array of numbers"),
    ],
)
def test_datasets_that_do_not_fit_are_refused(
    corner: Problem, dataset: object, complaint: str
) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        checked_dataset(dataset, corner.domain)


def test_images_are_flattened(corner: Problem) -> None:
    assert checked_dataset(np.zeros((3, 1, 4, 4)), corner.domain).shape == (3, 16)


def test_grown_inputs_are_between_source_and_target(corner: Problem) -> None:
    found = grown(corner, _model(corner), 12, np.random.default_rng(0))
    noise = np.random.default_rng(0).uniform(size=(12, 16))

    def difference(inputs: NDArray[np.float64]) -> float:
        scores = corner.network.forward(inputs)
        return float(np.median(abs(scores[:, corner.source] - scores[:, corner.targets[0]])))

    assert difference(found) < difference(noise)


def test_every_other_start_is_dimmed(random_network: Network) -> None:
    problem = Problem(random_network, perturbation="linf(0.1)", source=1)
    starts = np.random.default_rng(0).uniform(size=(9, 40))
    found = dimmed(starts, problem.domain, np.random.default_rng(1))
    assert (found[1::2] == starts[1::2]).all()
    assert (found[::2] < starts[::2]).all()
    assert (found >= 0).all()
    factors = found[::2] / starts[::2]
    assert abs(factors - factors[:, :1]).max() < 1e-12
    assert len(np.unique(factors[:, 0])) == 5
