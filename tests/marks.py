"""Which of many cases run by default, and which are left to the run of everything.

`pyproject.toml` declares the marks and leaves `slow` and `campaign` out of a plain `pytest`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

Marks = list[pytest.MarkDecorator]


def campaign_from(first: int, number: int) -> Marks:
    """The mark of a numbered case, if its number is at least the first of the campaign."""
    return [pytest.mark.campaign] if number >= first else []


def mostly_slow(cases: Sequence[Any], every: int) -> list[Any]:
    """Cases for `parametrize`: one of every few runs by default, the others are slow."""
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=[pytest.mark.slow] if k % every else [],
        )
        for k, case in enumerate(cases)
    ]


def slow_if_large(models: Sequence[Path]) -> list[Any]:
    """Model files for `parametrize`; those of wide networks are slow."""
    return [
        pytest.param(path, marks=[pytest.mark.slow] if "_wide_" in path.stem else [])
        for path in models
    ]
