"""Turns a graph into a chain of layers: linear stages with a ReLU layer between each two.

ReLU layer k holds the units of every block whose operand has depth k, in the order of the graph;
then, as linear units, every value of depth k or less that is used at a greater depth, in order of
creation. A value is used at the depth of the result. A stage is the linear map from the outputs of
one ReLU layer to the inputs of the next (`stage.py`). The certificate checker does the same
independently: the order of the units is a contract between the two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vhagar.network.chain import LayerChain
from vhagar.network.graph import Graph, Linear, Operation, Tensor, Units, Value
from vhagar.network.layers import AbstractLayer
from vhagar.network.stage import GraphStage


def lower(graph: Graph, output: Tensor) -> tuple[AbstractLayer, ...]:
    """Return the layers that compute the output from the graph's input."""
    schedule = LayerPlan.of(graph, output)
    chain = LayerChain(graph.input.shape)
    entering: tuple[Value, ...] = (graph.input.value,)
    for depth, layer in enumerate(schedule.layers):
        leaving = (*layer.operands, *(Tensor(value, (value.size,)) for value in layer.passed))
        GraphStage(entering, schedule.linear(depth), leaving).join(chain)
        chain.relu(layer.linear)
        entering = (*layer.results, *layer.passed)
    GraphStage(entering, schedule.linear(len(schedule.layers)), (output,)).join(chain)
    return chain.finish()


@dataclass(frozen=True, eq=False)
class UnitLayer:
    """One ReLU layer: blocks of ReLU units, and the values that pass through linear units."""

    blocks: tuple[Units, ...]
    passed: tuple[Value, ...]

    @property
    def operands(self) -> tuple[Tensor, ...]:
        return tuple(block.operand for block in self.blocks)

    @property
    def results(self) -> tuple[Value, ...]:
        return tuple(block.output for block in self.blocks)

    @property
    def linear(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Marks the linear units."""
        units = sum(block.output.size for block in self.blocks)
        mask = np.zeros(units + sum(value.size for value in self.passed), dtype=np.bool_)
        mask[units:] = True
        return mask


@dataclass(frozen=True, eq=False)
class LayerPlan:
    """The operations that the output depends on, and the ReLU layers they are spread over."""

    operations: tuple[Operation, ...]
    layers: tuple[UnitLayer, ...]

    @classmethod
    def of(cls, graph: Graph, output: Tensor) -> LayerPlan:
        """Assign every operation that the output depends on to a layer."""
        operations = _needed(graph, output.value)
        blocks = [operation for operation in operations if isinstance(operation, Units)]
        last_use = _last_uses(operations, output.value)
        layers = [
            UnitLayer(
                tuple(block for block in blocks if block.operand.value.depth == depth),
                tuple(
                    value
                    for value in sorted(last_use, key=lambda value: value.number)
                    if value.depth <= depth < last_use[value]
                ),
            )
            for depth in range(output.value.depth)
        ]
        return cls(tuple(operations), tuple(layers))

    def linear(self, depth: int) -> tuple[Linear, ...]:
        """The linear operations of one depth, in order."""
        return tuple(
            operation
            for operation in self.operations
            if isinstance(operation, Linear) and operation.output.depth == depth
        )


def _needed(graph: Graph, output: Value) -> list[Operation]:
    wanted, chosen = {output}, []
    for operation in reversed(graph.operations):
        if operation.output in wanted:
            chosen.append(operation)
            wanted.update(_operands(operation))
    return chosen[::-1]


def _operands(operation: Operation) -> list[Value]:
    if isinstance(operation, Units):
        return [operation.operand.value]
    return [term.value for term in operation.terms]


def _last_uses(operations: list[Operation], output: Value) -> dict[Value, int]:
    """Return the largest depth at which each value is used."""
    found = {output: output.depth}
    for operation in operations:
        for value in _operands(operation):
            units = isinstance(operation, Units)
            depth = value.depth if units else operation.output.depth
            found[value] = max(found.get(value, 0), depth)
    return found
