"""Writes a problem as VNN-LIB and ONNX files, one pair for each piece."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from vhagar.errors import InvalidInput
from vhagar.export.conditions import number, zonotope_model
from vhagar.export.product import product_model
from vhagar.export.vnnlib import version_1, version_2
from vhagar.network.onnx_copy import standalone
from vhagar.problem import Problem
from vhagar.runtime.output_files import check_writable, is_same_file, write_bytes
from vhagar.version import __version__

FORMATS = (1, 2)


@dataclass(frozen=True)
class Exported:
    """One question: its VNN-LIB file, and the model that it is about.

    `zonotope` is the linear model of the domain's zonotope, if it has one.
    """

    vnnlib: Path
    onnx: Path
    zonotope: Path | None = None


def export(
    problem: Problem,
    delta: float,
    vnnlib: str | Path,
    onnx: str | Path | None = None,
    version: int = 1,
) -> list[Exported]:
    """Write the question "is the network `delta`-globally robust?" for other verifiers.

    It is if and only if every file is unsatisfiable. There is one file per piece of the
    perturbation, numbered if there are several. `version` is that of VNN-LIB: 1 is about a
    product network for each piece, 2 about two copies of one network. `onnx` is the model file, by
    default the VNN-LIB file with the extension `.onnx`. Conditions of the domain beside ranges
    need version 2; the model of a zonotope is written beside `onnx`, with `_zonotope` in its name.
    """
    _check_question(problem, delta, version)
    text, model, beside = _places(problem, vnnlib, onnx)
    formulas = [piece.required_formula() for piece in problem.pieces]
    given = problem.network.file
    for path in export_files(problem, vnnlib, onnx):
        check_writable(path, None if given is None else given.path)
    found = []
    for k, formula in enumerate(formulas):
        path, own = (_numbered(each, k, len(formulas)) for each in (text, model))
        # Version 2 has one model for all of them.
        place = Exported(path, own) if version == 1 else Exported(path, model, beside)
        write = version_1 if version == 1 else version_2
        notes = _notes(problem, k, delta, place, version)
        content = write(notes, problem, formula, delta)
        if version == 1:
            about = product_model(problem.network, problem.source, formula, problem.domain)
            write_bytes(place.onnx, about.SerializeToString())
        write_bytes(place.vnnlib, content.encode(errors="backslashreplace"))
        found.append(place)
    if version == 2:
        write_bytes(model, standalone(problem.network).SerializeToString())
        if beside is not None:
            write_bytes(beside, zonotope_model(problem.domain).SerializeToString())
    return found


def _check_question(problem: Problem, delta: float, version: int) -> None:
    if problem.perturbation is None:
        raise InvalidInput("only a problem with a perturbation can be exported")
    if version not in FORMATS:
        raise InvalidInput(f"unknown VNN-LIB version {version}; choose 1 or 2")
    if not (math.isfinite(delta) and delta >= 0):
        raise InvalidInput(f"delta is a confidence and must be at least 0, not {delta}")
    _check_conditions(problem, version)


def export_files(
    problem: Problem, vnnlib: str | Path, onnx: str | Path | None = None
) -> list[Path]:
    """All files that `export` may write."""
    count = len(problem.pieces)
    places = [path for path in _places(problem, vnnlib, onnx) if path is not None]
    return places + [_numbered(path, k, count) for path in places for k in range(count)]


def _places(
    problem: Problem, vnnlib: str | Path, onnx: str | Path | None
) -> tuple[Path, Path, Path | None]:
    """The files of the question and of the model, and of the domain's zonotope if it has one."""
    text = Path(vnnlib)
    check_writable(text)  # a folder without a name has no place beside it
    model = text.with_suffix(".onnx") if onnx is None else Path(onnx)
    if is_same_file(text, model):
        raise InvalidInput(f"{text} cannot hold both the question and the model: name two files")
    beside = model.with_name(f"{model.stem}_zonotope.onnx") if problem.domain.zonotope else None
    return text, model, beside


def _check_conditions(problem: Problem, version: int) -> None:
    """Raise an error if VNN-LIB 1.0 would have to express more than ranges of entries."""
    domain, groups = problem.domain, problem.domain.groups
    if version == 2 or not (domain.constrained or domain.perturbed_inside):
        return
    named = {
        "integer": groups.integer,
        "one_hot": groups.one_hot,
        "ordered": groups.ordered,
        "rows": domain.own_rows is not None,
        "zonotope": domain.zonotope is not None,
        "perturbed_inside": domain.perturbed_inside,
    }
    raise InvalidInput(
        f"the domain {domain} has conditions beside ranges "
        f"({', '.join(name for name, given in named.items() if given)}), which verifiers do not "
        "read in VNN-LIB 1.0; use --format 2, or a domain with the ranges alone (vhagar domain fit "
        "--box, in Python Domain.box), "
        "which contains this one"
    )


def _numbered(path: Path, k: int, count: int) -> Path:
    return path if count == 1 else path.with_name(f"{path.stem}_{k + 1}{path.suffix}")


def _notes(problem: Problem, k: int, delta: float, place: Exported, version: int) -> list[str]:
    piece, targets = problem.pieces[k], ", ".join(map(str, problem.targets))
    clip = "clipped" if problem.clip else "not clipped"
    notes = [
        f"written by vhagar {__version__}",
        f"network: {problem.network.name}, in {place.onnx.name}",
        f"perturbation: {problem.perturbation} ({clip} to the input range)",
        f"piece {k + 1} of {len(problem.pieces)}: {piece.label}",
        f"satisfiable if and only if an input of class {problem.source} with a confidence of at",
        f"least {number(delta)} is pushed into class {targets} by this piece; a tie counts",
    ]
    if not problem.domain.whole:
        notes.append(f"inputs X are those of the domain {problem.domain}")
    if place.zonotope is not None:
        notes.append(f"zonotope: the points at the coordinates Z, in {place.zonotope.name}")
    if version == 1:
        notes += [
            f"X: {problem.domain.size} pixels, then the perturbation's parameters",
            f"Y: by how much class {problem.source} leads over each class at the input, then the",
            "scores of the perturbed input",
        ]
    # Names may contain line breaks, but a comment is one line.
    return [" ".join(note.split()) for note in notes]
