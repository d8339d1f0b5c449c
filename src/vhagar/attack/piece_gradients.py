"""Gradients through a piece of a perturbation, in numpy: `attack/images.py` without torch."""

from __future__ import annotations

import numpy as np

from vhagar.array_types import Array
from vhagar.network.layers import rows_times
from vhagar.perturbation.formula import Formula
from vhagar.problem import Problem


class PieceGradients:
    """The images of inputs and parameters, and what gradients at the images mean for both.

    Where a piece has no formula, gradients pass as if the image moved along with the input, and the
    parameters stay as they are.
    """

    def __init__(self, problem: Problem, piece_index: int) -> None:
        self._piece = piece = problem.pieces[piece_index]
        # Where the network clips a map, it is not clipped here.
        self._formula = piece.formula if piece.map is None else Formula(piece.map)
        self._low, self._high = piece.parameter_bounds

    def apply(self, x: Array, parameters: Array) -> Array:
        return self._piece.apply(x, parameters)

    def start(self, x: Array, rng: np.random.Generator) -> Array:
        """Random parameters."""
        shares = rng.uniform(size=(len(x), len(self._low)))
        return self._projected(x, self._low + shares * (self._high - self._low))

    def moved(self, x: Array, parameters: Array, steps: Array) -> Array:
        """Parameters after steps in units of their ranges."""
        return self._projected(x, parameters + steps * (self._high - self._low))

    def _projected(self, x: Array, parameters: Array) -> Array:
        free, domain, formula = self._piece.free_pixels, self._piece.domain, self._formula
        if free is not None and formula is not None and not formula.product:
            # A pixel pushed beyond the domain would not feel a gradient that leads it back.
            moving = self._unmoved(formula, x)[:, free]
            parameters = np.clip(moving + parameters, domain.lower, domain.upper) - moving
        return np.clip(parameters, self._low, self._high)

    def pull(self, x: Array, parameters: Array, gradients: Array) -> tuple[Array, Array]:
        """Gradients at the images as gradients of inputs and parameters."""
        formula, domain = self._formula, self._piece.domain
        if formula is None:
            return gradients, np.zeros_like(parameters)
        if formula.product:
            raw = domain.lower + parameters * (x - domain.lower)
        else:
            raw = self._unmoved(formula, x) + rows_times(parameters, formula.map.directions.T)
        if formula.clip:
            gradients = np.where((raw >= domain.lower) & (raw <= domain.upper), gradients, 0.0)
        if formula.product:
            by_factor = (gradients * (x - domain.lower)).sum(axis=1, keepdims=True)
            return parameters * gradients, by_factor
        by_x = rows_times(gradients, formula.map.matrix)
        return by_x, rows_times(gradients, formula.map.directions)

    @staticmethod
    def _unmoved(formula: Formula, x: Array) -> Array:
        """The image before parameters move it."""
        return rows_times(x, formula.map.matrix.T) + formula.map.offset
