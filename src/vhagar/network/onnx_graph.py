"""Builds an ONNX graph node by node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

# Old enough for every onnxruntime that the project supports.
OPSET, IR_VERSION = 17, 8
# From this operator set on, Slice takes its limits as inputs.
_SLICE_BY_INPUTS = 10


class OnnxGraph:
    """The nodes and constants so far; every output gets a unique name."""

    def __init__(self, dtype: Any = np.float32, opset: int = OPSET) -> None:
        self.dtype = np.dtype(dtype)
        self.opset = opset
        self.nodes: list[Any] = []
        self.tensors: list[Any] = []

    def constant(self, values: Any) -> str:
        """Add a constant, floats in the graph's precision, and return its name."""
        from onnx import numpy_helper

        array = np.asarray(values)
        array = array if array.dtype.kind in "iub" else array.astype(self.dtype)
        name = f"constant{len(self.tensors)}"
        # `ascontiguousarray` would turn a scalar into a vector.
        self.tensors.append(numpy_helper.from_array(array.copy(order="C"), name))
        return name

    def add(self, kind: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Add a node and return the name of its output."""
        from onnx import helper

        name = output or f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def reshape(self, source: str, shape: Sequence[int]) -> str:
        return self.add("Reshape", source, self.constant(np.array(shape, dtype=np.int64)))

    def slice(self, source: str, axis: int, start: int, end: int, step: int = 1) -> str:
        if self.opset < _SLICE_BY_INPUTS:
            return self.add("Slice", source, starts=[start], ends=[end], axes=[axis])
        ends = (self.constant(np.array([k], dtype=np.int64)) for k in (start, end, axis, step))
        return self.add("Slice", source, *ends)

    def model(
        self,
        name: str,
        source: tuple[str, Sequence[Any]],
        output: tuple[str, Sequence[Any]],
        like: Any = None,
    ) -> Any:
        """Return the finished, checked model; `source` and `output` are names and shapes.

        Its versions are those of the model `like`, if one is given.
        """
        import onnx
        from onnx import helper

        kind = helper.np_dtype_to_tensor_dtype(self.dtype)
        graph = helper.make_graph(
            self.nodes,
            name,
            [helper.make_tensor_value_info(source[0], kind, list(source[1]))],
            [helper.make_tensor_value_info(output[0], kind, list(output[1]))],
            self.tensors,
        )
        opsets = [helper.make_opsetid("", self.opset)] if like is None else like.opset_import
        model = helper.make_model(graph, opset_imports=opsets)
        model.ir_version = IR_VERSION if like is None else max(like.ir_version, 4)
        onnx.checker.check_model(model)
        return model
