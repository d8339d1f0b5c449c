"""The image turns by any angle of a range: one piece, which splits into narrower ones.

With u the distance from black, the image of u is `W u`, where the weights W depend on the angle. A
turn over a short arc is nearly a mixture of the turns at its two ends (see `arcs`), and a maximum
over mixtures is at an end. What is left, W's distance from the mixture, is bounded weight by
weight.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vhagar.perturbation.affine import AffinePiece
from vhagar.perturbation.base import Expression, Support, SupportCorners, TorchApply
from vhagar.perturbation.domain import Array, Domain
from vhagar.perturbation.interpolation import offsets, rotation_matrix
from vhagar.perturbation.recover_angle import best_angle, explaining_angle, radius
from vhagar.perturbation.rotation_torch import torch_rotation
from vhagar.perturbation.rotation_weights import Arc, arc_between
from vhagar.perturbation.scalar import AbstractScalarPiece
from vhagar.solver.linear_model import Columns, LinearModel

# The support is bounded arc by arc; the outermost pixel moves by about this many pixels on each.
_ARC = 0.125
# Most arcs of one piece.
_MOST_ARCS = 8
# Widening of rows relative to the largest input, which exceeds their rounding errors.
_ROW_ROOM = 1e-12
# Further widening of rows relative to the change of the weights, and the smallest change of a
# weight for which rows contain the angle.
_ROW_LOOSENESS, _SMALLEST_STEP = 0.01, 0.01
# Narrowest column for a solver, relative to the input range.
_COLUMN_ROOM = 1e-6


def turn_by(domain: Domain, label: str, angle: float) -> AffinePiece:
    """The piece of one angle."""
    return AffinePiece(domain, label, _matrix(domain.image, angle), (("angle", angle),))


# A witness is applied, searched for and applied again, at the same angle.
_matrix = lru_cache(maxsize=32)(rotation_matrix)


@dataclass(frozen=True, eq=False)
class RotationPiece(AbstractScalarPiece):
    """The image turns by one angle in `span`, in degrees. At a single angle everything is exact."""

    @property
    def spread(self) -> float:  # type: ignore[override]
        return (self.span[1] - self.span[0]) / 360.0

    def middle(self) -> RotationPiece:
        angle = self.span[0] + (self.span[1] - self.span[0]) / 2
        return replace(self, span=(angle, angle))

    @property
    def exact_support(self) -> bool:  # type: ignore[override]
        return self.fixed

    @property
    def exact_rows(self) -> bool:  # type: ignore[override]
        return self.fixed

    @property
    def convex(self) -> bool:  # type: ignore[override]
        return self.fixed

    @property
    def exact_apply(self) -> bool:  # type: ignore[override]
        return self.fixed and self._alone.exact_apply

    @cached_property
    def _alone(self) -> AffinePiece:
        """The piece of the only angle; asked for where the angle is fixed."""
        return turn_by(self.domain, self.label, self.span[0])

    @cached_property
    def _whole(self) -> Arc:
        return arc_between(self.domain.image[1:], *self.span)

    @cached_property
    def _envelopes(self) -> list[tuple[float, Array, sparse.csr_array]]:
        """For both ends of every arc: the angle, what is capped, and the weights' bounds.

        The bounds `(pixels, 2 pixels)` of a plane map the positive and the negative parts of
        coefficients on the image to the largest coefficients on `u`.
        """
        turn = math.radians(self.span[1] - self.span[0])
        count = min(max(math.ceil(radius(self.domain) * turn / _ARC), 1), _MOST_ARCS)
        knots = np.linspace(*self.span, count + 1).tolist()
        found = []
        for begin, end in itertools.pairwise(knots):
            arc = arc_between(self.domain.image[1:], begin, end)
            for angle, weights in ((begin, arc.first), (end, arc.last)):
                sides = [(weights + arc.high).T, -(weights + arc.low).T]
                both = sparse.csr_array(sparse.hstack(sides, format="csr"))
                found.append((angle, arc.capped.astype(np.float64), both))
        return found

    def _planes(self, matrix: sparse.csr_array) -> sparse.csr_array:
        """All channels alike."""
        return sparse.csr_array(sparse.block_diag([matrix] * self.domain.image[0], format="csr"))

    def _tile(self, plane: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return np.tile(plane, self.domain.image[0])

    def split(self) -> tuple[RotationPiece, ...]:
        if self.fixed:
            return ()
        # Angles are floats: between two neighbours there is nothing, and each is exact by itself.
        return super().split() or tuple(replace(self, span=(angle, angle)) for angle in self.span)

    def apply(self, x: Array, parameters: Array) -> Array:
        if self.fixed:
            return self._alone.apply(x, parameters)
        angles = np.broadcast_to(np.clip(parameters[:, 0], *self.span), len(x))
        x_p = np.empty_like(x)
        for angle in np.unique(angles).tolist():
            turn = turn_by(self.domain, self.label, angle)
            x_p[angles == angle] = turn.apply(x[angles == angle], np.zeros((1, 0)))
        return x_p

    def torch_apply(self) -> TorchApply:
        return torch_rotation(self.domain, self.span)

    def image_bounds(self) -> tuple[Array, Array]:
        if self.fixed:
            return self._alone.image_bounds()
        black, white = self.domain.lower, self.domain.upper
        # Interpolation weights sum to one up to rounding.
        margin = 1e-12 * self.domain.magnitude
        high = np.where(self._tile(self._whole.black), black, white)
        return np.full(self.domain.size, black - margin), high + margin

    def changes(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        if self.fixed:
            return self._alone.changes()
        moves = self._tile(np.hypot(*offsets(*self.domain.image[1:])) > 0)
        return moves & ~self._tile(self._whole.black), moves

    def recover(self, x: Array, x_p: Array) -> Array:
        if self.fixed:
            return np.array([self.span[0]])
        return np.array([best_angle(self.domain, self.span, x, x_p)])

    def _explanations(self, x: Array, x_p: Array) -> tuple[Array, Array]:
        """Every pixel is asked about one angle: one that explains them all, if there is any."""
        # A step to the next float moves the source of a pixel a little.
        step = 4.0 * 2.0**-52 * math.radians(360.0) * radius(self.domain)
        slack = self.slack + step * self.domain.width
        found = [
            explaining_angle(self.domain, self.span, *pair, slack)
            for pair in zip(x, x_p, strict=True)
        ]
        angles = np.array([[self.span[0] if angle is None else angle] for angle in found])
        close = abs(self.apply(x, angles) - x_p) <= 2 * slack
        return np.where(close, angles, np.inf), np.where(close, angles, -np.inf)

    def describe(self, parameters: Array) -> dict[str, object]:
        return {"angle": float(parameters[0])}

    def support_corners(self) -> SupportCorners | None:
        return None

    def _support(self, a: Array, b: Array) -> Support:
        if self.fixed:
            found = self._alone._support(a, b)
            return Support(found.value, found.x, np.full((len(a), 1), self.span[0]))
        channels, height, width = self.domain.image
        planes = b.reshape(-1, height * width).T  # the channels are turned alike
        parts = np.concatenate([np.maximum(planes, 0), np.maximum(-planes, 0)])
        best = np.full(len(a), -np.inf)
        x, angles = np.full_like(a, self.domain.lower), np.full((len(a), 1), self.span[0])
        for angle, capped, bounds in self._envelopes:
            joint = a + (bounds @ parts).T.reshape(a.shape)
            white = (capped @ parts[: len(planes)]).reshape(-1, channels).sum(axis=1)
            value = np.maximum(joint, 0.0).sum(axis=1) + white
            better = value > best
            x[better] = np.where(joint[better] > 0, self.domain.upper, self.domain.lower)
            angles[better] = angle
            best = np.maximum(best, value)
        value = self.domain.lower * (a + b).sum(axis=1) + self.domain.width * best
        return Support(value + self._sum_rounding(a, b), x, angles)

    def _sum_rounding(self, a: Array, b: Array) -> Array:
        """More than what rounding does to the sums above.

        Each addition errs by half an ulp of the sum of absolute values, and so does each weight.
        """
        on_a, on_b = abs(a).sum(axis=1), abs(b).sum(axis=1)
        reach = self.domain.width * (on_a + (1 + self._largest_sum) * on_b)
        reach = reach + abs(self.domain.lower) * (on_a + on_b)
        rounding: Array = 2.0**-52 * (2 * self.domain.size + 64) * reach
        return rounding

    @cached_property
    def _largest_sum(self) -> float:
        """The largest sum of absolute bounds on the weights of one pixel."""
        return max(float(abs(both).sum(axis=0).max()) for _, _, both in self._envelopes)

    def add_rows(self, model: LinearModel, x: Columns) -> Columns:
        if self.fixed:
            return self._alone.add_rows(model, x)
        black, white, width = self.domain.lower, self.domain.upper, self.domain.width
        room = _ROW_ROOM * self.domain.magnitude
        x_p = model.add_columns(*self.image_bounds())
        arc, mixture = self._whole, []
        step = sparse.csr_array(arc.last - arc.first)
        # Rows must not pin s down, or a solver takes its own rounding for a contradiction.
        loose = _ROW_LOOSENESS * abs(step)
        low, high = arc.first + arc.low - loose, arc.first + arc.high + loose
        if abs(step).max() < _SMALLEST_STEP:
            low, high = low + step.minimum(0), high + step.maximum(0)
        else:
            s = model.add_columns(0.0, 1.0)
            # s u, or anything in its convex hull.
            share = model.add_columns(np.zeros(len(x)), width + room)
            spread: Array = np.full((len(x), 1), width)
            model.add_rows([(share, 1.0), (s, -spread)], -np.inf, room)
            model.add_rows([(share, 1.0), (x, -1.0)], -np.inf, room - black)
            model.add_rows([(x, 1.0), (share, -1.0), (s, spread)], -np.inf, white + room)
            mixture = [(share, -self._planes(step))]
        above = np.where(self._tile(arc.capped), np.inf, room)
        for bound, sides in ((low, (-room, np.inf)), (high, (-np.inf, above))):
            weights = self._planes(bound)
            dark = black - weights @ np.full(len(x), black)
            blocks = [(x_p, 1.0), (x, -weights), *mixture]
            model.add_rows(blocks, dark + sides[0], dark + sides[1])
        return x_p

    def relax(self, model: LinearModel) -> tuple[Expression, Expression]:
        """No rows: the image is that of the middle, and something in a box besides."""
        black, width, size = self.domain.lower, self.domain.width, self.domain.size
        u = model.add_columns(np.zeros(size), width)
        dark = np.full(size, black)
        if self.fixed:
            same = sparse.csr_array(sparse.eye_array(size, format="csr"))
            return Expression(same, dark), Expression(self._alone.matrix, dark)
        beside = model.add_columns(*self._beside_the_middle())
        pick = sparse.eye_array(model.column_count, format="csr")
        middle = self._planes(sparse.csr_array(self._whole.first + self._whole.last)) * 0.5
        image = sparse.csr_array(middle @ pick[u] + pick[beside])
        return Expression(pick[u], dark), Expression(image, dark)

    def _beside_the_middle(self) -> tuple[Array, Array]:
        """How far the image can be from that of the middle, `(size,)` each."""
        arc, width = self._whole, self.domain.width
        low, high = arc.low.minimum(0).sum(axis=1), arc.high.maximum(0).sum(axis=1)
        high = np.where(arc.capped, 1.0, high)
        # Weights that grow and weights that shrink balance each other.
        moved = abs(arc.last - arc.first).sum(axis=1) / 4
        low, high = low - moved - _COLUMN_ROOM, high + moved + _COLUMN_ROOM
        channels = self.domain.image[0]
        return np.tile(low * width, channels), np.tile(high * width, channels)
