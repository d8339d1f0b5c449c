"""Translates the nodes of an ONNX graph, one by one, and lowers the result to layers.

Nodes are looked up in the table `TRANSLATORS`. Nothing is run: operations on constants are
computed, and everything else is either translated or refused; all refusals are reported together.
"""

from __future__ import annotations

import math
from typing import Any

from vhagar.errors import InvalidInput, InvalidNetwork, Refusal, UnsupportedOperator
from vhagar.network.graph import Graph, Tensor
from vhagar.network.layers import LARGEST_TENSOR, AbstractLayer, Shape
from vhagar.network.lowering import lower
from vhagar.network.onnx_node import Context, Node, Operand, label
from vhagar.network.onnx_operators import SUPPORTED_OPERATORS, translate, translator_of
from vhagar.network.onnx_operators.activations import ONLY_PIECEWISE_LINEAR
from vhagar.network.onnx_operators.reasons import ON_SHAPES, reason
from vhagar.network.onnx_tensors import read_tensor
from vhagar.network.onnx_types import TensorType
from vhagar.network.onnx_usage import (
    IGNORED_LAST,
    KEEP_THE_SHAPE,
    inputs_of,
    moved_relus,
    nodes_on_the_way,
    opset_of,
    sizes_of,
    tail_of,
)
from vhagar.network.scores import score_threshold, with_threshold

# The newest of ONNX's operator sets whose operators have the meaning that is read here.
_NEWEST = 26


class GraphReader:
    """Reads one graph. `found` maps each name to a constant or a tensor.

    `halves` names the constants that the file stores in half precision.
    """

    def __init__(self, model: Any, halves: frozenset[str] = frozenset()) -> None:
        self.model = model
        self.halves = halves
        self.proto = model.graph
        self.found: dict[str, Operand] = {
            tensor.name: read_tensor(tensor) for tensor in self.proto.initializer
        }
        self.notes: list[str] = []
        # Activations at the end that are ignored: their operators by their results.
        self._dropped: dict[str, str] = {}
        # Nodes that were refused, and the names of everything computed from them.
        self._refusals: list[Refusal] = []
        self._unknown: set[str] = set()

    @property
    def dropped(self) -> frozenset[str]:
        """The results of ignored activations at the end."""
        return frozenset(self._dropped)

    def read(self, threshold: float | None) -> tuple[tuple[AbstractLayer, ...], float | None]:
        """Return the layers, and the threshold on the score of a model with one score."""
        source, shape = self.input()
        version = opset_of(self.model)
        if not 1 <= version <= _NEWEST:
            raise InvalidNetwork(
                f"the model uses version {version} of ONNX's operators, and those up to {_NEWEST} "
                "are known; export it with another opset_version"
            )
        graph = Graph(shape)
        self.found[source] = graph.input
        nodes, output = nodes_on_the_way(self.proto), self.proto.output[0].name
        moved = moved_relus(nodes)
        context = Context(
            graph,
            version,
            tail_of(nodes, output),
            frozenset(moved),
            frozenset(moved.values()),
            self._drop,
            self.halves,
            set(self.halves),
        )
        for node in nodes:
            self._take(node, context)
        if self._refusals:
            raise UnsupportedOperator(self._refusals, SUPPORTED_OPERATORS)
        scores, limit = self._scores(output, threshold)
        layers = lower(graph, scores)
        return (layers if limit is None else with_threshold(layers, limit)), limit

    def _drop(self, proto: Any) -> None:
        self._dropped[proto.output[0]] = proto.op_type
        self.notes.append(
            f"{proto.op_type} at the end is ignored: confidence is a difference of the scores "
            "before it"
        )

    def input(self) -> tuple[str, Shape]:
        """The name of the model's input and its shape, without the batch."""
        inputs = inputs_of(self.proto)
        if len(inputs) != 1:
            names = [value.name for value in inputs]
            raise InvalidNetwork(
                f"a classifier has one input; this model has {names}: export one in which the "
                "others are constants"
            )
        kind = inputs[0].type.tensor_type
        if kind.elem_type not in (TensorType.FLOAT, TensorType.DOUBLE):
            raise InvalidNetwork(
                f"the input {inputs[0].name!r} is not a float tensor, and only real numbers can be "
                "perturbed; export the model in float32, after any cast of bytes or embedding of "
                "words"
            )
        dims = sizes_of(inputs[0])
        if len(dims) < 2 or dims[0] > 1 or min(dims[1:]) < 1:
            sizes = " x ".join(str(dim) if dim else "?" for dim in dims)
            raise InvalidNetwork(
                f"the input {inputs[0].name!r} has shape {sizes} (? stands for open); it needs "
                "fixed sizes after a batch dimension, which may be any if the output has the "
                "same. Export the model again, or fill an image's sizes in with --image-shape C,H,W"
            )
        if math.prod(dims[1:]) > LARGEST_TENSOR:
            raise InvalidNetwork(f"the input {inputs[0].name!r} of shape {dims} is too large")
        return inputs[0].name, tuple(dims[1:])

    def _take(self, proto: Any, context: Context) -> None:
        """Translate one node, or record that it is refused."""
        if self._unknown.intersection(proto.input):
            smooth = proto.op_type in IGNORED_LAST and proto.output[0] not in context.tail
            if smooth or (translator_of(proto) is None and proto.op_type not in ON_SHAPES):
                why = ONLY_PIECEWISE_LINEAR if smooth else reason(proto.op_type, proto.domain)
                self._refusals.append(Refusal(proto.op_type, label(proto), why))
            self._unknown.update(proto.output)
            return
        try:
            results = self._translated(proto, context)
        except UnsupportedOperator as error:
            self._refusals += error.refusals
            self._pass_over(proto)
            return
        except InvalidNetwork:
            if not self._refusals:
                raise
            # It may only look wrong because of an earlier refusal.
            self._unknown.update(proto.output)
            return
        self.found.update(
            (name, result) for name, result in zip(proto.output, results, strict=False) if name
        )

    def _pass_over(self, proto: Any) -> None:
        """Continue after a refusal, with a tensor of the same shape if that is known.

        The model is refused anyway, but the rest of it can still be checked.
        """
        self._unknown.update(proto.output)
        operands = [self.found.get(name) for name in proto.input]
        data = [operand for operand in operands if isinstance(operand, Tensor)]
        if proto.op_type in KEEP_THE_SHAPE and len({tensor.shape for tensor in data}) == 1:
            self.found[proto.output[0]] = data[0]
            self._unknown.discard(proto.output[0])

    def _translated(self, proto: Any, context: Context) -> list[Operand]:
        try:
            operands = [self._operand(name) for name in proto.input]
            return list(translate(Node(proto, operands, context)))
        except InvalidNetwork as error:
            if isinstance(error, UnsupportedOperator):
                raise
            raise InvalidNetwork(f"node {label(proto)!r} ({proto.op_type}): {error}") from error
        except (ArithmeticError, LookupError, MemoryError, TypeError, ValueError) as error:
            raise InvalidNetwork(
                f"node {label(proto)!r} ({proto.op_type}) is malformed ({error}); "
                "export the model again"
            ) from error

    def _operand(self, name: str) -> Operand | None:
        if not name:
            return None
        if name not in self.found:
            raise InvalidNetwork(
                f"its operand {name!r} is not defined (is an initialiser missing?)"
            )
        return self.found[name]

    def _scores(self, output: str, threshold: float | None) -> tuple[Tensor, float | None]:
        """Return the scores, and the threshold of a single one."""
        scores = self.found.get(output)
        if not isinstance(scores, Tensor):
            raise InvalidNetwork(
                f"the output {output!r} does not depend on the input; the graph is disconnected"
            )
        if scores.size == 1:
            limit = score_threshold(threshold, tuple(self._dropped.values()))
            self.notes.append(
                "the model has one score: class 1 is a score above "
                f"{repr(limit).removesuffix('.0')}, class 0 is the rest"
            )
            return scores.reshaped((1,)), limit
        if threshold is not None:
            raise InvalidInput(
                f"a threshold is for models with one score; this one has {scores.size}"
            )
        if len(scores.shape) != 1:
            raise InvalidNetwork(
                f"the output {output!r} has shape {scores.shape} for each input, not that of a "
                "vector of scores; is a Flatten missing at the end?"
            )
        return scores, None
