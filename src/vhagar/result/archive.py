"""Save and load results: a zip of the JSON, the model and, if needed, the perturbation's maps.

`docs/json.md` describes the JSON; the model is an ONNX file. Nothing in the zip is ever executed.
"""

from __future__ import annotations

import json
import math
import zipfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from vhagar.dataset import Neighbour
from vhagar.errors import InvalidInput
from vhagar.network import Network, onnx_bytes
from vhagar.network.network import ModelFile
from vhagar.network.onnx_reader import parse_model, read_model
from vhagar.network.scores import Scores
from vhagar.perturbation import AffineMap, Perturbation, parse
from vhagar.perturbation.domain.plain import domain_of_plain
from vhagar.perturbation.user import RecordedMaps
from vhagar.problem import Problem
from vhagar.result.serialize import SCHEMA, to_json
from vhagar.result.values import (
    AbstractResult,
    BoundKind,
    Estimate,
    Interval,
    Moment,
    PlausibleWitness,
    Status,
    coverage_of_plain,
)
from vhagar.result.witness import Witness
from vhagar.runtime.output_files import open_in_one_step

_JSON, _MODEL, _MAPS = "result.json", "model.onnx", "maps.npz"
# The fields of an `AffineMap` that are sparse matrices, and its fields that are vectors.
_MATRICES, _VECTORS = ("matrix", "directions"), ("offset", "lower", "upper")


def save_result(result: AbstractResult, path: Path) -> None:
    """Write the file in one step. A network built in memory is written in float32."""
    network, maps = result.problem.network, result.problem.recorded_maps
    with open_in_one_step(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as parts:
        parts.writestr(_JSON, to_json(result))
        parts.writestr(_MODEL, onnx_bytes(network) if network.model is None else network.model)
        if maps:
            parts.writestr(_MAPS, _maps_bytes(maps))


def load_fields(path: Path) -> dict[str, Any]:
    """Read the fields of the result in a file."""
    try:
        with zipfile.ZipFile(path) as parts:
            values = json.loads(parts.read(_JSON))
            model = parts.read(_MODEL)
            maps = _maps(parts.read(_MAPS)) if _MAPS in parts.namelist() else ()
    except FileNotFoundError:
        raise InvalidInput(f"no result at {path}; check the path") from None
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise InvalidInput(f"{path} is not a file that Result.save has written: {error}") from None
    if values["schema"] != SCHEMA:
        raise InvalidInput(
            f"{path} was written by vhagar {values['vhagar']}, in another form than this version "
            "reads"
        )
    asked = values["problem"]
    network = _network(model, asked)
    problem = Problem(
        network,
        perturbation=_perturbation(asked["perturbation"], maps),
        source=asked["source"],
        targets=asked["targets"] or None,
        clip=asked["clip"],
        domain=domain_of_plain(
            network.input_shape, tuple(asked["input_range"]), asked.get("domain")
        ),
    )
    return {
        "problem": problem,
        **_known(values),
        "witness": _witness(values["witness"], problem),
        "plausible": _plausible(values.get("plausible"), problem),
    }


def _known(values: dict[str, Any]) -> dict[str, Any]:
    estimate, certificate = values["estimate"], values["certificate"]
    covered = values.get("coverage")
    return {
        "lower": values["lower"],
        "upper": _upper(values["upper"]),
        "status": Status[values["status"].upper()],
        "kind": BoundKind[values["kind"].upper()],
        "seconds": values["seconds"],
        "targets": {int(label): _interval(each) for label, each in values["targets"].items()},
        "history": tuple(
            Moment(each["seconds"], each["lower"], _upper(each["upper"]))
            for each in values["history"]
        ),
        "max_confidence": values["max_confidence"] and _interval(values["max_confidence"]),
        "estimate": None if estimate is None else Estimate(**estimate),
        "coverage": None if covered is None else coverage_of_plain(covered),
        "nearest": _nearest(values.get("nearest")),
        "engine": values["engine"],
        "device": values["device"],
        "nodes": values["nodes"],
        "timings": values["timings"],
        "notes": tuple(values["notes"]),
        "certificate": None if certificate is None else Path(certificate["file"]),
    }


def _nearest(values: dict[str, Any] | None) -> Neighbour | None:
    if values is None:
        return None
    x = np.array(values["x"], dtype=np.float64)
    return Neighbour(values["row"], x, values["label"], values["distance"])


def _plausible(values: dict[str, Any] | None, problem: Problem) -> PlausibleWitness | None:
    if values is None:
        return None
    witness, near = _witness(values["witness"], problem), _nearest(values["nearest"])
    assert witness is not None  # neither is ever left out
    assert near is not None
    return PlausibleWitness(witness, near, values["share"])


def _upper(value: float | None) -> float:
    return math.inf if value is None else value


def _interval(values: dict[str, Any]) -> Interval:
    return Interval(values["lower"], _upper(values["upper"]), BoundKind[values["kind"].upper()])


def _network(model: bytes, asked: dict[str, Any]) -> Network:
    name, taken, file = asked["network"], asked["convention"], asked["file"]
    conventions: tuple[Any, ...] = ("chw",)
    if taken is not None:
        shape = asked["input_shape"]
        image = shape if len(shape) == 3 else None
        conventions = (taken["layout"], image, taken["mean"] or None, taken["std"] or None)
    network = read_model(parse_model(model, Path(name)), name, *conventions)
    scores = asked.get("scores")  # the stored model gives one score per class already
    network = replace(network, scores=None if scores is None else Scores(**scores))
    if file is None:
        return network
    return replace(network, file=ModelFile(Path(file["path"]), file["sha256"]))


def _perturbation(text: str | None, maps: tuple[AffineMap, ...]) -> Perturbation | None:
    if text is None:
        return None
    return RecordedMaps(text, maps) if maps else parse(text)


def _witness(values: dict[str, Any] | None, problem: Problem) -> Witness | None:
    if values is None:
        return None
    number, choice = values["piece_number"], tuple(values["choice"])
    parameters = None
    if number is not None:
        parameters = problem.pieces[number].describe(np.array(choice))
    return Witness(
        np.array(values["x"]),
        np.array(values["scores"]),
        values["confidence"],
        values["target"],
        None if values["x_p"] is None else np.array(values["x_p"]),
        None if values["scores_p"] is None else np.array(values["scores_p"]),
        values["margin"],
        values["tie"],
        values["piece"],
        parameters,
        number,
        choice,
    )


def _maps_bytes(maps: tuple[AffineMap, ...]) -> bytes:
    arrays: dict[str, Any] = {"labels": np.array([each.label for each in maps])}
    for k, each in enumerate(maps):
        arrays[f"{k} names"] = np.array(each.names)
        for name in _VECTORS:
            arrays[f"{k} {name}"] = getattr(each, name)
        for name in _MATRICES:
            matrix = getattr(each, name)
            for part in ("data", "indices", "indptr", "shape"):
                arrays[f"{k} {name} {part}"] = np.asarray(getattr(matrix, part))
    content = BytesIO()
    np.savez_compressed(content, **arrays)
    return content.getvalue()


def _maps(content: bytes) -> tuple[AffineMap, ...]:
    arrays = np.load(BytesIO(content), allow_pickle=False)

    def matrix(name: str) -> sparse.csr_array:
        data, indices, indptr, shape = (
            arrays[f"{name} {part}"] for part in ("data", "indices", "indptr", "shape")
        )
        return sparse.csr_array((data, indices, indptr), tuple(shape))

    return tuple(
        AffineMap(
            **{name: matrix(f"{k} {name}") for name in _MATRICES},
            **{name: arrays[f"{k} {name}"] for name in _VECTORS},
            names=tuple(map(str, arrays[f"{k} names"])),
            label=str(label),
        )
        for k, label in enumerate(arrays["labels"])
    )
