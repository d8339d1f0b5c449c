"""Rotation: the image is rotated about its centre, with bilinear interpolation.

The paper's appendix swaps the two axes (at 0 degrees it transposes) and names three different
centres. Here the centre is the centre of the pixel grid, 0 degrees changes nothing, and 90 degrees
is an exact permutation of a square image. Positive angles are clockwise, as in the paper once its
axes are corrected.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from vhagar.perturbation.base import Perturbation
from vhagar.perturbation.domain import Domain
from vhagar.perturbation.interpolation import radius
from vhagar.perturbation.piece import AbstractPiece
from vhagar.perturbation.ranges import GivenRange, as_range, require_within, span_text
from vhagar.perturbation.rotation_range import RotationPiece, turn_by

# A range is divided so that the outermost pixel, or one at this distance from the centre if that is
# farther, moves by at most one pixel within a piece. Engines divide further where it matters.
_LEAST_RADIUS = 10.0
# Most pieces of a range of angles.
_MOST_PIECES = 180


@dataclass(frozen=True)
class Rotation(Perturbation):
    """`rotation(theta)`: by theta degrees, clockwise; pixels from outside the image are black.

    `rotation([lo,hi])`: by any angle in [lo,hi].
    """

    angle: tuple[float, float]

    name = "rotation"

    def __init__(self, angle: GivenRange) -> None:
        object.__setattr__(self, "angle", as_range(angle, "the angle of rotation"))

    @property
    def affine(self) -> bool:  # type: ignore[override]
        return self.angle[0] == self.angle[1]

    def pieces(self, domain: Domain, clip: bool = True) -> tuple[AbstractPiece, ...]:
        require_within(self.angle, -360, 360, "the angle of rotation", "degrees")
        low, high = self.angle
        if low == high:
            return (turn_by(domain, str(self), low),)
        step = math.degrees(1 / max(radius(domain.image), _LEAST_RADIUS))
        step = max(step, (high - low) / _MOST_PIECES)
        # Border pixels turn black on either side of a quarter turn, so pieces end there.
        quarters = [90.0 * k for k in range(-3, 4) if low < 90 * k < high]
        cuts = [low]
        for end in (*quarters, high):
            count = max(1, math.ceil((end - cuts[-1]) / step))
            cuts += np.linspace(cuts[-1], end, count + 1).tolist()[1:]
        return tuple(RotationPiece(domain, str(self), span) for span in itertools.pairwise(cuts))

    def arguments(self) -> tuple[str, ...]:
        return (span_text(self.angle),)
