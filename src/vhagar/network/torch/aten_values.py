"""Values, constants and arguments of converters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from vhagar.errors import InvalidNetwork
from vhagar.network.onnx_graph import OnnxGraph

Shape = tuple[int, ...]


@dataclass(frozen=True)
class AtenValue:
    """A tensor that depends on the input."""

    name: str
    shape: Shape


Arguments = dict[str, Any]
Converter = Callable[[OnnxGraph, Arguments, Any], Any]


def operand(graph: OnnxGraph, given: Any) -> str:
    """Return the name of a value, or of a new constant for a tensor or a number."""
    if isinstance(given, AtenValue):
        return given.name
    array = given.detach().cpu().numpy() if hasattr(given, "detach") else np.asarray(given)
    return graph.constant(array.astype(graph.dtype))


def numbers(given: Any) -> Any:
    return given.detach().cpu().numpy().astype(np.float64)


def constant(given: Any, what: str) -> Any:
    """Return an argument that must not depend on the input."""
    if isinstance(given, AtenValue):
        raise InvalidNetwork(f"a {what} multiplies two tensors that both depend on the input")
    return given
