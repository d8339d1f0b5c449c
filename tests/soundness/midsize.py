"""Problems too large for the exact oracle: two engines that share little must not contradict.

Networks of tens of neurons on small images, a few seconds each. Whatever the engines have found by
then, all intervals hold the same number, so that every two of them have a point in common.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from vhagar import Network, Problem
from vhagar.network import AbstractLayer, Affine, Convolution, Relu

from ..oracle.cases import KINDS, Rng, between, change_in
from .judge import Finding, run_bab, run_mip, stored

_SECONDS = 2.0
_SHAPES = ((1, 4, 4), (1, 5, 5), (1, 6, 6), (2, 4, 4), (3, 4, 4))
_HIDDEN = ([20], [30], [12, 12], [16, 10], [10, 10, 10], [25, 15])


def _float32(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float32).astype(np.float64)


def _affine(rng: Rng, shape: tuple[int, ...], out: int) -> Affine:
    into = int(np.prod(shape))
    weight = rng.normal(size=(out, into)) * np.sqrt(2 / into)
    return Affine(_float32(weight), _float32(rng.normal(size=out) / 4), shape, (out,))


def _dense(rng: Rng, shape: tuple[int, ...], classes: int) -> Network:
    layers: list[AbstractLayer] = []
    for size in _HIDDEN[rng.integers(len(_HIDDEN))]:
        layers += [_affine(rng, layers[-1].out_shape if layers else shape, size), Relu((size,))]
    return Network((*layers, _affine(rng, layers[-1].out_shape, classes)), shape)


def _convolutional(rng: Rng, shape: tuple[int, ...], classes: int) -> Network:
    kernel = _float32(rng.normal(size=(3, shape[0], 3, 3)) / 2)
    first = Convolution(
        kernel, _float32(rng.normal(size=3) / 4), shape, stride=(2, 2), padding=(1, 1, 1, 1)
    )
    return Network((first, Relu(first.out_shape), _affine(rng, first.out_shape, classes)), shape)


def larger_problem(number: int) -> tuple[str, Problem]:
    """The problem of that number: perturbations take turns, every third network convolves."""
    rng = np.random.default_rng([13, number])
    kind = list(KINDS)[number % len(KINDS)]
    build = _convolutional if number // len(KINDS) % 3 == 2 else _dense
    for _ in range(5):
        shape = _SHAPES[rng.integers(len(_SHAPES))]
        classes = int(rng.integers(3, 6))
        problem = Problem(
            build(rng, shape, classes),
            perturbation=KINDS[kind](rng, shape, 1.0),
            source=int(rng.integers(classes)),
            clip=bool(rng.random() < 0.5),
        )
        change = change_in(problem, rng)
        if change is not None:
            return f"{kind}, {build.__name__.strip('_')}", between(problem, *change)
    return f"{kind}, {build.__name__.strip('_')}", problem


def look(number: int, folder: Path) -> Finding:
    what, problem = larger_problem(number)
    finding = Finding("midsize", number, what)
    finding.facts["kind"] = what
    finding.facts["neurons"] = problem.network.hidden_neurons
    at_hand = stored(problem, folder)
    bab, verdict = run_bab(at_hand, finding, _SECONDS, folder / "certificate")
    mip = run_mip(at_hand, finding, _SECONDS)
    for target, other in mip.targets.items():
        mine = bab.targets[target]
        if max(mine.lower, other.lower) > min(mine.upper, other.upper):
            finding.wrong.append(f"target {target}: bab {mine} and mip {other} are disjoint")
        if verdict is not None and (
            other.lower > verdict.uppers[target] or verdict.lowers[target] > other.upper
        ):
            finding.wrong.append(f"target {target}: the certificate and mip {other} are disjoint")
    if max(bab.lower, mip.lower) > min(bab.upper, mip.upper):
        finding.wrong.append(f"bab [{bab.lower}, {bab.upper}], mip [{mip.lower}, {mip.upper}]")
    return finding
