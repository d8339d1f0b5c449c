"""Small networks of every build, and pairs of a perturbation with all their values, exactly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from vhagar import Network, Problem
from vhagar.network import AbstractLinear, Affine, Convolution, Relu, SparseAffine
from vhagar.perturbation import AbstractPiece, Domain, Rotation, parse

from ..marks import mostly_slow
from ..oracle.exact import rationals

Rng = np.random.Generator

SHAPE = (1, 2, 3)
BUILDS = (
    "plain",
    "convolution",
    "consecutive linear",
    "starts with relu",
    "ends with relu",
    "two relus",
    "no relu",
    "always on",
    "narrow and deep",
    "residual",
    "larger of pairs",
)
# Textual form, and whether perturbed pixels are clipped.
PERTURBATIONS = (
    ("linf(0.1)", True),
    ("linf(1)", True),
    ("patch([0,0.3],1,2,2)", True),
    ("brightness([0,0.3])", True),
    ("brightness([0,0.3])", False),
    ("brightness([-0.4,0.1])", True),
    ("brightness([0.1,0.1])", False),
    ("contrast([0.001,0.002])", True),
    ("contrast([0.5,0.8])", True),
    ("contrast([1.1,3])", True),
    ("contrast([1.1,3])", False),
    ("contrast([0.7,1.5])", True),
    ("occlusion(1,1,2)", True),
    ("translation(1,-1)", True),
    ("rotation(30)", True),
    ("rotation([20,40])", True),
    ("features([0,3],[0.1,0.3])", True),
)
# Of the weights.
SCALES = (1e-6, 1.0, 1e6)
every_build = pytest.mark.parametrize("build", BUILDS)
every_perturbation = pytest.mark.parametrize(("text", "clip"), mostly_slow(PERTURBATIONS, 4))


def network_of(build: str, rng: Rng, scale: float = 1.0) -> Network:
    """A random network; `scale` multiplies all weights and biases."""
    size = int(np.prod(SHAPE))

    def affine(out: int, into: int, bias: float = 0.5) -> Affine:
        shape = SHAPE if into == size else (into,)
        weight, shift = rng.normal(size=(out, into)), bias * rng.normal(size=out)
        return Affine(scale * weight, scale * shift, shape, (out,))

    match build:
        case "plain":
            layers = [affine(5, size), Relu((5,)), affine(4, 5), Relu((4,)), affine(3, 4)]
        case "convolution":
            kernels, shifts = rng.normal(size=(2, 1, 2, 2)), rng.normal(size=2)
            first = Convolution(
                scale * kernels, scale * shifts, SHAPE, stride=(1, 2), padding=(0, 1, 1, 0)
            )
            last = Affine(
                scale * rng.normal(size=(3, first.out_size)), np.zeros(3), first.out_shape, (3,)
            )
            layers = [first, Relu(first.out_shape), last]
        case "consecutive linear":
            layers = [affine(4, size), affine(5, 4), Relu((5,)), affine(4, 5), affine(3, 4)]
        case "starts with relu":
            layers = [Relu(SHAPE), affine(4, size), Relu((4,)), affine(3, 4)]
        case "ends with relu":
            layers = [affine(5, size), Relu((5,)), affine(3, 5), Relu((3,))]
        case "two relus":
            layers = [affine(5, size), Relu((5,)), Relu((5,)), affine(3, 5)]
        case "no relu":
            layers = [affine(4, size), affine(3, 4)]
        case "always on":
            on = Affine(scale * rng.normal(size=(5, size)), scale * np.full(5, 99.0), SHAPE, (5,))
            layers = [on, Relu((5,)), affine(3, 5)]
        case "narrow and deep":
            inner = [layer for _ in range(6) for layer in (affine(2, 2), Relu((2,)))]
            layers = [affine(2, size), Relu((2,)), *inner, affine(3, 2)]
        case "residual":
            # What the first layer receives is carried past it, and half of what leaves it further.
            linear = np.array([False] * 4 + [True] * 2)
            join = SparseAffine(
                scale * rng.normal(size=(5, 6)) * (rng.random((5, 6)) < 0.6),
                scale * rng.normal(size=5),
                (6,),
                (5,),
            )
            layers = [affine(6, size), Relu((6,), linear), join, Relu((5,), linear[1:])]
            layers += [affine(3, 5)]
        case "larger of pairs":
            # max(a, b) = b + relu(a - b)
            pair = np.array([[1.0, -1, 0, 0], [0, 0, 1, -1], [0, 1, 0, 0], [0, 0, 0, 1]])
            split = SparseAffine(pair, np.zeros(4), (4,), (4,))
            join = SparseAffine(np.array([[1.0, 0, 1, 0], [0, 1, 0, 1]]), np.zeros(2), (4,), (2,))
            linear = np.array([False, False, True, True])
            layers = [affine(4, size), split, Relu((4,), linear), join, affine(3, 2)]
        case _:
            raise ValueError(build)
    return Network(tuple(layers), SHAPE)


def domain_of(build: str) -> Domain:
    """Where a ReLU comes first, half of the pixels' range is negative."""
    return Domain(SHAPE, -1.0, 1.0) if build == "starts with relu" else Domain(SHAPE)


def pieces_of(text: str, clip: bool, domain: Domain) -> tuple[AbstractPiece, ...]:
    """The pieces, and for those with a range the first of their halves, too."""
    roots = parse(text).pieces(domain, clip)
    return (*roots, *(piece_index.split()[0] for piece_index in roots if piece_index.split()))


@dataclass(frozen=True, eq=False)
class Values:
    """What one network computes of one input of rational numbers."""

    entering: list[np.ndarray]  # each ReLU layer
    scores: np.ndarray

    def confidence(self, label: int) -> Fraction:
        return self.scores[label] - max(np.delete(self.scores, label))


class ExactNetwork:
    """A network in rational arithmetic."""

    def __init__(self, network: Network) -> None:
        self._layers = [
            (rationals(layer.matrix.toarray()), rationals(layer.flat_bias))
            if isinstance(layer, AbstractLinear)
            else layer
            for layer in network.layers
        ]

    def __call__(self, x: np.ndarray) -> Values:
        values, entering = x, []
        for layer in self._layers:
            if isinstance(layer, Relu):
                entering.append(values)
                passes = np.False_ if layer.linear is None else layer.linear
                values = np.where(passes, values, np.maximum(values, Fraction(0)))
            else:
                values = layer[0] @ values + layer[1]
        return Values(entering, values)


@dataclass(frozen=True, eq=False)
class Pair:
    """An input in float64, the parameters, and both inputs in rational numbers."""

    x: np.ndarray
    parameters: np.ndarray
    exact: np.ndarray
    exact_p: np.ndarray


def pairs(piece: AbstractPiece, rng: Rng, count: int) -> Iterator[Pair]:
    """Pairs of a piece: support points, where bounds are attained, and random ones."""
    domain, (low, high) = piece.domain, piece.parameter_bounds
    for k in range(count):
        if k % 3 == 0:
            found = piece.support(*rng.normal(size=(2, 1, domain.size)))
            x, parameters = found.x[0], found.parameters[0]
        else:
            x = rng.uniform(domain.lower, domain.upper, domain.size)
            ends = rng.choice([domain.lower, domain.upper], domain.size)
            x = np.where(rng.random(domain.size) < 0.5, ends, x)
            parameters = rng.uniform(low, high)
        yield pair_at(piece, x, parameters)


def pair_at(piece: AbstractPiece, x: np.ndarray, parameters: np.ndarray) -> Pair:
    x = np.clip(x, piece.domain.lower, piece.domain.upper)
    parameters = piece.project(parameters)
    return Pair(x, parameters, rationals(x), _exact_image(piece, x, parameters))


def _exact_image(piece: AbstractPiece, x: np.ndarray, parameters: np.ndarray) -> np.ndarray:
    if piece.exact_apply:
        return rationals(piece.apply(x[None], parameters[None])[0])  # it never rounds
    if piece.map is not None:
        image = rationals(piece.map.matrix.toarray()) @ rationals(x) + rationals(piece.map.offset)
        if piece.map.count:
            image = image + rationals(piece.map.directions.toarray()) @ rationals(parameters)
        return image
    e, black = Fraction(float(parameters[0])), Fraction(piece.domain.lower)
    if piece.label.startswith("brightness"):
        moved = rationals(x) + e
    elif piece.label.startswith("contrast"):
        moved = black + e * (rationals(x) - black)
    else:  # a turn, which is affine once its angle is known
        (turn,) = Rotation(float(e)).pieces(piece.domain)
        return _exact_image(turn, x, np.zeros(0))
    if not piece.clip:
        return moved
    return np.minimum(np.maximum(moved, black), Fraction(piece.domain.upper))


def overshoot(piece: AbstractPiece, pair: Pair) -> np.ndarray | None:
    """How far each pixel would have gone beyond the end that clips it (negative: it does not).

    None for pieces that do not clip.
    """
    if piece.pixel_corners() is None:
        return None
    e = Fraction(float(pair.parameters[0]))
    black, white = Fraction(piece.domain.lower), Fraction(piece.domain.upper)
    if piece.label.startswith("brightness"):
        return pair.exact + e - white if piece.span[0] >= 0 else black - pair.exact - e
    return black + e * (pair.exact - black) - white


@dataclass(frozen=True, eq=False)
class Attacked:
    """An input that the perturbation moves from the source to the target, and its confidence."""

    piece_index: int
    pair: Pair
    first: Values
    second: Values
    confidence: Fraction


def attacked_inputs(problem: Problem, target: int, rng: Rng, tries: int) -> Iterator[Attacked]:
    """Inputs found by chance, and proved in rational arithmetic."""
    network, exact = problem.network, ExactNetwork(problem.network)
    for piece_index, piece in enumerate(problem.pieces):
        domain = piece.domain
        x = rng.uniform(domain.lower, domain.upper, (tries, domain.size))
        ends = rng.choice([domain.lower, domain.upper], x.shape)
        x = np.where(rng.random(x.shape) < 0.5, ends, x)
        parameters = rng.uniform(*piece.parameter_bounds, (tries, len(piece.parameter_bounds[0])))
        before = network.forward(x).argmax(axis=1)
        after = network.forward(piece.apply(x, parameters)).argmax(axis=1)
        for k in np.flatnonzero((before == problem.source) & (after == target)):
            pair = pair_at(piece, x[k], parameters[k])
            first, second = exact(pair.exact), exact(pair.exact_p)
            if first.confidence(problem.source) > 0 and second.confidence(target) >= 0:
                yield Attacked(piece_index, pair, first, second, first.confidence(problem.source))
