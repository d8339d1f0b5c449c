"""Clip the input by layers before the network: `min(max(y, low), high)`, pixel by pixel.

Inputs in the range pass unchanged. In exact arithmetic every shift is undone by the same number.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vhagar_check.affine import BoxAffine
from vhagar_check.errors import Rejected
from vhagar_check.layers import Floats, Linear, Network, Scale
from vhagar_check.pieces import Domain, Mask

# A map that leaves the range by less than this share of its width needs no clip: it is rounding.
STAYS = 2e-9
# Exact arithmetic decides for at most this many pixels whether they leave the range at all.
_MOST_EXACT = 2**14


def clipped_pixels(given: Any, domain: Domain, clip: bool) -> tuple[Mask, Mask] | None:
    """Read which pixels are clipped from below and from above, as the header states them."""
    if given is None:
        return None
    below, above = given
    if not clip or not (below or above):
        raise Rejected("the certificate clips pixels without being asked to, or none at all")
    return _mask(below, domain.size), _mask(above, domain.size)


def _mask(numbers: Any, size: int) -> Mask:
    if not isinstance(numbers, list) or len(numbers) > size:
        raise Rejected("the certificate clips more pixels than there are")
    if any(type(number) is not int or not 0 <= number < size for number in numbers):
        raise Rejected("the certificate clips a pixel that there is not")
    found = np.zeros(size, dtype=np.bool_)
    found[numbers] = True
    return found


def require_clipped(
    pieces: list[BoxAffine], masks: tuple[Mask, Mask] | None, domain: Domain
) -> bool:
    """Refuse pieces whose image leaves the input range in a pixel that is not clipped.

    Returns whether all images stay in the range: otherwise some leave it by less than `STAYS`.
    """
    nothing = np.zeros(domain.size, dtype=np.bool_)
    below, above = masks or (nothing, nothing)
    room, doubtful = STAYS * (domain.high - domain.low), 0
    for piece in pieces:
        low, high = piece.image
        if (low < domain.low - room)[~below].any() or (high > domain.high + room)[~above].any():
            raise Rejected("a pixel leaves the input range and is not clipped to it")
    for piece in pieces:
        low, high = piece.image
        under, over = (low < domain.low) & ~below, (high > domain.high) & ~above
        for pixel in np.flatnonzero(under | over).tolist():
            doubtful += 1
            falls, rises = (True, True) if doubtful > _MOST_EXACT else piece.leaves(pixel)
            if (falls and under[pixel]) or (rises and over[pixel]):
                return False
    return True


def behind_clip(network: Network, masks: tuple[Mask, Mask], domain: Domain) -> Network:
    """Put layers that clip some pixels of the input in front of the network."""
    below, above = masks
    width = domain.high - domain.low
    # A pixel that is not clipped is lifted far above 0, where a ReLU changes nothing.
    floor = np.where(below, -domain.low, width - domain.low)
    ceiling = np.where(above, domain.high, domain.high + width)
    stages: list[tuple[Linear, ...]] = []
    waiting: tuple[Linear, ...] = ()  # for the next stage
    if below.any():
        stages.append((_scaled(1.0, floor),))
        waiting = (_scaled(1.0, -floor),) if floor.any() else ()
    if above.any():
        stages.append((*waiting, _scaled(-1.0, ceiling)))
        waiting = (_scaled(-1.0, ceiling),)
    linear = (*(None for _ in stages), *network.linear) if network.linear else ()
    stages.append((*waiting, *network.stages[0]))
    return Network((*stages, *network.stages[1:]), network.input_shape, linear)


def _scaled(factor: float, bias: Floats) -> Scale:
    return Scale(np.full(len(bias), factor), np.ones(len(bias)), bias)
