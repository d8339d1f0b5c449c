"""Measures how many faults made by machine the tests notice.

    python -m tests.mutation vhagar.result.interval_keeper
    python -m tests.mutation vhagar_check.tree --tests tests/check/test_verdict.py
    python -m tests.mutation --sample 40 --seed 7

Survivors that are not in `survivors.json` are listed; each needs a test, or its line there with the
reason why it may live.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from .modules import known_survivors, modules, source_of
from .operators import Mutant, mutants
from .running import CAUGHT, run


def main() -> int:
    options = _arguments()
    chosen = options.modules or list(modules())
    every = [each for name in chosen for each in mutants(name, source_of(name).read_text())]
    if options.sample is not None:
        every = sample(every, options.sample, options.seed)
    if options.line is not None:
        every = [each for each in every if each.line in options.line]
    tests = options.tests or sorted({test for name in chosen for test in modules()[name]})
    known = outcomes_in(options.lines)
    left = [each for each in every if each.key not in known]
    with (options.lines or Path(os.devnull)).open("a") as file:

        def note(key: str, outcome: str) -> None:
            print(json.dumps([key, outcome]), file=file, flush=True)

        done = run(left, tests, options.processes, options.without_broken, note)
    if done.broken:
        print("these tests fail without any mutant:", *done.broken, sep="\n  ")
        if not options.without_broken:
            return 2
    return report(every, known | done.outcomes)


def outcomes_in(path: Path | None) -> dict[str, str]:
    """What an earlier run, perhaps a stopped one, has found."""
    if path is None or not path.exists():
        return {}
    return dict(json.loads(line) for line in path.read_text().splitlines())


def sample(every: list[Mutant], many: int, seed: int) -> list[Mutant]:
    """Some of the mutants; the seed alone decides which."""
    return random.Random(seed).sample(every, min(many, len(every)))


def report(every: list[Mutant], outcomes: dict[str, str]) -> int:
    """Print the score and every survivor that is not known; whether there is one."""
    known = known_survivors()
    caught = sum(outcome == CAUGHT for outcome in outcomes.values())
    new = 0
    for mutant in every:
        if outcomes[mutant.key] != CAUGHT and mutant.key not in known:
            new += 1
            print(f"{outcomes[mutant.key]}: line {mutant.line}: {mutant.key}")
    listed = len(every) - caught - new
    equivalent = sum(
        outcomes[each.key] != CAUGHT and known.get(each.key, "").startswith("equivalent")
        for each in every
    )
    score = 100 * caught / max(len(every) - equivalent, 1)
    print(
        f"{len(every)} mutants: {caught} caught, {listed} known survivors ({equivalent} "
        f"equivalent), {new} new survivors; {score:.1f} % of the others caught"
    )
    return 1 if new else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation")
    parser.add_argument("modules", nargs="*", help="such as vhagar.sweep.store; default: all")
    parser.add_argument("--tests", nargs="+", help="instead of the module's own tests")
    parser.add_argument("--sample", type=int, help="only so many of the mutants")
    parser.add_argument("--seed", type=int, default=0, help="which of them")
    parser.add_argument("--line", type=int, nargs="+", help="only those of these lines")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--lines", type=Path, help="keep each outcome here; go on where it stopped")
    parser.add_argument(
        "--without-broken", action="store_true", help="leave out tests that fail by themselves"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
