"""The judge of all engines: the exact optimum of tiny problems, in rational arithmetic.

    delta* = max of min_j (D_source(x) - D_j(x))   over x in the input range, the perturbation's
             parameters, and t in the targets,     with min_j (D_t(x_p) - D_j(x_p)) >= 0

and 0 where nothing feasible has a positive confidence.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from vhagar import Contrast, Domain, Network, Problem, Rotation, Witness
from vhagar.network import AbstractLayer, AbstractLinear, Convolution, Relu, SparseAffine
from vhagar.perturbation import Perturbation

from .definitions import Image, images, stretched, turned
from .rational import RationalModel, Value

# How finely ranges of contrasts and of angles are looked at: single values for the lower end of the
# truth, and for contrast sub-ranges for the upper.
_SINGLE_VALUES = 4
_PARTS = 3


@dataclass(frozen=True)
class Truth:
    """`low <= delta* <= high`, in rational numbers; equal but for ranges of contrasts or angles."""

    low: Fraction
    high: Fraction

    @property
    def exact(self) -> bool:
        return self.low == self.high


def exact_optimum(problem: Problem) -> dict[int | None, Truth]:
    """The optimum for every target by itself (for None: the largest confidence)."""
    return {target: _Question(problem, target).answer() for target in problem.search_targets}


def exact_optimum_at(problem: Problem, target: int | None, x: np.ndarray) -> Fraction:
    """The same for one input: its confidence if it can be attacked, else 0."""
    truth = _Question(problem, target, pixels=rationals(x).reshape(-1)).answer()
    assert truth.exact  # even a range of contrasts is linear when the input is known
    return truth.low


def exact_confidence_in(problem: Problem, target: int, x: np.ndarray) -> Fraction:
    """The largest confidence in a class that any perturbed version of one input has."""
    return _Question(problem, target, pixels=rationals(x).reshape(-1)).largest_in_target()


def exact_confidence_of(problem: Problem, witness: Witness) -> Fraction:
    """The exact confidence of a witness, 0 if it is none."""
    perturbation = problem.perturbation
    if isinstance(perturbation, Rotation):  # a range of angles is never linear
        angle = witness.parameters["angle"]
        assert perturbation.angle[0] <= angle <= perturbation.angle[1]
        problem = with_perturbation(problem, Rotation(angle))
    return exact_optimum_at(problem, witness.target, witness.x)


def with_perturbation(problem: Problem, perturbation: Perturbation) -> Problem:
    """The same question about another perturbation."""
    return _changed(problem, problem.network, perturbation)


def with_network(problem: Problem, network: Network) -> Problem:
    """The same question about another network."""
    return _changed(problem, network, problem.perturbation)


def _changed(problem: Problem, network: Network, perturbation: Perturbation | None) -> Problem:
    return Problem(
        network,
        perturbation=perturbation,
        source=problem.source,
        targets=problem.targets,
        clip=problem.clip,
        domain=problem.domain,
    )


def exact_optimum_with_margin(problem: Problem, target: int | None, margin: Fraction) -> Fraction:
    """The same where the target must win by a margin: what no tie and no rounding can take."""
    return _Question(problem, target, margin=margin).answer().low


def overall(truths: dict[int | None, Truth]) -> Truth:
    """delta*: the largest over the targets."""
    return Truth(max(t.low for t in truths.values()), max(t.high for t in truths.values()))


@dataclass(frozen=True, eq=False)
class _Question:
    """How confident can an input be that the target's attack turns?"""

    problem: Problem
    target: int | None
    margin: Fraction = Fraction(0)
    pixels: np.ndarray | None = None

    def answer(self) -> Truth:
        perturbation = self.problem.perturbation
        domain, clip = self.problem.domain, self.problem.clip
        if perturbation is None:
            return _exactly(self._best([None]))
        if isinstance(perturbation, Rotation) and perturbation.angle[0] < perturbation.angle[1]:
            # Whatever the angle, no attacked input is more confident than any input can be.
            largest = self._best([None])
            # The last ones first: that an angle of 0 changes nothing is the hardest to prove.
            angles = np.linspace(*perturbation.angle, _SINGLE_VALUES).tolist()[::-1]
            return Truth(self._best((turned(angle, domain) for angle in angles), largest), largest)
        if isinstance(perturbation, Contrast) and perturbation.span[0] < perturbation.span[1]:
            return self._of_contrasts(*(Fraction(end) for end in perturbation.span))
        return _exactly(self._best(images(perturbation, domain, clip)))

    def _of_contrasts(self, low: Fraction, high: Fraction) -> Truth:
        domain, clip = self.problem.domain, self.problem.clip
        if self.pixels is not None:
            return _exactly(self._best([stretched((low, high), domain, clip)]))
        singles = [(factor, factor) for factor in _steps(low, high, _SINGLE_VALUES - 1)]
        singles.sort(key=lambda span: -abs(span[0] - 1))  # a factor of 1 changes nothing
        parts = itertools.pairwise(_steps(low, high, _PARTS))
        attained = self._best(stretched(span, domain, clip) for span in singles)
        # The parts contain the single factors: only what is beyond those is asked for.
        return Truth(
            attained, self._best((stretched(span, domain, clip) for span in parts), beyond=attained)
        )

    def _best(
        self,
        found: Iterable[Image | None],
        largest: Fraction | None = None,
        beyond: Fraction = Fraction(0),
    ) -> Fraction:
        """The largest optimum over several transformations; `beyond` where all are smaller.

        Nothing is above `largest`, where it is known.
        """
        best = beyond
        for image in found:
            if best == largest:
                break
            best = self._optimum(image, best)
        return best

    def _optimum(self, image: Image | None, beyond: Fraction) -> Fraction:
        """The optimum of one transformation, or `beyond` where it is smaller."""
        model, network = RationalModel(), self.problem.network
        x = self._inputs(model)
        sure = _confidence(model, exact_forward(model, network, x), self.problem.source)
        if image is not None and self.target is not None:
            scores = exact_forward(model, network, image(model, x))
            model.require(_confidence(model, scores, self.target), self.margin)
        model.require(sure, beyond)
        found = model.maximum(sure)
        return beyond if found is None else found

    def largest_in_target(self) -> Fraction:
        """The largest confidence in the target itself, over all versions of the given pixels."""
        perturbation, domain, clip = (
            self.problem.perturbation,
            self.problem.domain,
            self.problem.clip,
        )
        assert perturbation is not None
        assert self.target is not None
        if isinstance(perturbation, Contrast):
            span = (Fraction(perturbation.span[0]), Fraction(perturbation.span[1]))
            found = [stretched(span, domain, clip)]
        else:
            found = list(images(perturbation, domain, clip))
        values = []
        for image in found:
            model = RationalModel()
            scores = exact_forward(model, self.problem.network, image(model, self._inputs(model)))
            values.append(model.maximum(_confidence(model, scores, self.target)))
        return max(value for value in values if value is not None)

    def _inputs(self, model: RationalModel) -> list[Value]:
        domain = self.problem.domain
        ends = [
            (Fraction(low), Fraction(high))
            for low, high in zip(domain.low.tolist(), domain.high.tolist(), strict=True)
        ]
        if self.pixels is None:
            x = [model.variable(low, high) for low, high in ends]
            _require_conditions(model, domain, x)
            return x
        inside = zip(self.pixels, ends, strict=True)
        assert all(low <= pixel <= high for pixel, (low, high) in inside)
        return [model.constant(pixel) for pixel in self.pixels]


def _require_conditions(model: RationalModel, domain: Domain, x: list[Value]) -> None:
    """Whole numbers, one-hot and ordered groups, rows and the zonotope, from what was given."""
    groups = domain.groups
    for k in {*groups.integer, *(k for group in groups.one_hot for k in group)}:
        model.require_whole(x[k])
    for group in groups.one_hot:
        total = model.combination([Fraction(1)] * len(group), [x[k] for k in group], Fraction(-1))
        model.require(total)
        model.require(model.negative(total))
    for group in groups.ordered:
        for one, other in itertools.pairwise(group):
            model.require(x[other], x[one])
    for row in [] if domain.own_rows is None else domain.own_rows.plain():
        weights = [Fraction(weight) for weight in row["weights"]]
        value = model.combination(weights, [x[k] for k in row["entries"]])
        if row["at_least"] is not None:
            model.require(value, Fraction(row["at_least"]))
        if row["at_most"] is not None:
            model.require(model.negative(value), -Fraction(row["at_most"]))
    if domain.zonotope is not None:
        own = domain.zonotope
        z = [model.variable(-Fraction(end), Fraction(end)) for end in own.ranges.tolist()]
        for k, pixel in enumerate(x):
            weights = [Fraction(-float(part)) for part in own.components[:, k]]
            rest = model.combination([Fraction(1), *weights], [pixel, *z], -Fraction(own.mean[k]))
            model.require(rest, -Fraction(float(own.residual[k])))
            model.require(model.negative(rest), -Fraction(float(own.residual[k])))


def _exactly(value: Fraction) -> Truth:
    return Truth(value, value)


def _steps(low: Fraction, high: Fraction, count: int) -> list[Fraction]:
    return [low + (high - low) * k / count for k in range(count + 1)]


def _confidence(model: RationalModel, scores: list[Value], label: int) -> Value:
    others = [score for k, score in enumerate(scores) if k != label]
    gaps = [model.difference(scores[label], other) for other in others]
    least = model.variable(min(gap.low for gap in gaps), min(gap.high for gap in gaps))
    for gap in gaps:
        model.require(gap, least)
    return least


def exact_forward(model: RationalModel, network: Network, x: list[Value]) -> list[Value]:
    """The scores of symbolic pixels."""
    values, zero = x, model.constant(Fraction(0))
    for layer in network.layers:
        if isinstance(layer, AbstractLinear):
            weights, bias = _exact_weights(layer)
            values = [
                model.combination(row, values, constant)
                for row, constant in zip(weights, bias, strict=True)
            ]
        else:
            values = [
                value if passes else model.larger(value, zero)
                for value, passes in zip(values, _passes(layer), strict=True)
            ]
    return values


def rational_forward(network: Network, x: np.ndarray) -> np.ndarray:
    """The scores of one input of rational numbers: no z3, no float, nothing shared."""
    values = np.asarray(x, dtype=object).reshape(-1)
    for layer in network.layers:
        if isinstance(layer, AbstractLinear):
            weights, bias = _exact_weights(layer)
            values = weights @ values + bias
        else:
            values = np.where(_passes(layer), values, np.maximum(values, Fraction(0)))
    return values


def _passes(layer: AbstractLayer) -> np.ndarray:
    """Which units of a ReLU layer pass on what they receive."""
    assert isinstance(layer, Relu)
    return np.zeros(layer.in_size, dtype=bool) if layer.linear is None else layer.linear


def rational_confidence(network: Network, x: np.ndarray, label: int) -> Fraction:
    """The exact confidence in a class at one input of rational numbers."""
    scores = rational_forward(network, x)
    return scores[label] - max(np.delete(scores, label))


def _exact_weights(layer: AbstractLinear) -> tuple[np.ndarray, np.ndarray]:
    """`(out, in)` weights and `(out,)` bias. A convolution shows its weights on single pixels."""
    if isinstance(layer, Convolution):
        pixels = np.eye(layer.in_size).reshape(-1, *layer.in_shape)
        weights = layer.correlate(pixels).reshape(layer.in_size, layer.out_size).T
    elif isinstance(layer, SparseAffine):
        weights = layer.weight.toarray()
    else:
        weights = layer.weight
    return rationals(weights), rationals(layer.flat_bias)


def rationals(values: np.ndarray) -> np.ndarray:
    """Floats as the rational numbers they are."""
    flat = [Fraction(float(value)) for value in np.asarray(values).reshape(-1)]
    return np.array(flat, dtype=object).reshape(np.shape(values))
