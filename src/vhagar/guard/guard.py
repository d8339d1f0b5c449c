"""The guard itself: which predictions of a network are proven robust.

A prediction is robust where its confidence exceeds the proven bound of its class by more than the
rounding of the forward pass can amount to, and its input lies in the domain of that bound.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array, Mask
from vhagar.guard.base import AbstractGuard
from vhagar.guard.onnx_file import guard_bytes
from vhagar.relaxation.rounding import FLOAT64
from vhagar.runtime.output_files import write_bytes

if TYPE_CHECKING:
    from torch.nn import Module


@dataclass(frozen=True, eq=False)
class Answer:
    """What a guard says of a batch of inputs.

    `scores` is `(batch, classes)`; `label` and `confidence` are `(batch,)`; `robust` has one column
    for each perturbation, in the guard's order.
    """

    scores: Array
    label: NDArray[np.int64]
    confidence: Array
    robust: Mask


@dataclass(frozen=True, eq=False, repr=False)
class Guard(AbstractGuard):
    """A model that says which of its predictions are proven robust (docs/guard.md).

    Called with a batch of inputs, it computes in float64. `save` writes it as an ONNX model that
    computes in float32, and `module` makes a PyTorch module of it. `protections` holds what is
    proven about every class, for each perturbation.
    """

    def __call__(self, inputs: Any) -> Answer:
        """Scores, class, confidence and robustness of a batch of inputs, in float64.

        Inputs are `(batch, ...)`; a single one of the network's shape will do, too.
        """
        given = np.asarray(inputs, dtype=np.float64)
        self.check_shape(given.shape)
        x = given.reshape(-1, self.network.input_size)
        scores = self.network.forward(x)
        best = np.sort(scores, axis=1)[:, -2:]  # NaN comes last
        label = scores.argmax(axis=1).astype(np.int64)
        with np.errstate(invalid="ignore"):
            confidence = best[:, 1] - best[:, 0]
        above = confidence[:, None] > self._thresholds64[label]
        return Answer(scores, label, confidence, self.inside(x, above))

    @cached_property
    def _thresholds64(self) -> Array:
        return self.thresholds(FLOAT64)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the guard as an ONNX model (docs/guard.md)."""
        write_bytes(Path(path), guard_bytes(self))

    def module(self) -> Module:
        """The guard as a PyTorch module, which computes in float64 and has no parameters."""
        from vhagar.guard.torch_module import guard_module

        return guard_module(self)
