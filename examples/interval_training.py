"""Certified training: the scores that interval arithmetic allows in a ball around each image.

A network that is trained on its worst scores has intervals that stay narrow, and is therefore also
easier to verify by better bounds.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


def worst_scores(model: nn.Module, pixels: Tensor, labels: Tensor, radius: float) -> Tensor:
    """Bounds on how far each score can exceed that of the image's class, which itself has 0."""
    low, high = (pixels - radius).clamp(min=0), (pixels + radius).clamp(max=1)
    layers = list(model.children())
    for layer in layers[:-1]:
        low, high = _through(layer, low, high)
    last = layers[-1]
    if not isinstance(last, nn.Linear):
        raise TypeError("certified training needs a fully connected last layer")
    # Differences to the score of the class, in one step: the layer's intervals would be wider.
    weight = last.weight[None] - last.weight[labels][:, None]
    offset = last.bias[None] - last.bias[labels][:, None]
    centre, reach = (low + high) / 2, (high - low) / 2
    return (weight @ centre[..., None] + weight.abs() @ reach[..., None])[..., 0] + offset


def certified_share(model: nn.Module, pixels: Tensor, labels: Tensor, radius: float) -> float:
    """The share of the images whose class interval arithmetic proves to be kept in the ball."""
    with torch.no_grad():
        worst = worst_scores(model, pixels, labels, radius)
    others = worst.scatter(1, labels[:, None], -torch.inf)
    return float((others.amax(dim=1) < 0).double().mean())


def _through(layer: nn.Module, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """The interval of a layer's outputs."""
    if isinstance(layer, nn.ReLU | nn.Flatten):
        return layer(low), layer(high)
    centre, reach = (low + high) / 2, (high - low) / 2
    if isinstance(layer, nn.Linear):
        middle, spread = layer(centre), functional.linear(reach, layer.weight.abs())
    elif isinstance(layer, nn.Conv2d):
        middle = layer(centre)
        spread = functional.conv2d(reach, layer.weight.abs(), stride=layer.stride)
    else:
        raise TypeError(f"no interval arithmetic for {type(layer).__name__}")
    return middle - spread, middle + spread
