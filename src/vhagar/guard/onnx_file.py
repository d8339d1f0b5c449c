"""A guard as an ONNX file: the network as verified, and a few comparisons behind it.

The graph computes in float32. It holds the plain layers that were verified, not the operators of
the model file they were read from: the bound on rounding is about those layers.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from vhagar.array_types import Array
from vhagar.errors import InvalidInput
from vhagar.guard.base import AbstractGuard
from vhagar.network import onnx_bytes
from vhagar.network.fingerprint import fingerprint
from vhagar.relaxation.rounding import FLOAT32
from vhagar.version import __version__

# The metadata of the file under this name is JSON (docs/guard.md).
KEY = "vhagar_guard"
FORMAT = 1
Float32 = NDArray[np.float32]


def guard_bytes(guard: AbstractGuard) -> bytes:
    """The ONNX file's content."""
    model = onnx.load_model_from_string(onnx_bytes(guard.network))
    _extend(model.graph, guard)
    helper.set_model_props(model, {KEY: json.dumps(about(guard), sort_keys=True)})
    model.doc_string = "\n".join(guard.words)
    model.producer_name, model.producer_version = "vhagar", __version__
    onnx.checker.check_model(model)
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def about(guard: AbstractGuard) -> dict[str, Any]:
    """The metadata: what the guard is about, what it promises, and what that rests on."""
    file = guard.network.file
    return {
        "format": FORMAT,
        "vhagar": __version__,
        "network": guard.network.name,
        "model": None if file is None else {"file": file.path.name, "sha256": file.sha256},
        "fingerprint": fingerprint(guard.network),
        "input_range": list(guard.input_range),
        "rounding": guard.rounding(FLOAT32).tolist(),
        "perturbations": [
            {
                "name": each.label,
                "uppers": [upper if upper < np.inf else None for upper in each.uppers],
                "missing_targets": [list(labels) for labels in each.missing],
            }
            for each in guard.protections
        ],
        "bounds": [bound.plain() for bound in guard.bounds],
    }


def metadata(content: bytes) -> dict[str, Any]:
    """The metadata of a guard's file."""
    try:
        model = onnx.load_model_from_string(content)
        found = {entry.key: entry.value for entry in model.metadata_props}
        values: dict[str, Any] = json.loads(found[KEY])
    except KeyError:
        raise InvalidInput(
            f"this model is not a guard that vhagar has written: its metadata have no {KEY}"
        ) from None
    except Exception as error:  # protobuf has its own exceptions for damaged files
        raise InvalidInput(f"this is not a guard that vhagar has written ({error})") from None
    if isinstance(values, dict) and values.get("format") != FORMAT:
        raise InvalidInput(
            f"the guard was written by vhagar {values.get('vhagar')}, in another form"
        )
    if not isinstance(values, dict) or not {"fingerprint", "network", "bounds"} <= values.keys():
        raise InvalidInput("the guard's metadata is damaged")
    return values


def _extend(graph: Any, guard: AbstractGuard) -> None:
    low, high = guard.input_range
    thresholds = rounded_up(guard.thresholds(FLOAT32))
    for name, array in (
        ("guard_two", np.array([2], dtype=np.int64)),
        ("guard_first", np.array(0, dtype=np.int64)),
        ("guard_second", np.array(1, dtype=np.int64)),
        ("guard_axis", np.array([1], dtype=np.int64)),
        ("guard_flat", np.array([-1, guard.network.input_size], dtype=np.int64)),
        # Float32 inputs are in the range where they are between its ends rounded inward.
        ("guard_low", rounded_up(np.array(low))),
        ("guard_high", -rounded_up(np.array(-high))),
        ("guard_thresholds", thresholds),
    ):
        graph.initializer.append(numpy_helper.from_array(array, name))
    source = graph.input[0].name
    for kind, inputs, output, attributes in (
        ("TopK", ["scores", "guard_two"], ["guard_best", "guard_labels"], {"axis": 1}),
        ("Gather", ["guard_best", "guard_first"], ["guard_most"], {"axis": 1}),
        ("Gather", ["guard_best", "guard_second"], ["guard_next"], {"axis": 1}),
        ("Gather", ["guard_labels", "guard_first"], ["class"], {"axis": 1}),
        ("Sub", ["guard_most", "guard_next"], ["confidence"], {}),
        ("Gather", ["guard_thresholds", "class"], ["guard_bound"], {"axis": 0}),
        ("Unsqueeze", ["confidence", "guard_axis"], ["guard_column"], {}),
        ("Greater", ["guard_column", "guard_bound"], ["guard_above"], {}),
        ("Reshape", [source, "guard_flat"], ["guard_entries"], {}),
        ("GreaterOrEqual", ["guard_entries", "guard_low"], ["guard_not_below"], {}),
        ("LessOrEqual", ["guard_entries", "guard_high"], ["guard_not_above"], {}),
        ("And", ["guard_not_below", "guard_not_above"], ["guard_within"], {}),
        ("Cast", ["guard_within"], ["guard_ones"], {"to": TensorProto.FLOAT}),
        ("ReduceMin", ["guard_ones"], ["guard_least"], {"axes": [1]}),
        ("Cast", ["guard_least"], ["guard_inside"], {"to": TensorProto.BOOL}),
        ("And", ["guard_above", "guard_inside"], ["robust"], {}),
    ):
        graph.node.append(helper.make_node(kind, inputs, output, name=output[0], **attributes))
    for name, type_, shape in (
        ("class", TensorProto.INT64, ["batch"]),
        ("confidence", TensorProto.FLOAT, ["batch"]),
        ("robust", TensorProto.BOOL, ["batch", thresholds.shape[1]]),
    ):
        graph.output.append(helper.make_tensor_value_info(name, type_, shape))


def rounded_up(values: Array) -> Float32:
    """The smallest float32 numbers that are not below these."""
    with np.errstate(over="ignore"):
        near = values.astype(np.float32)
    above: Float32 = np.nextafter(near, np.float32(np.inf))
    return np.where(near < values, above, near).astype(np.float32)
