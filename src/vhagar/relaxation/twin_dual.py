"""The twin dual bound: an upper bound on a linear function of both copies' values.

Start with coefficients on the two outputs and go backwards. At a ReLU layer with coefficients
`(a, b)` on its two post-activations choose any numbers `(p, q)` and pay

    r = max over the hexagon of  a*relu(s) + b*relu(t) - p*s - q*t

then continue with `W'p, W'q`; biases add `(p + q).bias`, and the input adds the perturbation's
`support`. The result is a valid bound **for every choice of p and q**; a good choice makes it
tight.

One function, `backward`, serves numpy and torch, whole networks and parts of them, one start and
many nodes of a search. In float64 its rounding error is bounded and added (`twin_bound`); code that
only proposes multipliers (`first_order`) omits that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from vhagar.array_types import Array
from vhagar.perturbation import AbstractPiece
from vhagar.perturbation.decided_support import decided_support
from vhagar.relaxation.arrays import AnyArray, zeros
from vhagar.relaxation.corners import Corners, LayerDecisions
from vhagar.relaxation.interval import HALF_ULP
from vhagar.relaxation.stages import Magnitudes, Stage

# By the size of a number in bytes; those of float32 serve only to estimate its errors.
_HALF_ULPS = {8: HALF_ULP, 4: 2.0**-24}
# More than what one product loses to underflow, even where subnormal numbers are flushed to 0.
_UNDERFLOWS = {8: 2.0**-1022, 4: 2.0**-126}

# In place of a ReLU layer's index.
INPUTS = -1

# Multipliers `(p, q)` for a ReLU layer's index and its coefficients `(a, b)`.
Choice = Callable[[int, AnyArray, AnyArray], tuple[AnyArray, AnyArray]]
# Adds facts about a ReLU layer's outputs, or about the inputs, to coefficients on them: the layer's
# index (or `INPUTS`), the state, and bounds on the absolute values where errors are computed.
AddFacts = Callable[[int, "Backward", AnyArray | None], "Backward"]
# The same multipliers and their offsets `r`, each `(rows, neurons)`.
Payment = Callable[[int, AnyArray, AnyArray], tuple[AnyArray, AnyArray, AnyArray]]


@dataclass(frozen=True, eq=False)
class Backward:
    """Coefficients `(rows, size)` on the inputs of a stage, the constant so far, and the error.

    The error `(rows,)`, where it is computed, bounds how much rounding can have lowered the bound.
    """

    a: AnyArray
    b: AnyArray
    constant: AnyArray
    error: AnyArray

    @classmethod
    def begin(cls, start: tuple[AnyArray, AnyArray]) -> Backward:
        nothing = zeros((len(start[0]),), start[0])
        return cls(start[0], start[1], nothing, nothing)


@dataclass(frozen=True, eq=False)
class Added:
    """Coefficients `(rows, neurons)` to be added to those on a ReLU layer's pre-activations."""

    layer: int
    on_s: AnyArray
    on_t: AnyArray

    def to(self, state: Backward, size: AnyArray | None) -> Backward:
        """The state with these coefficients added."""
        error = state.error
        if size is not None:  # each sum is rounded
            weight = abs(state.a) + abs(state.b) + abs(self.on_s) + abs(self.on_t)
            error = error + unit(4, state.a) * (weight @ size)
        return Backward(state.a + self.on_s, state.b + self.on_t, state.constant, error)


@dataclass(frozen=True, eq=False)
class Allowed:
    """The corners that decisions leave: 0 for one that stays, minus infinity for one cut off.

    `layers` holds `(CORNERS, neurons)` for each ReLU layer, `pixels` `(corners, size)` for a
    piece with pixel corners; None where nothing is decided.
    """

    layers: Sequence[LayerDecisions]
    pixels: Array | None = None


def backward(
    stages: Sequence[Stage],
    start: tuple[AnyArray, AnyArray],
    pay: Payment,
    magnitudes: Magnitudes | None = None,
    last: int = 0,
    added: Added | None = None,
    add_facts: AddFacts | None = None,
) -> Backward:
    """Pass coefficients on the output of the last stage backwards to the input.

    Errors are computed only if `magnitudes` are given. With `last` 1 the first stage is left out:
    the coefficients are those on its output. The `added` coefficients are added at their layer, and
    `add_facts` adds facts about the outputs of ReLU layers before these are paid for, and about
    the inputs in the end.
    """
    state = Backward.begin(start)
    for k in range(len(stages) - 1, last - 1, -1):
        sizes = None if magnitudes is None else magnitudes[k]
        state = through_stage(stages[k], state, sizes)
        if k:
            size = None if sizes is None else sizes[0]
            if add_facts is not None:
                state = add_facts(k - 1, state, size)
            paid = pay(k - 1, state.a, state.b)
            state = through_relu(state, paid, size)
            if added is not None and added.layer == k - 1:
                state = added.to(state, size)
    if add_facts is not None and not last:
        state = add_facts(INPUTS, state, None if magnitudes is None else magnitudes[0][0])
    return state


def plus_inputs(state: Backward, c: Array, d: Array, size: AnyArray | None) -> Backward:
    """The state with `c` and `d` `(size,)` added to each row's coefficients on `x` and `x_p`."""
    error = state.error
    if size is not None:
        weight = abs(state.a) + abs(state.b) + abs(c) + abs(d)
        error = error + unit(2, state.a) * (weight @ size)
    return Backward(state.a + c, state.b + d, state.constant, error)


def through_stage(
    stage: Stage, state: Backward, sizes: tuple[AnyArray, ...] | None = None
) -> Backward:
    """Pass coefficients on a stage's output backwards to its input.

    `sizes` bounds the absolute values of each layer's input in either copy, `(in_size,)` each.
    """
    p, q = state.a, state.b
    constant, error = state.constant, state.error
    for place in range(len(stage.layers) - 1, -1, -1):
        layer = stage.layers[place]
        bias, count = layer.flat_bias, layer.out_size
        constant = constant + (p + q) @ bias
        if sizes is not None:
            spread = abs(p) + abs(q)
            error = error + unit(count + 4, p) * (spread @ abs(bias))
            # The addition's own error counts here, because later terms may cancel the constant.
            error = error + _half_ulp(p) * abs(constant)
            # The coefficients' rounding errors count times the size of the input.
            paid = layer.absolute.pull(spread) @ sizes[place]
            error = error + unit(2 * count + 8, p) * paid
            error = error + _lost_to_underflow(count, sizes[place], p)
        p, q = layer.pull(p), layer.pull(q)
    return Backward(p, q, constant, error)


def through_relu(
    state: Backward, paid: tuple[AnyArray, AnyArray, AnyArray], size: AnyArray | None = None
) -> Backward:
    """Pay the offsets of a ReLU layer and continue with `(p, q)` on its pre-activations."""
    p, q, offsets = paid
    constant, error = state.constant + offsets.sum(axis=1), state.error
    if size is not None:
        weight = (abs(state.a) + abs(state.b) + abs(p) + abs(q)) @ size
        error = error + unit(2 * p.shape[1] + 32, p) * weight + _half_ulp(p) * abs(constant)
    return Backward(p, q, constant, error)


def unit(terms: int, like: AnyArray) -> float:
    """An upper bound on the relative rounding error of a sum of `terms` terms."""
    return 1.05 * _half_ulp(like) * (terms + 4)


def _lost_to_underflow(terms: int, size: AnyArray, like: AnyArray) -> AnyArray:
    """What the coefficients of both copies lose to underflow, times the size of the input.

    Each is a sum of products. The loss matters where a lost coefficient meets a huge input.
    """
    return 2 * _UNDERFLOWS[like.dtype.itemsize] * (terms + 1) * size.sum()


def _half_ulp(like: AnyArray) -> float:
    return _HALF_ULPS[like.dtype.itemsize]


def paying(
    corners: Sequence[Corners],
    choose: Choice,
    decided: Sequence[LayerDecisions] | None = None,
    inside: Sequence[AnyArray | None] | None = None,
) -> Payment:
    """The payment for the multipliers that `choose` returns.

    Where windows reach beyond an image, `inside` marks the neurons that exist; all others are 0
    whatever their coefficients.
    """

    def pay(layer: int, a: AnyArray, b: AnyArray) -> tuple[AnyArray, AnyArray, AnyArray]:
        exists = None if inside is None else inside[layer]
        if exists is not None:
            a, b = a * exists, b * exists
        p, q = choose(layer, a, b)
        if exists is not None:
            p, q = p * exists, q * exists
        allowed = None if decided is None else decided[layer]
        return p, q, corners[layer].offset(a, b, p, q, allowed)

    return pay


def coefficients(
    stages: Sequence[Stage],
    start: tuple[AnyArray, AnyArray],
    choose: Choice,
    last: int = 0,
    add_facts: AddFacts | None = None,
) -> list[tuple[AnyArray, AnyArray]]:
    """The coefficients on the inputs of each stage, from the last down to `last`; not a bound."""
    found = []

    def pay(layer: int, a: AnyArray, b: AnyArray) -> tuple[AnyArray, AnyArray, AnyArray]:
        found.append((a, b))
        return *choose(layer, a, b), a

    state = backward(stages, start, pay, last=last, add_facts=add_facts)
    return found if last else [*found, (state.a, state.b)]


def at_input(piece: AbstractPiece, state: Backward, pixels: Array | None = None) -> Array:
    """Close the bound at the input: add the support of the perturbation and the errors."""
    if pixels is None:
        support = piece.support(state.a, state.b).value
    else:
        support = decided_support(piece, state.a, state.b, pixels)
    total = state.constant + support
    scale = abs(state.constant) + abs(total)
    outward: Array = np.nextafter(total + 2.0 * state.error + 8 * HALF_ULP * scale, np.inf)
    return outward


def twin_bound(
    stages: Sequence[Stage],
    piece: AbstractPiece,
    start: tuple[Array, Array],
    pay: Payment,
    magnitudes: Magnitudes,
    pixels: Array | None = None,
    added: Added | None = None,
    add_facts: AddFacts | None = None,
) -> Array:
    """Upper bounds `(rows,)` on `start[0].y + start[1].y_p`, with `y` the last stage's output.

    They hold in exact arithmetic, whatever `pay` chooses. If `added` is given, that linear function
    of a layer's pre-activations is part of the bounded sum.
    """
    state = backward(stages, start, pay, magnitudes, added=added, add_facts=add_facts)
    return at_input(piece, state, pixels)
