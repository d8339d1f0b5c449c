"""A problem as another problem, and the way back.

`apply` turns a problem into one that is easier to search, or leaves it alone. Whatever is found of
the new problem, candidates for witnesses and upper bounds, comes back through `restore`. A witness
counts only once it has been checked on the problem as it was given.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from vhagar.array_types import Array
from vhagar.problem import Problem

# The number of a piece, an input `(size,)` and the piece's parameters `(parameters,)`.
Point = tuple[int, Array, Array]


class AbstractRestore(ABC):
    """The way back from a reduced problem to the one it was made of."""

    @abstractmethod
    def witness(self, piece_index: int, x: Array, parameters: Array) -> Point:
        """A candidate for a witness of the reduced problem, as one of the given problem."""

    def upper(self, value: float) -> float:
        """An upper bound on the reduced problem, as one on the given problem."""
        return value

    def statement(self) -> dict[str, Any]:
        """What a certificate says of the reduction, in JSON's own types."""
        return {}


@dataclass(frozen=True, eq=False)
class Reduced:
    """What reductions make of a problem: `problem` is searched in place of the `original`.

    `ceiling` asks how confident the network can be in the source class at all: no attacked input is
    more confident than that. `splits_entries` says whether entries that are whole numbers may be
    split: a certificate has such splits in all of its trees, or in none.
    """

    original: Problem
    problem: Problem
    restore: AbstractRestore
    ceiling: Problem
    splits_entries: bool = True


class AbstractReduction(ABC):
    """One way to turn a problem into another."""

    name: ClassVar[str]

    @abstractmethod
    def apply(self, problem: Problem) -> Reduced | None:
        """The reduced problem; None where there is nothing to reduce."""


@dataclass(frozen=True)
class RestoreAll(AbstractRestore):
    """The way back through several reductions, of which the last comes first."""

    steps: tuple[AbstractRestore, ...] = ()

    def witness(self, piece_index: int, x: Array, parameters: Array) -> Point:
        for step in reversed(self.steps):
            piece_index, x, parameters = step.witness(piece_index, x, parameters)
        return piece_index, x, parameters

    def upper(self, value: float) -> float:
        for step in reversed(self.steps):
            value = step.upper(value)
        return value

    def statement(self) -> dict[str, Any]:
        return {key: value for step in self.steps for key, value in step.statement().items()}


def reduce_problem(problem: Problem, reductions: Iterable[AbstractReduction]) -> Reduced:
    """Apply the reductions one after the other, each to what the one before has made."""
    original, ceiling = problem, problem.without_perturbation()
    steps: list[AbstractRestore] = []
    for reduction in reductions:
        reduced = reduction.apply(problem)
        if reduced is not None:
            problem, ceiling = reduced.problem, reduced.ceiling
            steps.append(reduced.restore)
    return Reduced(original, problem, RestoreAll(tuple(steps)), ceiling)
