"""What `verify` returns."""

from __future__ import annotations

from dataclasses import dataclass

from vhagar.result.notebook import result_html
from vhagar.result.values import AbstractResult


@dataclass(frozen=True, eq=False)
class Result(AbstractResult):
    """All that is known of a problem, and how it is shown."""

    def _repr_html_(self) -> str:
        """What notebooks show."""
        return result_html(self)
