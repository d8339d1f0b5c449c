"""PyTorch modules as networks: exported, converted to ONNX, read, and compared with the module.

Through ONNX, every later step has what it would have for a file: the second opinion of the witness
check, a model to save, certificates about it. Nothing is unpickled here, and no other tracer is
tried if `torch.export` fails.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from vhagar.errors import InvalidInput, InvalidNetwork, Refusal, UnsupportedOperator
from vhagar.network.conventions import Numbers
from vhagar.network.network import Network
from vhagar.network.onnx_graph import OnnxGraph
from vhagar.network.onnx_operators.reasons import why_not
from vhagar.network.onnx_reader import read_model
from vhagar.network.torch.aten import CONVERTERS, INCREASING, TAILS
from vhagar.network.torch.aten_values import AtenValue
from vhagar.runtime.devices import require_torch

# Random inputs of each kind on which module and network are compared.
_SAMPLES = 16
# Largest difference, relative to the largest score; the order of float32 operations explains less.
_TOLERANCE = 1e-4


def from_torch(
    module: Any,
    *,
    input_shape: Sequence[int] | None = None,
    name: str | None = None,
    layout: str = "chw",
    image_shape: Sequence[int] | None = None,
    mean: Numbers | None = None,
    std: Numbers | None = None,
    threshold: float | None = None,
) -> Network:
    """Convert a `torch.nn.Module`, in evaluation mode, or a program of `torch.export` to a network.

    `input_shape` is that of one input, without a batch; a program has its own. The other options
    are those of `read_onnx`.
    A softmax, log-softmax, sigmoid or tanh at the end is ignored: confidence is a difference of
    scores. The network is compared with the module on random inputs; a difference is an error.
    """
    torch = require_torch()
    if isinstance(module, torch.export.ExportedProgram):
        name, program = name or "program", module
        batch, shape = _program_shape(program, input_shape)
        module = program.module()
    elif isinstance(module, torch.nn.Module):
        if isinstance(module, torch.jit.ScriptModule):
            raise InvalidInput("pass the module that this TorchScript was made from, or export it")
        if input_shape is None:
            raise InvalidInput("give the shape of one input, such as input_shape=(1, 28, 28)")
        name, program, batch = name or type(module).__name__, None, None
        shape = tuple(int(size) for size in input_shape)
    else:
        raise InvalidInput(
            "from_torch takes a torch.nn.Module or an ExportedProgram, not "
            f"{type(module).__name__}; vhagar.load_weights fills a module with a file of weights"
        )
    with _evaluating(module, program is None):
        dtype = _precision(module, torch)
        exported = program if batch == 1 else _exported(module, shape, dtype, torch)
        conversion = _Conversion(exported, torch)
        model = conversion.model(name)
        network = read_model(model, name, layout, image_shape, mean, std, threshold=threshold)
        plain = read_model(model, name)
        _compare(module, plain, shape, conversion.tail, dtype, torch)
    # The network's own model, which `save_model` writes, gives one score per class.
    return replace(network, scores=None)


def _program_shape(program: Any, given: Sequence[int] | None) -> tuple[int | None, tuple[int, ...]]:
    """The batch size of an exported program, None if it is open, and the shape of one input."""
    specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
    nodes = [node for node in program.graph.nodes if node.op == "placeholder"]
    inputs = [node for node in nodes if specs[node.name].target is None]
    if len(inputs) != 1:
        raise InvalidNetwork(f"the program takes {len(inputs)} tensors; a classifier takes one")
    sizes = [size if isinstance(size, int) else None for size in inputs[0].meta["val"].shape]
    if len(sizes) < 2 or None in sizes[1:] or sizes[0] not in (1, None):
        shape = " x ".join("?" if size is None else str(size) for size in sizes)
        raise InvalidInput(
            f"the program takes a tensor of shape {shape} (? stands for open); export it for a "
            "batch of 1 or an open one, and fixed sizes"
        )
    one = tuple(size for size in sizes[1:] if size is not None)
    if given is not None and tuple(given) != one:
        raise InvalidInput(f"the program takes inputs of shape {one}, not {given}")
    return sizes[0], one


@contextmanager
def _evaluating(module: Any, switch: bool = True) -> Iterator[None]:
    """Put every part into evaluation mode, and restore its mode afterwards.

    An exported program has one mode, which cannot be switched.
    """
    if not switch:
        yield
        return
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def _precision(module: Any, torch: Any) -> Any:
    kinds = {part.dtype for part in module.parameters() if part.is_floating_point()}
    if len(kinds) > 1 or kinds - {torch.float32, torch.float64}:
        raise InvalidInput(f"the module's precision is {kinds}; convert it with .float()")
    return kinds.pop() if kinds else torch.float32


def _exported(module: Any, shape: tuple[int, ...], dtype: Any, torch: Any) -> Any:
    device = next((part.device for part in module.parameters()), torch.device("cpu"))
    try:
        with torch.no_grad():
            return torch.export.export(
                module, (torch.zeros(1, *shape, dtype=dtype, device=device),)
            )
    except Exception as error:  # torch has many exceptions for what it cannot trace
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InvalidNetwork(
            f"torch.export cannot trace the module for an input of shape {(1, *shape)}: {first}"
        ) from error


class _Conversion:
    """Converts an exported graph; whatever does not depend on the input is computed."""

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


def _compare(
    module: Any, network: Network, shape: tuple[int, ...], tail: str | None, dtype: Any, torch: Any
) -> None:
    rng = np.random.default_rng(0)
    inputs = np.concatenate(
        [rng.random((_SAMPLES, *shape)), rng.normal(scale=3.0, size=(_SAMPLES, *shape))]
    ).astype(np.float32)
    device = next((part.device for part in module.parameters()), torch.device("cpu"))
    with torch.no_grad():
        # One by one: a module may be written for one input at a time.
        theirs = torch.cat(
            [module(torch.tensor(x[None], dtype=dtype, device=device)).cpu() for x in inputs]
        )
    ours = torch.tensor(network.forward(inputs.astype(np.float64)))
    if network.scores is not None:  # one score z, of which the network makes [0, z]
        ours = ours[:, 1:]
    if tail in INCREASING:
        ours = getattr(torch, tail)(ours)
    elif tail is not None:
        ours = getattr(torch.nn.functional, tail)(ours, dim=-1)
    theirs = theirs.double().reshape(ours.shape)
    error = float((ours - theirs).abs().max())
    largest = max(float(theirs.abs().max()), 1e-6)
    if not error <= _TOLERANCE * largest:
        raise InvalidNetwork(
            f"the converted network differs from the module by {error:.3g} on scores of up to "
            f"{largest:.3g}; does the module depend on the batch, on randomness or on "
            "earlier inputs?"
        )
