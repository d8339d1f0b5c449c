"""Rotations by any angle of a range: one piece, which splits into narrower ones.

With u the distance from black, the image of u is `W u`, where the weights W depend on the angle. A
rotation within a short arc is nearly a mixture of the rotations at its two ends (see
`rotation_weights`), and a maximum over mixtures is at an end. The difference between W and the
mixture is bounded weight by weight.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np
from scipy import sparse

from vhagar.array_types import Array, Mask
from vhagar.perturbation.affine import AffinePiece
from vhagar.perturbation.domain import UNDERFLOW, Domain
from vhagar.perturbation.formula import fixed_map
from vhagar.perturbation.interpolation import offsets, radius, rotation_matrix
from vhagar.perturbation.maps import AffineMap
from vhagar.perturbation.piece import AbstractPiece, TorchApply
from vhagar.perturbation.ranges import Range
from vhagar.perturbation.relaxed import Expression, ModelImage, RelaxedPair, constants, picked
from vhagar.perturbation.rotation_torch import torch_rotation
from vhagar.perturbation.rotation_weights import Arc, arc_between
from vhagar.perturbation.support import Support
from vhagar.solver.linear_model import Columns, LinearModel

# The support is bounded arc by arc: so many for each pixel that the outermost one moves by, and so
# many at most.
_ARCS = 8
# Widening of rows relative to the largest input, which exceeds their rounding errors.
_ROW_ROOM = 1e-12
# Further widening of rows relative to the change of the weights, and the smallest change of a
# weight for which rows contain the angle.
_ROW_SLACK, _SMALLEST_STEP = 0.01, 0.01
# Narrowest column for a solver, relative to the input range.
_COLUMN_ROOM = 1e-6


def turn_by(domain: Domain, label: str, angle: float) -> AffinePiece:
    """The piece of one angle."""
    turned = fixed_map(*_turn(domain, angle), label)
    return AffinePiece(domain, label, turned, facts=(("angle", angle),))


def _turn(domain: Domain, angle: float) -> tuple[sparse.csr_array, Array]:
    """The weights of one angle, and the offset that makes pixels without a source black."""
    matrix = _matrix(domain.image, angle)
    return matrix, np.where(np.diff(matrix.indptr) == 0, domain.lower, 0.0)


# Cached, because a witness is evaluated several times at the same angle.
_matrix = lru_cache(maxsize=32)(rotation_matrix)


@dataclass(frozen=True, eq=False)
class RotationPiece(AbstractPiece):
    """Rotations by one angle in `span`, in degrees."""

    domain: Domain
    label: str
    span: Range = field()
    exact_support = False
    exact_rows = False

    @property
    def parameter_bounds(self) -> tuple[Array, Array]:
        return np.array([self.span[0]]), np.array([self.span[1]])

    @property
    def spread(self) -> float:  # type: ignore[override]
        return (self.span[1] - self.span[0]) / 360.0

    def fixed_at(self, value: float) -> AffinePiece:
        """The rotation by one angle, which is exact; its angle is a parameter without effect."""
        matrix, dark = _turn(self.domain, value)
        still, angle = sparse.csr_array((self.domain.size, 1)), np.array([value])
        turned = AffineMap(matrix, still, dark, angle, angle, ("angle",), self.label)
        return AffinePiece(self.domain, self.label, turned, span=(value, value))

    def narrower(self) -> tuple[AffinePiece, ...]:
        return (self.fixed_at(self.span[0] + (self.span[1] - self.span[0]) / 2),)

    @cached_property
    def _whole(self) -> Arc:
        return arc_between(self.domain.image[1:], *self.span)

    @cached_property
    def _envelopes(self) -> list[tuple[float, Array, sparse.csr_array]]:
        """For both ends of every arc: the angle, the capped pixels, and bounds on the weights.

        The bounds `(pixels, 2 pixels)` of a plane map the positive and the negative parts of
        coefficients on the image to the largest coefficients on `u`.
        """
        turn = math.radians(self.span[1] - self.span[0])
        count = min(max(math.ceil(_ARCS * radius(self.domain.image) * turn), 1), _ARCS)
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
        """The same matrix for every channel."""
        return sparse.csr_array(sparse.block_diag([matrix] * self.domain.image[0], format="csr"))

    def _tile(self, plane: Mask) -> Mask:
        return np.tile(plane, self.domain.image[0])

    def split(self) -> tuple[AbstractPiece, ...]:
        low, high = self.span
        middle = low + (high - low) / 2
        if low < middle < high:
            return replace(self, span=(low, middle)), replace(self, span=(middle, high))
        # There is no float between two neighbouring ones, and a piece of one angle is exact.
        return tuple(self.fixed_at(angle) for angle in self.span)

    def apply(self, x: Array, parameters: Array) -> Array:
        angles = np.broadcast_to(np.clip(parameters[:, 0], *self.span), len(x))
        x_p = np.empty_like(x)
        for angle in np.unique(angles).tolist():
            matrix, dark = _turn(self.domain, angle)
            x_p[angles == angle] = (matrix @ x[angles == angle].T).T + dark
        return x_p

    def torch_apply(self) -> TorchApply:
        return torch_rotation(self.domain, self.span)

    def image_bounds(self) -> tuple[Array, Array]:
        black, white = self.domain.lower, self.domain.upper
        # Interpolation weights sum to one only up to rounding.
        margin = 1e-12 * self.domain.magnitude
        high = np.where(self._tile(self._whole.black), black, white)
        return np.full(self.domain.size, black - margin), high + margin

    def changes(self) -> tuple[Mask, Mask]:
        moves = self._tile(np.hypot(*offsets(*self.domain.image[1:])) > 0)
        return moves & ~self._tile(self._whole.black), moves

    def describe(self, parameters: Array) -> dict[str, object]:
        return {"angle": float(parameters[0])}

    def _support(self, a: Array, b: Array) -> Support:
        channels, height, width = self.domain.image
        planes = b.reshape(-1, height * width).T  # all channels have the same weights
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

    def _domain_share(self, a: Array, b: Array) -> Array:
        """The terms that depend on the input, at the middle of the span."""
        found: Array = a + (self._middle_planes.T @ b.T).T
        return found

    @cached_property
    def _middle_planes(self) -> sparse.csr_array:
        return self._planes(sparse.csr_array(self._whole.first + self._whole.last)) * 0.5

    def _sum_rounding(self, a: Array, b: Array) -> Array:
        """A bound on the rounding errors of the support's sums.

        Each addition errs by half an ulp of the sum of absolute values, and so does each weight.
        """
        on_a, on_b = abs(a).sum(axis=1), abs(b).sum(axis=1)
        reach = self.domain.width * (on_a + (1 + self._largest_sum) * on_b)
        reach = reach + abs(self.domain.lower) * (on_a + on_b)
        # What a coefficient loses to underflow is multiplied by a pixel.
        sizes = 1 + self.domain.size * (self.domain.width + abs(self.domain.lower))
        terms = 2 * self.domain.size + 64
        rounding: Array = terms * (2.0**-52 * reach + UNDERFLOW * sizes)
        return rounding

    @cached_property
    def _largest_sum(self) -> float:
        """The largest sum of absolute bounds on the weights of one pixel."""
        return max(float(abs(both).sum(axis=0).max()) for _, _, both in self._envelopes)

    def add_rows(self, model: LinearModel, x: Columns) -> ModelImage:
        black, white, width = self.domain.lower, self.domain.upper, self.domain.width
        room = _ROW_ROOM * self.domain.magnitude
        x_p = model.add_columns(*self.image_bounds())
        arc, mixture = self._whole, []
        step = sparse.csr_array(arc.last - arc.first)
        # If rows fixed s, a solver could mistake its own rounding for infeasibility.
        slack = _ROW_SLACK * abs(step)
        low, high = arc.first + arc.low - slack, arc.first + arc.high + slack
        s = None
        if abs(step).max() < _SMALLEST_STEP:
            low, high = low + step.minimum(0), high + step.maximum(0)
        else:
            s = model.add_columns(0.0, 1.0)
            # The product s u, relaxed to its convex hull.
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
        return ModelImage(x_p, self._angle(s, model.column_count))

    def _angle(self, s: Columns | None, width: int) -> Expression:
        """The angle at share `s` of the span; its middle if the rows leave `s` out."""
        begin, way = self.span[0], self.span[1] - self.span[0]
        if s is None:
            return constants(np.array([begin + way / 2]), width)
        return Expression(way * picked(s, width).matrix, np.array([begin]))

    def relax(self, model: LinearModel) -> RelaxedPair:
        """Needs no rows: the image is that of the middle plus a deviation in a box."""
        black, size = self.domain.lower, self.domain.size
        u = model.add_columns(self.domain.low - black, self.domain.high - black)
        dark = np.full(size, black)
        beside = model.add_columns(*self._beside_the_middle())
        own, rest = (picked(part, model.column_count).matrix for part in (u, beside))
        image = sparse.csr_array(self._middle_planes @ own + rest)
        return RelaxedPair(Expression(own, dark), Expression(image, dark), None)

    def _beside_the_middle(self) -> tuple[Array, Array]:
        """Bounds on the image's deviation from that of the middle, `(size,)` each."""
        arc, width = self._whole, self.domain.width
        low, high = arc.low.minimum(0).sum(axis=1), arc.high.maximum(0).sum(axis=1)
        high = np.where(arc.capped, 1.0, high)
        # Growing and shrinking weights balance each other.
        moved = abs(arc.last - arc.first).sum(axis=1) / 4
        low, high = low - moved - _COLUMN_ROOM, high + moved + _COLUMN_ROOM
        channels = self.domain.image[0]
        return np.tile(low * width, channels), np.tile(high * width, channels)
