"""The intervals that certified training minimises hold all images of a ball."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch
from torch import nn

from .loading import example_named


@pytest.fixture(scope="module")
def intervals() -> ModuleType:
    return example_named("interval_training")


def test_no_image_of_a_ball_is_worse(intervals: ModuleType) -> None:
    torch.manual_seed(0)
    features = (nn.Conv2d(1, 3, 3, stride=2), nn.ReLU(), nn.Flatten())
    model = nn.Sequential(*features, nn.Linear(27, 5), nn.ReLU(), nn.Linear(5, 4)).double()
    pixels, labels = torch.rand(6, 1, 8, 8).double(), torch.tensor([0, 1, 2, 3, 0, 1])
    worst = intervals.worst_scores(model, pixels, labels, 0.1)
    assert (worst.gather(1, labels[:, None]).abs() < 1e-12).all()
    for _ in range(200):
        moved = (pixels + 0.1 * (2 * torch.rand_like(pixels) - 1).sign()).clamp(0, 1)
        scores = model(moved)
        assert (scores - scores.gather(1, labels[:, None]) <= worst + 1e-9).all()
    exact = intervals.worst_scores(model, pixels, labels, 0.0)
    scores = model(pixels)
    assert torch.allclose(exact, scores - scores.gather(1, labels[:, None]))


def test_what_has_no_intervals_is_refused(intervals: ModuleType) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Tanh(), nn.Linear(4, 2))
    with pytest.raises(TypeError, match="Tanh"):
        intervals.worst_scores(model, torch.rand(1, 4), torch.tensor([0]), 0.1)
    with pytest.raises(TypeError, match="last layer"):
        intervals.worst_scores(model[:2], torch.rand(1, 4), torch.tensor([0]), 0.1)
