"""How a model's output becomes the scores of classes.

Most models give one score per class. Some have several outputs, of which one holds the scores, and
some give a single score, which divides two classes at a threshold. The convention is part of the
network: of its layers, of the second opinion on its witnesses, of results and of certificates.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from vhagar.errors import InvalidInput
from vhagar.network.layers import AbstractLayer, AbstractLinear, Affine


def _logit(share: float) -> float:
    return math.log(share) - math.log1p(-share)


# The inverses of activations after which a threshold can be given, and their domains.
_INVERSES: dict[str, tuple[float, float, Callable[[float], float]]] = {
    "Sigmoid": (0.0, 1.0, _logit),
    "Tanh": (-1.0, 1.0, math.atanh),
}


@dataclass(frozen=True)
class Scores:
    """The scores of a model whose output is not simply one score per class.

    `output` names the value that holds the scores; None stands for the model's only output. With a
    `threshold`, the model has one score z and the classes' scores are `[0, z - threshold]`. With
    `argmin` the smallest output wins: the scores are the negated outputs.
    """

    output: str | None = None
    threshold: float | None = None
    argmin: bool = False

    def plain(self) -> dict[str, Any]:
        """Return the fields in JSON's own types; `argmin` only where it is true."""
        stated: dict[str, Any] = {"output": self.output, "threshold": self.threshold}
        return {**stated, "argmin": True} if self.argmin else stated


def score_threshold(given: float | None, dropped: tuple[str, ...]) -> float:
    """Convert a threshold on the model's output to one on its score.

    `dropped` are the activations between the score and the output, which are strictly increasing.
    """
    if given is None:
        return 0.0
    if not math.isfinite(given):
        raise InvalidInput(f"the threshold must be a finite number, not {given}")
    if not dropped:
        return float(given)
    if len(dropped) > 1 or dropped[0] not in _INVERSES:
        raise InvalidInput(
            f"a threshold cannot be given after {' and '.join(dropped)}: leave --threshold out "
            "(class 1 is a score above 0 before it), or choose the score with --output"
        )
    low, high, inverse = _INVERSES[dropped[0]]
    if not low < given < high:
        raise InvalidInput(
            f"the model ends with {dropped[0]}, so the threshold must be between {low:g} and "
            f"{high:g}, not {given}"
        )
    return float(inverse(given))


def negated(layers: tuple[AbstractLayer, ...]) -> tuple[AbstractLayer, ...]:
    """Return layers with negated scores, for models whose smallest output wins."""
    last, before = layers[-1], layers[:-1]
    if not isinstance(last, AbstractLinear):
        size = last.out_size
        last, before = Affine(np.eye(size), np.zeros(size), last.out_shape, (size,)), layers
    return (*before, last.mapped(np.negative))


def with_threshold(
    layers: tuple[AbstractLayer, ...], threshold: float
) -> tuple[AbstractLayer, ...]:
    """Return layers with the scores `[0, z - threshold]` instead of z.

    The last linear layer computes them: bounds through one layer are tighter than through two.
    """
    last, before = layers[-1], layers[:-1]
    if not isinstance(last, AbstractLinear):
        last, before = Affine(np.ones((1, 1)), np.zeros(1), last.out_shape, (1,)), layers
    row = last.matrix.toarray()
    weight = np.concatenate([np.zeros_like(row), row])
    bias = np.array([0.0, last.flat_bias[0] - threshold])
    return (*before, Affine(weight, bias, last.in_shape, (2,)))
