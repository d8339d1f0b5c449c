"""The product network: one ONNX model of two copies of a network, an input and its perturbation.

Its input is `(x, e)`, the pixels and then the parameters, flat. Its outputs are, for each class, by
how much the source's score of `x` exceeds that class's, and then the scores of `x_p`: every
condition of the question then compares an output with a number or with another output, which is
all that many verifiers understand.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper

from vhagar.interchange.formula import Formula
from vhagar.interchange.onnx_graph import OnnxGraph
from vhagar.network import onnx_bytes
from vhagar.network.network import Network
from vhagar.network.onnx_front import with_front
from vhagar.perturbation import Domain

INPUT, OUTPUT = "input", "output"


def standalone(network: Network) -> Any:
    """The model that takes the question's own inputs: with its convention, if it has one."""
    content = onnx_bytes(network) if network.model is None else network.model
    model = onnx.load_from_string(content)
    if network.convention is None:
        return model
    return with_front(model, input_of(model).name, network.convention, own_precision=True)


def input_of(model: Any) -> Any:
    """The model's one input; old files list constants among them."""
    constants = {tensor.name for tensor in model.graph.initializer}
    (found,) = (value for value in model.graph.input if value.name not in constants)
    return found


def product_model(network: Network, source: int, formula: Formula, domain: Domain) -> Any:
    """The product network of a network and one piece of a perturbation."""
    model = standalone(network)
    graph = graph_around(model)
    x = graph.slice(INPUT, 1, 0, domain.size)
    x_p = _perturbed(graph, x, formula, domain)
    scores = [
        copied(graph, model, graph.reshape(image, (1, *network.input_shape)), f"copy{k}_")
        for k, image in enumerate((x, x_p))
    ]
    classes = network.classes
    first, second = (graph.reshape(name, (1, classes)) for name in scores)
    leads = -np.eye(classes)
    leads[source] += 1
    margins = graph.add("MatMul", first, graph.constant(leads))
    graph.add("Concat", margins, second, axis=1, output=OUTPUT)
    size = domain.size + formula.parameters
    return graph.model(network.name, (INPUT, (1, size)), (OUTPUT, (1, 2 * classes)), model)


def graph_around(model: Any) -> OnnxGraph:
    """A graph with the model's versions, precision and constants, for copies of its nodes."""
    version = max(one.version for one in model.opset_import if one.domain in ("", "ai.onnx"))
    kind = input_of(model).type.tensor_type.elem_type
    graph = OnnxGraph(helper.tensor_dtype_to_np_dtype(kind), version)
    graph.tensors += [_renamed(tensor, "model_") for tensor in model.graph.initializer]
    return graph


def _perturbed(graph: OnnxGraph, x: str, formula: Formula, domain: Domain) -> str:
    """`x_p` from `x` and the parameters; the clip is made of ReLUs, which every verifier knows."""
    parameters = ""
    if formula.parameters:
        parameters = graph.slice(INPUT, 1, domain.size, domain.size + formula.parameters)
    if formula.product:
        distance = graph.add("Sub", x, graph.constant([[domain.lower]]))
        moved = graph.add("Mul", distance, parameters)
    else:
        moved = times(graph, x, formula.matrix)
        if formula.parameters:
            moved = graph.add("Add", moved, times(graph, parameters, formula.directions))
    if formula.offset.any():
        moved = graph.add("Add", moved, graph.constant(formula.offset[None]))
    return clipped(graph, moved, domain) if formula.clip else moved


def clipped(graph: OnnxGraph, moved: str, domain: Domain) -> str:
    """The values kept in the input range."""
    low, high = (graph.constant([[end]]) for end in (domain.lower, domain.upper))
    above = graph.add("Relu", graph.add("Sub", moved, low))
    beyond = graph.add("Relu", graph.add("Sub", moved, high))
    return graph.add("Add", graph.add("Sub", above, beyond), low)


def times(graph: OnnxGraph, source: str, matrix: Any) -> str:
    """A product with a sparse matrix; one number for each entry where it is diagonal."""
    rows, columns = matrix.shape
    dense = matrix.toarray()
    if rows == columns and np.count_nonzero(dense) == np.count_nonzero(dense.diagonal()):
        if (dense.diagonal() == 1).all():
            return source
        return graph.add("Mul", source, graph.constant(dense.diagonal()[None]))
    return graph.add("MatMul", source, graph.constant(dense.T))


def copied(graph: OnnxGraph, model: Any, image: str, prefix: str) -> str:
    """A copy of the model's nodes that works on `image`; returns its output's name."""
    shared = {tensor.name: f"model_{tensor.name}" for tensor in model.graph.initializer}
    names = {"": "", input_of(model).name: image, **shared}
    for number, node in enumerate(model.graph.node):
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.name = f"{prefix}{number}_{node.name}"  # many files leave the names out
        for place, name in enumerate(node.input):
            copy.input[place] = names[name]
        for place, name in enumerate(node.output):
            names[name] = f"{prefix}{name}" if name else ""
            copy.output[place] = names[name]
        graph.nodes.append(copy)
    return names[model.graph.output[0].name]


def _renamed(tensor: Any, prefix: str) -> Any:
    copy = onnx.TensorProto()
    copy.CopyFrom(tensor)
    copy.name = f"{prefix}{tensor.name}"
    return copy
