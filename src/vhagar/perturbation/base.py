"""What a perturbation is, and what each of its pieces provides.

A perturbation is a union of pieces. A piece is a relation between an input `x` and its perturbed
image `x_p` with parameters in a box. Everything works on flat float64 batches `(batch, size)`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vhagar.errors import InvalidInput
from vhagar.perturbation.domain import Array, Domain, Mask
from vhagar.perturbation.formula import Formula
from vhagar.perturbation.maps import AffineMap
from vhagar.perturbation.ranges import Range
from vhagar.runtime.devices import Tensor
from vhagar.solver.linear_model import Columns, LinearModel

# `(x, parameters)` to `x_p`, all tensors.
TorchApply = Callable[[Tensor, Tensor], Tensor]

# `apply` makes at most this relative error in float64 (a handful of operations per pixel).
ROUNDING = 2.0**-49


@dataclass(frozen=True, eq=False)
class Support:
    """`value = max of a.x + b.x_p` over a piece, rounded outward, and where it is attained."""

    value: Array  # (batch,)
    x: Array  # (batch, size)
    parameters: Array  # (batch, parameters)


@dataclass(frozen=True, eq=False)
class Expression:
    """`matrix @ columns + constant`, where the columns are all those of a model so far."""

    matrix: sparse.csr_array
    constant: Array

    def value(self, columns: Array) -> Array:
        """What the columns of a longer model make of it."""
        result: Array = self.matrix @ columns[: self.matrix.shape[1]] + self.constant
        return result

    def then(self, matrix: sparse.csr_array, bias: Array, width: int) -> Expression:
        """The expression `matrix @ self + bias` in a model of `width` columns."""
        wide = self.matrix.copy()
        wide.resize((wide.shape[0], width))
        return Expression(sparse.csr_array(matrix @ wide), matrix @ self.constant + bias)


@dataclass(frozen=True, eq=False)
class PixelCorners:
    """Where clipping makes a pixel and its image a function of two parts: the corners of both.

    `side` is 1 for a corner of the clipped part only, -1 of the other part only, 0 of both. The
    first corner belongs to both.
    """

    x: Array
    x_p: Array
    side: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SupportCorners:
    """What a piece with independent pixels lets a pixel and its image be, as few corners as do.

    There is one row of `x` and `x_p` `(alternatives, corners)` for each alternative. The support is
    the best alternative's, where every pixel takes its best corner; pixels that are not `moving`
    take one of the first two.
    """

    x: Array
    x_p: Array
    moving: Mask | None = None

    def best(self, a: Array, b: Array) -> tuple[Array, Array, Array, NDArray[np.int64]]:
        """For coefficients `(batch, size)`: value, `x`, `x_p`, and which alternative it is."""
        found = [self._best_of(a, b, k) for k in range(len(self.x))]
        value, x, x_p = found[0]
        chosen = np.zeros(len(a), dtype=np.int64)
        for k, (other, its_x, its_x_p) in enumerate(found[1:], start=1):
            better = other > value
            value = np.where(better, other, value)
            x, x_p = (
                np.where(better[:, None], new, old) for new, old in ((its_x, x), (its_x_p, x_p))
            )
            chosen[better] = k
        return value, x, x_p, chosen

    def _best_of(self, a: Array, b: Array, alternative: int) -> tuple[Array, Array, Array]:
        xs, ps = self.x[alternative], self.x_p[alternative]
        best = a * xs[0] + b * ps[0]
        which = np.zeros(a.shape, dtype=np.int8)
        for k in range(1, len(xs)):
            value = a * xs[k] + b * ps[k]
            better = value > best
            if k >= 2 and self.moving is not None:
                better &= self.moving
            np.copyto(best, value, where=better)
            np.copyto(which, np.int8(k), where=better)
        return best.sum(axis=1), xs[which], ps[which]


@dataclass(frozen=True, eq=False)
class RelaxedInput:
    """A linear relaxation of a piece, and what leaves the first linear stage in both copies.

    Either the perturbed input or the parameters are expressions in the columns, too. Where pixels
    have corners, `pixels` `(size, corners - 1)` are the weights of all but the first.
    """

    x: Expression
    x_p: Expression | None
    parameters: Expression | None
    first: Expression
    second: Expression
    pixels: Columns | None = None


class AbstractPiece(ABC):
    """One relation between `x` and `x_p`, with parameters in a box."""

    domain: Domain
    label: str
    # Whether `support` is the exact maximum, or only an upper bound that `split` tightens.
    exact_support: bool = True
    # Whether the model rows describe exactly the piece, or a relaxation that `split` tightens.
    exact_rows: bool = True
    # Whether the model's products, where a solver knows them, make its rows exact.
    exact_products: bool = False
    # Whether `apply` needs no rounding: its result is, exactly, an image that the piece allows.
    exact_apply: bool = False
    # Whether the pairs `(x, x_p)` form a convex set, which `relax` then describes exactly.
    convex: bool = False
    # What `x_p` follows is this multiple of `x`: a hint for bounds on their difference.
    ratio: float = 1.0
    # The range of the one parameter that `split` halves; None where there is no such parameter.
    span: Range | None = None
    # How wide the span is, as a share of all values that the parameter can have.
    spread: float = 0.0
    # The affine map that the piece is, before any clip by the network; None where it is none.
    map: AffineMap | None = None
    # The pixels that move freely inside the domain, each by a parameter of its own, in order.
    free_pixels: Columns | None = None

    @property
    @abstractmethod
    def parameter_bounds(self) -> tuple[Array, Array]:
        """Lower and upper ends of the parameter box, each `(parameters,)`; may be empty."""

    @abstractmethod
    def apply(self, x: Array, parameters: Array) -> Array:
        """The perturbed inputs `(batch, size)` of `x` `(batch, size)`."""

    @abstractmethod
    def contains(self, x: Array, x_p: Array) -> NDArray[np.bool_]:
        """Whether each pair `(x, x_p)` belongs to the piece, up to the rounding of `apply`."""

    @abstractmethod
    def image_bounds(self) -> tuple[Array, Array]:
        """Bounds `(size,)` on every entry of `x_p`."""

    @abstractmethod
    def recover(self, x: Array, x_p: Array) -> Array:
        """Parameters `(parameters,)` that explain one pair `(size,)`, as well as any do."""

    @abstractmethod
    def add_rows(self, model: LinearModel, x: Columns) -> Columns:
        """Add what ties `x_p` to the columns `x`; returns the columns of `x_p`."""

    @abstractmethod
    def describe(self, parameters: Array) -> dict[str, object]:
        """The parameters by name, for reports."""

    @abstractmethod
    def _support(self, a: Array, b: Array) -> Support:
        """As `support`, without the outward rounding."""

    def changes(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which entries `(size,)` can rise (`x_p > x`), and which can fall."""
        every = np.ones(self.domain.size, dtype=np.bool_)
        return every, every

    def to_clip(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]] | None:
        """Which images are to be clipped from below and from above, by the network; None: none.

        Everything else here is about the image before that clip.
        """
        return None

    @property
    def formula(self) -> Formula | None:
        """The image as a formula, with the clip; None where there is no such formula."""
        return None

    def required_formula(self) -> Formula:
        """The formula, without parameters that have a single value; an error if there is none."""
        if self.formula is None:
            raise InvalidInput(
                f"{self.label} cannot be exported: how it moves pixels is not a formula that ONNX "
                "or VNN-LIB can hold; a single value instead of a range can be"
            )
        return self.formula.simplified(self.domain)

    def support_corners(self) -> SupportCorners | None:
        """The corners that attain the support, where pixels are independent; None elsewhere."""
        return None

    def torch_apply(self) -> TorchApply | None:
        """`apply` as a differentiable function of tensors, where no formula says what it is."""
        return None

    def fixed_at(self, value: float) -> AbstractPiece:
        """The same with its one parameter fixed; itself where it has no `span`."""
        return self

    def middle(self) -> AbstractPiece | None:
        """The piece at the middle of its span, where its support shows how much a split can gain.

        None where that does not show, as neurons' bounds gain more.
        """
        return None

    def pixel_corners(self) -> PixelCorners | None:
        """The corners of a clipped pixel's two parts, the same for every pixel; None without."""
        return None

    def support_decided(self, a: Array, b: Array, allowed: Array) -> Array:
        """As the value of `support`, where it is decided for some pixels whether they clip.

        `allowed` `(corners, size)` is 0, or minus infinity for corners that a decision cut off.
        """
        corners = self.pixel_corners()
        if corners is None:
            return self.support(a, b).value
        best = np.full(a.shape, -np.inf)
        for x, x_p, mask in zip(corners.x, corners.x_p, allowed, strict=True):
            np.maximum(best, a * x + b * x_p + mask, out=best)
        decided = best.sum(axis=1) + self._rounding(a, b)
        return np.asarray(np.minimum(decided, self.support(a, b).value))

    def relax(self, model: LinearModel) -> tuple[Expression, Expression]:
        """Columns and rows of a linear relaxation, with `x` and `x_p` as expressions in them."""
        size = self.domain.size
        x = model.add_columns(np.full(size, self.domain.lower), np.full(size, self.domain.upper))
        x_p = self.add_rows(model, x)
        pick = sparse.eye_array(model.column_count, format="csr")
        zero = np.zeros(size)
        return Expression(pick[x], zero), Expression(pick[x_p], zero)

    def relax_stage(
        self, model: LinearModel, matrix: sparse.csr_array, bias: Array
    ) -> RelaxedInput:
        """The relaxation together with the network's first linear stage, `matrix @ x + bias`.

        Engines only take proposals from it: their bounds come from `support`.
        """
        x, x_p = self.relax(model)
        width = model.column_count
        first, second = (part.then(matrix, bias, width) for part in (x, x_p))
        return RelaxedInput(x, x_p, None, first, second)

    def split(self) -> tuple[AbstractPiece, ...]:
        """Smaller pieces that together cover this one; empty where nothing is to be gained."""
        return ()

    def local(self, pixels: Columns) -> tuple[AbstractPiece, Columns]:
        """A piece on few pixels whose support is this one's wherever only `pixels` have weight.

        `pixels` are in ascending order. Returns the piece and the pixels `(its size,)` it is about,
        in ascending order and at least those; here, all of them.
        """
        return self, np.arange(self.domain.size)

    def support(self, a: Array, b: Array) -> Support:
        """The maximum of `a.x + b.x_p` for coefficients `(batch, size)`, never rounded down."""
        found = self._support(a, b)
        return Support(found.value + self._rounding(a, b), found.x, found.parameters)

    def _rounding(self, a: Array, b: Array) -> Array:
        """How far float64 can have rounded a support down."""
        low, high = self.image_bounds()
        reach = abs(a) @ np.full(self.domain.size, self.domain.magnitude)
        reach = reach + abs(b) @ np.maximum(abs(low), abs(high))
        # Each of the <= size + 8 additions errs by half an ulp of the sum of absolute values.
        # The smallest normal number covers products too small for a relative error.
        slack: Array = (2.0**-51 * (2 * self.domain.size + 16)) * reach + np.finfo(np.float64).tiny
        return slack

    def project(self, parameters: Array) -> Array:
        """The nearest parameters inside the box."""
        low, high = self.parameter_bounds
        return np.clip(parameters, low, high)

    def enclosure(self, x: Array, parameters: Array) -> tuple[Array, Array]:
        """An interval around the exact real-arithmetic image of `x`."""
        image = self.apply(x, parameters)
        return image - self.slack, image + self.slack

    @property
    def slack(self) -> float:
        """The largest rounding error of one entry of `apply`."""
        if self.exact_apply:
            return 0.0
        low, high = self.image_bounds()
        largest = max(self.domain.magnitude, float(np.maximum(abs(low), abs(high)).max()))
        return ROUNDING * 2.0 * (largest + self.domain.width)


class Perturbation(ABC):
    """A perturbation with its range. `str` gives the textual form that `parse` reads."""

    name: ClassVar[str]
    # Whether the textual form says it all; a certificate keeps the maps of those that it does not.
    by_text: bool = True

    def settled(self, domain: Domain) -> Perturbation:
        """The same over a domain, with whatever a user's code has to say asked for once."""
        return self

    @abstractmethod
    def pieces(self, domain: Domain, clip: bool = True) -> tuple[AbstractPiece, ...]:
        """The union of pieces over a domain; parameters outside their limits are errors."""

    @abstractmethod
    def arguments(self) -> tuple[str, ...]:
        """The arguments in textual form."""

    def __str__(self) -> str:
        return f"{self.name}({','.join(self.arguments())})"
