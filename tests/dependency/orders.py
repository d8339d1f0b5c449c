"""Relations in the paper's notation."""

from __future__ import annotations

from enum import Enum

import numpy as np

from vhagar.dependency import Relations


class Order(Enum):
    """The order of the first copy's value relative to the second's."""

    EQUAL = "="
    AT_MOST = "<="
    AT_LEAST = ">="


_ORDERS = {
    (False, False): None,
    (True, False): Order.AT_MOST,
    (False, True): Order.AT_LEAST,
    (True, True): Order.EQUAL,
}


def orders_of(known: Relations) -> list[Order | None]:
    """The relation of each pair; None if there is none."""
    below, above = np.isfinite(known.gap_lower), np.isfinite(known.gap_upper)
    return [_ORDERS[low, high] for low, high in zip(below.tolist(), above.tolist(), strict=True)]
