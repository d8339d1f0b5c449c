"""Small ONNX models made node by node, and what onnxruntime says about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

# The oldest operator sets tested want an IR version that every onnxruntime still reads.
IR_VERSION = 8


class ModelBuilder:
    """A chain of nodes; each `add` continues from the last output."""

    def __init__(self, shape: Sequence[int], opset: int = 13, batch: int | str = "batch") -> None:
        self.shape, self.opset, self.batch = tuple(shape), opset, batch
        self.nodes: list[Any] = []
        self.tensors: list[Any] = []
        self.last = "image"

    def constant(self, values: Any, as_node: bool = False) -> str:
        """A new constant, as an initialiser or as a Constant node; integers stay integers."""
        array = np.asarray(values)
        array = array if array.dtype.kind in "iub" else array.astype(np.float32)
        name = f"constant{len(self.tensors) + len(self.nodes)}"
        if as_node:
            value = numpy_helper.from_array(array)
            self.nodes.append(helper.make_node("Constant", [], [name], value=value))
        else:
            self.tensors.append(numpy_helper.from_array(array, name))
        return name

    def add(
        self,
        kind: str,
        *operands: Any,
        first: bool = False,
        as_node: bool = False,
        **attributes: Any,
    ) -> ModelBuilder:
        """Append a node. Operands are names or constants; `first` puts them before the data."""
        names = [one if isinstance(one, str) else self.constant(one, as_node) for one in operands]
        inputs = [*names, self.last] if first else [self.last, *names]
        output = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(
            helper.make_node(kind, inputs, [output], name=f"the_{output}", **attributes)
        )
        self.last = output
        return self

    def several(self, kind: str, count: int, *operands: Any, **attributes: Any) -> list[str]:
        """Append a node with several outputs, and say their names."""
        self.add(kind, *operands, **attributes)
        node = self.nodes[-1]
        node.output.extend(f"{node.output[0]}_{k}" for k in range(1, count))
        return list(node.output)

    def stated(self, kind: str, *values: Any, since: int, names: Sequence[str]) -> ModelBuilder:
        """A node whose settings are inputs since an operator set, and were attributes before."""
        if self.opset >= since:
            return self.add(kind, *(np.asarray(value) for value in values))
        return self.add(kind, **dict(zip(names, values, strict=True)))

    def constant_node(self, **attributes: Any) -> str:
        """A Constant node with another attribute than a tensor."""
        self.nodes.append(helper.make_node("Constant", [], ["special"], **attributes))
        return "special"

    def follow(self, name: str) -> ModelBuilder:
        """Continue from another tensor."""
        self.last = name
        return self

    def model(self) -> Any:
        def value(name: str, shape: Sequence[Any] | None) -> Any:
            return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

        graph = helper.make_graph(
            self.nodes,
            "graph",
            [value("image", [self.batch, *self.shape])],
            [value(self.last, None)],
            self.tensors,
        )
        opsets = [helper.make_opsetid("", self.opset)]
        if any(node.domain == "ai.onnx.ml" for node in self.nodes):
            opsets.append(helper.make_opsetid("ai.onnx.ml", 1))
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def float32_scores(model: str | bytes, batch: np.ndarray) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    source = session.get_inputs()[0]
    images = batch.astype(np.float32)
    if isinstance(source.shape[0], int):  # a fixed batch of one
        parts = [session.run(None, {source.name: image[None]})[0] for image in images]
        return np.concatenate(parts).astype(np.float64)
    return session.run(None, {source.name: images})[0].astype(np.float64)


@pytest.fixture
def build() -> type[ModelBuilder]:
    return ModelBuilder


@pytest.fixture
def save(tmp_path: Path) -> Callable[[Any], Path]:
    """Write a builder, a model or bytes to a file."""

    def write(what: Any) -> Path:
        path = tmp_path / "model.onnx"
        if isinstance(what, ModelBuilder):
            what = what.model()
        path.write_bytes(what if isinstance(what, bytes) else what.SerializeToString())
        return path

    return write


@pytest.fixture
def onnxruntime_scores() -> Callable[[str | bytes, np.ndarray], np.ndarray]:
    return float32_scores
