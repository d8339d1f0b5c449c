"""How to search. Frozen, passed on from the caller; there is no global configuration."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from vhagar.errors import InvalidInput
from vhagar.runtime.cores import available_cores
from vhagar.runtime.devices import cuda_is_likely

# Where batches are computed; "auto" is a GPU where there is one.
DEVICES = ("auto", "cpu", "cuda")
# What can be left out of the engine "mip", and of the attack.
MIP_PARTS = ("dependencies", "attack", "hints")
ATTACK_PARTS = ("climb", "aim", "lagrangian", "regions", "polish")
PARTS = (*MIP_PARTS, *ATTACK_PARTS)
# How the engine "mip" writes a ReLU.
FORMULATIONS = ("bigm", "lambda")


@dataclass(frozen=True)
class Options:
    """Options of `verify`.

    `engine` names the search engine. The interval is closed when `upper - lower` is at most
    `relative_gap * upper`, or too small beside the first bound to matter (see `Run`).
    `processes` says whether searches run in processes of their own; without, everything happens in
    the caller's process, one target after the other, which is slower and easier to debug.
    `workers` is the number of processes that share one search, all available cores by default;
    with one worker a search that closes gives the same result every time.
    `attack` says whether the attack runs beside a search that has worker processes; it may start
    from the inputs in `dataset`, an .npz file or a folder of images. `device` is where attacks
    and first-order steps run: "cpu", "cuda", or "auto", a GPU where there is one.
    `wide` says whether the engine "bab" also bounds thousands of nodes at once by primal-dual steps
    on that device, beside its workers; by default only on a GPU.
    `solver` names the MIP solver of the engine "mip", and `formulation` how it writes a ReLU
    ("bigm", as in the paper, or "lambda", both copies of a neuron at once). `without` names parts
    that are left out, for comparison: of the engine "mip" "dependencies", "attack" (its bound) and
    "hints", and of the engine "attack" the additions to the published algorithm (`AttackOptions`).
    `certificate` names a file to write that proves the interval; only the engine "bab" can. Upper
    bounds are then stated a little larger than they were computed, by 1e-9 of themselves and of the
    first bound and by 1e-12 of the scores, which leaves room for the rounding of whoever checks.
    """

    engine: str = "bab"
    relative_gap: float = 1e-3
    processes: bool = True
    workers: int | None = None
    seed: int = 0
    attack: bool = True
    dataset: Path | None = None
    device: str = "auto"
    wide: bool | None = None
    solver: str = "highs"
    formulation: str = "bigm"
    without: tuple[str, ...] = ()
    certificate: Path | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.relative_gap) and 0 <= self.relative_gap < 1):
            raise InvalidInput(f"the relative gap must be in [0,1), not {self.relative_gap}")
        if self.workers is not None and self.workers < 1:
            raise InvalidInput(f"at least one worker is needed, not {self.workers}")
        if not 0 <= self.seed < 2**31:
            raise InvalidInput(f"the seed must be from 0 to 2**31 - 1, not {self.seed}")
        if self.formulation not in FORMULATIONS:
            known = ", ".join(FORMULATIONS)
            raise InvalidInput(f"unknown formulation {self.formulation!r}; choose one of: {known}")
        check_device_name(self.device)
        for part in self.without:
            if part not in PARTS:
                known = ", ".join(PARTS)
                raise InvalidInput(f"unknown part {part!r}; parts to leave out: {known}")

    @property
    def is_wide(self) -> bool:
        """Whether wide frontiers are bounded in batches; certificates do not hold such bounds."""
        wanted = self.wide
        if wanted is None:
            wanted = self.device == "cuda" or (self.device == "auto" and cuda_is_likely())
        return wanted and self.certificate is None

    @property
    def worker_count(self) -> int:
        """The number of processes that share a search."""
        return self.workers or available_cores()


def check_device_name(name: str) -> None:
    """Complain about a device that does not exist."""
    if name not in DEVICES:
        raise InvalidInput(f"unknown device {name!r}; choose one of: {', '.join(DEVICES)}")
