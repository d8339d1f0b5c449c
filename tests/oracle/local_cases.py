"""The oracle's cases for questions about one image."""

from __future__ import annotations

from typing import Any

import pytest

from ..marks import campaign_from
from .affine_cases import AFFINE_KINDS, AffineCase
from .cases import KINDS, Case

AnyCase = Case | AffineCase


def local_cases(metafunc: pytest.Metafunc, part: int, rounds: int) -> list[Any]:
    """One of `part` cases that the option asks for, and `rounds` of each kind at least."""
    count = metafunc.config.getoption("--oracle-cases") // part
    plain = [Case(k) for k in range(max(count, rounds * len(KINDS)))]
    branched = [Case(k, branched=True) for k in range(max(count // 4, len(KINDS)))]
    affine = [AffineCase(k) for k in range(max(count // 4, len(AFFINE_KINDS)))]
    cases: list[AnyCase] = [
        case for case in (*plain, *branched, *affine) if case.kind != "rotations"
    ]
    return [pytest.param(case, marks=campaign_from(len(KINDS), case.number)) for case in cases]
