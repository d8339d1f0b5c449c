"""Networks that are hard on arithmetic, tiny enough for the exact oracle.

Weights of sixteen orders of magnitude, near ties, huge biases, neurons that never switch, neurons
that are copies of each other, layers of zeros, constant scores, layers of one neuron.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np

from vhagar import Network, Problem
from vhagar.network import AbstractLayer, Affine, Relu

from ..oracle.cases import KINDS, Rng, between, change_in
from ..oracle.exact import exact_optimum
from .judge import Finding, require_proved, require_sound, run_bab, run_mip, stored

Layers = list[tuple[np.ndarray, np.ndarray]]
_SHAPES = ((1, 2, 2), (1, 1, 3), (1, 1, 4))
_SECONDS, _SECONDS_OF_RANGES = 5.0, 0.4
_HIDDEN = ([2], [3], [4], [2, 2], [3, 2])


def _drawn(rng: Rng, sizes: list[int]) -> Layers:
    return [
        (rng.normal(size=(out, into)), rng.normal(size=out) / 2)
        for into, out in itertools.pairwise(sizes)
    ]


def _usual(rng: Rng, inputs: int, classes: int) -> Layers:
    return _drawn(rng, [inputs, *_HIDDEN[rng.integers(len(_HIDDEN))], classes])


def every_weight_of_its_size(rng: Rng, inputs: int, classes: int) -> Layers:
    """Every weight and bias by itself from 1e-8 to 1e8."""
    return [
        (w * 10.0 ** rng.uniform(-8, 8, w.shape), b * 10.0 ** rng.uniform(-8, 8, b.shape))
        for w, b in _usual(rng, inputs, classes)
    ]


def every_layer_of_its_size(rng: Rng, inputs: int, classes: int) -> Layers:
    """Whole layers of weights about 1e-8 or 1e8, with biases to match or not."""
    found = []
    for w, b in _usual(rng, inputs, classes):
        size = 10.0 ** rng.choice([-8, 8])
        found.append((w * size, b * (size if rng.random() < 0.5 else 1.0)))
    return found


def near_ties(rng: Rng, inputs: int, classes: int) -> Layers:
    """Two classes whose scores differ in the last bits of float32."""
    layers = _usual(rng, inputs, classes)
    weight, bias = (part.astype(np.float32) for part in layers[-1])
    first, second = rng.choice(classes, 2, replace=False)
    weight[first], bias[first] = weight[second], bias[second]
    bias[first] = np.nextafter(bias[first], np.float32(rng.choice([-np.inf, np.inf])))
    if rng.random() < 0.5:
        weight[first, 0] = np.nextafter(weight[first, 0], np.float32(np.inf))
    return [*layers[:-1], (weight.astype(np.float64), bias.astype(np.float64))]


def huge_biases(rng: Rng, inputs: int, classes: int) -> Layers:
    """Biases of up to 1e8 that cancel each other in the differences of scores, or do not."""
    layers = _usual(rng, inputs, classes)
    weight, bias = layers[-1]
    shift = 10.0 ** rng.integers(4, 9)
    layers[-1] = (
        weight,
        bias + (shift if rng.random() < 0.7 else shift * rng.normal(size=classes)),
    )
    if len(layers) > 1 and rng.random() < 0.5:
        layers[0] = (layers[0][0], layers[0][1] + shift * rng.choice([-1, 1], len(layers[0][1])))
    return layers


def all_stable(rng: Rng, inputs: int, classes: int) -> Layers:
    """No neuron ever switches, some of them by a hair."""
    layers = _usual(rng, inputs, classes)
    reach = np.ones(inputs)
    for weight, bias in layers[:-1]:
        weight[:] = weight.astype(np.float32)
        span = np.abs(weight) @ reach
        hair = rng.choice([0.0, 1e-7, 1.0], len(bias))
        bias[:] = np.where(rng.random(len(bias)) < 0.7, span, -span) * (1 + hair)
        reach = 2 * span * (1 + hair)
    return layers


def duplicates(rng: Rng, inputs: int, classes: int) -> Layers:
    """Neurons that are copies or negatives of others, and what they add up to cancels."""
    layers = _usual(rng, inputs, classes)
    weight, bias = layers[0]
    sign = rng.choice([-1.0, 1.0])
    weight, bias = np.vstack([weight, sign * weight]), np.concatenate([bias, sign * bias])
    after, after_bias = layers[1]
    return [(weight, bias), (np.hstack([after, -after]), after_bias), *layers[2:]]


def layer_of_zeros(rng: Rng, inputs: int, classes: int) -> Layers:
    """One layer, or some rows or columns of it, are 0."""
    layers = _usual(rng, inputs, classes)
    weight, bias = layers[rng.integers(len(layers))]
    way = rng.integers(4)
    if way == 0:
        weight[:] = 0
    elif way == 1:
        weight[:], bias[:] = 0, 0
    elif way == 2:
        weight[rng.integers(len(weight))] = 0
    else:
        weight[:, rng.integers(weight.shape[1])] = 0
    return layers


def no_hidden_layer(rng: Rng, inputs: int, classes: int) -> Layers:
    return _drawn(rng, [inputs, classes])


def constant(rng: Rng, inputs: int, classes: int) -> Layers:
    """Nothing depends on the input; now and then all scores are the same."""
    layers = _usual(rng, inputs, classes)
    bias = layers[-1][1] if rng.random() < 0.6 else np.zeros(classes)
    layers[-1] = (np.zeros_like(layers[-1][0]), bias)
    return layers


def single_neurons(rng: Rng, inputs: int, classes: int) -> Layers:
    hidden = ([1], [1, 1], [1, 1, 1], [3, 1], [1, 3])
    return _drawn(rng, [inputs, *hidden[rng.integers(len(hidden))], classes])


def extreme_exponents(rng: Rng, inputs: int, classes: int) -> Layers:
    """Many small layers at the ends of float32's range: coefficients vanish, neurons explode.

    What is tiny and what is huge cancel in the scores, in whatever order they come.
    """
    pairs = int(rng.integers(4, 9))
    exponents = np.repeat([-37.0, 37.0], pairs)
    order = (rng.permutation(2 * pairs), np.arange(2 * pairs), np.arange(2 * pairs)[::-1])
    exponents = exponents[order[rng.integers(3)]]
    hidden = [int(size) for size in rng.integers(1, 3, 2 * pairs - 1)]
    return [
        (abs(weight) * 10.0**exponent, np.zeros(len(bias)))
        for (weight, bias), exponent in zip(
            _drawn(rng, [inputs, *hidden, classes]), exponents, strict=True
        )
    ]


HARD: dict[str, Callable[[Rng, int, int], Layers]] = {
    "every weight of its size": every_weight_of_its_size,
    "every layer of its size": every_layer_of_its_size,
    "near ties": near_ties,
    "huge biases": huge_biases,
    "all stable": all_stable,
    "duplicates": duplicates,
    "a layer of zeros": layer_of_zeros,
    "no hidden layer": no_hidden_layer,
    "constant": constant,
    "single neurons": single_neurons,
    "extreme exponents": extreme_exponents,
}


def _network(layers: Layers, shape: tuple[int, ...]) -> Network:
    found: list[AbstractLayer] = []
    for pair in layers:
        weight, bias = (part.astype(np.float32).astype(np.float64) for part in pair)
        before = found[-1].out_shape if found else shape
        found += [Affine(weight, bias, before, bias.shape), Relu(bias.shape)]
    return Network(tuple(found[:-1]), shape)


def hard_problem(number: int) -> tuple[str, Problem]:
    """The problem of that number, the same every time: ways and perturbations take turns."""
    rng = np.random.default_rng([11, number])
    way = list(HARD)[number % len(HARD)]
    kind = list(KINDS)[number // len(HARD) % len(KINDS)]
    for _ in range(5):
        shape = _SHAPES[rng.integers(len(_SHAPES))]
        classes = int(rng.integers(2, 4))
        network = _network(HARD[way](rng, int(np.prod(shape)), classes), shape)
        problem = Problem(
            network,
            perturbation=KINDS[kind](rng, shape, 1.0),
            source=int(rng.integers(classes)),
            clip=rng.random() < 0.5,
        )
        change = change_in(problem, rng)
        if change is not None:
            return f"{way}, {kind}", between(problem, *change)
    return f"{way}, {kind}", problem


def look(number: int, folder: Path) -> Finding:
    what, problem = hard_problem(number)
    finding = Finding("numerics", number, what)
    finding.facts["kind"] = what.split(",")[0]
    truths = exact_optimum(problem)
    at_hand = stored(problem, folder)
    ranges = any(not truth.exact for truth in truths.values())
    seconds = _SECONDS_OF_RANGES if ranges else _SECONDS
    result, verdict = run_bab(at_hand, finding, seconds, folder / "certificate")
    require_sound("bab", problem, truths, result, finding)
    if verdict is not None:
        require_proved(truths, verdict, finding)
    result = run_mip(at_hand, finding, seconds)
    require_sound("mip", problem, truths, result, finding)
    return finding
