"""Bounds on linear functions of `x` and `x_p` over a domain, from bounds over its whole range."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

import numpy as np

from vhagar.array_types import Array
from vhagar.perturbation.domain import UNDERFLOW, Domain
from vhagar.perturbation.maps import AffineMap
from vhagar.perturbation.support import Support

# How often `a` is shared anew between a domain with rows or a zonotope and the range.
_SHARES = 2
# Relative changes of coefficients that are rounding errors.
_NO_CHANGE = 1e-12


class AbstractSupport(ABC):
    """Bounds linear functions of the pairs `(x, x_p)` whose `x` is in a domain.

    Subclasses bound them over the whole range, by `_support`, and say by `_domain_share` which part
    of the coefficients is bounded over the domain instead.
    """

    domain: Domain
    # The piece as an affine map, before any clip by the network; None if it is not affine.
    map: AffineMap | None = None

    @abstractmethod
    def image_bounds(self) -> tuple[Array, Array]:
        """Bounds `(size,)` on every entry of `x_p`."""

    @abstractmethod
    def _support(self, a: Array, b: Array) -> Support:
        """As `support`, without the outward rounding."""

    def support(self, a: Array, b: Array) -> Support:
        """The maximum of `a.x + b.x_p` for coefficients `(batch, size)`, never rounded down.

        Over a domain that is not the whole range, the bound is the domain's support of `s` plus the
        range's support of `(a - s, b)`, which is valid for every `s`. Rows and zonotope take their
        part of `a` first, and what is left of it is shared anew.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            found = self._rounded_support(a, b)
            if self.domain.whole:
                return found
            found = replace(found, x=self.domain.clipped(found.x))
            s = self._domain_share(a, b)
            found = self._shared_support(a, b, s, found)
            if not self.domain.linear or self.map is not None:  # maps share all there is at once
                return found
            joint = self._joint_share(a, b)
            if joint is not None:
                s, found = joint, self._shared_support(a, b, joint, found)
            for _ in range(_SHARES):
                pulled = self.domain.pulled(s)
                before, s = s, pulled + self._domain_share(a - pulled, b)
                if (abs(s - before).max(axis=1) <= _NO_CHANGE * abs(before).max(axis=1)).all():
                    break
                found = self._shared_support(a, b, s, found)
        return found

    def _shared_support(self, a: Array, b: Array, s: Array, known: Support) -> Support:
        """The bound for one part `s` of `a`, where it is better than what is known."""
        rest = self._rest_support(a - s, b)
        own = self.domain.support(s)
        # Allow for the rounding of the difference and of the sum.
        sizes = abs(a - s).sum(axis=1) * self.domain.magnitude + abs(own) + abs(rest.value)
        value = own + rest.value + 2.0**-51 * sizes
        # False where the value is NaN.
        better = value < known.value
        x = np.where(s != 0, self.domain.farthest(s), rest.x)
        x = np.where(better[:, None], self.domain.clipped(x), known.x)
        parameters = np.where(better[:, None], rest.parameters, known.parameters)
        return Support(np.where(better, value, known.value), x, parameters)

    def _rest_support(self, a: Array, b: Array) -> Support:
        """A support that is valid for all inputs of the domain, without its rows and zonotope."""
        return self._rounded_support(a, b)

    def _rounded_support(self, a: Array, b: Array) -> Support:
        """The support over all inputs of the range, rounded up."""
        found = self._support(a, b)
        value = found.value + self.rounding(a, b)
        # Overflow gives no bound.
        return Support(np.where(np.isnan(value), np.inf, value), found.x, found.parameters)

    def _domain_share(self, a: Array, b: Array) -> Array:
        """The part `s` of `a` that is bounded over the domain, not the range; any part is valid."""
        return a

    def _joint_share(self, a: Array, b: Array) -> Array | None:
        """The part `s` from which shares are improved, if it is not that of `_domain_share`.

        Where ranges are those of all inputs, `_domain_share` may leave nothing to the rows or to
        the zonotope.
        """
        return None

    def rounding(self, a: Array, b: Array) -> Array:
        """A bound on how much float64 can have rounded a support down."""
        low, high = self.image_bounds()
        size_a, size_b = abs(a), abs(b)
        sum_a = size_a.sum(axis=1)
        reach = sum_a * self.domain.magnitude + size_b @ np.maximum(abs(low), abs(high))
        # Each of the <= size + 8 additions errs by half an ulp of the sum of absolute values. A
        # product can underflow, and so can a corner that is then multiplied by a coefficient.
        lost = UNDERFLOW * (8 * self.domain.size + 64 + sum_a + size_b.sum(axis=1))
        slack: Array = (2.0**-51 * (2 * self.domain.size + 16)) * reach + lost
        return slack
