"""Seeded random problems, tiny enough for the exact oracle.

Perturbations, flavours of networks and scales of weights take turns, so that every combination
comes up; the rest is drawn at random from the case's number. Others name cases by their numbers:
what they are must not change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vhagar import Problem
from vhagar.perturbation import Perturbation

from .networks import BRANCHED, FLAVOURS, Network, Shape, Wish

Rng = np.random.Generator
Span = tuple[float, float]

SCALES = (0.01, 1.0, 100.0)
_IMAGES: tuple[Shape, ...] = ((1, 2, 2), (1, 2, 3), (1, 1, 4), (2, 1, 2), (1, 3, 2))
_FLAT: tuple[Shape, ...] = ((2,), (3,), (4,), (5,))
_RANGES = ((-1.0, 1.0), (0.1, 0.9), (-0.5, 0.25), (0.0, 8.0))


@dataclass(frozen=True)
class Case:
    """One problem, by its number; those of branched networks have numbers of their own."""

    number: int
    branched: bool = False

    @property
    def kind(self) -> str:
        found = _TURNS[self.number % len(_TURNS)]
        return "rotations" if found == "rotation" and self.number // ROUND % 2 else found

    @property
    def flavour(self) -> str:
        flavours = list(self._flavours)
        return flavours[self.number // len(_TURNS) % len(flavours)]

    @property
    def _flavours(self) -> dict[str, Callable[[Wish], Network]]:
        return BRANCHED if self.branched else FLAVOURS

    @property
    def scale(self) -> float:
        return SCALES[self.number % len(SCALES)]

    @property
    def of_ranges(self) -> bool:
        """Whether engines can only approach the optimum, by splitting the perturbation's range."""
        return self.kind in ("contrasts", "rotations")

    def __str__(self) -> str:
        return f"{self.number}: {self.kind}, {self.flavour}, weights {self.scale:g}"

    seed = 7

    def problem(self) -> Problem:
        """The problem, the same every time."""
        rng = np.random.default_rng([self.seed + self.branched, self.number])
        # Left to chance, most problems would have nothing to attack.
        for _ in range(1 if self.flavour == "infeasible" else 6):
            problem = self._draw(rng)
            change = None if self.flavour == "infeasible" else change_in(problem, rng)
            if change is not None:
                return between(problem, *change)
        return problem

    @property
    def _shapes(self) -> tuple[Shape, ...]:
        return _IMAGES if self.kind in _OF_IMAGES else _IMAGES + _FLAT

    def _perturbation(self, rng: Rng, shape: Shape, span: Span) -> Perturbation | str:
        return KINDS[self.kind](rng, shape, span[1] - span[0])

    def _draw(self, rng: Rng) -> Problem:
        shapes = self._shapes
        shape = shapes[rng.integers(len(shapes))]
        classes = int(rng.integers(3, 5))
        source = int(rng.integers(classes))
        targets = _some([k for k in range(classes) if k != source], rng)
        low, high = (0.0, 1.0) if rng.random() < 0.8 else _RANGES[rng.integers(len(_RANGES))]
        wish = Wish(rng, shape, classes, self.scale, source, targets)
        return Problem(
            self._flavours[self.flavour](wish),
            perturbation=self._perturbation(rng, shape, (low, high)),
            source=source,
            targets=None if rng.random() < 0.2 else targets,
            clip=self._clip(rng),
            input_range=(low, high),
        )

    def _clip(self, rng: Rng) -> bool:
        return bool(rng.random() < 0.5)


def change_in(problem: Problem, rng: Rng) -> tuple[int, int] | None:
    """Two classes between which a random input changes, if there are any."""
    found = []
    for piece in problem.pieces:
        x = rng.uniform(problem.domain.lower, problem.domain.upper, (40, problem.domain.size))
        # Half of the pixels black or white: confidence lives in the corners.
        ends = rng.choice([problem.domain.lower, problem.domain.upper], x.shape)
        x = np.where(rng.random(x.shape) < 0.5, ends, x)
        parameters = rng.uniform(*piece.parameter_bounds, (40, len(piece.parameter_bounds[0])))
        before, after = (
            problem.network.forward(batch).argmax(axis=1)
            for batch in (x, piece.apply(x, parameters))
        )
        found += [(int(s), int(t)) for s, t in zip(before, after, strict=True) if s != t]
    return found[rng.integers(len(found))] if found else None


def between(problem: Problem, source: int, target: int) -> Problem:
    """The problem with this source, and this target among its targets."""
    others = problem.targets if len(problem.targets) > 1 else ()
    return Problem(
        problem.network,
        perturbation=problem.perturbation,
        source=source,
        targets=sorted({target, *others} - {source}),
        clip=problem.clip,
        input_range=(problem.domain.lower, problem.domain.upper),
    )


def _some(others: list[int], rng: Rng) -> list[int]:
    count = 1 if rng.random() < 0.6 else int(rng.integers(1, len(others) + 1))
    return sorted(int(k) for k in rng.choice(others, count, replace=False))


def _linf(rng: Rng, shape: Shape, width: float) -> str:
    return f"linf({width * rng.choice([0.02, 0.1, 0.25, 0.5, 1.0])})"


def _brightness(rng: Rng, shape: Shape, width: float) -> str:
    low, high = rng.choice([(0, 0.2), (-0.3, 0.1), (-0.4, -0.1), (0.1, 0.1), (0.25, 0.5), (-1, 1)])
    return f"brightness([{width * low},{width * high}])"


def _contrast(rng: Rng, shape: Shape, width: float) -> str:
    factor = rng.choice([0.25, 0.4, 0.9, 1.0, 1.1, 2.0, 3.3])
    return f"contrast([{factor},{factor}])"


def _contrasts(rng: Rng, shape: Shape, width: float) -> str:
    low, high = rng.choice([(0.5, 0.75), (0.25, 0.875), (1.125, 1.5), (1.0, 2.5), (0.75, 1.25)])
    return f"contrast([{low},{high}])"


def _occlusion(rng: Rng, shape: Shape, width: float) -> str:
    return f"occlusion({_square(rng, shape)})"


def _patch(rng: Rng, shape: Shape, width: float) -> str:
    return f"patch([0,{width * rng.choice([0.1, 0.3, 0.7, 1.0])}],{_square(rng, shape)})"


def _square(rng: Rng, shape: Shape) -> str:
    side = int(rng.integers(1, min(shape[1:]) + 1))
    corner = [_span(rng, 1, extent - side + 1) for extent in shape[1:]]
    return ",".join([*corner, f"[1,{side}]" if side > 1 and rng.random() < 0.5 else f"{side}"])


def _translation(rng: Rng, shape: Shape, width: float) -> str:
    down, right = (_span(rng, 1 - extent, extent - 1) for extent in shape[1:])
    return f"translation({down},{right})"


def _span(rng: Rng, first: int, last: int) -> str:
    """A whole number or, now and then, a range of two."""
    low = int(rng.integers(first, last + 1))
    return f"[{low},{low + 1}]" if low < last and rng.random() < 0.3 else f"{low}"


def _rotation(rng: Rng, shape: Shape, width: float) -> str:
    return f"rotation({rng.choice([-90, -17, 5, 30, 45, 90, 180, 222])})"


def _rotations(rng: Rng, shape: Shape, width: float) -> str:
    low, high = rng.choice([(-5, 5), (0, 10), (40, 50), (85, 90), (-180, -170)])
    return f"rotation([{low},{high}])"


KINDS: dict[str, Callable[[Rng, Shape, float], str]] = {
    "linf": _linf,
    "brightness": _brightness,
    "contrast": _contrast,
    "contrasts": _contrasts,
    "occlusion": _occlusion,
    "patch": _patch,
    "translation": _translation,
    "rotation": _rotation,
    "rotations": _rotations,
}
_OF_IMAGES = ("occlusion", "patch", "translation", "rotation", "rotations")
# Kinds, flavours and scales take turns; every second round has ranges of angles for angles.
_TURNS = tuple(kind for kind in KINDS if kind != "rotations")
ROUND = len(_TURNS) * len(FLAVOURS) * len(SCALES)
