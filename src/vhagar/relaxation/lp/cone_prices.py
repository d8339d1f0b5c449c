"""What the pixels cost a cone: the coefficients by which its cuts agree with those of others.

Cuts whose coefficients on a pixel cancel each other say together what one of them cannot: that the
pixel has the same value everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from vhagar.array_types import Array, Mask
from vhagar.perturbation.relaxed import RelaxedInput


@dataclass(frozen=True, eq=False)
class PixelPrices:
    """Prices of a cone's pixels, whose relaxation is `inputs`; `matrix` is the first stage's."""

    inputs: RelaxedInput
    matrix: sparse.csr_array

    def of(self, p: Array, q: Array) -> tuple[Array, Array]:
        """Coefficients on `x` and `x_p` that amount to `(p, q)` on the first layer's inputs.

        Where `x_p` is a function of `x`, all of them are on `x`, and none on `x_p`.
        """
        if self.image_is_free:
            return self.matrix.T @ p, self.matrix.T @ q
        x = self.inputs.x.matrix
        on_columns = np.zeros(x.shape[1])
        for factors, copy in ((p, self.inputs.first), (q, self.inputs.second)):
            on_columns += (copy.matrix.T @ factors)[: x.shape[1]]
        squares = np.asarray(x.power(2).sum(axis=1))
        on_x = np.asarray((x @ on_columns) / np.where(squares > 0, squares, 1.0))
        return on_x, np.zeros(0)

    def agreed(self, on_x: Array, on_image: Array, shared: Mask) -> tuple[Array, Array]:
        """Of these coefficients, those on what other cones see, too.

        These are the `shared` pixels and, where one amount is added to all pixels, this amount.
        """
        if not self._moves_at_once:
            also_in_image = shared if len(on_image) else np.zeros(0, dtype=np.bool_)
            return np.where(shared, on_x, 0.0), np.where(also_in_image, on_image, 0.0)
        c, d = np.where(shared, on_x + on_image, 0.0), np.zeros(len(shared))
        # The amount is the change of any one pixel.
        d[0] = on_image.sum()
        c[0] -= d[0]
        return c, d

    @cached_property
    def image_is_free(self) -> bool:
        """Whether the LP has columns for perturbed pixels beside those of the pixels."""
        if self.inputs.x_p is None:
            return False
        others = np.setdiff1d(self.inputs.x_p.matrix.indices, self.inputs.x.matrix.indices)
        return self.inputs.pixels is not None or bool(len(others))

    @cached_property
    def _moves_at_once(self) -> bool:
        """Whether one amount is added to all pixels, and is a function of the LP's columns."""
        amounts = self.inputs.parameters
        if self.inputs.x_p is None or amounts is None or not amounts.matrix.nnz:
            return False
        changes = sparse.csr_array(self.inputs.x_p.matrix - self.inputs.x.matrix)
        first = sparse.csr_array(np.ones((changes.shape[0], 1))) @ changes[[0]]
        return bool(abs(changes - first).max() == 0)
