"""Networks to ONNX files: for examples, for tests, and for onnxruntime's second opinion."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from vhagar.network.convolution import Convolution
from vhagar.network.layers import AbstractLayer, Affine, Relu, SparseAffine
from vhagar.network.network import ModelFile, Network
from vhagar.network.onnx_graph import IR_VERSION, OPSET


def write_onnx(network: Network, path: str | Path) -> None:
    """Write the network in float32, input `image` `(batch, ...)`, output `scores`."""
    Path(path).write_bytes(onnx_bytes(network))


def save_model(network: Network, path: str | Path) -> Network:
    """Write the model a network was made from, and return the network with that file's name.

    It is the very model that onnxruntime is asked about, without the convention that the network
    may have; certificates are about it. A network that was built layer by layer is written as
    `write_onnx` does.
    """
    path = Path(path)
    content = onnx_bytes(network) if network.model is None else network.model
    path.write_bytes(content)
    return replace(network, file=ModelFile(path, hashlib.sha256(content).hexdigest()))


def onnx_bytes(network: Network) -> bytes:
    """The network as a float32 ONNX model."""
    nodes: list[Any] = []
    tensors: list[Any] = []
    current, shape = "image", network.input_shape
    for position, layer in enumerate(network.layers):
        flat = _works_on_vectors(layer)
        if layer.in_shape != shape or (flat and len(shape) > 1):
            target = (layer.in_size,) if flat else layer.in_shape
            current = _reshape(nodes, tensors, current, target, f"layer{position}_in")
        current = _WRITERS[type(layer)](nodes, tensors, current, layer, f"layer{position}")
        shape = (layer.out_size,) if flat else layer.out_shape
    if len(shape) != 1:
        current = _reshape(nodes, tensors, current, (network.classes,), "flat")
    nodes.append(helper.make_node("Identity", [current], ["scores"]))
    graph = helper.make_graph(
        nodes,
        network.name or "network",
        [
            helper.make_tensor_value_info(
                "image", TensorProto.FLOAT, ["batch", *network.input_shape]
            )
        ],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", network.classes])],
        tensors,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = IR_VERSION
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def _works_on_vectors(layer: AbstractLayer) -> bool:
    return isinstance(layer, Affine | SparseAffine) or (
        isinstance(layer, Relu) and layer.linear is not None
    )


def _store(tensors: list[Any], values: Any, name: str) -> str:
    tensors.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
    return name


def _reshape(nodes: list[Any], tensors: list[Any], source: str, shape: Any, name: str) -> str:
    target = _store(tensors, np.array([-1, *shape], dtype=np.int64), f"{name}_shape")
    nodes.append(helper.make_node("Reshape", [source, target], [name]))
    return name


def _affine(nodes: list[Any], tensors: list[Any], source: str, layer: Affine, name: str) -> str:
    weight = _store(tensors, layer.weight.astype(np.float32), f"{name}_weight")
    bias = _store(tensors, layer.bias.astype(np.float32), f"{name}_bias")
    nodes.append(helper.make_node("Gemm", [source, weight, bias], [name], transB=1))
    return name


def _convolution(
    nodes: list[Any], tensors: list[Any], source: str, layer: Convolution, name: str
) -> str:
    by_place = layer.bias.ndim == 3
    inputs = [source, _store(tensors, layer.weight.astype(np.float32), f"{name}_weight")]
    if not by_place:
        inputs.append(_store(tensors, layer.bias.astype(np.float32), f"{name}_bias"))
    output = f"{name}_sum" if by_place else name
    nodes.append(
        helper.make_node(
            "Conv",
            inputs,
            [output],
            kernel_shape=layer.weight.shape[2:],
            strides=layer.stride,
            pads=layer.padding,
            dilations=layer.dilation,
            group=layer.groups,
        )
    )
    if by_place:
        bias = _store(tensors, layer.bias[None].astype(np.float32), f"{name}_bias")
        nodes.append(helper.make_node("Add", [output, bias], [name]))
    return name


def _relu(nodes: list[Any], tensors: list[Any], source: str, layer: Relu, name: str) -> str:
    if layer.linear is None:
        nodes.append(helper.make_node("Relu", [source], [name]))
        return name
    units, linear = np.flatnonzero(~layer.linear), np.flatnonzero(layer.linear)
    picked = _pick(nodes, tensors, source, units, f"{name}_units")
    nodes.append(helper.make_node("Relu", [picked], [f"{name}_positive"]))
    passed = _pick(nodes, tensors, source, linear, f"{name}_linear")
    order = np.concatenate([units, linear])
    in_order = bool((np.diff(order) > 0).all())
    joined = name if in_order else f"{name}_joined"
    nodes.append(helper.make_node("Concat", [f"{name}_positive", passed], [joined], axis=1))
    return name if in_order else _pick(nodes, tensors, joined, np.argsort(order), name)


def _pick(nodes: list[Any], tensors: list[Any], source: str, index: Any, name: str) -> str:
    chosen = _store(tensors, index.astype(np.int64), f"{name}_index")
    nodes.append(helper.make_node("Gather", [source, chosen], [name], axis=1))
    return name


def _sparse(
    nodes: list[Any], tensors: list[Any], source: str, layer: SparseAffine, name: str
) -> str:
    dense = Affine(layer.weight.toarray(), layer.bias, (layer.in_size,), (layer.out_size,))
    return _affine(nodes, tensors, source, dense, name)


_WRITERS: dict[type[AbstractLayer], Any] = {
    Affine: _affine,
    Convolution: _convolution,
    Relu: _relu,
    SparseAffine: _sparse,
}
