"""A checkpoint is somebody's file: what it can do is end in a message, or nothing."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar import Problem, Result, verify
from vhagar.errors import InvalidInput
from vhagar.result import Progress
from vhagar.search.checkpoint import checkpoint as parts
from vhagar.search.checkpoint.file import (
    FORMAT,
    MAGIC,
    read_checkpoint_file,
    write_checkpoint,
)

from .conftest import keep_all, small_problem

ALONE = {"timeout": 0.0, "workers": 0}


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A checkpoint from the midst of a search."""
    folder = tmp_path_factory.mktemp("kept")

    def stop(progress: Progress) -> bool:
        return not (kept and progress.lower > 0 and _decisions(kept[-1]))

    with pytest.MonkeyPatch.context() as patch:
        kept = keep_all(folder, patch)
        verify(
            small_problem(),
            checkpoint=folder / "checkpoint",
            timeout=60.0,
            workers=0,
            relative_gap=0.2,
            on_progress=stop,
        )
    return kept[-1].read_bytes()


def _decisions(path: Path) -> list[bytes]:
    """Those of open nodes and of closed parts, if there are both."""
    _, arrays = read_checkpoint_file(path, parts._DTYPES)
    both = [arrays[f"SIGNS {state} decisions"].tobytes() for state in ("open", "closed")]
    return both if all(both) else []


@pytest.fixture
def path(tmp_path: Path, content: bytes) -> Path:
    found = tmp_path / "checkpoint"
    found.write_bytes(content)
    return found


def resumed(path: Path, problem: Problem | None = None, **others: Any) -> Result:
    options = {"relative_gap": 0.2, **ALONE, **others}
    return verify(problem or small_problem(), resume=path, **options)


def forged(path: Path, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> Path:
    """The same with another content and the right hash."""
    about, arrays = read_checkpoint_file(path, parts._DTYPES)
    own = {name: array.copy() for name, array in arrays.items()}
    change(about, own)
    write_checkpoint(path, about, own)
    return path


def test_a_checkpoint_of_another_question_is_refused_and_says_what_differs(path: Path) -> None:
    own = small_problem()
    questions: dict[str, Problem] = {
        r"perturbation linf\(0.3\) instead of linf\(0.1\)": small_problem("linf(0.1)"),
        "source 0 instead of 2": Problem(
            own.network, perturbation="linf(0.3)", source=2, targets=1
        ),
        r"targets \[1\] instead of \[1, 2\]": Problem(
            own.network, perturbation="linf(0.3)", source=0
        ),
        "input range": Problem(
            own.network, perturbation="linf(0.3)", source=0, targets=1, input_range=(0, 2)
        ),
        "clip true instead of false": Problem(
            own.network, perturbation="linf(0.3)", source=0, targets=1, clip=False
        ),
        "another model": small_problem(seed=54),
    }
    for words, problem in questions.items():
        with pytest.raises(InvalidInput, match=f"another question.*{words}"):
            resumed(path, problem)
    with pytest.raises(InvalidInput, match=r"gap 0\.2 instead of 0\.1"):
        resumed(path, relative_gap=0.1)
    with pytest.raises(InvalidInput, match=r"vhagar 0\.0 instead of"):
        resumed(forged(path, lambda about, arrays: about["question"].update(vhagar="0.0")))


def test_damaged_files_are_refused(path: Path, content: bytes) -> None:
    rng = np.random.default_rng(0)
    for length in (0, 7, 30, 51, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(InvalidInput, match="no whole checkpoint"):
            resumed(path)
    for place in rng.integers(len(content), size=60).tolist():
        changed = bytearray(content)
        changed[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        with pytest.raises(InvalidInput, match="no whole checkpoint"):
            resumed(path)
    for arrays in (None, [], 3.0):
        text = json.dumps({"arrays": arrays}).encode()
        packed = struct.pack("<Q", len(text) + 4) + zlib.compress(
            struct.pack("<I", len(text)) + text
        )
        digest = hashlib.sha256(packed).digest()
        path.write_bytes(MAGIC + struct.pack("<I", FORMAT) + digest + packed)
        with pytest.raises(InvalidInput, match=r"no whole checkpoint.*how long"):
            resumed(path)
    path.write_bytes(content + b"more")
    with pytest.raises(InvalidInput, match="no whole checkpoint"):
        resumed(path)
    path.unlink()
    with pytest.raises(InvalidInput, match="no checkpoint at"):
        resumed(path)


def _without_a_node(about: dict[str, Any], arrays: dict[str, Any]) -> None:
    name = "SIGNS open"
    last = arrays[f"{name} heads"][-1]
    arrays[f"{name} heads"] = arrays[f"{name} heads"][:-1]
    count = len(arrays[f"{name} decisions"]) - int(last["decisions"])
    arrays[f"{name} decisions"] = arrays[f"{name} decisions"][:count]


def _without_closed(about: dict[str, Any], arrays: dict[str, Any]) -> None:
    for name in arrays:
        if name.startswith("SIGNS closed"):
            arrays[name] = arrays[name][:0]


def _turned(about: dict[str, Any], arrays: dict[str, Any]) -> None:
    decisions = arrays["SIGNS open decisions"]
    decisions["positive"][-1] ^= 1


def _begun_anew(about: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Nothing is decided yet, and a gain is predicted all the same."""
    for name in arrays:
        if name.startswith("SIGNS"):
            arrays[name] = arrays[name][: 1 if name == "SIGNS open heads" else 0]
    head = arrays["SIGNS open heads"]
    head["number"], head["decisions"], head["start"], head["gain"] = 0, 0, -1, 0.5


def _with(name: str, field: str, value: float) -> Callable[..., None]:
    def change(about: dict[str, Any], arrays: dict[str, Any]) -> None:
        arrays[name][field][0] = value

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_without_a_node, "do not cover"),
        (_begun_anew, "of no decision"),
        (_without_closed, "do not cover"),
        (_turned, "do not cover"),
        (_with("SIGNS open heads", "upper", np.nan), "not a number"),
        (_with("SIGNS open heads", "target", 2), "no target 2"),
        (_with("SIGNS open heads", "root", 1), "no piece 1"),
        (_with("SIGNS open heads", "path", 1), "splits are missing"),
        (_with("SIGNS open heads", "start", 10**6), "a start is missing"),
        (_with("SIGNS open heads", "number", 0), "wrong number"),
        (_with("SIGNS open decisions", "layer", 2), "no such layer"),
        (_with("SIGNS open decisions", "layer", -2), "no such layer"),
        (_with("SIGNS open decisions", "neuron", 10**6), "no neuron"),
        (_with("SIGNS open decisions", "copy", 2), "no copy"),
        (_with("SIGNS open decisions", "positive", 2), "neither"),
        (lambda about, arrays: about.update(uppers=[[1, -1.0, "TWIN"]]), "number from 0"),
        (lambda about, arrays: about.update(uppers=[[1, 1.0, "NONE"]]), "can be resumed"),
        (lambda about, arrays: about.update(witnesses=[{}]), "can be resumed"),
        (lambda about, arrays: about.pop("nodes"), "can be resumed"),
    ],
)
def test_forged_contents_are_refused(path: Path, change: Callable[..., None], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        resumed(forged(path, change))


def test_a_forged_witness_raises_nothing(path: Path) -> None:
    honest = resumed(path)

    def change(about: dict[str, Any], arrays: dict[str, Any]) -> None:
        (witness,) = about["witnesses"]
        witness["confidence"] = 1e9
        witness["x"] = [1.0] * len(witness["x"])

    result = resumed(forged(path, change))
    assert result.lower <= honest.lower
    assert result.upper == honest.upper


def test_a_bound_below_a_witness_is_refused(path: Path) -> None:
    with pytest.raises(InvalidInput, match="contradicts itself"):
        resumed(forged(path, lambda about, arrays: about.update(uppers=[[1, 0.0, "TWIN"]])))
