"""What the tests of questions share: the brightened network, and backends that follow a script."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np

from vhagar import Network
from vhagar.dependency import (
    Dependencies,
    DependencyOptions,
    Relations,
    SignStatus,
    algorithm,
    find_dependencies,
)
from vhagar.perturbation import AbstractPiece, Domain, parse
from vhagar.solver.backends import Solved, SolveStatus
from vhagar.solver.linear_model import LinearArrays

from .exact import the_piece
from .orders import Order, orders_of

SHAPE = (2,)
HIDDEN = 4
ASK_ALL = DependencyOptions(samples=0)


def brightened(text: str) -> AbstractPiece:
    return the_piece(parse(text).pieces(Domain(SHAPE), clip=False))


def order_at(known: Relations, neuron: int) -> Order | None:
    by_place = dict(zip(known.first.tolist(), orders_of(known), strict=True))
    return by_place.get(neuron)


@dataclass(frozen=True)
class Watch:
    """What a script may do: report, and look whether it should stop."""

    time_limit: float
    on_bound: Callable[[float], None]
    on_solution: Callable[[np.ndarray], None]
    should_stop: Callable[[], bool]


# Returns the bound in the end, or minus infinity for an infeasible model.
Script = Callable[[Watch, int], float]


class Scripted:
    """Runs a script for each question."""

    outward = 1e-6

    def __init__(self, script: Script) -> None:
        self._script = script
        self._objective = 0

    def __call__(self, arrays: LinearArrays, objective: int) -> Scripted:
        self._objective = objective
        return self

    def solve(self, *, seed: int, **given: Any) -> Solved:
        bound = self._script(Watch(**given), self._objective)
        if bound == -math.inf:
            return Solved(SolveStatus.INFEASIBLE, math.inf, None)
        return Solved(SolveStatus.STOPPED, bound, None)


def answered(
    network: Network, piece: AbstractPiece, **given: Any
) -> tuple[Dependencies, Counter[SignStatus]]:
    """The dependencies, and how often the questions had each answer."""
    statuses: Counter[SignStatus] = Counter()
    answer = algorithm._Search._answer

    def recorded(*arguments: Any) -> Any:
        found = answer(*arguments)
        statuses[found.status] += 1
        return found

    with patch.object(algorithm._Search, "_answer", recorded):
        return find_dependencies(network, piece, **given), statuses


def ask(network: Network, script: Script, **given: Any) -> tuple[Dependencies, Counter[SignStatus]]:
    piece = brightened("brightness([0.1,0.5])")
    given = {"options": ASK_ALL, **given}
    return answered(network, piece, backend=Scripted(script), **given)


def solution(objective: int, value: float) -> np.ndarray:
    point = np.zeros(objective + 1)
    point[objective] = value
    return point
