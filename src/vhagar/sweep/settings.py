"""The settings of a sweep: executor, workers, engine and options."""

from __future__ import annotations

import math
import uuid
from dataclasses import dataclass
from pathlib import Path

from vhagar.errors import InvalidInput
from vhagar.options import Options
from vhagar.runtime.cores import available_cores
from vhagar.search import AbstractEngine
from vhagar.search.branch_and_bound import Bab


@dataclass(frozen=True)
class Settings:
    """How the problems of a study are worked on.

    `executor` is `local` or `ray`; `jobs` is the number of problems at a time and `workers` the
    number of processes for each. `address` is that of a Ray cluster, and `gpus` the share of a GPU
    for each problem. `certificates` is a folder into which each problem writes its certificate.
    The rest is as for `verify`.
    """

    executor: str = "local"
    jobs: int | None = None
    workers: int = 1
    address: str | None = None
    gpus: float = 0.0
    engine: AbstractEngine = Bab()  # noqa: RUF009 (frozen)
    relative_gap: float = Options.relative_gap
    seed: int = Options.seed
    certificates: Path | None = None

    def __post_init__(self) -> None:
        if self.jobs is not None and self.jobs < 1:
            raise InvalidInput(f"jobs must be at least 1, not {self.jobs}")
        if self.workers < 1:
            raise InvalidInput(f"workers must be at least 1, not {self.workers}")
        if not (math.isfinite(self.gpus) and self.gpus >= 0):
            raise InvalidInput(f"the GPUs per problem must be at least 0, not {self.gpus}")
        if self.executor != "ray" and (self.address is not None or self.gpus):
            raise InvalidInput("address and gpus are for the executor 'ray': leave them out")
        self.engine.check(self.options_for(1))

    @property
    def job_count(self) -> int:
        return self.jobs or max(available_cores() // self.workers, 1)

    def options_for(self, number: int) -> Options:
        """The options of a problem; a single worker searches in its own process, which caches
        bounds for the next problem."""
        certificate = None
        if self.certificates is not None:
            # Another sweep, or an earlier run of this one, may have written to the same folder.
            certificate = self.certificates / f"problem-{number}-{uuid.uuid4().hex[:12]}.cert"
        return Options(
            relative_gap=self.relative_gap,
            workers=self.workers if self.workers > 1 else 0,
            seed=self.seed,
            certificate=certificate,
        )
