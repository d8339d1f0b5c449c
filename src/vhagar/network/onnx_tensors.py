"""Constants of an ONNX file; external data is read only from the model's own folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import external_data_helper, numpy_helper

from vhagar.errors import InvalidNetwork


def read_tensor(tensor: Any) -> np.ndarray[Any, Any]:
    """Decode a TensorProto; an error names the damaged tensor."""
    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except Exception as error:  # numpy_helper raises whatever the damage leads to
        raise InvalidNetwork(
            f"the constant {tensor.name!r} cannot be decoded ({error}); export the model again"
        ) from error


def load_external_tensors(model: Any, path: Path) -> None:
    """Load tensors from external files into the model, refusing files outside its folder."""
    folder = path.resolve().parent
    for tensor in _all_tensors(model.graph):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        location = {entry.key: entry.value for entry in tensor.external_data}.get("location", "")
        if not _inside(folder, location):
            raise InvalidNetwork(
                f"the constant {tensor.name!r} refers to {location!r}, which is outside the "
                f"model's folder; put the data file beside the model and export again"
            )
        try:
            external_data_helper.load_external_data_for_tensor(tensor, str(folder))
        except Exception as error:
            raise InvalidNetwork(
                f"the external data of {tensor.name!r} cannot be read from {location!r} ({error})"
            ) from error
        tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]


def _inside(folder: Path, location: str) -> bool:
    try:
        # resolve() follows links, so a link out of the folder is refused as well.
        target = (folder / location).resolve()
    except (OSError, RuntimeError, ValueError):  # links in a circle, a zero byte in the name
        return False
    return bool(location) and not Path(location).is_absolute() and folder in target.parents


def _all_tensors(graph: Any) -> list[Any]:
    if graph.sparse_initializer:
        raise InvalidNetwork("the model has sparse constants; export it with dense ones")
    attributes = [item for node in graph.node for item in node.attribute]
    in_nodes = [item.t for item in attributes if item.type == onnx.AttributeProto.TENSOR]
    return [*graph.initializer, *in_nodes]
