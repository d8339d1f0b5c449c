"""What all engines have in common. Frozen, passed on from the caller; no global configuration."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from vhagar.errors import InvalidInput
from vhagar.runtime.cores import available_cores

# Where batches are computed; "auto" is a GPU where there is one.
DEVICES = ("auto", "cpu", "cuda")
# Where the workers of a search are: on this machine, or in a Ray cluster.
EXECUTORS = ("local", "ray")
# What can be left out of the engine `Mip`, and of the attack.
MIP_PARTS = ("dependencies", "attack", "hints")
ATTACK_PARTS = ("starts", "aim", "lagrangian", "smooth", "regions", "polish")
# How the engine `Mip` writes a ReLU.
FORMULATIONS = ("bigm", "lambda")


@dataclass(frozen=True)
class Options:
    """The arguments of `verify` that do not depend on the engine, as they travel to workers.

    The interval is closed when `upper - lower` is at most `relative_gap * upper`, or too small
    beside the first bound to matter (see `IntervalKeeper`). `workers` is the number of processes
    that share one search, all cores by default; with one, or 0, everything happens in the caller's
    process, and a search that closes gives the same result every time. `device` is where
    attacks and first-order steps run; attacks may start from the inputs in `dataset`, an .npz file
    or a folder of images. `plausible` is a share of the best witness's confidence: a witness near
    that data set is to have at least so much of it. `certificate` names a file to write that proves
    the interval, `checkpoint` one that keeps the search while it goes on, and `resume` one to go on
    from, which is kept up to date unless `checkpoint` names another. If both name the same file and
    it does not exist, the search starts from the beginning. With the `executor` "ray" workers are
    in the Ray cluster at `address`, or in a new local one, by default as many as it has cores.
    """

    relative_gap: float = 1e-3
    workers: int | None = None
    seed: int = 0
    device: str = "auto"
    dataset: Path | None = None
    plausible: float | None = None
    certificate: Path | None = None
    checkpoint: Path | None = None
    resume: Path | None = None
    executor: str = "local"
    address: str | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.relative_gap) and 0 <= self.relative_gap < 1):
            raise InvalidInput(f"the relative gap must be in [0,1), not {self.relative_gap}")
        if self.workers is not None and self.workers < 0:
            raise InvalidInput(f"the number of workers must be 0 or more, not {self.workers}")
        if not 0 <= self.seed < 2**31:
            raise InvalidInput(f"the seed must be from 0 to 2**31 - 1, not {self.seed}")
        _check_plausible(self.plausible, self.dataset)
        check_device_name(self.device)
        if self.executor not in EXECUTORS:
            known = ", ".join(EXECUTORS)
            raise InvalidInput(f"unknown executor {self.executor!r}; choose one of: {known}")
        if self.address is not None and self.executor != "ray":
            raise InvalidInput("an address is for the executor 'ray': leave it out")
        for name in ("dataset", "certificate", "checkpoint", "resume"):
            path = getattr(self, name)
            object.__setattr__(self, name, None if path is None else Path(path))
        if self.checkpoint is None:
            object.__setattr__(self, "checkpoint", self.resume)
        elif self.resume == self.checkpoint and not self.checkpoint.exists():
            # A job that names the same file for both begins, and goes on when it is started again.
            object.__setattr__(self, "resume", None)

    @property
    def processes(self) -> bool:
        """Whether there may be processes beside the caller's."""
        return self.worker_count > 1

    @property
    def worker_count(self) -> int:
        """How many share a search, the caller's process included where it is the only one."""
        return available_cores() if self.workers is None else max(self.workers, 1)


def _check_plausible(share: float | None, dataset: Path | None) -> None:
    if share is not None and not 0 < share <= 1:
        raise InvalidInput(
            f"a plausible witness has a share of the confidence above 0 and at most 1, not {share}"
        )
    if share is not None and dataset is None:
        raise InvalidInput("a plausible witness is near a data set: give one, too (--dataset)")


def check_device_name(name: str) -> None:
    """Complain about a device that does not exist."""
    if name not in DEVICES:
        raise InvalidInput(f"unknown device {name!r}; choose one of: {', '.join(DEVICES)}")


def check_parts(given: tuple[str, ...], known: tuple[str, ...]) -> None:
    """Complain about a part that cannot be left out because there is none of that name."""
    for part in given:
        if part not in known:
            raise InvalidInput(f"unknown part {part!r}; parts to leave out: {', '.join(known)}")
