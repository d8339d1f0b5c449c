"""What the bound of a node rests on."""

from __future__ import annotations

from enum import IntEnum


class ProofKind(IntEnum):
    """Why a node's bound holds."""

    QUICK = 0  # the margin's shift, with the quick slopes
    MULTIPLIERS = 1
    CONTRADICTION = 2  # multipliers by which a number that is at least 0 would be negative
    EMPTY = 3  # the decisions leave a neuron no corner
