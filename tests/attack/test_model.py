"""The network in torch computes what the network computes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from vhagar import Network
from vhagar.attack import model as attack_model
from vhagar.attack.model import TorchNetwork, torch_confidence
from vhagar.network import Affine, Relu, SparseAffine, confidence
from vhagar.runtime.devices import torch_device


@pytest.mark.parametrize(("double", "close"), [(False, 1e-4), (True, 1e-12)])
def test_scores(random_network: Network, double: bool, close: float) -> None:
    x = np.random.default_rng(0).uniform(size=(9, random_network.input_size))
    model = TorchNetwork(random_network, torch_device("cpu"), double)
    tensor = model.tensor(x)
    assert tensor.dtype is (torch.float64 if double else torch.float32)
    scores = random_network.forward(x)
    np.testing.assert_allclose(model.scores(tensor), scores, rtol=0, atol=close)


def test_confidences() -> None:
    scores = np.random.default_rng(1).normal(size=(6, 4))
    for label in range(4):
        found = torch_confidence(torch.tensor(scores), torch.full((6,), label))
        np.testing.assert_allclose(found, confidence(scores, label), rtol=1e-12)


@pytest.mark.parametrize("largest_dense", [0, 2**20])
def test_sparse_layers_and_linear_units(
    monkeypatch: pytest.MonkeyPatch, largest_dense: int
) -> None:
    monkeypatch.setattr(attack_model, "_LARGEST_DENSE", largest_dense)
    rng = np.random.default_rng(2)
    first = SparseAffine(rng.normal(size=(4, 3)), rng.normal(size=4), (3,), (4,))
    linear = np.array([False, True, False, True])
    last = SparseAffine(rng.normal(size=(3, 4)), rng.normal(size=3), (4,), (3,))
    network = Network((first, Relu((4,), linear), last), (3,))
    model = TorchNetwork(network, torch_device("cpu"), double=True)
    x = rng.uniform(-1, 1, size=(9, 3))
    tensor = model.tensor(x).requires_grad_()
    scores = model.scores(tensor)
    np.testing.assert_allclose(scores.detach(), network.forward(x), atol=1e-12)
    (gradient,) = torch.autograd.grad(scores[:, 0].sum(), tensor)
    step = 1e-6 * rng.normal(size=x.shape)
    change = network.forward(x + step)[:, 0] - network.forward(x)[:, 0]
    np.testing.assert_allclose((gradient.numpy() * step).sum(axis=1), change, atol=1e-9)


def test_leaky_scores_have_a_gradient_where_all_neurons_are_off() -> None:
    hidden = Affine(np.array([[1.0, 2.0]]), np.array([-9.0]), (2,), (1,))
    scores = Affine(np.array([[3.0], [0.0]]), np.zeros(2), (1,), (2,))
    model = TorchNetwork(
        Network((hidden, Relu((1,)), scores), (2,)), torch_device("cpu"), double=True
    )
    x = model.tensor(np.full((1, 2), 0.5)).requires_grad_(True)
    (none,) = torch.autograd.grad(model.scores(x)[0, 0], x)
    assert not none.any()
    (gradient,) = torch.autograd.grad(model.leaky_scores(x, 0.1)[0, 0], x)
    np.testing.assert_allclose(gradient.numpy(), [[0.3, 0.6]])
    assert torch.equal(model.leaky_scores(x, 0.0), model.scores(x))


def test_smooth_scores_are_the_scores_of_softplus() -> None:
    rng = np.random.default_rng(3)
    linear = np.array([False, True, False, True])
    first = Affine(rng.normal(size=(4, 3)), rng.normal(size=4), (3,), (4,))
    last = Affine(rng.normal(size=(2, 4)), rng.normal(size=2), (4,), (2,))
    network = Network((first, Relu((4,), linear), last), (3,))
    model = TorchNetwork(network, torch_device("cpu"), double=True)
    x = rng.uniform(-1, 1, size=(5, 3))
    widths = np.array([[0.0], [1e-3], [0.1], [1.0], [30.0]])
    before = first.forward(x)
    width = np.maximum(widths * before.std(), 1e-30)
    after = np.where(linear, before, width * np.logaddexp(0.0, before / width))
    found = model.smooth_scores(model.tensor(x), model.tensor(widths)).numpy()
    np.testing.assert_allclose(found, last.forward(after), atol=1e-12)
    np.testing.assert_allclose(found[0], network.forward(x)[0], atol=1e-12)


def test_smooth_scores_of_a_single_value_are_finite() -> None:
    network = Network(
        (
            Affine(np.eye(1), np.zeros(1), (1,), (1,)),
            Relu((1,)),
            Affine(np.array([[1.0], [0.0]]), np.zeros(2), (1,), (2,)),
        ),
        (1,),
    )
    model = TorchNetwork(network, torch_device("cpu"))
    x = model.tensor([[0.5]]).requires_grad_(True)
    scores = model.smooth_scores(x, model.tensor([[0.5]]))
    (gradient,) = torch.autograd.grad(scores.sum(), x)
    assert torch.isfinite(gradient).all()
    np.testing.assert_allclose(scores.detach().numpy(), [[0.5, 0.0]], atol=1e-6)
