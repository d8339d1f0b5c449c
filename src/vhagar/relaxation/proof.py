"""What the bound of a node rests on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar.relaxation.layerwise import TwinBounds


class ProofKind(IntEnum):
    """Why a node's bound holds."""

    QUICK = 0  # the margin's shift, with the quick slopes
    MULTIPLIERS = 1
    CONTRADICTION = 2  # multipliers by which a number that is at least 0 would be negative
    EMPTY = 3  # the decisions leave a neuron no corner
    QUADRATIC = 4  # multipliers of quadratic facts about the difference of the copies
    SPECTRAL = 5  # scalings and norms, in a block of their own
    BOXES = 6  # a tree of boxes of inputs, in a block of its own
    TIED = 7  # as QUADRATIC, with the input among the unknowns instead of its change


def _none() -> NDArray[np.float64]:
    return np.zeros(0)


@dataclass(frozen=True, eq=False)
class Proof:
    """Why a node's bound holds: the kind, the neurons' bounds that it uses, and its multipliers.

    `numbers` gives the multipliers in the order of certificates (`docs/certificate.md`, "PROF"); it
    is called only where a certificate is asked for.
    """

    kind: ProofKind
    bounds: TwinBounds
    numbers: Callable[[], NDArray[np.float64]] = _none


@dataclass(frozen=True, eq=False)
class BlockProof:
    """Why the bound of a whole piece holds, in a block of its own, without neurons' bounds.

    `content` gives the block's description and its numbers as certificates have them (`tag` names
    the kind of block); it is called only where a certificate is asked for.
    """

    kind: ProofKind
    tag: bytes
    content: Callable[[], tuple[dict[str, Any], bytes]]
