"""Copies of an ONNX model inside a larger one."""

from __future__ import annotations

from typing import Any

import onnx
from onnx import helper

from vhagar.network.network import Network
from vhagar.network.onnx_front import with_front
from vhagar.network.onnx_graph import OnnxGraph
from vhagar.network.onnx_usage import inputs_of, opset_of
from vhagar.network.onnx_writer import onnx_bytes

INPUT, OUTPUT = "input", "output"


def standalone(network: Network) -> Any:
    """Return the model including its input convention, so that it takes the problem's inputs."""
    content = onnx_bytes(network) if network.model is None else network.model
    model = onnx.load_from_string(content)
    if network.convention is None:
        return model
    (source,) = inputs_of(model.graph)
    return with_front(model, source.name, network.convention, own_precision=True)


def graph_around(model: Any) -> OnnxGraph:
    """Create a graph with the model's versions, precision and constants."""
    (source,) = inputs_of(model.graph)
    dtype = helper.tensor_dtype_to_np_dtype(source.type.tensor_type.elem_type)
    graph = OnnxGraph(dtype, opset_of(model))
    graph.tensors += [_renamed(tensor) for tensor in model.graph.initializer]
    return graph


def clipped(graph: OnnxGraph, moved: str, lower: float, upper: float) -> str:
    """Clip values to a range by ReLUs, which every verifier supports."""
    low, high = (graph.constant([[end]]) for end in (lower, upper))
    above = graph.add("Relu", graph.add("Sub", moved, low))
    beyond = graph.add("Relu", graph.add("Sub", moved, high))
    return graph.add("Add", graph.add("Sub", above, beyond), low)


def copied(graph: OnnxGraph, model: Any, image: str, prefix: str) -> str:
    """Add a copy of the model's nodes that takes `image`, and return its output's name."""
    shared = {tensor.name: f"model_{tensor.name}" for tensor in model.graph.initializer}
    (source,) = inputs_of(model.graph)
    names = {"": "", source.name: image, **shared}
    for number, node in enumerate(model.graph.node):
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.name = f"{prefix}{number}_{node.name}"  # many files have no names
        for place, name in enumerate(node.input):
            copy.input[place] = names[name]
        for place, name in enumerate(node.output):
            names[name] = f"{prefix}{name}" if name else ""
            copy.output[place] = names[name]
        graph.nodes.append(copy)
    return names[model.graph.output[0].name]


def _renamed(tensor: Any) -> Any:
    copy = onnx.TensorProto()
    copy.CopyFrom(tensor)
    copy.name = f"model_{tensor.name}"
    return copy
