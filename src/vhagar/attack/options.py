"""Options of the attack."""

from __future__ import annotations

import math
from dataclasses import dataclass

from vhagar.errors import InvalidInput
from vhagar.options import check_device_name


@dataclass(frozen=True)
class AttackOptions:
    """Options of `attack`. `AttackOptions.paper()` is the published algorithm without additions.

    `inputs` is the size of the hyper-input (M), shared among all targets and pieces, or
    `gpu_inputs` if the `device` ("auto", "cpu" or "cuda") is a GPU. The gradient ascent makes
    `steps` steps, of size `step` relative to the input range. `lambda_0`, `tau` and `kappa` balance
    its two objectives as in the paper; `majority` (r) is the share of solutions that makes a hint.

    Each addition can be switched off. `lagrangian` treats the attack as a constraint with adaptive
    multipliers (`penalty` is how fast they adapt); `smooth` rounds ReLUs off in its first steps,
    for half of the inputs. `starts` adds a first attack and starts that need no dataset. `aim`
    starts half of the inputs near the best attack once there is one. `polish` solves the linear
    regions of the best inputs exactly. `regions` searches the neighbouring regions, first in
    `basins` basins and then in the best one, until `patience` attempts in a row have failed. All of
    this is repeated `rounds` times, or without end. `relax_first` searches from the pieces'
    relaxations before the first ascent, so that one process can do so while another one ascends.
    """

    inputs: int = 128
    gpu_inputs: int = 4096
    steps: int = 80
    step: float = 0.05
    lambda_0: float = 1.01
    tau: float = 0.01
    kappa: float = 1e-6
    majority: float = 0.95
    lagrangian: bool = True
    smooth: bool = True
    penalty: float = 2.0
    starts: bool = True
    aim: bool = True
    polish: bool = True
    regions: bool = True
    relax_first: bool = False
    basins: int = 4
    patience: int = 40
    rounds: int | None = None
    device: str = "auto"
    double: bool = False
    seed: int = 0

    @classmethod
    def paper(cls, inputs: int = 10_000, steps: int = 200, seed: int = 0) -> AttackOptions:
        """Algorithm 2 with the paper's M, lambda_0 and r; it does not give the other numbers."""
        return cls(
            inputs=inputs,
            gpu_inputs=10_000,
            steps=steps,
            step=0.02,
            lagrangian=False,
            smooth=False,
            starts=False,
            aim=False,
            polish=False,
            regions=False,
            rounds=1,
            seed=seed,
        )

    def __post_init__(self) -> None:
        for name in ("inputs", "gpu_inputs", "steps", "basins", "patience"):
            _require(getattr(self, name) >= 1, f"{name} must be at least 1", getattr(self, name))
        for name in ("step", "tau", "kappa", "penalty"):
            value = getattr(self, name)
            _require(math.isfinite(value) and value > 0, f"{name} must be above 0", value)
        check_device_name(self.device)
        # Otherwise confidence would outweigh the attack.
        _require(1 < self.lambda_0 < math.inf, "lambda_0 must be above 1", self.lambda_0)
        _require(0.5 <= self.majority < 1, "the majority must be in [0.5,1)", self.majority)
        _require(self.rounds is None or self.rounds >= 1, "rounds must be at least 1", self.rounds)
        if self.regions and not self.polish:
            raise InvalidInput("the region search needs the polish; leave out both, or neither")
        if self.relax_first and not self.regions:
            raise InvalidInput(
                "starting with dives needs the region search; leave out both, or neither"
            )


def _require(holds: bool, what: str, value: object) -> None:
    if not holds:
        raise InvalidInput(f"{what}, not {value}")
