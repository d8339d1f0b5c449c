"""A random sample of all mutants: the tests notice each, but for those known to survive.

The commit decides which: `python -m tests.mutation MODULE --sample 8 --seed N` repeats it.
"""

from __future__ import annotations

import random
import subprocess
import sys

import pytest

from .modules import MEASURED, ROOT, known_survivors, modules

# How many of the modules are sampled in a run.
_MODULES = 6


def seed_of_this_commit() -> int:
    found = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return int(found.stdout.strip() or "0", 16)


@pytest.mark.campaign
@pytest.mark.subprocess
@pytest.mark.parametrize("turn", range(_MODULES))
def test_a_sample_of_mutants_is_noticed(turn: int) -> None:
    """Of some modules, which the commit decides, too."""
    module = random.Random(seed_of_this_commit()).sample(MEASURED, _MODULES)[turn]
    command = [sys.executable, "-m", "tests.mutation", module, "--sample", "8"]
    done = subprocess.run(
        [*command, "--seed", str(seed_of_this_commit())],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_survivors_have_their_reason() -> None:
    for key, reason in known_survivors().items():
        assert key.split(" | ")[0] in modules()
        assert len(reason.split()) > 3, key
