"""The verb `vhagar.sweep`: a whole study in one call."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from vhagar.engine import AbstractEngine
from vhagar.options import Options
from vhagar.search.branch_and_bound import Bab
from vhagar.sweep.runner import run_sweep
from vhagar.sweep.settings import Settings
from vhagar.sweep.store import Store
from vhagar.sweep.study import Study, read_study


def sweep(
    study: Study | str | os.PathLike[str] | None = None,
    *,
    store: str | os.PathLike[str],
    resume: bool = False,
    engine: AbstractEngine | None = None,
    executor: str = "local",
    jobs: int | None = None,
    workers: int = 1,
    address: str | None = None,
    gpus: float = 0.0,
    relative_gap: float = Options.relative_gap,
    seed: int = Options.seed,
    certificates: str | os.PathLike[str] | None = None,
    **asked: Any,
) -> Store:
    """Run the problems of a study and return the open store of their results.

    `study` is a `Study` or its TOML file. Other keyword arguments are fields of `Study`: they
    describe a study, or change the one that is given. The `store` is an SQLite file in which
    results are kept as they improve; with `resume` an existing one is continued, with its own study
    unless another one is given.

    `jobs` is the number of problems at a time, one for each core by default, and `workers` the
    number of processes for each. `executor` is "local" or "ray", `address` that of a Ray cluster,
    and `gpus` the share of a GPU for each problem. `certificates` is a folder for the problems'
    certificates; bounds are then proved from the model alone. The rest is as for `verify`.
    """
    settings = Settings(
        executor=executor,
        jobs=jobs,
        workers=workers,
        address=address,
        gpus=gpus,
        engine=engine or Bab(),
        relative_gap=relative_gap,
        seed=seed,
        certificates=None if certificates is None else Path(certificates),
    )
    return run_sweep(_described(study, asked), Path(store), resume=resume, settings=settings)


def _described(given: Study | str | os.PathLike[str] | None, asked: dict[str, Any]) -> Study | None:
    """The study that the caller describes; None if the store's own study is meant."""
    study = given if given is None or isinstance(given, Study) else read_study(Path(given))
    if not asked:
        return study
    for name, text in (("networks", os.fspath), ("perturbations", str)):
        if name in asked and not isinstance(asked[name], str):
            asked[name] = [text(each) for each in asked[name]]
    return Study.from_plain({**({} if study is None else study.plain()), **asked})
