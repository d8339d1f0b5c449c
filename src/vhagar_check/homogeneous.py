"""Contrast as a linear question, if the certificate says that it was searched in this form.

Multiply every bias of a ReLU network by one more input `h`. The network is then homogeneous: for a
factor `e > 0`, `N(e x, e h) = e N(x, h)`, since linear layers and ReLUs commute with `e`. The image
`e x` has the scores `N(e x, 1) = e N(x, 1/e)`, so the same class leads at `(x, 1/e)`: an input that
is attacked by the factor `e` is attacked by `h = 1/e`. The two copies share `x`, and `h` is 1 in
the first and anything from `1/hi` to `1/lo` in the second.

Both the network and the pieces are derived here, from the model and the perturbation's text.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.layers import Array, Floats, Linear, Network
from vhagar_check.pieces import Domain, Piece, Span, everywhere
from vhagar_check.pixelwise import Pixelwise


@dataclass(eq=False)
class WithBiasInput(Linear):
    """`y = K z + h bias`, with `h` the last input; if it is carried on, also the last output."""

    layer: Linear
    carries: bool
    joins = True

    def __post_init__(self) -> None:
        self.in_size = self.layer.in_size + 1
        self.out_size = self.layer.out_size + int(self.carries)
        self.bias = np.zeros(self.out_size)
        # Backwards, the coefficient of `h` is a sum with a product for every output.
        self.terms = max(self.layer.terms, self.layer.out_size) + 1

    @cached_property
    def kernel(self) -> Floats:
        carried = np.ones(int(self.carries))
        return np.concatenate([self.layer.kernel.reshape(-1), self.layer.bias, carried])

    def _parts(self, kernel: Array) -> tuple[Array, Array, Array]:
        """Split the kernel: the layer's own, its bias, and the entry that carries `h`."""
        own = self.layer.kernel
        end = own.size + self.layer.out_size
        return kernel[: own.size].reshape(own.shape), kernel[own.size : end], kernel[end:]

    def forward(self, kernel: Array, z: Array) -> Array:
        own, bias, carried = self._parts(kernel)
        z, h = z[:, :-1], z[:, -1:]
        return np.concatenate([self.layer.forward(own, z) + h * bias, h * carried], axis=1)

    def backward(self, kernel: Array, p: Array) -> Array:
        own, *on_h = self._parts(kernel)
        pulled = self.layer.backward(own, p[:, : self.layer.out_size])
        return np.concatenate([pulled, p @ np.concatenate(on_h)[:, None]], axis=1)

    def exact_forward(self, z: Exact) -> Exact:
        bias = Exact.of(self.layer.bias)
        value = self.layer.exact_forward(z.part(slice(0, -1)))
        h = z.part(slice(-1, None))
        scaled = Exact(bias.numerators * h.numerators, bias.denominator * h.denominator)
        minus = Exact(-bias.numerators, bias.denominator)
        own = slice(0, self.layer.out_size)
        last = [(slice(self.layer.out_size, None), h)] if self.carries else []
        return Exact.summed(self.out_size, [(own, value), (own, minus), (own, scaled), *last])

    def exact_backward(self, p: Exact) -> Exact:
        own, rest = p.part(slice(0, self.layer.out_size)), p.part(slice(self.layer.out_size, None))
        on_h = own.dot(Exact.of(self.layer.bias)) + sum(rest.fractions(), Fraction(0))
        gathered = Exact.of_fractions([on_h])
        pulled = self.layer.exact_backward(own)
        inputs = slice(0, self.layer.in_size)
        return Exact.summed(self.in_size, [(inputs, pulled), (slice(-1, None), gathered)])


def homogeneous_network(network: Network) -> Network:
    """The network with one more input, by which every bias is multiplied.

    A linear unit, the last one of its layer, carries that input through every ReLU layer.
    """
    if not network.stages[-1]:
        raise Rejected("the network ends with a ReLU, so it has no homogeneous form")
    stages = [
        tuple(WithBiasInput(layer, carries=True) for layer in stage) for stage in network.stages
    ]
    stages[-1] = (*stages[-1][:-1], WithBiasInput(network.stages[-1][-1], carries=False))
    linear = []
    for k, size in enumerate(network.relu_sizes_and_classes[:-1]):
        known = network.linear_units(k)
        own = np.zeros(size, dtype=np.bool_) if known is None else known
        linear.append(np.append(own, True))
    size = network.stages[0][0].in_size if network.stages[0] else network.relu_sizes_and_classes[0]
    return Network(tuple(stages), (size + 1,), tuple(linear))


class BiasPiece(Piece):
    """`(x, 1)` and `(x, h)`, with `h` in a range: the last input scales the biases."""

    def __init__(self, domain: Domain, scales: Span) -> None:
        box = domain.box
        if box is not None:
            box = np.append(box[0], domain.low), np.append(box[1], domain.high)
        self.domain = Domain((domain.size + 1,), domain.low, domain.high, box)
        self._scales = scales
        low, high = everywhere(self.domain, domain.low, domain.high)
        low[-1], high[-1] = scales
        self.image = low, high
        last = np.arange(self.domain.size) == domain.size
        self.rises, self.falls = last & (scales[1] > 1), last & (scales[0] < 1)

    def largest(self, a: Floats, b: Floats) -> Floats:
        joint, on_h = (a + b)[:, :-1], b[:, -1]
        least, most = self._scales
        best = np.maximum(joint * self.domain.low, joint * self.domain.high).sum(axis=1)
        return np.asarray(best + a[:, -1] + np.maximum(on_h * least, on_h * most))

    def share(self, a: Floats, b: Floats) -> Floats:
        joint = a + b
        joint[:, -1] = 0.0
        return joint

    def exact_support(self, a: Exact, b: Exact) -> Fraction:
        low, high = self.domain.ends
        first, second = a.fractions(), b.fractions()
        joint = [u + v for u, v in zip(first[:-1], second[:-1], strict=True)]
        total = sum((max(value * low, value * high) for value in joint), Fraction(0))
        return total + first[-1] + max(second[-1] * Fraction(end) for end in self._scales)

    def exact_image(self, x: list[Fraction], parameters: list[float]) -> None:
        raise Rejected("a witness is about the question itself, not about its homogeneous form")


def bias_pieces(pieces: list[Piece], domain: Domain) -> list[Piece]:
    """Turn the pieces of contrast into pieces that scale the biases.

    Inputs must be from 0, which is black, to 1; a factor that clips would not commute with the
    network.
    """
    if (domain.low, domain.high) != (0.0, 1.0):
        raise Rejected("the homogeneous form is for inputs from 0 to 1")
    return [BiasPiece(domain, _scales(piece)) for piece in pieces]


def _scales(piece: Piece) -> Span:
    """The range of `1/e`, rounded outward."""
    if not isinstance(piece, Pixelwise) or piece.name != "contrast" or piece.span is None:
        raise Rejected("the homogeneous form is for contrast")
    if piece.clip and piece.span[1] > 1:
        raise Rejected("the homogeneous form is for contrast that does not clip")
    least, most = (1 / Fraction(end) for end in piece.span[::-1])
    return _outward(least, -np.inf), _outward(most, np.inf)


def _outward(value: Fraction, direction: float) -> float:
    """Round a number to a float that does not lie on the wrong side of it."""
    nearest = float(value)
    return nearest if Fraction(nearest) == value else float(np.nextafter(nearest, direction))
