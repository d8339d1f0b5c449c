"""Boxes of a piece's parameters, with the signs that are decided there, and their proofs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array, Index, Mask
from vhagar.local.branching import Tree, VersionSearch
from vhagar.local.compact import Decisions, RefinedLayer
from vhagar.local.quadratic_proof import FactsProof, QuadraticBounds


@dataclass(frozen=True, eq=False)
class BoxProof:
    """The proof of a box's bounds: its neurons' ranges, and its search tree.

    `facts` are the proofs of those targets that quadratic facts closed. With `is_empty` the ranges
    of the neurons contradict a decision, which `decisions` leave out.
    """

    status: list[NDArray[np.uint8]]
    neurons: list[Index]  # the undecided ones of each ReLU layer
    refined: list[RefinedLayer]
    tree: Tree
    roots: list[int]
    start: Array
    closed: Mask
    decisions: Decisions
    facts: dict[int, FactsProof] = field(default_factory=dict)
    is_empty: bool = False


@dataclass(eq=False)
class Box:
    """A box of parameters: the targets to exclude there, their search, and its parts.

    `rows` are indices into the list of targets, `start` their rows of score coefficients. The parts
    are two halves, or both signs of a neuron, or the same box with tightened ranges; they are about
    the targets that were still open.
    """

    lower: Array
    upper: Array
    rows: Index
    uppers: Array  # (rows,)
    decisions: Decisions = field(default_factory=dict)
    tightened: bool = False
    start: Array = field(default_factory=lambda: np.zeros((0, 0)))
    search: VersionSearch | None = None
    proof: BoxProof | None = None
    parts: tuple[Box, ...] = ()
    at: tuple[int, float] | None = None  # the parameter that is split, and where
    neuron: tuple[int, int] | None = None  # whose sign is decided in the parts: layer and index
    stuck: bool = False
    quadratic: QuadraticBounds | None = None
    facts: dict[int, FactsProof] = field(default_factory=dict)  # by the place of the target
    needs_signs: bool = False  # whether quadratic facts alone do not close it
    # Processor seconds for the neurons' ranges and the roots, and for the search since then.
    seconds_to_begin: float = 0.0
    seconds: float = 0.0
    # The largest value of an open node at several such times.
    worst: list[tuple[float, float]] = field(default_factory=list)

    def note(self, seconds: float, worst: float) -> None:
        """Take down how far the search has come, after so many more seconds."""
        self.seconds += seconds
        self.worst.append((self.seconds, worst))

    @property
    def forecast(self) -> float:
        """Seconds in which the search will end if each doubling of its time gains as much as the
        last one did."""
        now = self.worst[-1][1]
        before = next((value for at, value in reversed(self.worst) if 2 * at <= self.seconds), None)
        if before is None or not before > now:
            return math.inf
        return float(self.seconds * np.expm1(min(np.log(2) * now / (before - now), 100.0)))

    @property
    def is_closed(self) -> bool:
        return bool((self.uppers < 0).all())

    def part(
        self,
        lower: Array | None = None,
        upper: Array | None = None,
        decided: Decisions | None = None,
        tightened: bool = False,
    ) -> Box:
        """A part of the box, for the targets that are still open."""
        left = np.flatnonzero(~(self.uppers < 0))
        return Box(
            self.lower if lower is None else lower,
            self.upper if upper is None else upper,
            self.rows[left],
            self.uppers[left],
            {**self.decisions, **(decided or {})},
            tightened,
        )


def uppers_of(box: Box, targets: int) -> Array:
    """The bounds of a box on all targets, or those of its parts where they are better."""
    own = box.uppers.copy()
    if box.parts:
        below = np.max([uppers_of(part, targets)[part.rows] for part in box.parts], axis=0)
        places = np.searchsorted(box.rows, box.parts[0].rows)
        own[places] = np.minimum(own[places], below)
    whole = np.full(targets, -np.inf)
    whole[box.rows] = own
    return whole
