"""Options of the paper's method."""

from __future__ import annotations

from dataclasses import dataclass

from vhagar.errors import InvalidInput
from vhagar.options import FORMULATIONS, MIP_PARTS, Options, check_parts
from vhagar.solver.backends import check_solver_name


@dataclass(frozen=True)
class MipOptions:
    """The options of the engine `Mip` (see there), and those of `Options` that it needs."""

    solver: str = "highs"
    formulation: str = "bigm"
    without: tuple[str, ...] = ()
    relative_gap: float = Options.relative_gap
    seed: int = Options.seed

    def __post_init__(self) -> None:
        check_solver_name(self.solver)
        if self.formulation not in FORMULATIONS:
            known = ", ".join(FORMULATIONS)
            raise InvalidInput(f"unknown formulation {self.formulation!r}; choose one of: {known}")
        check_parts(self.without, MIP_PARTS)

    @property
    def attacks(self) -> bool:
        """Whether any result of the attack is used."""
        return not {"attack", "hints"} <= set(self.without)
