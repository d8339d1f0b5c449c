"""What the tests of questions share: the brightened network, and backends that follow a script."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vhagar import Network
from vhagar.dependency import (
    Dependencies,
    DependencyOptions,
    Order,
    Relations,
    Verdict,
    Watch,
    find_dependencies,
)
from vhagar.perturbation import AbstractPiece, Domain, parse
from vhagar.solver.linear_model import LinearArrays

from .exact import the_piece

SHAPE = (2,)
HIDDEN = 4
ASK_ALL = DependencyOptions(samples=0)


def brightened(text: str) -> AbstractPiece:
    return the_piece(parse(text).pieces(Domain(SHAPE), clip=False))


def order_at(known: Relations, neuron: int) -> Order | None:
    by_place = dict(zip(known.first.tolist(), known.orders(), strict=True))
    return by_place.get(neuron)


def believed(found: Dependencies) -> dict[Verdict, int]:
    return found.statistics[HIDDEN].questions


class Scripted:
    """Runs a script for each question, and keeps what it was asked."""

    outward = 1e-6

    def __init__(self, script: Callable[[Watch, int], float]) -> None:
        self._script = script
        self._objective = 0
        self.watches: list[Watch] = []

    def __call__(self, arrays: LinearArrays, objective: int) -> Scripted:
        self._objective = objective
        return self

    def maximise(self, watch: Watch) -> float:
        self.watches.append(watch)
        return self._script(watch, self._objective)


def ask(network: Network, script: Callable[[Watch, int], float], **given: object) -> Dependencies:
    piece = brightened("brightness([0.1,0.5])")
    given = {"options": ASK_ALL, **given}
    return find_dependencies(network, piece, backend=Scripted(script), **given)


def solution(objective: int, value: float) -> np.ndarray:
    point = np.zeros(objective + 1)
    point[objective] = value
    return point
