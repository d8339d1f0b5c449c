"""A guard as an ONNX file: the network as verified, and a few comparisons behind it.

The graph computes in float32. It holds the plain layers that were verified, not the operators of
the model file they were read from: the bound on rounding is about those layers.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from vhagar.array_types import Array
from vhagar.errors import InvalidInput
from vhagar.guard.base import AbstractGuard, Protection
from vhagar.guard.membership import PROPOSAL, Proposals, add_membership
from vhagar.network import onnx_bytes
from vhagar.network.fingerprint import fingerprint
from vhagar.perturbation import Domain
from vhagar.perturbation.domain.plain import plain_domain
from vhagar.relaxation.rounding import FLOAT32, float32_above
from vhagar.version import __version__

# The metadata of the file under this name is JSON (docs/guard.md).
KEY = "vhagar_guard"
FORMAT, FORMAT_WITH_DOMAINS = 1, 2


def guard_bytes(guard: AbstractGuard, proposals: Proposals | None = None) -> bytes:
    """The ONNX file's content; `proposals` are those of a file that it is to be compared with."""
    model = onnx.load_model_from_string(onnx_bytes(guard.network))
    _extend(model.graph, guard, proposals or {})
    helper.set_model_props(model, {KEY: json.dumps(about(guard), sort_keys=True)})
    model.doc_string = "\n".join(guard.words)
    model.producer_name, model.producer_version = "vhagar", __version__
    onnx.checker.check_model(model)
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def about(guard: AbstractGuard) -> dict[str, Any]:
    """The metadata: what the guard is about, what it promises, and what that rests on."""
    file = guard.network.file
    domains = {str(each.fingerprint): plain_domain(each) for each in guard.domains}
    return {
        "format": FORMAT_WITH_DOMAINS if domains else FORMAT,
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
                **_about_domain(guard, each),
            }
            for each in guard.protections
        ],
        "bounds": [bound.plain() for bound in guard.bounds],
        **({"domains": domains} if domains else {}),
    }


def _about_domain(guard: AbstractGuard, protection: Protection) -> dict[str, Any]:
    if protection.domain is None:
        return {}
    return {
        "domain": protection.domain.fingerprint,
        "rounding": guard.rounding(FLOAT32, protection.domain).tolist(),
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
    known = (FORMAT, FORMAT_WITH_DOMAINS)
    if isinstance(values, dict) and values.get("format") not in known:
        raise InvalidInput(
            f"the guard was written by vhagar {values.get('vhagar')}, in another form"
        )
    if not isinstance(values, dict) or not {"fingerprint", "network", "bounds"} <= values.keys():
        raise InvalidInput("the guard's metadata is damaged")
    return values


def proposals_in(content: bytes) -> dict[str, Array]:
    """The matrices of a guard's file that propose coordinates in zonotopes."""
    model: Any = onnx.load_model_from_string(content)
    tensors = (each for each in model.graph.initializer if each.name.endswith(PROPOSAL))
    return {each.name: numpy_helper.to_array(each) for each in tensors}


def _extend(graph: Any, guard: AbstractGuard, proposals: Proposals) -> None:
    """Add comparisons behind the scores; a column of `robust` is one of `protections`."""
    low, high = guard.input_range
    thresholds = float32_above(guard.thresholds(FLOAT32))
    for name, array in (
        ("guard_two", np.array([2], dtype=np.int64)),
        ("guard_first", np.array(0, dtype=np.int64)),
        ("guard_second", np.array(1, dtype=np.int64)),
        ("guard_axis", np.array([1], dtype=np.int64)),
        ("guard_flat", np.array([-1, guard.network.input_size], dtype=np.int64)),
        # Float32 inputs are in the range where they are between its ends rounded inward.
        ("guard_low", float32_above(np.array(low))),
        ("guard_high", -float32_above(np.array(-high))),
        ("guard_thresholds", thresholds),
    ):
        graph.initializer.append(numpy_helper.from_array(array, name))
    source = graph.input[0].name
    in_range = "guard_in_range" if guard.domains else "guard_inside"
    _add_nodes(
        graph,
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
        ("Cast", ["guard_least"], [in_range], {"to": TensorProto.BOOL}),
    )
    if guard.domains:
        verdicts: dict[Domain | None, str] = {None: in_range}
        for k, domain in enumerate(guard.domains):
            prefix = f"guard_domain{k}"
            verdicts[domain] = add_membership(graph, domain, "guard_entries", prefix, proposals)
        columns = [verdicts[each.domain] for each in guard.protections]
        _add_nodes(graph, ("Concat", columns, ["guard_inside"], {"axis": 1}))
    _add_nodes(graph, ("And", ["guard_above", "guard_inside"], ["robust"], {}))
    for name, type_, shape in (
        ("class", TensorProto.INT64, ["batch"]),
        ("confidence", TensorProto.FLOAT, ["batch"]),
        ("robust", TensorProto.BOOL, ["batch", thresholds.shape[1]]),
    ):
        graph.output.append(helper.make_tensor_value_info(name, type_, shape))


def _add_nodes(graph: Any, *nodes: tuple[str, list[str], list[str], dict[str, Any]]) -> None:
    for kind, inputs, outputs, attributes in nodes:
        graph.node.append(helper.make_node(kind, inputs, outputs, name=outputs[0], **attributes))
