"""The network in torch computes what the network computes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from vhagar import Network
from vhagar.attack.model import TorchNetwork, leads
from vhagar.device import torch_device
from vhagar.network import confidence


@pytest.mark.parametrize(("double", "close"), [(False, 1e-4), (True, 1e-12)])
def test_scores_and_preactivations(random_network: Network, double: bool, close: float) -> None:
    x = np.random.default_rng(0).uniform(size=(9, random_network.input_size))
    model = TorchNetwork(random_network, torch_device("cpu"), double)
    tensor = model.tensor(x)
    entering, scores = random_network.preactivations(x)
    assert tensor.dtype is (torch.float64 if double else torch.float32)
    np.testing.assert_allclose(model.scores(tensor), scores, rtol=0, atol=close)
    found = model.preactivations(tensor)
    assert len(found) == len(entering)
    for theirs, ours in zip(found, entering, strict=True):
        np.testing.assert_allclose(theirs, ours, rtol=0, atol=close)


def test_leads_are_confidences() -> None:
    scores = np.random.default_rng(1).normal(size=(6, 4))
    for label in range(4):
        found = leads(torch.tensor(scores), torch.full((6,), label))
        np.testing.assert_allclose(found, confidence(scores, label), rtol=1e-12)
