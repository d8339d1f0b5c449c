"""Quantised ONNX models (QDQ format) as networks in real numbers, without their rounding.

Weights become the float32 numbers that a runtime computes from them, `(q - zero point) * scale`. An
activation that is quantised and dequantised is kept between the ends of what its type can hold, as
in the quantised model, but no longer rounded: rounding jumps, and only continuous functions can be
verified. The result is another function than the quantised model, and whoever converts is told so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from vhagar.errors import InvalidNetwork
from vhagar.network.onnx_messages import editable
from vhagar.network.onnx_tensors import read_tensor
from vhagar.network.onnx_usage import opset_of

_QUANTISE, _DEQUANTISE = "QuantizeLinear", "DequantizeLinear"
_TYPES = {"int8", "uint8", "int16", "uint16", "int32"}
# The errors that a malformed model can raise, wherever it is malformed.
_DAMAGE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@dataclass(frozen=True, eq=False)
class Converted:
    """The model in real numbers, and what was left out of it."""

    model: Any
    constants: int
    # The steps that activations are no longer rounded to.
    steps: tuple[float, ...]


def is_quantised(model: Any) -> bool:
    """Whether a model has operators of the QDQ format."""
    return any(node.op_type in (_QUANTISE, _DEQUANTISE) for node in model.graph.node)


def without_rounding(model: Any) -> Converted:
    """Convert a model of the QDQ format; what cannot be converted is an error."""
    changed = editable(model)
    try:
        return _Conversion(changed).run()
    except InvalidNetwork:
        raise
    except (onnx.checker.ValidationError, *_DAMAGE) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidNetwork(f"the quantised model is malformed: {reason}") from error


class _Conversion:
    """Rewrites the nodes of a model in order, which ONNX says is that of the computation."""

    def __init__(self, model: Any) -> None:
        self.model, self.version = model, opset_of(model)
        self.constants = {tensor.name: tensor for tensor in model.graph.initializer}
        self.folded: dict[str, NDArray[Any]] = {}
        # What each quantised value was made from: the value, and the node.
        self.quantised: dict[str, Any] = {}
        self.steps: list[float] = []
        self.weights = 0
        self.nodes: list[Any] = []

    def run(self) -> Converted:
        graph = self.model.graph
        for node in graph.node:
            self._rewrite(node)
        self._check_uses()
        used = {name for node in self.nodes for name in node.input}
        used |= {value.name for value in graph.output}
        kept = [tensor for tensor in graph.initializer if tensor.name in used]
        made = [
            numpy_helper.from_array(values, name)
            for name, values in self.folded.items()
            if name in used
        ]
        for field, values in (("node", self.nodes), ("initializer", [*kept, *made])):
            del getattr(graph, field)[:]
            getattr(graph, field).extend(values)
        inputs = [one for one in graph.input if one.name not in self.constants]
        del graph.input[:], graph.value_info[:]
        graph.input.extend(inputs)
        onnx.checker.check_model(self.model)
        return Converted(self.model, self.weights, tuple(self.steps))

    def _rewrite(self, node: Any) -> None:
        if node.op_type == "Constant":
            (item,) = node.attribute
            if item.type == onnx.AttributeProto.TENSOR:
                self.constants[node.output[0]] = item.t
        if node.op_type.startswith("Q") and node.op_type != _QUANTISE:
            raise _refused(node, "it computes with rounded numbers, unlike the QDQ format")
        if node.op_type not in (_QUANTISE, _DEQUANTISE) or node.domain not in ("", "ai.onnx"):
            self.nodes.append(node)
            return
        value = self._constant(node.input[0])
        if value is None and node.op_type == _QUANTISE:
            self.quantised[node.output[0]] = node
        elif value is None:
            self._clip(node)
        elif node.op_type == _QUANTISE:
            self.folded[node.output[0]] = self._quantised(node, value)
        else:
            self.folded[node.output[0]] = self._dequantised(node, value)
            self.weights += 1

    def _constant(self, name: str) -> NDArray[Any] | None:
        if name in self.folded:
            return self.folded[name]
        return read_tensor(self.constants[name]) if name in self.constants else None

    def _parameters(self, node: Any, rank: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Scale and zero point of a node, in shapes that broadcast with values of this rank."""
        scale = self._constant(node.input[1])
        given = node.input[2] if len(node.input) > 2 else ""
        zero = self._constant(given) if given else None
        if scale is None or (given and zero is None):
            raise _refused(node, "its scale or zero point is no constant")
        zero = np.zeros(1, dtype=_default_type(node)) if zero is None else zero
        attributes = {item.name: item for item in node.attribute}
        if scale.dtype != np.float32 or zero.dtype.name not in _TYPES:
            raise _refused(node, f"types {scale.dtype} and {zero.dtype.name} are not supported")
        if scale.ndim > 1 or ("block_size" in attributes and attributes["block_size"].i):
            raise _refused(node, "its values are quantised in blocks")
        if not (np.isfinite(scale).all() and (scale > 0).all()):
            raise _refused(node, "its scale is not positive")
        if scale.size == 1:
            return scale.reshape(()), zero.reshape(-1)[:1].reshape(())
        axis = attributes["axis"].i if "axis" in attributes else 1
        if not -rank <= axis < rank:  # activations have rank 0 here: one scale for all
            raise _refused(node, "its values are quantised along an axis")
        shape = [1] * rank
        shape[axis] = -1
        zero = np.broadcast_to(zero.reshape(-1), scale.shape)
        return scale.reshape(shape), zero.reshape(shape)

    def _dequantised(self, node: Any, value: NDArray[Any]) -> NDArray[Any]:
        """Dequantise in float32, as runtimes do."""
        scale, zero = self._parameters(node, value.ndim)
        whole = value.astype(np.int64) - zero.astype(np.int64)
        return np.asarray(whole.astype(np.float32) * scale, dtype=np.float32)

    def _quantised(self, node: Any, value: NDArray[Any]) -> NDArray[Any]:
        scale, zero = self._parameters(node, value.ndim)
        kind = np.iinfo(zero.dtype)
        whole = np.rint((value / scale).astype(np.float32)) + zero.astype(np.float32)
        return np.asarray(np.clip(whole, kind.min, kind.max).astype(zero.dtype))

    def _clip(self, node: Any) -> None:
        """Let the dequantised value be the one before it was quantised, within the type's range."""
        before = self.quantised.get(node.input[0])
        if before is None:
            raise _refused(node, "what it dequantises is not the output of a QuantizeLinear")
        scale, zero = self._parameters(node, 0)
        own_scale, own_zero = self._parameters(before, 0)
        if (scale, zero) != (own_scale, own_zero):
            raise _refused(node, "it does not undo the QuantizeLinear before it")
        kind = np.iinfo(own_zero.dtype)
        ends = [
            np.float32(end - int(zero)) * scale.astype(np.float32) for end in (kind.min, kind.max)
        ]
        output = node.output[0]
        if self.version < 11:
            limits = {"min": float(ends[0]), "max": float(ends[1])}
            clip = helper.make_node("Clip", [before.input[0]], [output], name=node.name, **limits)
        else:
            names = [f"{output}/least", f"{output}/most"]
            self.folded |= {name: np.asarray(end) for name, end in zip(names, ends, strict=True)}
            clip = helper.make_node("Clip", [before.input[0], *names], [output], name=node.name)
        self.nodes.append(clip)
        self.steps.append(float(scale))

    def _check_uses(self) -> None:
        """Quantised values may only be dequantised; whole numbers have no real-valued meaning."""
        names = set(self.quantised)
        names |= {name for name, values in self.folded.items() if values.dtype != np.float32}
        used = {name for node in self.nodes for name in node.input}
        for name in sorted(names & (used | {value.name for value in self.model.graph.output})):
            raise InvalidNetwork(
                f"the quantised value {name!r} is used as it is; quantise the model in the QDQ "
                "format, or export it before its quantisation"
            )


def _default_type(node: Any) -> str:
    """The type of a zero point that is left out."""
    if node.op_type == _DEQUANTISE:
        return "int32"  # any that holds 0
    named = [item.i for item in node.attribute if item.name == "output_dtype" and item.i]
    return str(helper.tensor_dtype_to_np_dtype(named[0])) if named else "uint8"


def _refused(node: Any, reason: str) -> InvalidNetwork:
    return InvalidNetwork(
        f"the {node.op_type} {node.name or node.output[0]!r} cannot be converted: {reason}; "
        "export the model before its quantisation"
    )
