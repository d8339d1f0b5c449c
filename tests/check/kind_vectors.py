"""Test vectors of the kinds of proofs that a plain search of a small problem does not write.

    python -m tests.check.kind_vectors
    python -m tests.check.kind_vectors rows zonotope

writes these vectors anew, or only those made of the certificates named, and leaves the others
(`make_vectors`) as they are: boxes of inputs, windows, slopes, changes tied to the input, spectral
norms, tightenings, cuts, domains with their conditions, and one image, also by facts.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar import Domain, Problem, UserPerturbation, verify
from vhagar.local.problem import LocalProblem
from vhagar.local.run import verify_local
from vhagar.network import onnx_bytes, read_onnx
from vhagar_check.box_proofs import LEAF

from ..search.test_input_search import certified as certified_by_boxes
from ..search.test_input_search import changing
from . import condition_vectors as conditions
from . import cut_vectors as cuts
from . import test_box_proofs as boxes
from . import test_facts_certificates as facts
from . import test_first_stage as first_stage
from . import test_quadratic as quadratic
from . import test_spectral as spectral
from . import test_tightenings as tightenings
from . import test_window_proofs as windows
from .editing import Certificate
from .make_vectors import VECTORS, _case, _file
from .test_one_image import another_image, image, written
from .test_verdict import Change, forged, network

# A model and a certificate about it, made in a folder.
Make = Callable[[Path], tuple[Path, Path]]


def _by_boxes(folder: Path) -> tuple[Path, Path]:
    _, proof, model = certified_by_boxes(folder, changing(2), 40)
    return model, proof


def _confidence_by_boxes(folder: Path) -> tuple[Path, Path]:
    problem = changing(2)
    alone = Problem(problem.network, perturbation=None, source=problem.source)
    _, proof, model = certified_by_boxes(folder, alone, 20)
    return model, proof


def _by_slopes(folder: Path) -> tuple[Path, Path]:
    with pytest.MonkeyPatch.context() as patch:
        path, model = quadratic.interrupted_search(folder, "linf(0.1)", patch)
    return model, forged(path, quadratic.only_slopes)


def _tied(folder: Path) -> tuple[Path, Path]:
    with pytest.MonkeyPatch.context() as patch:
        blur = UserPerturbation(matrix=quadratic.BLUR, name="blur")
        path, model = quadratic.interrupted_search(folder, blur, patch)
    return model, forged(path, quadratic.only_slopes)


def _spectral(folder: Path) -> tuple[Path, Path]:
    with pytest.MonkeyPatch.context() as patch:
        _, path, model = spectral.certified(folder, "linf(0.05)", True, patch)
    return model, path


def _by_windows(folder: Path) -> tuple[Path, Path]:
    with pytest.MonkeyPatch.context() as patch:
        _, path, model = windows.certified(folder, patch)
    return model, path


def _by_windows_of_a_normalised_model(folder: Path) -> tuple[Path, Path]:
    with pytest.MonkeyPatch.context() as patch:
        _, path, model = first_stage._certified(first_stage.WRITTEN[0], folder, patch)
    return model, path


def _over_a_domain(text: str) -> Make:
    def make(folder: Path) -> tuple[Path, Path]:
        low = np.zeros((1, 4, 4))
        low[0, 1] = 0.25
        domain = Domain((1, 4, 4), low, np.full((1, 4, 4), 0.75), name="dim")
        model, path = folder / "model.onnx", folder / "proof.cert"
        model.write_bytes(onnx_bytes(network()))
        problem = Problem(read_onnx(model), perturbation=text, source=0, targets=1, domain=domain)
        verify(problem, workers=0, relative_gap=0.2, certificate=path)
        return model, path

    return make


def _of_one_image(text: str) -> Make:
    def make(folder: Path) -> tuple[Path, Path]:
        model, path = folder / "model.onnx", folder / "proof.cert"
        problem = LocalProblem(written(3, model), perturbation=text, image=image(3))
        verify_local(problem, certificate=path)
        return model, path

    return make


def _by_facts(folder: Path) -> tuple[Path, Path]:
    _, path, model = facts.certified(folder)
    return model, path


def _by_facts_along_parameters(folder: Path) -> tuple[Path, Path]:
    _, path, model = facts.certified_along_parameters(folder)
    return model, path


# Name: the model's name, and how both are made.
VALID: dict[str, tuple[str, Make]] = {
    "boxes": ("three_inputs", _by_boxes),
    "boxes confidence": ("three_inputs", _confidence_by_boxes),
    "slopes": ("sixteen_inputs", _by_slopes),
    "tied": ("sixteen_inputs", _tied),
    "spectral": ("spectral", _spectral),
    "window by window": ("two_by_two", _by_windows),
    "normalised": ("normalised", _by_windows_of_a_normalised_model),
    "tightened": ("twelve_inputs", tightenings.certified_in),
    "domain": ("sixteen_inputs", _over_a_domain("linf(0.1)")),
    "domain brightness": ("sixteen_inputs", _over_a_domain("brightness([0,0.1])")),
    "domain occlusion": ("sixteen_inputs", _over_a_domain("occlusion(2,2,2)")),
    "one image": ("local", _of_one_image("linf(0.05)")),
    "one image brightness": ("local", _of_one_image("brightness([-0.1,0.1])")),
    "one image by facts": ("twelve_entries", _by_facts),
    "one image by facts of parameters": ("twelve_entries", _by_facts_along_parameters),
    **conditions.VALID,
    **cuts.VALID,
}


def _problem(**entries: Any) -> Change:
    return lambda _, head: head["problem"].update(entries)


def _domain(side: str, place: int, value: float) -> Change:
    return lambda _, head: head["problem"]["domain"][side].__setitem__(place, value)


def _everywhere(_: Any, head: dict[str, Any]) -> None:
    del head["problem"]["domain"]


def _with_a_domain(_: Any, head: dict[str, Any]) -> None:
    size = len(head["problem"]["image"])
    head["problem"]["domain"] = {"lower": [0.0] * size, "upper": [1.0] * size}


def _another_image(_: Any, head: dict[str, Any]) -> None:
    another_image(head)


def _lower_by(amount: float) -> Change:
    def change(_: Any, head: dict[str, Any]) -> None:
        for claim in head["claims"]["targets"].values():
            if claim["upper"] is not None:
                claim["upper"] -= amount

    return change


INVALID: dict[str, tuple[str, Change]] = {
    "boxes, a smaller claim": ("boxes", boxes._claim(0.9)),
    "boxes, one leaf": ("boxes", boxes._code(lambda _: bytes([LEAF]))),
    "boxes, a half left out": ("boxes", boxes._code(lambda code: code[1:])),
    "boxes, cut off": ("boxes", boxes._code(lambda code: code[:-1])),
    "boxes, an entry that there is not": ("boxes", boxes._code(lambda c: bytes([3]) + c[1:])),
    "boxes, of other inputs": ("boxes", _problem(input_range=[0.0, 2.0])),
    "slopes, a smaller claim": ("slopes", quadratic.lowered(1e-4)),
    "slopes, a multiplier of 0": ("slopes", quadratic.first_pair(0.0)),
    "slopes, a slope twice": ("slopes", quadratic.records(quadratic._one_slope_twice)),
    "slopes, taken for signs": ("slopes", quadratic.records(quadratic._a_sign_instead)),
    "slopes, tied to the input": ("slopes", quadratic._kinds(7)),
    "tied, a smaller claim": ("tied", quadratic.lowered(1e-4)),
    "tied, other multipliers": ("tied", quadratic.times(1.0, 0.2)),
    "tied, of other inputs": ("tied", _problem(input_range=[-0.5, 1.0])),
    "spectral, a smaller claim": ("spectral", quadratic.lowered(1e-4)),
    "window by window, a smaller claim": ("window by window", windows.lowered),
    "window by window, one box": ("window by window", windows.first_proof(windows.one_leaf)),
    "window by window, without the clip": ("window by window", _problem(clip=False)),
    "window by window, another target": (
        "window by window",
        windows.first_proof(windows.other_target),
    ),
    "normalised, a smaller claim": ("normalised", _lower_by(1.0)),
    "normalised, by another spread": ("normalised", first_stage._convention("std", [0.2])),
    "spectral, of more change": ("spectral", _problem(perturbation="linf(0.06)")),
    "domain, a wider one": ("domain", _domain("upper", 3, 1.0)),
    "domain, all inputs": ("domain", _everywhere),
    "domain, an empty one": ("domain", _domain("lower", 3, 0.8)),
    "domain, beyond the range": ("domain", _domain("upper", 3, 1.5)),
    "domain, not a number": ("domain", _domain("upper", 3, float("nan"))),
    "domain brightness, a wider one": ("domain brightness", _domain("upper", 3, 1.0)),
    "domain occlusion, a wider one": ("domain occlusion", _domain("upper", 15, 1.0)),
    "one image, another one": ("one image", _another_image),
    "one image, a smaller claim": ("one image", _lower_by(0.01)),
    "one image, more change": ("one image", _problem(perturbation="linf(0.1)")),
    "one image, a domain": ("one image", _with_a_domain),
    **{
        f"one image by facts, {name}": ("one image by facts", change)
        for name, (change, _) in facts.FORGERIES.items()
    },
    "one image by facts of parameters, others": (
        "one image by facts of parameters",
        facts.each_vector(lambda numbers: numbers[-25:-14].__imul__(0.1)),
    ),
    **conditions.INVALID,
}


def _cases(folder: Path, wanted: set[str]) -> Iterator[dict[str, Any]]:
    for name, (model, make) in VALID.items():
        if name not in wanted:
            continue
        place = folder / _file(name)
        place.mkdir()
        made, proof = make(place)
        there = VECTORS / f"{model}.onnx"
        if not there.exists():
            shutil.copy(made, there)
        assert there.read_bytes() == made.read_bytes(), f"{model} is another model for {name}"
        shutil.copy(proof, VECTORS / _file(name))
        yield _case(name, model, name)
    for name, (base, change) in INVALID.items():
        if base not in wanted:
            continue
        shutil.copy(VECTORS / _file(base), folder / "base.cert")
        shutil.copy(forged(folder / "base.cert", change), VECTORS / _file(name))
        yield _case(name, VALID[base][0], None)
    for name, forge in tightenings.VECTORS.items() if "tightened" in wanted else ():
        forge(VECTORS / "twelve_inputs.onnx", VECTORS / _file("tightened"), VECTORS / _file(name))
        yield _case(name, "twelve_inputs", None)
    for name, edit in cuts.INVALID.items() if "cuts" in wanted else ():
        changed = Certificate.read(VECTORS / _file("cuts"))
        edit(changed)
        changed.write(VECTORS / _file(name))
        yield _case(name, VALID["cuts"][0], None)


def main() -> None:
    """Write these vectors, and their lines into the manifest in place of the old ones."""
    manifest = json.loads((VECTORS / "manifest.json").read_text())
    wanted = set(sys.argv[1:]) or set(VALID)
    if wanted == set(VALID):
        for model in {model for model, _ in VALID.values()}:
            (VECTORS / f"{model}.onnx").unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        cases = list(_cases(Path(folder), wanted))
    names = {case["name"] for case in cases}
    manifest["cases"] = [case for case in manifest["cases"] if case["name"] not in names] + cases
    (VECTORS / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
    print(f"{len(cases)} vectors")


if __name__ == "__main__":
    main()
