"""Witnesses: concrete inputs that are re-checked, independently of the search that found them.

A witness is accepted only if all of the following holds; nothing is accepted by default:

- the target and the piece belong to the problem; the input lies in the domain, the parameters in
  their box, the pair in the perturbation;
- the network, evaluated in float64 with its rounding error bounded, is confident in the source
  class and puts the perturbed input into the target class; an exact tie, which float64 cannot
  decide, is decided in rational arithmetic and labelled;
- onnxruntime, in float32 and from the model file itself, agrees on the classes and, up to the
  noise of float32, on the confidences.

The stated confidence is rounded down, so it never exceeds the true one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vhagar.array_types import Array
from vhagar.network import onnx_bytes
from vhagar.network.network import confidence
from vhagar.network.onnx_session import OnnxSession
from vhagar.perturbation import AbstractPiece
from vhagar.perturbation.perturbed_inside import image_is_exact, on_grid, pairs_inside
from vhagar.problem import Problem
from vhagar.reduction import Reduced
from vhagar.reduction.clipping import clip_of
from vhagar.relaxation import Bounds, confidence_bounds, network_bounds
from vhagar.result.exact import exact_confidence_sign
from vhagar.result.numbers import down

# Uncertainty of a float32 confidence, relative to the largest score.
_FLOAT32_NOISE = 1e-3
# Uncertainty of a float32 confidence, relative to that of float64: 2**29 for the precision, and
# some more for a different order of operations.
_FLOAT32_BY_FLOAT64 = 2.0**32


@dataclass(frozen=True, eq=False)
class Witness:
    """An input `x` and its perturbed image `x_p`, in the network's input shape.

    `confidence` is that of `x` in the source class, rounded down. `margin` is the confidence of
    `x_p` in the target; it is 0 for a tie. Without a perturbation there is only `x`. `piece_number`
    is the index of the piece in the problem's pieces, and `choice` holds its parameters as numbers.
    """

    x: Array
    scores: Array
    confidence: float
    target: int | None = None
    x_p: Array | None = None
    scores_p: Array | None = None
    margin: float | None = None
    tie: bool = False
    piece: str = ""
    parameters: dict[str, object] | None = None
    piece_number: int | None = None
    choice: tuple[float, ...] = ()

    def __repr__(self) -> str:
        end = "" if self.target is None else f", class {self.target} by {self.piece}"
        return f"Witness(confidence {down(self.confidence)}{end})"


@dataclass(frozen=True, eq=False)
class _Confidence:
    """The confidence over a (tiny) box: sound bounds, and a plain float64 value with its scores."""

    low: float
    high: float
    plain: float
    scores: Array

    @property
    def proven(self) -> float:
        """The smaller one of two evaluations that share only the weights, and no code."""
        return min(self.low, self.plain)

    @property
    def noise(self) -> float:
        """How far a float32 confidence may be off."""
        relative = _FLOAT32_NOISE * float(abs(self.scores).max())
        return max(relative, _FLOAT32_BY_FLOAT64 * (self.high - self.low))


@dataclass(frozen=True)
class Rejection:
    """Why a candidate is not a witness."""

    reason: str


class WitnessCheck:
    """Decides on candidates for one problem, which is as it was given: no reduction's.

    Inputs are moved into the domain, unless `moves` is false: then they are judged where they are.
    """

    def __init__(self, problem: Problem, moves: bool = True) -> None:
        self._problem = problem
        self._clip = clip_of(problem)
        self._moves = moves
        domain = problem.domain
        self._into_domain = domain.project if moves else domain.clipped

    def __call__(
        self,
        target: int | None,
        x: Array,
        piece_index: int | None = None,
        parameters: Array | None = None,
    ) -> Witness | Rejection:
        """Check a flat input and, if there is a target, the parameters of a piece.

        `piece_index` is the place of that piece among the problem's pieces. The input is first
        rounded to float32, so that the witness is the same in every precision.
        """
        with np.errstate(over="ignore"):  # an overflow becomes infinite, and is rejected
            x = np.asarray(x, dtype=np.float32).astype(np.float64).reshape(1, -1)
        if x.shape[1] != self._problem.domain.size or not np.isfinite(x).all():
            return Rejection("the input has the wrong size or is not finite")
        if self._problem.domain.perturbed_inside and self._moves:
            x = on_grid(self._problem.domain, x)
        # Rounding to float32 may step over an end of the domain that float32 cannot represent.
        x = self._into_domain(x)
        if target not in self._problem.search_targets:
            return Rejection(f"{target} is no target of the problem")
        if target is None:
            return self._judge_confidence(x)
        if piece_index is None or parameters is None:
            return Rejection("the candidate names no perturbation")
        if not 0 <= piece_index < len(self._problem.pieces):
            return Rejection("the candidate's perturbation is not the problem's")
        return self._best_attack(target, x, piece_index, np.asarray(parameters, dtype=np.float64))

    def _best_attack(
        self, target: int, x: Array, number: int, parameters: Array
    ) -> Witness | Rejection:
        """The verdict on a pair, or the best on pairs nearby whose image must be inside, too."""
        piece = self._problem.pieces[number]
        if parameters.shape != piece.parameter_bounds[0].shape or not np.isfinite(parameters).all():
            return Rejection("the parameters have the wrong size or are not finite")
        pairs = [(x, piece.project(parameters))]
        if self._problem.domain.perturbed_inside and self._moves:
            nearby = pairs_inside(piece, *pairs[0])
            pairs = [(self._into_domain(moved), chosen) for moved, chosen in nearby]
        verdicts = [self._judge_attack(target, *pair, number) for pair in pairs]
        found = [verdict for verdict in verdicts if isinstance(verdict, Witness)]
        return max(found, key=lambda witness: witness.confidence, default=verdicts[0])

    def image(self, piece_index: int, x: Array, parameters: Array) -> Array:
        """Perturb a flat input by a piece, and clip it as the original network sees it."""
        (image,) = self.images(piece_index, x[None], parameters[None])
        return np.asarray(image)

    def images(self, piece_index: int, x: Array, parameters: Array) -> Array:
        """The same for a batch of inputs and as many parameters."""
        return self._clip(self._problem.pieces[piece_index].apply(x, parameters))

    def _judge_confidence(self, x: Array) -> Witness | Rejection:
        found = self._source_part(x)
        if isinstance(found, Rejection):
            return found
        objection = self._objection(x, self._problem.source, found, "the source class")
        return objection or Witness(self._shaped(x), found.scores, found.proven)

    def _source_part(self, x: Array) -> _Confidence | Rejection:
        """The confidence of an input in the source class, before onnxruntime is asked."""
        if not self._problem.domain.contains(x).all():
            return Rejection("the input is not in the domain")
        found = self._confidence(Bounds(x[0], x[0]), x, self._problem.source)
        if not found.proven > 0:
            return Rejection("the input is not classified as the source class")
        return found

    def _judge_attack(
        self, target: int, x: Array, parameters: Array, number: int
    ) -> Witness | Rejection:
        piece = self._problem.pieces[number]
        # onnxruntime, which takes a while to import, comes last: many candidates fail before.
        own = self._source_part(x)
        if isinstance(own, Rejection):
            return own
        parameters = parameters[None]
        x_p = piece.apply(x, parameters)
        if not piece.contains(x, x_p, parameters).all():
            return Rejection("the pair is not in the perturbation")
        inside = self._may_be_anywhere(piece, x, x_p, parameters)
        # The original network sees the clipped image, so that is the image to report.
        x_p = self._clip(x_p)
        image = Bounds(*(self._clip(side[0]) for side in piece.enclosure(x, parameters)))
        found = self._confidence(image, x_p, target)
        tie = not found.proven > 0 and self._is_tie(found, image, target)
        if not (inside and (found.proven > 0 or tie)):
            lack = "classified as the target" if inside else "in the domain"
            return Rejection(f"the perturbed input is not {lack}")
        objection = self._objection(x, self._problem.source, own, "the source class")
        objection = objection or self._objection(x_p, target, found, "the target", tie)
        if objection is not None:
            return objection
        return Witness(
            self._shaped(x),
            own.scores,
            own.proven,
            target,
            self._shaped(x_p),
            found.scores,
            0.0 if tie else found.proven,
            tie,
            piece.label,
            piece.describe(parameters[0]),
            number,
            tuple(parameters[0].tolist()),
        )

    def _may_be_anywhere(
        self, piece: AbstractPiece, x: Array, x_p: Array, parameters: Array
    ) -> bool:
        """Whether a perturbed input provably lies in the domain, if the problem demands that.

        What has yet to be clipped lies outside: the checker judges it before the clip, too.
        """
        domain = self._problem.domain
        if not domain.perturbed_inside:
            return True
        inside = bool(domain.contains(x_p).all())
        return inside and image_is_exact(piece, x[0], x_p[0], parameters[0])

    def _is_tie(self, found: _Confidence, image: Bounds, target: int) -> bool:
        """Whether the target certainly shares the largest score with another class."""
        if found.low == 0:
            return True  # a tie in the whole enclosure, as for two classes with the same weights
        # An exact tie can be established only for an image that is known exactly.
        if found.high < 0 or (image.lower != image.upper).any():
            return False
        return exact_confidence_sign(self._problem.network, image.lower, target) == 0

    def _confidence(self, image: Bounds, x: Array, label: int) -> _Confidence:
        network = self._problem.network
        hidden = image if len(network.layers) == 1 else network_bounds(network, image)[-2]
        low, high = (float(side.min()) for side in confidence_bounds(network, hidden, label))
        scores = network.forward(x)
        return _Confidence(low, high, float(confidence(scores, label)[0]), scores[0])

    def _objection(
        self, x: Array, label: int, found: _Confidence, words: str, tie: bool = False
    ) -> Rejection | None:
        """Why onnxruntime's evaluation contradicts ours; None if it agrees.

        `words` say what the class of that label is to the problem.
        """
        theirs = self._float32_confidence(x, label)
        agrees = math.isfinite(theirs) and abs(theirs - found.plain) <= found.noise
        if agrees and (tie or theirs > 0):
            return None
        return Rejection(
            f"onnxruntime finds a confidence of {theirs:.6g}, not {found.plain:.6g}, as {words}"
        )

    def _float32_confidence(self, x: Array, label: int) -> float:
        network, convention = self._problem.network, self._problem.network.convention
        image = x.reshape(1, *network.input_shape) if convention is None else convention.to_model(x)
        scores = self._session.outputs(image)
        if scores.shape[1] != network.classes or not np.isfinite(scores).all():
            return -np.inf
        return float(confidence(scores, label)[0])

    @cached_property
    def _session(self) -> OnnxSession:
        network = self._problem.network
        return OnnxSession(onnx_bytes(network) if network.model is None else network.model)

    def _shaped(self, x: Array) -> Array:
        return x.reshape(self._problem.network.input_shape)


class RestoredCheck:
    """Checks candidates of a reduced problem by translating them back to the original."""

    def __init__(self, reduced: Reduced) -> None:
        self._restore = reduced.restore
        self._check = WitnessCheck(reduced.original)

    def __call__(
        self,
        target: int | None,
        x: Array,
        piece_index: int | None = None,
        parameters: Array | None = None,
    ) -> Witness | Rejection:
        if piece_index is None or parameters is None:
            return self._check(target, x)
        piece_index, x, parameters = self._restore.witness(piece_index, x, parameters)
        return self._check(target, x, piece_index, parameters)
