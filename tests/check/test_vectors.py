"""The test vectors that ship with the checker."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar_check import Rejected, check
from vhagar_check.container import scan, split_json, unpack
from vhagar_check.proofs import EMPTY
from vhagar_check.tree import RECORD

VECTORS = Path(__file__).parents[2] / "checker" / "vectors"
CASES = json.loads((VECTORS / "manifest.json").read_text())["cases"]
ACCEPTED, REFUSED = ([case for case in CASES if case["accepted"] is kind] for kind in (True, False))


def _named(cases: list[dict[str, Any]]) -> Any:
    return pytest.mark.parametrize("case", cases, ids=[case["name"] for case in cases])


@_named(ACCEPTED)
def test_what_is_proved_is_accepted(case: dict[str, Any]) -> None:
    verdict = check(VECTORS / case["certificate"], model=VECTORS / case["model"])
    ends = [None if math.isinf(end) else end for end in (verdict.lower, verdict.upper)]
    assert ends == [case["lower"], case["upper"]]


@_named(REFUSED)
def test_what_is_not_proved_is_refused_for_its_own_reason(case: dict[str, Any]) -> None:
    with pytest.raises(Rejected) as refusal:
        check(VECTORS / case["certificate"], model=VECTORS / case["model"])
    renew = "if only the words changed: python -m tests.check.make_vectors --reasons"
    assert _words(str(refusal.value)) == _words(case["because"]), renew


def _words(reason: str) -> str:
    """Without numbers, whose last digits depend on the machine."""
    return re.sub(r"[-+.\d]+(e[-+]?\d+)?", "#", reason)


def test_every_kind_of_proof_and_block_is_among_what_is_accepted() -> None:
    """So that another checker is tried on all of them, and every kind can be forged from one."""
    kinds, tags, steps = set[int](), set[str](), set[int]()
    for case in ACCEPTED:
        path = VECTORS / case["certificate"]
        with path.open("rb") as file:
            for block in scan(path):
                tags.add(block.tag)
                if block.tag == "TREE":
                    steps |= set(np.frombuffer(unpack(file, block), RECORD)["kind"].tolist())
                if block.tag == "PROF":
                    about, data = split_json(unpack(file, block))
                    kinds |= set(data[4 * about["count"] : 5 * about["count"]])
    plain = {"HEAD", "MAPS", "TREE", "REGN", "REFN", "TIGH", "CUTS", "PROF"}
    assert tags == plain | {"SPEC", "BOXS", "WNDW"}
    assert kinds == set(range(10)) - {EMPTY}
    assert steps == {0, 1, 2, 3}  # signs, splits of a parameter, slopes, splits by an entry


def test_every_file_is_in_the_manifest() -> None:
    there = {path.name for path in VECTORS.iterdir() if path.suffix in (".cert", ".onnx")}
    assert there == {case[key] for case in CASES for key in ("certificate", "model")}
    assert sum(path.stat().st_size for path in VECTORS.iterdir() if path.is_file()) < 2**20 + 2**17


def _run(command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    whole = [sys.executable, str(VECTORS), sys.executable, "-c", command, *arguments]
    return subprocess.run(whole, check=False, capture_output=True, text=True)


@pytest.mark.subprocess
@pytest.mark.slow
@pytest.mark.parametrize("answer", [0, 1, 3])
def test_another_checker_is_asked_the_same(answer: int) -> None:
    """One that always accepts, one that always refuses, one that fails."""
    done = _run(f"raise SystemExit({answer})")
    right = {0: len(ACCEPTED), 1: len(REFUSED), 3: 0}[answer]
    assert done.returncode == 1
    assert f"{right} of {len(CASES)} answers are right" in done.stdout
