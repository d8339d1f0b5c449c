"""Converts a graph of `torch.export` to an ONNX model, operator by operator."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from vhagar.errors import InvalidNetwork, Refusal, UnsupportedOperator
from vhagar.network.onnx_graph import OnnxGraph
from vhagar.network.onnx_operators.reasons import why_not
from vhagar.network.torch.aten import CONVERTERS, INCREASING, TAILS
from vhagar.network.torch.aten_values import AtenValue


class Conversion:
    """Converts an exported graph; whatever does not depend on the input is computed.

    `tail` is the softmax, or another increasing function, at the end, which is left out.
    """

    def __init__(self, exported: Any, torch: Any) -> None:
        self._torch = torch
        self._exported = exported
        self._known: dict[Any, Any] = {}
        self.tail: str | None = None
        self.graph = OnnxGraph()

    def model(self, name: str) -> Any:
        nodes = list(self._exported.graph.nodes)
        source = self._placeholders(nodes)
        calls = [node for node in nodes if node.op == "call_function"]
        self._refuse_unknown(calls)
        result = _result(nodes)
        for node in calls:
            self._known[node] = self._convert(node, result)
        output = self._known.get(result)
        if not isinstance(output, AtenValue):
            raise InvalidNetwork("the module's result does not depend on its input")
        if len(output.shape) != 2:
            raise InvalidNetwork(
                f"the module's result has shape {output.shape}, not (1, classes); "
                "is a Flatten missing at the end?"
            )
        scores = self.graph.add("Identity", output.name)
        return self.graph.model(name, source, (scores, output.shape))

    def _placeholders(self, nodes: list[Any]) -> tuple[str, tuple[int, ...]]:
        stored = {**self._exported.state_dict, **self._exported.constants}
        specs = {spec.arg.name: spec for spec in self._exported.graph_signature.input_specs}
        inputs = []
        for node in nodes:
            if node.op != "placeholder":
                continue
            target = specs[node.name].target
            if target is None:
                inputs.append(node)
            else:
                self._known[node] = stored[target]
        if len(inputs) != 1:
            raise InvalidNetwork(f"the module takes {len(inputs)} tensors; a classifier takes one")
        (node,) = inputs
        shape = _shape(node)
        double = node.meta["val"].dtype == self._torch.float64
        self.graph = OnnxGraph(np.float64 if double else np.float32)
        self._known[node] = AtenValue("image", shape)
        return "image", shape

    def _refuse_unknown(self, calls: list[Any]) -> None:
        """Refuse all operators that cannot be converted, at once."""
        fixed = {key for key, v in self._known.items() if not isinstance(v, AtenValue)}
        unknown: dict[str, str] = {}
        for node in calls:
            if fixed.issuperset(node.all_input_nodes):
                fixed.add(node)
            elif node.target is not operator.getitem and _name(node) not in CONVERTERS:
                unknown.setdefault(_name(node), node.name)
        if unknown:
            refusals = [Refusal(name, node, why_not(name)) for name, node in unknown.items()]
            raise UnsupportedOperator(refusals, tuple(sorted(CONVERTERS)))

    def _convert(self, node: Any, result: Any) -> Any:
        look = self._torch.fx.node.map_arg
        args, kwargs = (look(part, self._known.__getitem__) for part in (node.args, node.kwargs))
        if not any(
            isinstance(self._known[part], AtenValue | list) for part in node.all_input_nodes
        ):
            with self._torch.no_grad():
                return node.target(*args, **kwargs)  # independent of the input: a constant
        if node.target is operator.getitem:
            return args[0][args[1]]
        name = _name(node)
        if name in TAILS:
            self._take_tail(node, name, result)
        elif name in INCREASING and node is result:
            self.tail = name
        given = _arguments(node, args, kwargs)
        try:
            return CONVERTERS[name](self.graph, given, _shape(node))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InvalidNetwork(
                f"the operator {name} at {node.name!r} is used in a way that is not understood "
                f"({error!r})"
            ) from error
        except InvalidNetwork as error:
            raise InvalidNetwork(
                f"the module cannot be converted: {error} ({name} at {node.name!r})"
            ) from error

    def _take_tail(self, node: Any, name: str, result: Any) -> None:
        shape = _shape(node)
        if node is not result or node.args[1] % len(shape) != len(shape) - 1:
            raise InvalidNetwork(
                f"a {name.strip('_')} that is not the last operator, over the classes, "
                "is not piecewise linear"
            )
        self.tail = name.strip("_")


def _result(nodes: list[Any]) -> Any:
    (output,) = (node for node in nodes if node.op == "output")
    results = output.args[0]
    if len(results) != 1:
        raise InvalidNetwork(f"the module has {len(results)} results; a classifier has one")
    return results[0]


def _name(node: Any) -> str:
    """The operator's name without overload and in-place mark, such as `conv2d`."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return str(node.target)
    return str(schema.name).removeprefix("aten::").removesuffix("_")


def _arguments(node: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """Arguments by the names of the operator's schema."""
    schema = node.target._schema.arguments
    found = {item.name: item.default_value for item in schema if item.has_default_value()}
    found.update({item.name: value for item, value in zip(schema, args, strict=False)})
    return {**found, **kwargs}


def _shape(node: Any) -> Any:
    """The shape of a node's result, or of each of several."""
    value = node.meta.get("val")
    if value is None:  # an operator without a result
        return ()
    if isinstance(value, list | tuple):
        return [() if item is None else tuple(map(int, item.shape)) for item in value]
    return tuple(map(int, value.shape))
