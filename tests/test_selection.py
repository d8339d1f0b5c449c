"""What a plain `pytest` leaves out, `.ci/run` runs."""

from __future__ import annotations

import itertools
import re
import shlex
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
MARKERS = [line.split(":")[0] for line in SETTINGS["markers"]]


def arguments_of_pytest(script: str) -> list[str]:
    """Those of the one call of pytest in a script."""
    (line,) = re.findall(r"^python -m pytest (.*)$", script, re.MULTILINE)
    return shlex.split(line)


def selects(arguments: list[str], marked: set[str]) -> bool:
    """Whether a call of pytest runs a test with these markers; the last expression counts."""
    words = [*SETTINGS["addopts"], *arguments]
    expression = [after for word, after in itertools.pairwise(words) if word == "-m"][-1]
    return bool(eval(expression, {}, {name: name in marked for name in MARKERS}))


def test_every_test_is_run_by_one_of_the_two_calls() -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    by_default = arguments_of_pytest(blocks[1])
    afterwards = arguments_of_pytest((ROOT / ".ci" / "run").read_text())
    for size in range(len(MARKERS) + 1):
        for marked in map(set, itertools.combinations(MARKERS, size)):
            assert selects(by_default, marked) != selects(afterwards, marked), marked
    # Nothing else selects: no folder, no keyword, no smaller number of cases.
    assert by_default == ["-n", "auto", "-q"]
    assert afterwards[:-1] == ["-n", "auto", "-q", "-m"]
    assert SETTINGS["testpaths"] == ["tests"]
