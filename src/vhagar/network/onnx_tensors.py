"""Constants of an ONNX file; external data is read only from the model's own folder."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from vhagar.errors import InvalidNetwork
from vhagar.network.onnx_messages import Message, editable
from vhagar.network.onnx_types import DataLocation, TensorType
from vhagar.network.onnx_usage import tensors_of

# How values of common types are stored: raw, or else as numbers in a field.
_STORED = {
    TensorType.FLOAT: ("<f4", "float_data"),
    TensorType.INT32: ("<i4", "int32_data"),
    TensorType.INT64: ("<i8", "int64_data"),
    TensorType.DOUBLE: ("<f8", "double_data"),
}


def read_tensor(tensor: Any) -> np.ndarray[Any, Any]:
    """Decode a TensorProto; an error names the damaged tensor."""
    is_bool = tensor.data_type == TensorType.BOOL
    if is_bool and not {*tensor.int32_data, *tensor.raw_data} <= {0, 1}:
        raise InvalidNetwork(
            f"the constant {tensor.name!r} has truth values other than 0 and 1, which runtimes "
            "read in several ways; export the model again"
        )
    if isinstance(tensor, Message):
        values = _common(tensor)
        if values is not None:
            return values
        tensor = editable(tensor)
    from onnx import numpy_helper

    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except Exception as error:  # numpy_helper raises whatever the damage leads to
        raise InvalidNetwork(
            f"the constant {tensor.name!r} cannot be decoded ({error}); export the model again"
        ) from error


def _common(tensor: Any) -> np.ndarray[Any, Any] | None:
    """The values of a tensor; None where `onnx` must decode them, or say what is wrong."""
    dtype, field = _STORED.get(tensor.data_type, (None, ""))
    if dtype is None or min(tensor.dims, default=0) < 0:
        return None
    if tensor.HasField("raw_data"):
        if len(tensor.raw_data) % np.dtype(dtype).itemsize:
            return None
        values = np.frombuffer(tensor.raw_data, dtype=dtype)
    else:
        values = np.array(getattr(tensor, field), dtype=dtype)
    return values.reshape(tensor.dims) if values.size == math.prod(tensor.dims) else None


def load_external_tensors(model: Any, path: Path) -> None:
    """Load tensors from external files into the model, refusing files outside its folder."""
    from onnx import external_data_helper

    folder = path.resolve().parent
    if model.graph.sparse_initializer:
        raise InvalidNetwork("the model has sparse constants; export it with dense ones")
    for tensor in tensors_of(model.graph):
        if tensor.data_location != DataLocation.EXTERNAL:
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
        tensor.data_location = DataLocation.DEFAULT
        del tensor.external_data[:]


def _inside(folder: Path, location: str) -> bool:
    try:
        # resolve() follows links, so a link out of the folder is refused as well.
        target = (folder / location).resolve()
    except (OSError, RuntimeError, ValueError):  # links in a circle, a zero byte in the name
        return False
    return bool(location) and not Path(location).is_absolute() and folder in target.parents
