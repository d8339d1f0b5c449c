"""Bounds the scores of one image's versions by quadratic facts about the undecided neurons.

Branch and bound sees every undecided neuron by its triangle alone. For its output `z` and its
pre-activation `s`, and for the coordinates `e` of the versions, there are these facts:

    z (s - z) = 0      z >= 0      z >= s      chord (s - lower) >= z      z (upper - z) >= 0
    1 - e_k^2 >= 0

A lead of scores plus these facts, each times a multiplier, is a quadratic function of `(e, z)`. If
it is concave, its maximum bounds the lead, whatever the multipliers are (A. Raghunathan et al.,
"Semidefinite relaxations for certifying robustness to adversarial examples", 2018). It has only
squares of the coordinates, which are eliminated first: the matrix has a row for each neuron.

This proposes multipliers, partly in float32; `quadratic_proof` says what they prove.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array
from vhagar.local.compact import Compact, dense

# Range of the multipliers: so that products of several are far from overflow and underflow.
SMALLEST, LARGEST = 1e-25, 1e25
# Most steps for one lead; after every so many, they end if their pace does not lead below 0.
_STEPS, _LOOK = 400, 50
# Lengths of the steps on the multipliers' logarithms, and weights of the barrier, first and last.
_LENGTHS, _BARRIERS = (0.3, 0.1), (0.2, 0.02)
# Steps until both have their last values.
_SHRINKING = 300
# Decay of the gradients' mean, and of their squares' mean.
# Measured: on cifar_resnet_2b, a memory of ten steps ends after 129 of them, one of 100 not in 400.
_MOMENTUM, _MEMORY = 0.9, 0.9
# A step may make the value worse by this share of the known bound; it is halved at most so often.
_WORSE, _HALVINGS = 0.2, 12
# Random vectors for the gradient of the determinant.
_PROBES = 16
# First multipliers: of the curve relative to those of the triangles, and by how much they
# may have to shrink from layer to layer.
_SHARE, _GROWTHS = 0.01, (1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 50.0, 100.0)


@dataclass(frozen=True, eq=False)
class Facts:
    """The undecided neurons: `s = on_inputs @ e + on_neurons @ z + bias`, in the order of layers.

    `spread` turns coordinates into versions; `error` bounds the error of each row.
    """

    spread: Any  # (size, coordinates), sparse
    on_inputs: Array
    on_neurons: Array
    bias: Array
    lower: Array
    upper: Array
    chord: Array
    error: Array
    layer: NDArray[np.int64]

    @cached_property
    def narrow(self) -> Any:
        return self.on_inputs.astype(np.float32)

    @classmethod
    def of(cls, compact: Compact) -> Facts:
        from scipy import sparse

        versions = compact.versions
        moving = np.flatnonzero(versions.room > 0)
        own = sparse.csc_array(sparse.diags_array(versions.room))[:, moving]
        spread = sparse.csr_array(sparse.hstack([versions.directions, own], format="csr"))
        count, size, begin = compact.undecided, len(versions.centre), 0
        on_inputs, on_neurons = np.zeros((count, spread.shape[1])), np.zeros((count, count))
        bias, error, lower, upper = np.zeros((4, count))
        layer = np.zeros(count, dtype=np.int64)
        for number, block in enumerate(compact.blocks):
            part = slice(begin, begin + len(block.neurons))
            on_inputs[part] = block.weight[:, :size] @ spread
            on_neurons[part, :begin] = block.weight[:, size:]
            bias[part] = block.bias + block.weight[:, :size] @ versions.centre
            error[part], lower[part], upper[part] = block.error, block.lower, block.upper
            layer[part], begin = number, part.stop
        wide = upper > lower
        chord = np.where(wide, upper / np.where(wide, upper - lower, 1.0), 1.0)
        return cls(spread, on_inputs, on_neurons, bias, lower, upper, chord, error, layer)


@dataclass(frozen=True, eq=False)
class Lead:
    """A lead of scores: `on_inputs @ e + on_neurons @ z + constant`, up to an error."""

    on_inputs: Array
    on_neurons: Array
    constant: float
    error: float

    @classmethod
    def of(cls, compact: Compact, facts: Facts, start: Array) -> Lead:
        assert compact.scores is not None
        rows, centre = compact.scores, compact.versions.centre
        weight = start @ dense(rows.weight)
        return cls(
            weight[: len(centre)] @ facts.spread,
            weight[len(centre) :],
            float(start @ rows.bias + weight[: len(centre)] @ centre),
            float(abs(start) @ rows.error),
        )


@dataclass(frozen=True, eq=False)
class Multipliers:
    """Positive numbers, one array for each kind of fact, joined in `all`."""

    all: Array
    neurons: int

    @property
    def parts(self) -> list[Array]:
        """Of the curve, of 0, of `s`, of the chord, of the range, and of the coordinates."""
        return np.split(self.all, self.neurons * np.arange(1, 6))

    def moved(self, step: Array) -> Multipliers:
        """The multipliers after a step on their logarithms."""
        with np.errstate(all="ignore"):
            found = (self.all * np.exp(step)).clip(SMALLEST, LARGEST)
        return Multipliers(found, self.neurons)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The value of multipliers, and the gradient of value and barrier by their logarithms."""

    value: float
    gradient: Array


# Evaluates multipliers with a weight of the barrier.
_Tried = Callable[[Multipliers, float], Evaluation | None]


@np.errstate(all="ignore")  # a value that is not finite is rejected
def evaluate(
    facts: Facts, lead: Lead, multipliers: Multipliers, barrier: float, random: Any
) -> Evaluation | None:
    """The maximum of the lead plus the facts; None where it is not concave.

    The derivative by a multiplier is its fact's value at the maximiser. `barrier` times the
    logarithm of the determinant is subtracted: without it, the steps soon end where the matrix is
    singular. Its derivative by the coordinates' multipliers is estimated with random signs.
    """
    from scipy.linalg import blas, lapack  # takes long to import

    curve, zero, line, above, range_, box = multipliers.parts
    slopes = facts.chord * above - line
    on_inputs = lead.on_inputs + slopes @ facts.on_inputs
    scaled = facts.narrow * np.sqrt(0.5 / box).astype(np.float32)
    squares = blas.ssyrk(1.0, scaled.T, trans=1, lower=1).astype(np.float64)
    matrix = -squares * (curve[:, None] * curve / 2) - curve[:, None] * facts.on_neurons / 2
    matrix[np.diag_indices(len(curve))] += curve + range_
    factor, failed = lapack.dpotrf(np.asfortranarray(matrix), lower=1)
    if failed:
        return None
    right = lead.on_neurons + zero + line - above + slopes @ facts.on_neurons
    right += curve * (facts.bias + facts.on_inputs @ (on_inputs / box) / 2) + range_ * facts.upper
    z = lapack.dpotrs(factor, right, lower=1)[0] / 2
    value = lead.constant + slopes @ facts.bias - (facts.chord * above) @ facts.lower + box.sum()
    value += (on_inputs**2 / box).sum() / 4 + right @ z / 2
    if not np.isfinite(value):
        return None
    e = (on_inputs + (curve * z) @ facts.on_inputs) / (2 * box)
    s = facts.on_inputs @ e + facts.on_neurons @ z + facts.bias
    inverse = np.tril(lapack.dpotri(factor, lower=1)[0])
    own = inverse.diagonal() * barrier
    inverse += np.tril(inverse, -1).T
    squares = np.tril(squares) + np.tril(squares, -1).T
    through = ((squares * curve + facts.on_neurons) * inverse).sum(axis=1) * barrier
    signs = np.asfortranarray(random.choice([-1.0, 1.0], (len(curve), _PROBES)))
    probes = lapack.dtrtrs(factor, signs, lower=1, trans=1)[0]
    across = ((curve[:, None] * probes).T.astype(np.float32) @ facts.narrow) / (2 * box)
    gradient = [
        z * (s - z) - own + through,
        z,
        z - s,
        facts.chord * (s - facts.lower) - z,
        z * (facts.upper - z) - own,
        1 - e**2 - barrier * (across**2).mean(axis=0),
    ]
    return Evaluation(float(value), multipliers.all * np.concatenate(gradient))


def starting_multipliers(facts: Facts, lead: Lead, growth: float) -> Multipliers:
    """CROWN's multipliers, and small ones of the curve, smaller from layer to layer."""
    count = len(facts.bias)
    a, p = lead.on_neurons.copy(), np.zeros(count)
    near = (facts.chord > 0.5).astype(np.float64)
    for k in range(count - 1, -1, -1):  # rows have entries only for earlier neurons
        p[k] = a[k] * (facts.chord[k] if a[k] > 0 else near[k])
        if p[k]:
            a[:k] += p[k] * facts.on_neurons[k, :k]
    least = _SHARE * (abs(a) + abs(a).mean()) / 10
    up, down = np.maximum(a, 0.0), np.maximum(-a, 0.0)
    linear = [np.maximum(part, least) for part in (down * (1 - near), down * near, up)]
    on_inputs = abs(lead.on_inputs + p @ facts.on_inputs) / 2
    box = np.maximum(on_inputs, on_inputs.mean() / 20)
    size = abs(a).sum() / max((facts.upper - facts.lower).sum(), SMALLEST)
    curve = _SHARE * size / growth ** (facts.layer + 1.0)
    return Multipliers(np.concatenate([curve, *linear, curve / 10, box]), count).moved(np.zeros(1))


@dataclass(eq=False)
class QuadraticSearch:
    """Improves multipliers for one lead after another, each from those of the lead before."""

    facts: Facts
    last: Multipliers | None = None

    def improve(
        self,
        lead: Lead,
        known: float,
        stop: Callable[[], bool],
        proves: Callable[[Multipliers], bool],
    ) -> None:
        """Take steps until multipliers with a value below 0 prove it, or nothing more is likely.

        `known` is a bound on the lead.
        """
        random = np.random.default_rng(0)

        def tried(multipliers: Multipliers, barrier: float) -> Evaluation | None:
            """One evaluation takes long enough to ask each time."""
            return None if stop() else evaluate(self.facts, lead, multipliers, barrier, random)

        found = self._start(lead, tried)
        steps, best, asked = _Descent(), np.inf, 0.0
        for step in range(_STEPS):
            if found is None or stop():
                return
            self.last, value = found[0], found[1].value
            if value < asked:
                if proves(found[0]):
                    return
                asked = 2 * value
            if step % _LOOK == 0:
                if best - min(best, value) < max(value, 0.0) * _LOOK / (_STEPS - step):
                    return
                best = value
            length, barrier = schedule(step, len(self.facts.bias))
            move = length * steps.direction(found[1].gradient)
            worst = value + _WORSE * known
            found = self._stepped(tried, found[0], move, barrier, worst, steps)

    def _stepped(
        self,
        tried: _Tried,
        now: Multipliers,
        move: Array,
        barrier: float,
        worst: float,
        steps: _Descent,
    ) -> tuple[Multipliers, Evaluation] | None:
        """The multipliers after a step, which is halved until their value is below `worst`."""
        for _ in range(_HALVINGS):
            moved = now.moved(-move)
            found = tried(moved, barrier)
            if found is not None and found.value < worst:
                return moved, found
            move = move / 2
            steps.slow_down()
        return None

    def _start(self, lead: Lead, tried: _Tried) -> tuple[Multipliers, Evaluation] | None:
        """The multipliers of the last lead, or the best first ones."""
        barrier = schedule(0, len(self.facts.bias))[1]
        given = [self.last] if self.last is not None else None
        given = given or [starting_multipliers(self.facts, lead, g) for g in _GROWTHS]
        evaluations = [tried(each, barrier) for each in given]
        found = [(a, b) for a, b in zip(given, evaluations, strict=True) if b is not None]
        return min(found, key=lambda pair: pair[1].value, default=None)


def schedule(step: int, neurons: int) -> tuple[float, float]:
    """The length of a step, and the weight of the barrier."""
    done = min(1.0, (step + 1) / _SHRINKING)
    length, barrier = (first * (last / first) ** done for first, last in (_LENGTHS, _BARRIERS))
    return length, barrier / max(neurons, 1)


@dataclass(eq=False)
class _Descent:
    """Directions as Adam's, but with a shorter memory of the gradients' squares."""

    mean: Array | float = 0.0
    square: Array | float = 0.0
    count: int = 0

    def direction(self, gradient: Array) -> Array:
        self.count += 1
        self.mean = _MOMENTUM * self.mean + (1 - _MOMENTUM) * gradient
        self.square = _MEMORY * self.square + (1 - _MEMORY) * gradient * gradient
        size = np.sqrt(self.square / (1 - _MEMORY**self.count)) + 1e-20
        return np.asarray(self.mean / (1 - _MOMENTUM**self.count) / size)

    def slow_down(self) -> None:
        """Halve the momentum after a step that was too long."""
        self.mean = self.mean / 2
