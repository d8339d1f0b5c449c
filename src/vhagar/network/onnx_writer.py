"""Networks to ONNX files: for examples, for tests, and for onnxruntime's second opinion."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from vhagar.network.convolution import Convolution
from vhagar.network.layers import AbstractLayer, Affine, Relu, SparseAffine
from vhagar.network.network import ModelFile, Network
from vhagar.network.onnx_graph import OnnxGraph
from vhagar.runtime.output_files import write_bytes


def write_onnx(network: Network, path: str | Path) -> None:
    """Write the network in float32, with input `image` `(batch, ...)` and output `scores`."""
    write_bytes(Path(path), onnx_bytes(network))


def save_model(network: Network, path: str | Path) -> Network:
    """Write the model a network was made from, and return the network with the file's name.

    The file holds the model that onnxruntime is asked about, with one score per class and without
    the network's input convention; certificates are about it. A network that was built layer by
    layer is written as `write_onnx` does.
    """
    path = Path(path)
    content = onnx_bytes(network) if network.model is None else network.model
    write_bytes(path, content)
    file = ModelFile(path, hashlib.sha256(content).hexdigest())
    return replace(network, file=file, scores=None)


def onnx_bytes(network: Network) -> bytes:
    """Return the network as a float32 ONNX model."""
    graph = OnnxGraph()
    current, shape = "image", network.input_shape
    for layer in network.layers:
        flat = _works_on_vectors(layer)
        if layer.in_shape != shape or (flat and len(shape) > 1):
            current = graph.reshape(current, (-1, layer.in_size) if flat else (-1, *layer.in_shape))
        current = _WRITERS[type(layer)](graph, current, layer)
        shape = (layer.out_size,) if flat else layer.out_shape
    if len(shape) != 1:
        current = graph.reshape(current, (-1, network.classes))
    graph.add("Identity", current, output="scores")
    model = graph.model(
        network.name or "network",
        ("image", ["batch", *network.input_shape]),
        ("scores", ["batch", network.classes]),
    )
    return bytes(model.SerializeToString())


def _works_on_vectors(layer: AbstractLayer) -> bool:
    return isinstance(layer, Affine | SparseAffine) or (
        isinstance(layer, Relu) and layer.linear is not None
    )


def _affine(graph: OnnxGraph, source: str, layer: Affine | SparseAffine) -> str:
    weight = layer.weight if isinstance(layer, Affine) else layer.weight.toarray()
    return graph.add("Gemm", source, graph.constant(weight), graph.constant(layer.bias), transB=1)


def _convolution(graph: OnnxGraph, source: str, layer: Convolution) -> str:
    by_place = layer.bias.ndim == 3
    inputs = [source, graph.constant(layer.weight)]
    if not by_place:
        inputs.append(graph.constant(layer.bias))
    output = graph.add(
        "Conv",
        *inputs,
        kernel_shape=layer.weight.shape[2:],
        strides=layer.stride,
        pads=layer.padding,
        dilations=layer.dilation,
        group=layer.groups,
    )
    return graph.add("Add", output, graph.constant(layer.bias[None])) if by_place else output


def _relu(graph: OnnxGraph, source: str, layer: Relu) -> str:
    if layer.linear is None:
        return graph.add("Relu", source)
    units, linear = np.flatnonzero(~layer.linear), np.flatnonzero(layer.linear)
    positive = graph.add("Relu", _gathered(graph, source, units))
    joined = graph.add("Concat", positive, _gathered(graph, source, linear), axis=1)
    order = np.concatenate([units, linear])
    in_order = bool((np.diff(order) > 0).all())
    return joined if in_order else _gathered(graph, joined, np.argsort(order))


def _gathered(graph: OnnxGraph, source: str, index: Any) -> str:
    return graph.add("Gather", source, graph.constant(index.astype(np.int64)), axis=1)


_WRITERS: dict[type[AbstractLayer], Callable[[OnnxGraph, str, Any], str]] = {
    Affine: _affine,
    Convolution: _convolution,
    Relu: _relu,
    SparseAffine: _affine,
}
