"""Write results as JSON. `docs/json.md` documents every field; a test compares the two."""

from __future__ import annotations

import json
import math
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from vhagar.network.network import plain_conventions
from vhagar.perturbation.domain.plain import plain_domain
from vhagar.problem import Problem
from vhagar.result.values import AbstractResult, Interval, PlausibleWitness
from vhagar.result.witness import Witness
from vhagar.runtime.output_files import write_bytes
from vhagar.version import __version__

# Incremented when a field changes its meaning or is removed, but not when a field is added.
SCHEMA = 1


def to_dict(result: AbstractResult) -> dict[str, Any]:
    """Convert a result to plain JSON types: no NaN, no infinity, arrays as nested lists."""
    fields = {
        "schema": SCHEMA,
        "vhagar": __version__,
        "problem": _problem(result.problem),
        "lower": result.lower,
        "upper": result.upper,
        "status": result.status.name.lower(),
        "message": result.status.value,
        "kind": result.kind.name.lower(),
        "explanation": result.kind.value,
        "seconds": result.seconds,
        "targets": {str(target): _interval(known) for target, known in result.targets.items()},
        "witness": None if result.witness is None else _witness(result.witness),
        "history": [asdict(moment) for moment in result.history],
        "max_confidence": (
            None if result.max_confidence is None else _interval(result.max_confidence)
        ),
        "percent": result.percent,
        "estimate": None if result.estimate is None else asdict(result.estimate),
        "coverage": None if result.coverage is None else asdict(result.coverage),
        "nearest": None if result.nearest is None else asdict(result.nearest),
        "plausible": None if result.plausible is None else _plausible(result.plausible),
        "engine": result.engine,
        "device": result.device,
        "nodes": result.nodes,
        "timings": result.timings,
        "notes": result.notes,
        "certificate": _certificate(result),
    }
    plain: dict[str, Any] = _plain(fields)
    return plain


def to_json(result: AbstractResult) -> str:
    """The text of a JSON file, one top-level field per line."""
    fields = to_dict(result)
    lines = (
        f"  {json.dumps(key)}: {json.dumps(value, allow_nan=False)}"
        for key, value in fields.items()
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


def write_json(result: AbstractResult, path: str | Path) -> None:
    """Write the file in one step: a reader finds the old file or the complete new one."""
    write_bytes(Path(path), to_json(result).encode())


def _problem(problem: Problem) -> dict[str, Any]:
    perturbation, file = problem.perturbation, problem.network.file
    return {
        "network": problem.network.name,
        "file": None if file is None else {"path": str(file.path), "sha256": file.sha256},
        "input_shape": problem.network.input_shape,
        "classes": problem.network.classes,
        "perturbation": None if perturbation is None else perturbation.canonical,
        "map_sha256": problem.map_fingerprint,
        "source": problem.source,
        "targets": problem.targets,
        "clip": problem.clip,
        "input_range": (problem.domain.lower, problem.domain.upper),
        "domain": plain_domain(problem.domain),
        **plain_conventions(problem.network),
    }


def _interval(interval: Interval) -> dict[str, Any]:
    return {"lower": interval.lower, "upper": interval.upper, "kind": interval.kind.name.lower()}


def _plausible(found: PlausibleWitness) -> dict[str, Any]:
    return {
        "witness": _witness(found.witness),
        "nearest": asdict(found.nearest),
        "share": found.share,
    }


def _certificate(result: AbstractResult) -> dict[str, Any] | None:
    if result.certificate is None:
        return None
    return {
        "file": str(result.certificate),
        "check": check_command(result.certificate, result.problem),
    }


def check_command(certificate: Path, problem: Problem) -> str:
    """The shell command that checks a certificate."""
    file = problem.network.file
    model = "MODEL" if file is None else shlex.quote(str(file.path))
    return f"vhagar check {shlex.quote(str(certificate))} --model {model}"


def _witness(witness: Witness) -> dict[str, Any]:
    return {
        "confidence": witness.confidence,
        "target": witness.target,
        "margin": witness.margin,
        "tie": witness.tie,
        "piece": witness.piece,
        "parameters": witness.parameters or {},
        "piece_number": witness.piece_number,
        "choice": witness.choice,
        "x": witness.x,
        "x_p": witness.x_p,
        "scores": witness.scores,
        "scores_p": witness.scores_p,
    }


def _plain(value: Any) -> Any:
    """Convert to JSON's own types; a number that is not finite is unknown, hence null."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
