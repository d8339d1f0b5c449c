"""Concrete bounds on the pre-activations of one copy of the network.

The paper minimises and maximises every neuron subject to the encoding of the layers before it.
Here, interval arithmetic comes first; then a linear program for neurons that it leaves undecided;
then a MIP, for a limited time, for those still undecided: its bound is valid whenever it is
stopped. A neuron of known sign needs no big-M constants. Bounds of a solver have its tolerances
added outward.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from vhagar.dependency import add_copy
from vhagar.errors import SolverFailure
from vhagar.network import AbstractLinear, Network, Relu
from vhagar.relaxation import Bounds, layer_bounds, network_bounds
from vhagar.solver.backends import AbstractModel, SolveStatus
from vhagar.solver.linear_model import LinearModel


@dataclass(eq=False)
class CopyBounds:
    """Bounds on the outputs of each layer, for inputs in a box."""

    network: Network
    box: Bounds
    layers: list[Bounds] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.layers = self.layers or network_bounds(self.network, self.box)

    def meet(self, position: int, found: Bounds) -> None:
        """Intersect a layer's bounds with others, and propagate them to later layers."""
        self.layers[position] = _both(self.layers[position], found)
        for later in range(position + 1, len(self.layers)):
            leaving = layer_bounds(self.network.layers[later], self.layers[later - 1])
            self.layers[later] = _both(self.layers[later], leaving)

    def undecided(self, position: int) -> np.ndarray:
        """The neurons of a layer that may have either sign."""
        known, following = self.layers[position], self.network.layers[position + 1]
        undecided = (known.lower < 0) & (known.upper > 0)
        if isinstance(following, Relu) and following.linear is not None:
            undecided &= ~following.linear
        return np.flatnonzero(undecided)


def _both(known: Bounds, found: Bounds) -> Bounds:
    """The intersection; where it is empty, because a solver erred, the known bounds."""
    low, high = np.fmax(known.lower, found.lower), np.fmin(known.upper, found.upper)
    sound = low <= high
    return Bounds(np.where(sound, low, known.lower), np.where(sound, high, known.upper))


def layers_to_bound(network: Network) -> list[int]:
    """Linear layers before a ReLU, except the first, where interval arithmetic is exact."""
    positions = [
        position
        for position, (layer, following) in enumerate(
            zip(network.layers[:-1], network.layers[1:], strict=True)
        )
        if isinstance(layer, AbstractLinear) and isinstance(following, Relu)
    ]
    relus = [position for position, layer in enumerate(network.layers) if isinstance(layer, Relu)]
    return [position for position in positions if position > relus[0]]


def same_in_both(network: Network, one: Bounds, two: Bounds) -> list[np.ndarray]:
    """Which outputs of each layer have the same range over two boxes.

    These are the outputs that depend only on inputs with the same range in both.
    """
    same = (one.lower == two.lower) & (one.upper == two.upper)
    found = []
    for layer in network.layers:
        if isinstance(layer, AbstractLinear):
            different = abs(layer.matrix) @ (~same).astype(np.float64)
            same = ~(different > 0)
        found.append(same)
    return found


class LayerModel:
    """The outputs of one linear layer, as objectives of a model of the layers up to it."""

    def __init__(
        self,
        backend: type[AbstractModel],
        network: Network,
        box: Bounds,
        layers: Sequence[Bounds],
        position: int,
    ) -> None:
        model = LinearModel()
        columns = add_copy(model, network.layers[: position + 1], box, layers)
        values, known = columns[-1], layers[position]
        # Backends maximise one column; to minimise a value, maximise its negative.
        negatives = model.add_columns(-known.upper, -known.lower)
        model.add_rows([(values, 1.0), (negatives, 1.0)], 0.0, 0.0)
        self._backend = backend
        self._arrays = model.arrays()
        self._objectives = negatives, values
        self._known = known

    def bounds(
        self, neuron: int, seconds: float, seed: int, should_stop: Callable[[], bool]
    ) -> tuple[float, float]:
        """Better bounds on one value, by LP and, if its sign is still undecided, by MIP."""
        ends = [-float(self._known.lower[neuron]), float(self._known.upper[neuron])]
        deadline = time.monotonic() + seconds
        for integer in (False, True):
            for side in (0, 1):
                left = deadline - time.monotonic()
                if min(ends) <= 0 or left <= 0 or should_stop():
                    break  # the sign is known, or the time is up
                # Half of the remaining time for the first end, all of it for the second.
                limit = left if side else left / 2
                found = self._largest(neuron, side, integer, limit, seed, should_stop)
                ends[side] = min(ends[side], found)
        return -ends[0], ends[1]

    def _largest(
        self,
        neuron: int,
        side: int,
        integer: bool,
        limit: float,
        seed: int,
        should_stop: Callable[[], bool],
    ) -> float:
        best = math.inf

        def bounded(bound: float) -> None:
            nonlocal best
            best = min(best, bound)

        try:
            model = self._backend(self._arrays, int(self._objectives[side][neuron]))
            solved = model.solve(
                integer=integer,
                time_limit=limit,
                seed=seed,
                on_bound=bounded,
                # Below 0, the sign is known.
                should_stop=lambda: best <= 0 or should_stop(),
            )
        except SolverFailure:
            return math.inf  # a failure is never turned into a number
        if solved.status in (SolveStatus.OPTIMAL, SolveStatus.STOPPED):
            bounded(solved.bound)
        return best if not math.isnan(best) else math.inf
