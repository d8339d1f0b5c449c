"""Compare two models, which are verified first, or two networks of stores."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vhagar.errors import InvalidInput
from vhagar.report.compare import compared
from vhagar.report.reading import read_store
from vhagar.report.two_models import CoverageVerdict, ModelComparison, Side
from vhagar.sweep.database import MAGIC
from vhagar.sweep.runner import run_sweep
from vhagar.sweep.settings import Settings
from vhagar.sweep.study import Study, read_models
from vhagar.sweep.watch import AbstractSweepWatch

StrPath = str | os.PathLike[str]


def compare(
    first: StrPath,
    second: StrPath,
    *,
    perturbations: str | Sequence[str] = (),
    store: StrPath | None = None,
    settings: Settings | None = None,
    watch: AbstractSweepWatch | None = None,
    **asked: Any,
) -> ModelComparison:
    """Compare two models, or the networks of two stores (`study.db`, or `study.db:name`).

    Models are verified first, under the `perturbations`, with their maximal confidences; other
    keyword arguments are fields of `Study`, such as `dataset` and `timeout`. The results are kept
    in `store`, if one is given.
    """
    names = [os.fspath(first), os.fspath(second)]
    stores = [_is_store(name.rpartition(":")[0]) or _is_store(name) for name in names]
    if all(stores):
        if perturbations or asked:
            raise InvalidInput("stores hold their answers already: name two stores and no question")
        return compare_sides(*(_stored(name) for name in names))
    for name in names:
        if not Path(name).exists() and not _is_store(name.rpartition(":")[0]):
            raise InvalidInput(f"no model file and no store at {name}; check the path")
    if any(stores):
        raise InvalidInput("compare two models or two stores, not one of each")
    if not perturbations and not asked.get("grids"):
        raise InvalidInput("two models are compared under a perturbation; give --perturbation")
    several = [perturbations] if isinstance(perturbations, str) else list(perturbations)
    given = {"confidence": True, **asked, "networks": names, "perturbations": several}
    study = Study.from_plain(given)
    models = list(read_models(study))
    _require_same_task(
        {model.path: (model.network.classes, model.network.input_shape) for model in models}
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "compare.db" if store is None else Path(store)
        run_sweep(study, path, settings=settings, watch=watch).close()
        data = read_store(path)
    return compare_sides(*(Side(Path(own.path).stem, own.fingerprint, data) for own in models))


def compare_sides(first: Side, second: Side) -> ModelComparison:
    """Compare two networks under the perturbations that both studies contain."""
    _require_same_task({side.name: side.task for side in (first, second)})
    ours, theirs = first.groups(), second.groups()
    shared = [key for key in ours if key in theirs]
    if not shared:
        raise InvalidInput(f"{first.name} and {second.name} have no perturbation in common")
    coverages = []
    # Shares of two data sets say nothing of which network is better.
    comparable = first.data is None or second.data in (None, first.data)
    for key in shared if comparable else ():
        counts = [first.counts(ours[key]), second.counts(theirs[key])]
        for source in dict.fromkeys([*counts[0], *counts[1]]):
            one, other = (own.get(source) for own in counts)
            about = str(ours[key].perturbation)
            coverages.append(CoverageVerdict(about, source, one, other, ours[key].domain_name))
    pairs = [compared((first.study, ours[key]), (second.study, theirs[key])) for key in shared]
    return ModelComparison(first, second, tuple(pairs), tuple(coverages))


def _require_same_task(tasks: Mapping[str, tuple[int, tuple[int, ...]]]) -> None:
    """Refuse networks for different tasks: their classes have nothing to do with each other."""
    classes = {name: count for name, (count, _) in tasks.items()}
    inputs = {name: math.prod(shape) for name, (_, shape) in tasks.items()}
    for how, noun, numbers in (
        ("class by class", "classes", classes),
        ("on the same inputs", "inputs", inputs),
    ):
        if len(set(numbers.values())) > 1:
            counts = " and ".join(f"{name} has {number}" for name, number in numbers.items())
            raise InvalidInput(f"two models are compared {how}, but {counts} {noun}")
    images = {name: shape for name, (_, shape) in tasks.items() if len(shape) == 3}
    if len(set(images.values())) > 1:
        kinds = " and ".join(
            f"{name} takes images of {channels} channels of {rows} x {columns} pixels"
            for name, (channels, rows, columns) in images.items()
        )
        raise InvalidInput(
            f"two models are compared on the same inputs, but {kinds}; where their layouts differ, "
            "give both, A's first: --layout chw,hwc"
        )


def _is_store(name: str) -> bool:
    path = Path(name)
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def _stored(name: str) -> Side:
    """Read a network of a store: `study.db`, or `study.db:name` if it holds several."""
    path, chosen = (name, None) if _is_store(name) else name.rsplit(":", 1)
    study = read_store(path)
    fitting = [facts for facts in study.networks if chosen in (None, facts.name)]
    if len(fitting) != 1:
        names = ", ".join(facts.name for facts in study.networks)
        raise InvalidInput(f"choose one of the networks of {path}, as {path}:NAME; it has: {names}")
    return Side(fitting[0].name, fitting[0].fingerprint, study)
