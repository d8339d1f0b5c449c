"""Random sampling: the mean over random inputs, with the half-width of Hoeffding's inequality."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vhagar.array_types import Array
from vhagar.attack.local_attack import Found, LocalAttack
from vhagar.baseline.defaults import LEVEL, SAMPLES, SPREAD
from vhagar.dataset import CHUNK
from vhagar.engine import AbstractEngine
from vhagar.errors import InvalidInput
from vhagar.perturbation import Domain
from vhagar.problem import Problem
from vhagar.relaxation import Bounds, largest_confidence
from vhagar.result import Estimate, Run, WitnessCheck
from vhagar.runtime.deadline import Deadline, OutOfTime


def hoeffding_half_width(samples: int, width: float, level: float = LEVEL) -> float:
    """How far the mean of independent samples may be from the expectation.

    The samples lie in an interval of this width. The mean is further away with probability at most
    `level`: two-sided, `2 exp(-2 n h^2 / width^2) = level`.
    """
    if samples < 1:
        raise InvalidInput("a mean needs at least one sample")
    return width * math.sqrt(math.log(2 / level) / (2 * samples))


@dataclass(frozen=True)
class _Sums:
    """Inputs drawn, those of the source class, and their local bounds added up."""

    drawn: int = 0
    own: int = 0
    total: float = 0.0


class RandomEngine(AbstractEngine):
    """Draws inputs from a Gaussian around the middle of the input range, cut off at its ends.

    The result's `estimate` is about the mean of the local bounds over inputs of the source class;
    `lower` is the largest of them, checked. `ceiling` is a proven bound on any input's confidence:
    half-widths are in proportion to it. Without one it is computed by interval arithmetic.
    """

    name = "random"

    def __init__(
        self, samples: int = SAMPLES, spread: float = SPREAD, ceiling: float | None = None
    ) -> None:
        if samples < 1:
            raise InvalidInput(f"at least one sample is needed, not {samples}")
        if not (math.isfinite(spread) and spread > 0):
            raise InvalidInput(f"the spread of the samples must be above 0, not {spread}")
        if ceiling is not None and not (math.isfinite(ceiling) and ceiling > 0):
            raise InvalidInput(f"the ceiling must be above 0, not {ceiling}")
        self._samples = samples
        self._spread = spread
        self._ceiling = ceiling

    def search(self, run: Run, deadline: Deadline) -> bool:
        problem = run.problem
        if not problem.targets:
            raise InvalidInput("random sampling needs a problem with a perturbation")
        rng = np.random.default_rng(run.options.seed)
        local, sums = LocalAttack(problem, deadline=deadline), _Sums()
        try:
            while sums.drawn < self._samples and not deadline.passed:
                count = min(CHUNK, self._samples - sums.drawn)
                sums = self._more(run, local, rng, count, sums)
        except OutOfTime:
            pass  # the last batch is not counted
        finally:  # what was drawn before Ctrl-C counts
            self._conclude(run, sums)
        return sums.drawn < self._samples

    def _conclude(self, run: Run, sums: _Sums) -> None:
        inside = "in the domain and " if run.problem.domain.constrained else ""
        run.note(
            f"{sums.own} of {sums.drawn} random inputs are {inside}classified "
            + run.problem.source_name
            + ("" if sums.own else ": there is no mean")
        )
        if sums.own:
            width = self._ceiling or _largest(run)
            half = hoeffding_half_width(sums.own, width)
            run.estimate = Estimate(sums.total / sums.own, half, sums.own, LEVEL)

    def _more(
        self, run: Run, local: LocalAttack, rng: np.random.Generator, count: int, sums: _Sums
    ) -> _Sums:
        """An input's local bound is its confidence if it can be attacked, else 0."""
        domain = run.problem.domain
        x = draw(domain, count, self._spread, rng)
        sure = local.confidences(x)
        # What is drawn need not satisfy rows, groups and zonotopes.
        sure = np.where(domain.contains(x), sure, -np.inf) if domain.constrained else sure
        own, sure = x[sure > 0], sure[sure > 0]
        found = local.attacks(own)
        if domain.perturbed_inside:
            found = [attack for attack in found if _stays(run.problem, own[attack.row], attack)]
        for attack in sorted(found, key=lambda attack: -sure[attack.row]):
            if sure[attack.row] <= run.interval.lower:
                break
            run.offer_witness(attack.target, own[attack.row], attack.piece_index, attack.parameters)
        total = float(sum(sure[attack.row] for attack in found))
        return _Sums(sums.drawn + count, sums.own + len(own), sums.total + total)


def draw(domain: Domain, count: int, spread: float, rng: np.random.Generator) -> Array:
    """Independent inputs `(count, size)` of the domain's box, most of them in the domain."""
    width = domain.high - domain.low
    drawn = rng.normal(domain.low + width / 2, spread * width, (count, domain.size))
    return domain.project(drawn)


def _stays(problem: Problem, x: Array, attack: Found) -> bool:
    """Whether an attacked input lies in the domain, too."""
    image = WitnessCheck(problem).image(attack.piece_index, x, attack.parameters)
    return bool(problem.domain.contains(image[None]).all())


def _largest(run: Run) -> float:
    box = Bounds.over(run.problem.domain)
    return largest_confidence(run.problem.network, box, run.problem.source)
