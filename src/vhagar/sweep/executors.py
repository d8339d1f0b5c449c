"""The table of executors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from vhagar.errors import InvalidInput
from vhagar.sweep.executor import AbstractExecutor

if TYPE_CHECKING:
    from vhagar.sweep.settings import Settings


def _local(settings: Settings) -> AbstractExecutor:
    from vhagar.sweep.local import LocalExecutor

    return LocalExecutor(settings.job_count)


def _ray(settings: Settings) -> AbstractExecutor:
    from vhagar.sweep.ray_cluster import RayExecutor

    cores = settings.workers
    return RayExecutor(settings.jobs, settings.address, cores, settings.gpus)


# A new executor is one more line.
EXECUTORS: dict[str, Callable[[Settings], AbstractExecutor]] = {
    "local": _local,
    "ray": _ray,
}


def executor_for(settings: Settings) -> AbstractExecutor:
    """The executor that the settings name."""
    if settings.executor not in EXECUTORS:
        known = ", ".join(EXECUTORS)
        raise InvalidInput(f"unknown executor {settings.executor!r}; choose one of: {known}")
    return EXECUTORS[settings.executor](settings)
