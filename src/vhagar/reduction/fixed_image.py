"""A network behind a perturbation of one fixed input: a network of the parameters alone.

With the input fixed, what a piece makes of it is an affine function of its parameters, perhaps
clipped. Scaled to the unit cube, they are the input of a new network, whose first layers are that
function. Whether the input can be pushed into a class is then how confident the new network can be
in it, a question that every engine answers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from vhagar.array_types import Array
from vhagar.network import AbstractLayer, AbstractLinear, Network, Relu, SparseAffine
from vhagar.perturbation import AbstractPiece, Domain
from vhagar.perturbation.domain import UNDERFLOW
from vhagar.problem import Problem
from vhagar.reduction.base import AbstractReduction, AbstractRestore, Point, Reduced


@dataclass(frozen=True, eq=False)
class FixedImages:
    """What a piece makes of one input: `centre + directions @ u`, `u` in the unit cube.

    It is clipped to the domain where `clip` says so. `rounding` is more than what float64 has done
    to each entry. The piece's own parameters are `start + width * u`.
    """

    piece: AbstractPiece
    x: Array
    centre: Array
    directions: sparse.csr_array
    clip: bool
    rounding: Array
    start: Array
    width: Array

    @property
    def domain(self) -> Domain:
        return self.piece.domain

    @property
    def parameters(self) -> int:
        return len(self.start)

    def choice(self, u: Array) -> Array:
        """The piece's own parameters at a point of the unit cube."""
        if not self.parameters:  # there is nothing to choose
            return self.piece.parameter_bounds[0]
        return self.piece.project(self.start + self.width * u)


def fixed_images(piece: AbstractPiece, x: Array) -> FixedImages:
    """The images of one flat input under a piece; an error where they are not such a function."""
    formula = piece.required_formula()
    own, clip = formula.map, formula.clip
    low, high = own.lower, own.upper
    fixed, directions = formula.at(x, piece.domain)
    if piece.free_pixels is not None:
        # Each pixel has a parameter of its own, whose range can end where the domain does.
        moving = fixed[piece.free_pixels]
        low = np.maximum(low, piece.domain.lower - moving)
        high = np.minimum(high, piece.domain.upper - moving)
        clip = False
    width = high - low
    size = abs(own.matrix) @ abs(x) + abs(own.offset) + abs(x)
    size = size + abs(directions) @ (abs(low) + abs(high) + width) + piece.domain.magnitude
    terms = np.diff(own.matrix.indptr) + np.diff(directions.indptr) + 8
    return FixedImages(
        piece,
        x,
        fixed + directions @ low,
        sparse.csr_array(directions * width[None]),
        clip,
        2.0**-51 * terms * size + UNDERFLOW,
        low,
        width,
    )


@dataclass(frozen=True, eq=False)
class FixedImage(AbstractReduction):
    """The `images` that the piece at `piece_index` makes of one input, as inputs of a network.

    The question becomes how confident that network is in the `target`, which scores `shift` more
    than it does. `rounding` is what float64 can have done to a difference of scores.
    """

    name = "fixed image"
    piece_index: int
    images: FixedImages
    target: int
    shift: float
    rounding: float

    def apply(self, problem: Problem) -> Reduced:
        network = behind(problem.network, self.images, self.target, self.shift)
        question = Problem(network, perturbation=None, source=self.target)
        return Reduced(problem, question, _Restore(self), question)


@dataclass(frozen=True, eq=False)
class _Restore(AbstractRestore):
    """Points of the unit cube are parameters; bounds are on the confidence in the target."""

    reduction: FixedImage

    def witness(self, piece_index: int, x: Array, parameters: Array) -> Point:
        images = self.reduction.images
        return self.reduction.piece_index, images.x, images.choice(x)

    def upper(self, value: float) -> float:
        shift = self.reduction.shift
        # One rounding for the difference, and what the images' own rounding can do.
        room = self.reduction.rounding + 2.0**-50 * (abs(value) + shift)
        return value - shift + room


def behind(network: Network, images: FixedImages, label: int, shift: float) -> Network:
    """The network of the parameters, in which `label` scores `shift` more."""
    size, classes = images.domain.size, network.classes
    layers: list[AbstractLayer] = []
    if images.clip:
        ends = (images.domain.lower, images.domain.upper)
        both = sparse.csr_array(sparse.vstack([images.directions] * 2))
        start = np.concatenate([images.centre - end for end in ends])
        layers.append(SparseAffine(both, start, (images.parameters,), (2 * size,)))
        layers.append(Relu((2 * size,)))
        same = sparse.eye_array(size)
        join = sparse.csr_array(sparse.hstack([same, -same]))
        layers.append(SparseAffine(join, np.full(size, ends[0]), (2 * size,), (size,)))
    else:
        layers.append(SparseAffine(images.directions, images.centre, (images.parameters,), (size,)))
    layers += network.layers
    lead = np.zeros(classes)
    lead[label] = shift
    same = sparse.csr_array(sparse.eye_array(classes))
    layers.append(SparseAffine(same, lead, (classes,), (classes,)))
    return Network(tuple(layers), (images.parameters,), network.name, _model(network, images, lead))


def _model(network: Network, images: FixedImages, lead: Array) -> bytes:
    """The same for onnxruntime, around the original model."""
    from vhagar.network.onnx_copy import INPUT, OUTPUT, clipped, copied, graph_around, standalone

    model = standalone(network)
    graph = graph_around(model)
    moved = graph.add("MatMul", INPUT, graph.constant(images.directions.toarray().T))
    moved = graph.add("Add", moved, graph.constant(images.centre[None]))
    if images.clip:
        moved = clipped(graph, moved, images.domain.lower, images.domain.upper)
    scores = copied(graph, model, graph.reshape(moved, (1, *network.input_shape)), "copy_")
    flat = graph.reshape(scores, (1, network.classes))
    graph.add("Add", flat, graph.constant(lead[None]), output=OUTPUT)
    ends = (INPUT, (1, images.parameters)), (OUTPUT, (1, network.classes))
    return bytes(graph.model(network.name, *ends, model).SerializeToString())


def score_rounding(network: Network, images: FixedImages) -> Array:
    """How far each score can be from that of the exact image, ReLU being 1-Lipschitz."""
    error = 4 * images.rounding  # the clip's two differences, and the sums of the bounds below
    for layer in network.layers:
        if isinstance(layer, AbstractLinear):
            error = layer.absolute.times(error[None])[0] * (1 + 2.0**-20)
    return error
