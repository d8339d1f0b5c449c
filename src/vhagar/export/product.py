"""The product network: one ONNX model of two copies of a network, an input and its perturbation.

Its input is `(x, e)`, the pixels and then the parameters, flat. Its outputs are, for each class,
the source's lead over it at `x`, and then the scores of `x_p`: every condition of the question
then compares an output with a number or another output, which is all that many verifiers support.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vhagar.network.network import Network
from vhagar.network.onnx_copy import INPUT, OUTPUT, clipped, copied, graph_around, standalone
from vhagar.network.onnx_graph import OnnxGraph
from vhagar.perturbation import Domain
from vhagar.perturbation.formula import Formula


def product_model(network: Network, source: int, formula: Formula, domain: Domain) -> Any:
    """Build the product network of a network and one piece of a perturbation."""
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
    size = domain.size + formula.map.count
    return graph.model(network.name, (INPUT, (1, size)), (OUTPUT, (1, 2 * classes)), model)


def _perturbed(graph: OnnxGraph, x: str, formula: Formula, domain: Domain) -> str:
    """Add `x_p` as a function of `x` and the parameters; the clip consists of ReLUs."""
    parameters = ""
    if formula.map.count:
        parameters = graph.slice(INPUT, 1, domain.size, domain.size + formula.map.count)
    if formula.product:
        distance = graph.add("Sub", x, graph.constant([[domain.lower]]))
        moved = graph.add("Mul", distance, parameters)
    else:
        moved = times(graph, x, formula.map.matrix)
        if formula.map.count:
            moved = graph.add("Add", moved, times(graph, parameters, formula.map.directions))
    if formula.map.offset.any():
        moved = graph.add("Add", moved, graph.constant(formula.map.offset[None]))
    return clipped(graph, moved, domain.lower, domain.upper) if formula.clip else moved


def times(graph: OnnxGraph, source: str, matrix: Any) -> str:
    """Multiply by a matrix; a diagonal one becomes an elementwise product."""
    rows, columns = matrix.shape
    dense = matrix.toarray()
    if rows == columns and np.count_nonzero(dense) == np.count_nonzero(dense.diagonal()):
        if (dense.diagonal() == 1).all():
            return source
        return graph.add("Mul", source, graph.constant(dense.diagonal()[None]))
    return graph.add("MatMul", source, graph.constant(dense.T))
