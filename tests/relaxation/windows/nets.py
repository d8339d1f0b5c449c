"""Networks whose only hidden layer sees two by two pixels, and what is asked about them."""

from __future__ import annotations

import numpy as np

from vhagar.network import Affine, Convolution, Network, Relu, SparseAffine
from vhagar.perturbation import AbstractPiece, Domain, parse

Rng = np.random.Generator

SHAPE = (1, 3, 4)
BUILDS = ("plain", "padded", "strided", "one pixel missing", "by place", "pooled")
# Textual form, and whether perturbed pixels are clipped.
PERTURBATIONS = (
    ("brightness([0,0.1])", True),
    ("brightness([0,0.6])", False),
    ("brightness([-0.3,0.2])", True),
    ("brightness([0.2,0.5])", True),
    ("brightness([-0.9,-0.4])", True),
    ("brightness([-0.9,-0.4])", False),
    ("brightness([0.3,0.3])", True),
)


def network_of(
    build: str, rng: Rng, filters: int = 2, scale: float = 1.0, shape: tuple[int, ...] = SHAPE
) -> Network:
    """A random network of one convolution, a ReLU and one dense layer."""
    kernels, shifts = scale * rng.normal(size=(filters, 1, 2, 2)), scale * rng.normal(size=filters)
    first: Convolution | SparseAffine
    match build:
        case "plain" | "pooled":
            first = Convolution(kernels, shifts, shape)
        case "padded":
            first = Convolution(kernels, shifts, shape, padding=(1, 0, 0, 1))
        case "strided":
            first = Convolution(kernels, shifts, shape, stride=(1, 2))
        case "one pixel missing":
            kernels[0, 0, 1, 0] = 0.0
            first = Convolution(kernels, shifts, shape)
        case "by place":
            like = Convolution(kernels, shifts, shape)
            rows = like.matrix.copy()
            rows.data *= rng.uniform(0.5, 1.5, rows.nnz)
            first = SparseAffine(rows, rng.normal(size=like.out_size), shape, like.out_shape)
        case _:
            raise ValueError(build)
    last = rng.normal(size=(3, first.out_size))
    if build == "pooled":  # over the places of each filter
        mean = last.reshape(3, filters, -1).mean(axis=2, keepdims=True)
        last = np.repeat(mean, first.out_size // filters, axis=2).reshape(3, -1)
    bias = rng.normal(size=3)
    return Network((first, Relu(first.out_shape), Affine(last, bias, first.out_shape, (3,))), shape)


def pieces_of(text: str, clip: bool, rng: Rng, boxed: bool = False) -> tuple[AbstractPiece, ...]:
    """The pieces, over all inputs or over a random box of them."""
    domain = Domain(SHAPE)
    if boxed:
        ends = np.sort(rng.random((2, 12)).round(2), axis=0).reshape(2, *SHAPE)
        domain = Domain(SHAPE, ends[0], ends[1])
    return tuple(parse(text).pieces(domain, clip))


# Units that see the same pixels, one that sees nothing, and two with the same weight.
SEEN = np.array([[0, 2, 0, -3], [1, 0, 0, 0], [0, 2, 0, -3], [0, 0, 0, 0], [0, 0, 1.0, 0]])


def network_with(weight: np.ndarray, bias: np.ndarray | None = None, classes: int = 3) -> Network:
    units, pixels = weight.shape
    bias = np.zeros(units) if bias is None else bias
    last = np.random.default_rng(3).normal(size=(classes, units))
    return Network(
        (
            Affine(weight, bias, (pixels,), (units,)),
            Relu((units,)),
            Affine(last, np.arange(float(classes)), (units,), (classes,)),
        ),
        (pixels,),
    )


def piece_of(
    text: str, pixels: int, clip: bool = True, domain: Domain | None = None
) -> AbstractPiece:
    (piece,) = parse(text).pieces(domain or Domain((pixels,)), clip)
    return piece
