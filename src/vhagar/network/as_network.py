"""Networks as callers give them: as they are, as a model's file, or as a PyTorch module."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from vhagar.errors import InvalidInput
from vhagar.network.network import Network
from vhagar.network.onnx_reader import read_onnx

if TYPE_CHECKING:
    from torch.nn import Module


def as_network(
    given: Network | str | os.PathLike[str] | Module, input_shape: Sequence[int] | None = None
) -> Network:
    """The network that was given, read or converted. `input_shape` is for PyTorch modules."""
    if _is_module(given):
        if input_shape is None:
            raise InvalidInput(
                "a PyTorch module does not say what inputs it takes: give the shape of one input, "
                "such as input_shape=(1, 28, 28)"
            )
        from vhagar.network.torch.module import from_torch

        return from_torch(given, input_shape=input_shape)
    if input_shape is not None:
        raise InvalidInput("input_shape is for PyTorch modules: other networks have their own")
    if isinstance(given, Network):
        return given
    if isinstance(given, str | os.PathLike):
        return read_onnx(given)
    raise InvalidInput(
        "a network is a vhagar.Network, the path of an ONNX file, or a PyTorch module, not "
        f"{type(given).__name__}; vhagar.from_torch takes an ExportedProgram, and "
        "vhagar.load_weights fills a module with a file of weights"
    )


def _is_module(given: object) -> bool:
    """Whether this is a `torch.nn.Module`; without torch imported there is none."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(given, torch.nn.Module)
