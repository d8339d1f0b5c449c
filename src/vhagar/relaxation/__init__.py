"""Relaxations: sound bounds on what a network can compute."""

from vhagar.relaxation.interval import (
    Bounds,
    confidence_bounds,
    largest_confidence,
    layer_bounds,
    linear_bounds,
    network_bounds,
)

__all__ = [
    "Bounds",
    "confidence_bounds",
    "largest_confidence",
    "layer_bounds",
    "linear_bounds",
    "network_bounds",
]
