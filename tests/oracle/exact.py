"""The judge of all engines: the exact optimum of tiny problems, in rational arithmetic.

    delta* = max of min_j (D_source(x) - D_j(x))   over x in the input range, the perturbation's
             parameters, and t in the targets,     with min_j (D_t(x_p) - D_j(x_p)) >= 0

and 0 where nothing feasible has a positive confidence.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from vhagar import Contrast, Network, Problem
from vhagar.network import AbstractLinear, Convolution

from .definitions import Image, images, stretched
from .rational import RationalModel, Value

# How finely a range of contrasts is looked at: factors for the lower end, sub-ranges for the upper.
_CONTRAST_FACTORS = 5
_CONTRAST_PARTS = 6


@dataclass(frozen=True)
class Truth:
    """`low <= delta* <= high`, in rational numbers; equal but for ranges of contrasts."""

    low: Fraction
    high: Fraction

    @property
    def exact(self) -> bool:
        return self.low == self.high


def exact_optimum(problem: Problem) -> dict[int | None, Truth]:
    """The optimum for every target by itself (for None: the largest confidence)."""
    return {goal: _goal_optimum(problem, goal) for goal in problem.goals}


def overall(truths: dict[int | None, Truth]) -> Truth:
    """delta*: the largest over the targets."""
    return Truth(max(t.low for t in truths.values()), max(t.high for t in truths.values()))


def _goal_optimum(problem: Problem, goal: int | None) -> Truth:
    perturbation = problem.perturbation
    if perturbation is None:
        return _exactly(_best(problem, goal, [None]))
    if isinstance(perturbation, Contrast) and perturbation.span[0] < perturbation.span[1]:
        low, high = (Fraction(end) for end in perturbation.span)
        factors = _steps(low, high, _CONTRAST_FACTORS - 1)
        ends = _steps(low, high, _CONTRAST_PARTS)
        singles = [(factor, factor) for factor in factors]
        parts = list(zip(ends[:-1], ends[1:], strict=True))
        attained, bound = (
            _best(problem, goal, [stretched(s, problem.domain, problem.clip) for s in spans])
            for spans in (singles, parts)
        )
        return Truth(attained, bound)
    found = images(perturbation, problem.domain, problem.clip)
    return _exactly(_best(problem, goal, found))


def _exactly(value: Fraction) -> Truth:
    return Truth(value, value)


def _steps(low: Fraction, high: Fraction, count: int) -> list[Fraction]:
    return [low + (high - low) * k / count for k in range(count + 1)]


def _best(problem: Problem, goal: int | None, found: Iterable[Image | None]) -> Fraction:
    """The largest optimum over several transformations; 0 without any."""
    best = Fraction(0)
    for image in found:
        best = max(best, _optimum(problem, goal, image, best))
    return best


def _optimum(problem: Problem, goal: int | None, image: Image | None, beyond: Fraction) -> Fraction:
    """The optimum of one transformation, or `beyond` where it is smaller."""
    model = RationalModel()
    low, high = Fraction(problem.domain.lower), Fraction(problem.domain.upper)
    x = [model.variable(low, high) for _ in range(problem.domain.size)]
    sure = _confidence(model, exact_forward(model, problem.network, x), problem.source)
    if image is not None and goal is not None:
        x_p = image(model, x)
        model.require(_confidence(model, exact_forward(model, problem.network, x_p), goal))
    model.require(sure, beyond)
    found = model.maximum(sure)
    return beyond if found is None else found


def _confidence(model: RationalModel, scores: list[Value], label: int) -> Value:
    others = [score for k, score in enumerate(scores) if k != label]
    gaps = [model.difference(scores[label], other) for other in others]
    least = model.variable(min(gap.low for gap in gaps), min(gap.high for gap in gaps))
    for gap in gaps:
        model.require(gap, least)
    return least


def exact_forward(model: RationalModel, network: Network, x: list[Value]) -> list[Value]:
    """The scores of symbolic pixels."""
    values, zero = x, model.constant(Fraction(0))
    for layer in network.layers:
        if isinstance(layer, AbstractLinear):
            weights, bias = _exact_weights(layer)
            values = [
                model.combination(row, values, constant)
                for row, constant in zip(weights, bias, strict=True)
            ]
        else:
            values = [model.larger(value, zero) for value in values]
    return values


def rational_forward(network: Network, x: np.ndarray) -> np.ndarray:
    """The scores of one input of rational numbers: no z3, no float, nothing shared."""
    values = np.asarray(x, dtype=object).reshape(-1)
    for layer in network.layers:
        if isinstance(layer, AbstractLinear):
            weights, bias = _exact_weights(layer)
            values = weights @ values + bias
        else:
            values = np.maximum(values, Fraction(0))
    return values


def rational_confidence(network: Network, x: np.ndarray, label: int) -> Fraction:
    """The exact confidence in a class at one input of rational numbers."""
    scores = rational_forward(network, x)
    return scores[label] - max(np.delete(scores, label))


def _exact_weights(layer: AbstractLinear) -> tuple[np.ndarray, np.ndarray]:
    """`(out, in)` weights and `(out,)` bias. A convolution shows its weights on single pixels."""
    if isinstance(layer, Convolution):
        pixels = np.eye(layer.in_size).reshape(-1, *layer.in_shape)
        weights = layer.correlate(pixels).reshape(layer.in_size, layer.out_size).T
    else:
        weights = layer.weight
    return rationals(weights), rationals(layer.flat_bias)


def rationals(values: np.ndarray) -> np.ndarray:
    """Floats as the rational numbers they are."""
    flat = [Fraction(float(value)) for value in np.asarray(values).reshape(-1)]
    return np.array(flat, dtype=object).reshape(np.shape(values))
