"""Tighten a layer's hexagons by better multipliers: from a few first-order steps, or given ones.

The multipliers are stored with the bounds (`Refined`), so that a certificate can prove the bounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array, Index
from vhagar.relaxation.first_order.dual import Dual, LayerMultipliers, Steps, support_of_piece
from vhagar.relaxation.first_order.hulls import Hulls
from vhagar.relaxation.first_order.objective import FixedObjective
from vhagar.relaxation.hexagon import Hexagons
from vhagar.relaxation.layerwise import Refined, TwinBounds
from vhagar.relaxation.starts import hexagon_directions, maxima_of, neuron_starts
from vhagar.relaxation.twin_dual import Choice
from vhagar.runtime.deadline import NEVER, Deadline

# Most steps, and most multipliers moved in all steps of a refinement together: some seconds.
_MOST_STEPS, _MOST_STEPPED = 60, 12_000_000
# The size of the first step, and the ratio of each step to the one before.
_STEP, _DECAY = 0.05, 0.95


def refine_layer(bounds: TwinBounds, layer: int, deadline: Deadline = NEVER) -> None:
    """Tighten the hexagons of a layer's undecided neurons by first-order steps."""
    if layer < 1:
        return  # the first layer's supports are exact
    hexagons = bounds.hexagons[layer]
    undecided = np.flatnonzero(hexagons.undecided)
    if not len(undecided):
        return
    on_s, on_t = neuron_starts(hexagon_directions(hexagons.ratio), len(hexagons), undecided)
    hulls = [Hulls.of(known) for known in bounds.hexagons[:layer]]
    dual = Dual(bounds.stages[: layer + 1], hulls, support_of_piece(bounds.piece))
    objective = FixedObjective(on_s, on_t)
    frees = dual.begin(objective)
    entries = len(on_s) * sum(stage.in_size for stage in bounds.stages[1 : layer + 1])
    affordable = max(1, min(_MOST_STEPS, _MOST_STEPPED // max(entries, 1)))
    plan = Steps(affordable, _STEP, _DECAY ** max(affordable - 1, 1))
    dual.run(objective, frees, plan, deadline.check)
    chosen = LayerMultipliers(tuple(free.kept for free in frees))
    refine_by(bounds, layer, undecided, chosen.choice())


def refine_by(bounds: TwinBounds, layer: int, neurons: Index, choice: Choice) -> None:
    """Tighten the hexagons of some neurons by given multipliers, `(6 * len(neurons), ...)`.

    The directions are the outer index. The bounds are valid whatever the multipliers are.
    """
    hexagons = bounds.hexagons[layer]
    on_s, on_t = neuron_starts(hexagon_directions(hexagons.ratio), len(hexagons), neurons)
    stated = StatedChoice(bounds.hexagons[:layer], choice)
    found = maxima_of(hexagons)
    found[:, neurons] = bounds.bound(layer, on_s, on_t, stated).reshape(-1, len(neurons))
    bounds.refined.append(Refined(layer, neurons, stated.below))
    bounds.tighten(layer, found)


class StatedChoice:
    """A choice of multipliers as a certificate states it: undecided neurons only, in float32.

    Active neurons pass their coefficients on, inactive ones pass on 0. `below` holds, for each
    layer, `p` and `q` of its undecided neurons `(rows, undecided)` once they have been computed.
    """

    def __init__(self, hexagons: list[Hexagons], choice: Choice) -> None:
        self._hexagons = hexagons
        self._choice = choice
        self.undecided = [known.undecided for known in hexagons]
        nothing = np.zeros((0, 0), dtype=np.float32)
        self.below = [(nothing, nothing)] * len(hexagons)

    def __call__(self, layer: int, a: Array, b: Array) -> tuple[Array, Array]:
        on, undecided = self._hexagons[layer].on, self.undecided[layer]
        p, q = (rounded_multipliers(part, np.float32) for part in self._choice(layer, a, b))
        self.below[layer] = p[:, undecided], q[:, undecided]
        off = ~on & ~undecided
        return np.where(on, a, np.where(off, 0.0, p)), np.where(on, b, np.where(off, 0.0, q))


def rounded_multipliers(values: Array, kind: Any) -> NDArray[Any]:
    """Round multipliers to a floating-point type; 0, as valid as any, where one is not finite."""
    with np.errstate(over="ignore"):
        rounded = values.astype(kind)
    return np.where(np.isfinite(rounded), rounded, kind(0))
