"""Decisions about signs, and what they leave of a region's corners and of its LP's columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array
from vhagar.relaxation.arrays import distinct
from vhagar.relaxation.layerwise import TwinBounds
from vhagar.relaxation.lp.lambda_model import LambdaModel
from vhagar.relaxation.twin_dual import Allowed

_NONE = np.zeros(0, dtype=np.int64)


# The layer of decisions about pixels.
PIXELS = -1


@dataclass(frozen=True, order=True)
class Decision:
    """A sign of one neuron in one copy: `positive` means that its pre-activation is at least 0.

    In layer `PIXELS` the decision is about a pixel, and `positive` means that the pixel is clipped.
    """

    layer: int
    neuron: int
    copy: int  # 0 for x, 1 for x_p; equal neurons use 0
    positive: bool

    @property
    def place(self) -> tuple[int, int, int]:
        return self.layer, self.neuron, self.copy


class DecisionCuts:
    """What decisions cut off in a region: corners of its hexagons, and columns of its LP."""

    def __init__(self, bounds: TwinBounds, model: LambdaModel) -> None:
        self._bounds = bounds
        self._model = model

    def allowed(self, decisions: tuple[Decision, ...]) -> Allowed | None:
        """The corners that the decisions leave; None if a neuron has none left."""
        layers: list[Array | None] = [None] * len(self._bounds.corners)
        pixels: Array | None = None
        for decision in decisions:
            if decision.layer == PIXELS and not len(self._sides):
                continue  # this part of the piece does not clip
            if decision.layer == PIXELS:
                pixels = (
                    np.zeros((len(self._sides), self._bounds.piece.domain.size))
                    if pixels is None
                    else pixels
                )
                mask, values = pixels, self._sides
            else:
                corners = self._bounds.corners[decision.layer]
                known = layers[decision.layer]
                mask = np.zeros(corners.s.shape) if known is None else known
                layers[decision.layer] = mask
                values = (corners.s if decision.copy == 0 else corners.t)[:, decision.neuron]
            mask[values < 0 if decision.positive else values > 0, decision.neuron] = -np.inf
            if np.isneginf(mask[:, decision.neuron]).all():
                return None
        return Allowed(tuple(layers), pixels)

    @cached_property
    def _sides(self) -> Array:
        """The side of the clip that each corner of a pixel lies on; empty without pixel corners."""
        corners = self._bounds.piece.pixel_corners()
        return np.zeros(0) if corners is None else corners.side.astype(np.float64)

    def switched_off(self, decisions: tuple[Decision, ...]) -> NDArray[np.int64]:
        """The lambda columns that the decisions fix at 0."""
        found = [self._cut_columns(decision) for decision in decisions]
        return distinct(np.concatenate(found)) if found else np.zeros(0, dtype=np.int64)

    def _cut_columns(self, decision: Decision) -> NDArray[np.int64]:
        if decision.layer == PIXELS:
            if self._model.inputs.pixels is None:
                return _NONE
            sides = self._sides[1:]  # the first corner has no column, and lies on both sides
            cut = sides < 0 if decision.positive else sides > 0
            return np.asarray(self._model.inputs.pixels[decision.neuron][cut])
        # A neuron that is stable in a smaller piece has no columns left to cut.
        columns = self._columns_of.get((decision.layer, decision.neuron), _NONE)
        weights = self._model.weights
        values = (weights.s if decision.copy == 0 else weights.t)[columns]
        return weights.column[columns[values < 0 if decision.positive else values > 0]]

    @cached_property
    def _columns_of(self) -> dict[tuple[int, int], NDArray[np.int64]]:
        weights = self._model.weights
        found: dict[tuple[int, int], list[int]] = {}
        for k, place in enumerate(
            zip(weights.layer.tolist(), weights.neuron.tolist(), strict=True)
        ):
            found.setdefault(place, []).append(k)
        return {place: np.array(columns) for place, columns in found.items()}
