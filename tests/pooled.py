"""A small network with max pooling, and an occlusion that reaches few of its neurons."""

from __future__ import annotations

import torch
from torch import nn

import vhagar
from vhagar import Problem


def pooled_problem(seed: int = 0, perturbation: str = "occlusion(1,1,2)") -> Problem:
    """Of images of 8 x 8 pixels."""
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3, stride=1, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(2, 3, 2, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(12, 3),
    )
    network = vhagar.from_torch(model.eval(), input_shape=(1, 8, 8))
    return Problem(network, perturbation=perturbation, source=0, targets=1)
