"""Runs a study: opens its store, works on its problems, and looks at its data set."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from vhagar.coverage import SEARCH_SHARE
from vhagar.errors import InvalidInput
from vhagar.network.onnx_reader import require_one_file
from vhagar.sweep.cover import quick_largest, read_data, store_coverage
from vhagar.sweep.database import is_unused, store_exists
from vhagar.sweep.neighbours import write_neighbours
from vhagar.sweep.question import Question
from vhagar.sweep.relations import ordered
from vhagar.sweep.scheduler import Scheduler
from vhagar.sweep.settings import Settings
from vhagar.sweep.store import Store
from vhagar.sweep.study import Model, Study, load_models, questions, require_storable
from vhagar.sweep.watch import AbstractSweepWatch, Silent


def open_study(
    study: Study | None,
    path: str | Path,
    resume: bool = False,
    require: Callable[[Study, Sequence[Model]], None] = lambda study, models: None,
) -> tuple[Store, Study, list[Model]]:
    """Create or open the store of a study, and load its networks.

    Without a study, the store's own is resumed. What `require` refuses leaves no store behind.
    """
    exists = Path(path).is_file() and not is_unused(Path(path))
    if study is None and not exists:
        raise InvalidInput(f"no store at {path}; describe a study to create one")
    if exists and not resume:
        raise store_exists(Path(path))
    if study is not None and not exists:
        models = load_models(study)
        require(study, models)
        asked = _in_order(study, models)  # an invalid study is refused before a file is created
        store = Store(path, create=True)
    else:
        store = Store(path)
        study = study or store.study()
        models = load_models(study)
        store.check_models(models)
        require(study, models)
        asked = _in_order(study, models)
        store.check_domains(asked)
    store.write_study(study, models, asked)
    return store, study, models


def _in_order(study: Study, models: Sequence[Model]) -> list[Question]:
    domains = {model.fingerprint: study.domain_for(model.network).range_only for model in models}
    return ordered(questions(study, models), domains)


def _require_answerable(certified: bool, study: Study, models: Sequence[Model]) -> None:
    """Refuse models that no certificate can be about, and a data set that does not fit."""
    for model in models if certified else ():
        require_one_file(model.network)
    if study.dataset is not None:
        read_data(Path(study.dataset), models, study)


@contextmanager
def _folder_for(certificates: Path | None) -> Iterator[None]:
    """The folder of the certificates; what is made of it is gone again if the study is refused."""
    if certificates is None:
        yield
        return
    require_storable(certificates.absolute())
    made = [folder for folder in (certificates, *certificates.parents) if not folder.exists()]
    try:
        try:
            certificates.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInput(
                f"cannot write certificates to {certificates}: {error.strerror}"
            ) from None
        yield
    except BaseException:
        for folder in made:
            with suppress(OSError):  # not there, or somebody has put something there
                folder.rmdir()
        raise


def run_sweep(
    study: Study | None,
    path: str | Path,
    *,
    resume: bool = False,
    settings: Settings | None = None,
    watch: AbstractSweepWatch | None = None,
) -> Store:
    """Work on a study until it is done, the time is up, or Ctrl-C, and return its store.

    All results are in the store at every moment, even if this ends by an exception.
    """
    settings = settings or Settings()
    require = partial(_require_answerable, settings.certificates is not None)
    with _folder_for(settings.certificates):
        store, study, models = open_study(study, path, resume, require)
    watch = watch or Silent()
    begun = time.monotonic()
    Scheduler(store, study, models, settings, watch).run()
    store.write_largest(quick_largest(store, models))
    if study.dataset is not None:
        watch.note(f"attacking the inputs of {Path(study.dataset).name} that are not proven robust")
        seconds = (1 / SEARCH_SHARE - 1) * (time.monotonic() - begun)
        found = store_coverage(store, models, Path(study.dataset), seconds)
        # A resumed sweep may have less time for attacks than the one before.
        store.write_coverage(found.with_attacks_of(store.coverage()))
        write_neighbours(store, models, Path(study.dataset))
    return store
