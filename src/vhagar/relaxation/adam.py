"""Adam's steps, for arrays of numpy and torch alike."""

from __future__ import annotations

from vhagar.relaxation.arrays import AnyArray

# The decay rates: of the gradients' mean, and of their squares' mean.
_MOMENTUM, _MEMORY = 0.9, 0.99
# Keeps the quotient finite, and moves little where float32 takes the squares for 0.
_EPSILON = 1e-20


class Adam:
    """The directions of steps, about 1 long in every entry, from one gradient after the other."""

    def __init__(self, momentum: float = _MOMENTUM, memory: float = _MEMORY) -> None:
        self._momentum, self._memory = momentum, memory
        self._mean: AnyArray = 0.0
        self._square: AnyArray = 0.0
        self._count = 0

    def direction(self, gradient: AnyArray) -> AnyArray:
        """The next step upward, for a step size of 1."""
        self._count += 1
        momentum, memory = self._momentum, self._memory
        self._mean = momentum * self._mean + (1 - momentum) * gradient
        self._square = memory * self._square + (1 - memory) * gradient * gradient
        size = (self._square / (1 - memory**self._count)) ** 0.5 + _EPSILON
        return self._mean / (1 - momentum**self._count) / size

    def slow_down(self) -> None:
        """Halve the momentum after a step that was too long."""
        self._mean = self._mean / 2
