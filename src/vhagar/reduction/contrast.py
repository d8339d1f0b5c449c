"""Contrast without clipping as a linear question.

With every bias multiplied by a number `h`, a ReLU network is homogeneous: for a factor `e > 0`,
`N(e x, e h) = e N(x, h)`. So the image `e x` has the scores `N(e x, 1) = e N(x, 1/e)`: which class
wins is the same at `(x, 1/e)`. The two copies then see the same `x`, and differ in `h` alone, which
is 1 in the first and `1/e` in the second. Nothing is multiplied with anything any more: the pairs
form a convex set, where `e x` itself is bilinear.

`h` is an additional input, and a linear unit passes it through every ReLU layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from vhagar.array_types import Array, Mask
from vhagar.network import AbstractLayer, AbstractLinear, Network, Relu, SparseAffine
from vhagar.perturbation import AbstractPiece, Domain
from vhagar.perturbation.relaxed import ModelImage, RelaxedPair, picked
from vhagar.perturbation.support import Support
from vhagar.problem import Problem
from vhagar.reduction.base import AbstractReduction, AbstractRestore, Point, Reduced
from vhagar.solver.linear_model import Columns, LinearModel

# Most entries of the sparse matrices that replace convolutions.
_MOST_ENTRIES = 2**22


@dataclass(frozen=True, eq=False)
class BiasPiece(AbstractPiece):
    """`(x, 1)` and `(x, h)`, with `h` in a range: the last input scales the biases.

    The domain is that of `x` and `h` together; in the first copy `h` is 1.
    """

    domain: Domain
    label: str
    h_range: tuple[float, float]
    convex = True
    exact_apply = True

    @property
    def parameter_bounds(self) -> tuple[Array, Array]:
        return np.array([self.h_range[0]]), np.array([self.h_range[1]])

    def apply(self, x: Array, parameters: Array) -> Array:
        return np.concatenate([x[:, :-1], self.project(parameters)], axis=1)

    def contains(self, x: Array, x_p: Array, parameters: Array) -> Mask:
        return np.asarray(super().contains(x, x_p, parameters) & (x[:, -1] == 1.0))

    def image_bounds(self) -> tuple[Array, Array]:
        low, high = (
            np.full(self.domain.size, end) for end in (self.domain.lower, self.domain.upper)
        )
        low[-1], high[-1] = self.h_range
        return low, high

    def changes(self) -> tuple[Mask, Mask]:
        last = np.arange(self.domain.size) == self.domain.size - 1
        return last & (self.h_range[1] > 1), last & (self.h_range[0] < 1)

    def describe(self, parameters: Array) -> dict[str, object]:
        return {"h": float(parameters[0])}

    def _support(self, a: Array, b: Array) -> Support:
        joint = a + b
        x = np.where(joint > 0, self.domain.upper, self.domain.lower)
        x[:, -1] = 1.0
        h = np.where(b[:, -1:] > 0, self.h_range[1], self.h_range[0])
        value = (joint[:, :-1] * x[:, :-1]).sum(axis=1) + a[:, -1] + b[:, -1] * h[:, 0]
        return Support(value, x, h)

    def _domain_share(self, a: Array, b: Array) -> Array:
        share = a + b
        share[:, -1] = 0.0
        return share

    def _columns(self, model: LinearModel) -> tuple[Columns, Columns]:
        low, high = self.domain.low.copy(), self.domain.high.copy()
        low[-1] = high[-1] = 1.0
        return model.add_columns(low, high), model.add_columns(*self.h_range)

    def add_rows(self, model: LinearModel, x: Columns) -> ModelImage:
        model.add_rows([(x[-1:], 1.0)], 1.0, 1.0)
        h = model.add_columns(*self.h_range)
        return ModelImage(np.concatenate([x[:-1], h]), picked(h, model.column_count))

    def relax(self, model: LinearModel) -> RelaxedPair:
        x, h = self._columns(model)
        width = model.column_count
        image = picked(np.concatenate([x[:-1], h]), width)
        return RelaxedPair(picked(x, width), image, picked(h, width))


@dataclass(frozen=True, eq=False)
class _Restore(AbstractRestore):
    """From `(x, h)` back to `x` and the factor `1/h`."""

    given: tuple[AbstractPiece, ...]

    def witness(self, piece_index: int, x: Array, parameters: Array) -> Point:
        return piece_index, x[:-1], self.given[piece_index].project(1.0 / parameters)

    def statement(self) -> dict[str, Any]:
        """The form's name: whoever checks derives the network and the pieces anew."""
        return {"form": Homogeneous.name}


@dataclass(frozen=True)
class Homogeneous(AbstractReduction):
    """Ranges of contrast without clipping, as a linear question."""

    name = "homogeneous"

    def apply(self, problem: Problem) -> Reduced | None:
        if not _applies(problem):
            return None
        domain = problem.domain.extended()
        pieces = tuple(_scaled(piece, domain) for piece in problem.pieces)
        network = homogeneous_network(problem.network)
        return Reduced(
            problem,
            problem.rewritten(network, pieces, domain),
            _Restore(problem.pieces),
            problem.without_perturbation(),
        )


def _applies(problem: Problem) -> bool:
    formulas = [piece.formula for piece in problem.pieces]
    products = all(each is not None and each.product and not each.clip for each in formulas)
    ranges = any((low < high).all() for low, high in (p.parameter_bounds for p in problem.pieces))
    # With another range black is not 0, or 1 is not among the inputs.
    if not (products and ranges) or (problem.domain.lower, problem.domain.upper) != (0.0, 1.0):
        return False
    linear = [layer for layer in problem.network.layers if isinstance(layer, AbstractLinear)]
    fits = sum(layer.out_size * layer.fan_in for layer in linear) <= _MOST_ENTRIES
    return fits and isinstance(problem.network.layers[-1], AbstractLinear)


def _scaled(piece: AbstractPiece, domain: Domain) -> BiasPiece:
    assert piece.span is not None  # the range of its factor
    low, high = piece.span
    # 1/e, rounded outward: more factors than asked for do no harm to an upper bound.
    span = float(np.nextafter(1 / high, 0)), float(np.nextafter(1 / low, np.inf))
    span = (1.0 if high == 1.0 else span[0], 1.0 if low == 1.0 else span[1])
    return BiasPiece(domain, piece.label, span)


def homogeneous_network(network: Network) -> Network:
    """The network with one more input, by which every bias is multiplied."""
    layers: list[AbstractLayer] = []
    for position, layer in enumerate(network.layers):
        last = position == len(network.layers) - 1
        if isinstance(layer, AbstractLinear):
            layers.append(_with_bias_input(layer, keep=not last))
        else:
            assert isinstance(layer, Relu)
            known = (
                np.zeros(layer.in_size, dtype=np.bool_) if layer.linear is None else layer.linear
            )
            layers.append(Relu((layer.in_size + 1,), np.append(known, True)))
    return Network(tuple(layers), (network.input_size + 1,), network.name)


def _with_bias_input(layer: AbstractLinear, keep: bool) -> SparseAffine:
    blocks = [[layer.matrix, sparse.csr_array(layer.flat_bias[:, None])]]
    if keep:
        blocks.append([None, sparse.csr_array(np.ones((1, 1)))])
    weight = sparse.csr_array(sparse.block_array(blocks, format="csr"))
    rows = weight.shape[0]
    return SparseAffine(weight, np.zeros(rows), (layer.in_size + 1,), (rows,))
