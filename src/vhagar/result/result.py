"""The result that `verify` returns, with methods to show, save and load it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vhagar.errors import VhagarError
from vhagar.result.archive import load_fields, save_result
from vhagar.result.numbers import interval
from vhagar.result.serialize import to_dict
from vhagar.result.values import AbstractResult
from vhagar.result.words import final_sentence, summary


class ProgressError(VhagarError):
    """`on_progress` raised the error `cause`; `result` holds what was known by then."""

    def __init__(self, result: Result, cause: Exception) -> None:
        self.result = result
        self.cause = cause
        super().__init__(
            f"on_progress raised {type(cause).__name__}: {cause}. The run was stopped; what it "
            "had found is this error's `result`"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Result(AbstractResult):
    """Everything that a run found out about a problem.

    `str(result)` is the answer in words, with which the command line's output ends.
    """

    def __str__(self) -> str:
        return final_sentence(self)

    def __repr__(self) -> str:
        low, high = interval(self.lower, self.upper)
        return f"Result([{low}, {high}], {self.status.name}, {self.problem})"

    def summary(self) -> str:
        """Summarise the question, the interval, its evidence and the answer in a few lines."""
        return summary(self)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Draw witness and bounds as a matplotlib figure, and write it to `path` if one is given.

        The file is a .png, .pdf or .svg.
        """
        from vhagar.result.figure import figure_data
        from vhagar.result.figure_drawing import draw, figure

        data = figure_data(self)
        if path is not None:
            draw(data, Path(path))
        return figure(data)

    def to_dict(self) -> dict[str, Any]:
        """Convert the whole result to JSON's own types, as `--json` writes it (docs/json.md)."""
        return to_dict(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result, including the network and the witness, to one file; see `load`."""
        save_result(self, Path(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Result:
        """Read a file that `save` wrote. It re-checks nothing: certificates are for that."""
        return cls(**load_fields(Path(path)))

    def _repr_html_(self) -> str:
        """What notebooks show."""
        from vhagar.result.notebook import result_html

        return result_html(self)
