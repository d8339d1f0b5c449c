"""The proofs of bounds of nodes, for certificates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from vhagar.array_types import Array
from vhagar.relaxation.cone_cuts import ConeCuts
from vhagar.relaxation.layerwise import TwinBounds


class ProofKind(IntEnum):
    """How a node's bound is proven."""

    QUICK = 0  # how far the source's lead can shift, with the quick multipliers
    MULTIPLIERS = 1
    CONTRADICTION = 2  # multipliers that bound a nonnegative number below 0
    EMPTY = 3  # the decisions leave a neuron no corner
    QUADRATIC = 4  # multipliers of quadratic constraints on the difference of the copies
    SPECTRAL = 5  # scalings and norms, in a block of their own
    BOXES = 6  # a tree of boxes of inputs, in a block of its own
    TIED = 7  # as QUADRATIC, with the input among the unknowns instead of its change
    WINDOWS = 8  # multipliers of pixels and trees of boxes, in a block of its own
    FACTS = 9  # multipliers of quadratic facts about the neurons of a single copy


def _none() -> Array:
    return np.zeros(0)


@dataclass(frozen=True, eq=False)
class Proof:
    """The proof of a node's bound: the kind, the neurons' bounds that it uses, and its multipliers.

    `numbers` returns the multipliers in the order of certificates (`docs/certificate.md`, "PROF");
    it is called only if a certificate is written. The last ones are the weights of the `cuts` that
    were known when the bound was computed.
    """

    kind: ProofKind
    bounds: TwinBounds
    numbers: Callable[[], Array] = _none
    cuts: ConeCuts | None = None


@dataclass(frozen=True, eq=False)
class BlockProof:
    """The proof of a whole piece's bound, in a block of its own, without neurons' bounds.

    `content` returns the block's description and its numbers in the format of certificates (`tag`
    names the kind of block); it is called only if a certificate is written.
    """

    kind: ProofKind
    tag: bytes
    content: Callable[[], tuple[dict[str, Any], bytes]]
