"""Small problems are timed from the shell, side by side with another source tree."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType

import pytest

import vhagar

START = Path(__file__).parents[2] / "bench" / "start.py"


@pytest.fixture(scope="module")
def start() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_start", START)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["bench_start"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.subprocess
def test_the_trees_side_by_side(start: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    source = str(Path(vhagar.__file__).parents[1])
    assert start.main(["--only", "inspect", "--repeat", "1", "--other", source]) == 0
    head, _, row = capsys.readouterr().out.strip().splitlines()
    assert head == "| case | here | other |"
    assert row.startswith("| inspect | ")


def test_a_case_is_needed(start: ModuleType) -> None:
    with pytest.raises(SystemExit):
        start.main(["--only", "no such case"])


@pytest.mark.subprocess
def test_a_run_beyond_the_limit_takes_for_ever(start: ModuleType, tmp_path: Path) -> None:
    source = Path(vhagar.__file__).parents[1]
    assert start.seconds(("--help",), source, 0.0, tmp_path) == (math.inf, math.inf)
