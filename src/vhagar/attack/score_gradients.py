"""Scores of a batch and gradients of them, in numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vhagar.array_types import Array, Index
from vhagar.network import AbstractLinear, Network, Relu


def scores_and_pull(
    network: Network, x: Array, leak: float = 0.0
) -> tuple[Array, Callable[[Array], Array]]:
    """The scores of a batch, and what pulls gradients at the scores back to the input.

    ReLUs multiply negative values by `leak`.
    """
    values, passed = x, []
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite leads nowhere
        for layer in network.layers:
            if isinstance(layer, Relu):
                on = values > 0 if layer.linear is None else (values > 0) | layer.linear
                passed.append(np.where(on, 1.0, leak))
                values = values * passed[-1]
            else:
                values = layer.forward(values)

    def pull(gradients: Array) -> Array:
        factors = iter(reversed(passed))
        with np.errstate(over="ignore", invalid="ignore"):
            for layer in reversed(network.layers):
                if isinstance(layer, AbstractLinear):
                    gradients = layer.pull(gradients)
                elif isinstance(layer, Relu):
                    gradients = gradients * next(factors)
        return gradients

    return values, pull


def leads(scores: Array, labels: Index) -> tuple[Array, Array]:
    """The confidence of each row in its own label, and the gradient `(batch, classes)` of it."""
    every = np.arange(len(scores))
    others = scores.copy()
    others[every, labels] = -np.inf
    rival = others.argmax(axis=1)
    gradients = np.zeros_like(scores)
    gradients[every, labels] = 1.0
    gradients[every, rival] = -1.0
    with np.errstate(invalid="ignore"):  # scores beyond float64 have no difference: NaN
        return scores[every, labels] - scores[every, rival], gradients


def joint_gradients(scores: Array, first: Index, second: Index) -> Array:
    """The gradient of the lesser of two classes' lead over all others; both may be the same."""
    every = np.arange(len(scores))
    swap = scores[every, second] < scores[every, first]
    lesser, larger = np.where(swap, second, first), np.where(swap, first, second)
    others = scores.copy()
    others[every, first] = others[every, second] = -np.inf
    # With two classes in all there are no others: then the two scores are driven together.
    alone = np.isneginf(others).all(axis=1)
    rival = np.where(alone, larger, others.argmax(axis=1))
    gradients = np.zeros_like(scores)
    gradients[every, lesser] += 1.0
    gradients[every, rival] -= 1.0
    return gradients
