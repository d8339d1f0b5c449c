"""A part of the network: some neurons of a layer, and all that they depend on.

Such a part is a small network of its own, with its parts of the stages, so the cost of bounding its
neurons depends on its size and not on that of whole layers. `receptive_fields` makes parts of
convolutions and `influence_cones` parts of all other layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from vhagar.array_types import Array, Index, Mask
from vhagar.perturbation import AbstractPiece
from vhagar.relaxation.corners import Corners
from vhagar.relaxation.quick_multipliers import quick_payment
from vhagar.relaxation.stages import Stage, magnitudes_of
from vhagar.relaxation.twin_dual import Backward, Choice, at_input, backward, paying


@dataclass(frozen=True, eq=False)
class View:
    """The neurons of one layer that belong to the part, in order, and which of them exist.

    Where a window reaches beyond the image, `index` is arbitrary and `inside` is false. `inside` is
    None if all neurons exist.
    """

    index: Index
    inside: Mask | None = None

    @property
    def existing(self) -> Index:
        return self.index if self.inside is None else self.index[self.inside]


@dataclass(frozen=True, eq=False)
class Subnetwork:
    """The stages restricted to what some neurons depend on; `views[k]` are stage k's inputs."""

    stages: tuple[Stage, ...]
    views: tuple[View, ...]

    def bound(
        self,
        corners: Sequence[Corners],
        piece: AbstractPiece,
        start: tuple[Array, Array],
        input_magnitude: Array,
        choose: Choice | None = None,
    ) -> Array:
        """The twin dual bound `(rows,)` on starts at the part's neurons.

        `corners` and `input_magnitude` are those of the whole network. Without `choose`, the
        multipliers are those of the quick choice.
        """
        views = self.views[1:]
        seen = [known.take(view.index) for known, view in zip(corners, views, strict=False)]
        inside = [view.inside for view in views]
        pay = quick_payment(seen, inside) if choose is None else paying(seen, choose, inside=inside)
        entering = [input_magnitude[self.views[0].index], *(part.magnitude for part in seen)]
        state = backward(self.stages, start, pay, magnitudes_of(self.stages, entering))
        return at_input(*_seen_part(piece, self.views[0], state))


def _seen_part(piece: AbstractPiece, view: View, state: Backward) -> tuple[AbstractPiece, Backward]:
    """The piece restricted to the part's pixels, and the coefficients in its order of pixels."""
    pixels = view.existing
    part, columns = piece.local(pixels)
    wide = []
    for values in (state.a, state.b):
        seen = values if view.inside is None else values[:, view.inside]
        if len(columns) > len(pixels):
            spread = np.zeros((len(seen), len(columns)))
            spread[:, np.searchsorted(columns, pixels)] = seen
            seen = spread
        wide.append(seen)
    return part, replace(state, a=wide[0], b=wide[1])
