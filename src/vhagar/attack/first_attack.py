"""The first attack: a few inputs and steps in numpy, before anything else has started.

The attack proper needs torch, and beside a search a process of its own. On a busy machine both take
longer to start than a first witness takes to find.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vhagar.array_types import Array, Index
from vhagar.attack.ascent import (
    FASTEST_LEARNING,
    LARGEST_MULTIPLIER,
    LAST_STEP,
    MARGIN,
    SLOWEST_LEARNING,
)
from vhagar.attack.options import AttackOptions
from vhagar.attack.piece_gradients import PieceGradients
from vhagar.attack.score_gradients import joint_gradients, leads, scores_and_pull
from vhagar.attack.starts import LEAK
from vhagar.network import AbstractLinear, Network
from vhagar.problem import Problem, Target
from vhagar.relaxation.adam import Adam
from vhagar.runtime.threads import one_blas_thread

# Inputs, at most and at least, and how many multiplications all steps may need: about half a second
# of a core. Measured: of 25 questions about networks of up to 25,000 neurons with three seeds each,
# 74 have a witness, the first after 0.01 to 1 s of a core (mnistfc_256x4: two seeds of three).
_MOST_ROWS, _LEAST_ROWS, _MOST_WORK = 16, 4, 1e10
# Steps while an input is grown, for the source class and for both, and of the ascent after that.
_GROWTH_STEPS, _STEPS = 15, 40
# The first step while an input is grown, relative to the input range.
_GROWTH_STEP = 0.1
# Steps between two offers.
_OFFER_EVERY = 5
# Inputs of a data set that are looked at.
_MOST_DATA = 512

# Offers an attack, which is checked: target, input, index of the piece, parameters.
Offer = Callable[[Target, Array, int, Array], object]
ShouldStop = Callable[[], bool]


def first_attack(
    problem: Problem,
    offer: Offer,
    seed: int,
    dataset: Array | None = None,
    should_stop: ShouldStop = lambda: False,
) -> None:
    """Offer the best attacks of a short ascent, as soon as they are found.

    Inputs are grown by the network itself, or are those of the data set that are least sure of the
    source class. Unless it is stopped, the number of steps depends on the network alone, so that
    results repeat.
    """
    rng = np.random.default_rng(seed)
    with one_blas_thread():
        rows = _Rows.dealt(problem, rng)
        x = _grown(problem, rows, rng, should_stop)
        if dataset is not None and len(dataset):
            unsure = _unsure(problem, dataset, rng)[: len(x[::2])]
            x[::2][: len(unsure)] = unsure
        if not should_stop():
            _Ascent(problem, rows, problem.domain.approached(x), rng).run(offer, should_stop)


@dataclass(frozen=True, eq=False)
class _Group:
    """Rows that share a target and a piece."""

    target: Target
    piece_index: int
    rows: Index
    piece: PieceGradients


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of the batch, in groups; each with its source and its target as labels."""

    groups: tuple[_Group, ...]
    source: Index
    target: Index

    @classmethod
    def dealt(cls, problem: Problem, rng: np.random.Generator) -> _Rows:
        """Deal rows to targets and pieces; where there are too many of these, to some of them."""
        count = _row_count(problem.network)
        every = range(len(problem.pieces))
        pairs = [(target, piece) for target in problem.search_targets for piece in every]
        chosen = [pairs[k] for k in rng.permutation(len(pairs))[:count]]
        groups = tuple(
            _Group(target, piece, np.arange(k, count, len(chosen)), PieceGradients(problem, piece))
            for k, (target, piece) in enumerate(chosen)
        )
        source = np.full(count, problem.source)
        labels = source.copy()
        for group in groups:
            labels[group.rows] = problem.source if group.target is None else group.target
        return cls(groups, source, labels)

    def __len__(self) -> int:
        return len(self.source)


def multiplications(network: Network) -> int:
    """How many multiplications one forward pass takes."""
    linear = (layer for layer in network.layers if isinstance(layer, AbstractLinear))
    return sum(layer.out_size * layer.fan_in for layer in linear)


def _row_count(network: Network) -> int:
    """How many rows the network leaves time for."""
    # Forwards and backwards: one copy while inputs grow, and then two.
    passes = 2 * (2 * _GROWTH_STEPS + 2 * _STEPS)
    return int(
        np.clip(_MOST_WORK / max(passes * multiplications(network), 1), _LEAST_ROWS, _MOST_ROWS)
    )


def _grown(
    problem: Problem, rows: _Rows, rng: np.random.Generator, should_stop: ShouldStop
) -> Array:
    """Inputs that ascend the score of the source class, and then also that of their target.

    They start at noise of all strengths. At first ReLUs leak a little, because where most neurons
    are off the scores have no gradient to follow.
    """
    domain = problem.domain
    widths = domain.high - domain.low
    strength = rng.uniform(size=(len(rows), 1))
    x = domain.low + widths * strength * rng.uniform(size=(len(rows), domain.size))
    for second in (rows.source, rows.target):
        for k in range(_GROWTH_STEPS):
            if should_stop():
                return x
            left = 1 - k / _GROWTH_STEPS
            scores, pull = scores_and_pull(problem.network, x, LEAK * left)
            gradient = np.nan_to_num(pull(joint_gradients(scores, rows.source, second)))
            x = np.clip(
                x + _GROWTH_STEP * left * widths * np.sign(gradient), domain.low, domain.high
            )
    return x


def _unsure(problem: Problem, dataset: Array, rng: np.random.Generator) -> Array:
    """Inputs of a data set that are of the source class, the least confident first."""
    flat = dataset.reshape(len(dataset), -1)
    some: Array = flat[rng.permutation(len(flat))[:_MOST_DATA]]
    lead, _ = leads(problem.network.forward(some), np.full(len(some), problem.source))
    own = np.flatnonzero(lead > 0)
    return some[own[np.argsort(lead[own], kind="stable")]]


class _Ascent:
    """Maximises the confidence of inputs subject to a positive margin of their images.

    By an augmented Lagrangian, as the attack proper does (`attack/ascent.py`). Without a target
    only the confidence counts.
    """

    def __init__(self, problem: Problem, rows: _Rows, x: Array, rng: np.random.Generator) -> None:
        self._problem, self._rows, self._x = problem, rows, x
        self._parameters = [group.piece.start(x[group.rows], rng) for group in rows.groups]
        # The size of steps and the penalty are those of the attack proper.
        options = AttackOptions()
        self._penalty = options.penalty
        self._rate = options.step * np.exp2(rng.uniform(-1, 1, len(rows)))[:, None]
        shares = (FASTEST_LEARNING / SLOWEST_LEARNING) ** rng.uniform(size=len(rows))
        self._learning = options.penalty * SLOWEST_LEARNING * shares
        self._multiplier, self._scale = np.zeros(len(rows)), 0.0
        self._adams = [Adam() for _ in (x, *self._parameters)]

    def run(self, offer: Offer, should_stop: ShouldStop) -> None:
        best = _Best(self._rows, offer)
        for k in range(_STEPS + 1):
            confidence, margin, gradients = self._evaluated()
            best.update(confidence, margin, self._x, self._parameters)
            over = k == _STEPS or should_stop()
            if over or k % _OFFER_EVERY == 0:
                best.offer()
            if over:
                return
            self._move(gradients(), max(1 - k / _STEPS, LAST_STEP))

    def _evaluated(self) -> tuple[Array, Array, Callable[[], list[Array]]]:
        """Confidences, margins of the images, and what gives gradients of inputs and parameters."""
        x, rows, count = self._x, self._rows, len(self._rows)
        images = np.zeros_like(x)
        for group, own in zip(rows.groups, self._parameters, strict=True):
            images[group.rows] = group.piece.apply(x[group.rows], own)
        scores, pull = scores_and_pull(self._problem.network, np.concatenate([x, images]))
        confidence, for_source = leads(scores[:count], rows.source)
        margin, for_target = leads(scores[count:], rows.target)
        if self._problem.perturbation is None:
            margin, for_target = np.ones(count), 0.0 * for_target

        def gradients() -> list[Array]:
            weight = self._weights(confidence, margin)
            gradient = pull(np.concatenate([for_source, weight[:, None] * for_target]))
            found = [gradient[:count].copy()]
            for group, own in zip(rows.groups, self._parameters, strict=True):
                at_images = gradient[count + group.rows]
                by_x, by_own = group.piece.pull(x[group.rows], own, at_images)
                found[0][group.rows] += by_x
                found.append(by_own)
            return [np.nan_to_num(part, posinf=0.0, neginf=0.0) for part in found]

        return confidence, margin, gradients

    def _weights(self, confidence: Array, margin: Array) -> Array:
        """What margins count beside confidences; the multipliers of violations grow."""
        sizes = np.abs(confidence[np.isfinite(confidence)])
        self._scale = self._scale or max(float(sizes.mean()) if len(sizes) else 0.0, 1e-30)
        violation = MARGIN - margin / self._scale
        weight = np.maximum(self._multiplier + self._penalty * violation, 0.0)
        grown = self._multiplier + self._learning * violation
        self._multiplier = np.clip(grown, 0.0, LARGEST_MULTIPLIER)
        return weight

    def _move(self, gradients: list[Array], decay: float) -> None:
        domain, rate = self._problem.domain, decay * self._rate
        for_x, *steps = (
            adam.direction(gradient) for adam, gradient in zip(self._adams, gradients, strict=True)
        )
        x = self._x + rate * (domain.high - domain.low) * for_x
        self._x = x = domain.approached(np.clip(x, domain.low, domain.high))
        self._parameters = [
            group.piece.moved(x[group.rows], own, rate[group.rows] * step)
            for group, own, step in zip(self._rows.groups, self._parameters, steps, strict=True)
        ]


class _Best:
    """The best attack of every row, offered once it is better than all before on its target."""

    def __init__(self, rows: _Rows, offer: Offer) -> None:
        self._rows, self._offer = rows, offer
        self._reached = np.full(len(rows), -np.inf)
        self._found: dict[int, tuple[Array, Array]] = {}
        self._offered: dict[Target, float] = {}

    def update(self, confidence: Array, margin: Array, x: Array, parameters: list[Array]) -> None:
        better = (margin > 0) & (confidence > 0) & (confidence > self._reached)
        self._reached = np.where(better, confidence, self._reached)
        for group, own in zip(self._rows.groups, parameters, strict=True):
            for place in np.flatnonzero(better[group.rows]).tolist():
                row = int(group.rows[place])
                self._found[row] = x[row], own[place]

    def offer(self) -> None:
        of_row = {row: group for group in self._rows.groups for row in group.rows.tolist()}
        for row in np.argsort(-self._reached, kind="stable").tolist():
            group, reached = of_row[row], float(self._reached[row])
            if reached > self._offered.get(group.target, 0.0):
                self._offered[group.target] = reached
                x, parameters = self._found[row]
                self._offer(group.target, x, group.piece_index, parameters)
