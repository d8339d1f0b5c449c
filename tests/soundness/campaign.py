"""The long form of the campaign: many cases, one line each in a file, and a summary.

    python -m tests.soundness.campaign oracle --processes 16 --lines oracle.jsonl
    python -m tests.soundness.campaign tiny --to 10000 --lines tiny.jsonl
    python -m tests.soundness.campaign tiny --to 10000 --lines again.jsonl --truths tiny.jsonl
    python -m tests.soundness.campaign --summary tiny.jsonl

A run that was interrupted goes on where it stopped: cases that have their line are not repeated.
With the truths of an earlier run only certificates are looked at again, which is much quicker.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

# Each process has one core; before numpy is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from .judge import Finding

Look = Callable[..., Finding]
# A case's number, and its truths where they are known.
Task = tuple[int, dict[str, list[str]] | None]
# How many cases each part has in the long form.
PARTS = {"oracle": 10_000, "tiny": 10_000, "affine": 2_000, "numerics": 1_000, "domains": 1_000}
PARTS |= {"windows": 500, "midsize": 200, "corruption": 2_000, "edits": 10_000}
# After so many cases, a line says how far the campaign is.
_OFTEN = 500


def main() -> int:
    options = _arguments()
    if options.summary is not None:
        print(summary(options.summary))
        return 0
    done = {line["number"] for line in lines_of(options.lines)} if options.lines.exists() else set()
    last = PARTS[options.part] if options.to is None else options.to
    numbers = [number for number in range(options.first, last) if number not in done]
    truths = {}
    if options.truths is not None:
        truths = {line["number"]: line["facts"]["truths"] for line in lines_of(options.truths)}
        numbers = [number for number in numbers if number in truths]
    tasks = [(number, truths.get(number)) for number in numbers]
    wrong = 0
    with options.lines.open("a") as file:
        for count, finding in enumerate(findings(options.part, tasks, options.processes), 1):
            print(json.dumps(finding), file=file, flush=True)
            if count % _OFTEN == 0:
                print(f"{count} of {len(tasks)} cases, wrong: {wrong}", flush=True)
            if finding["wrong"]:
                wrong += 1
                print(f"{options.part} {finding['number']}: {finding['wrong']}", flush=True)
    print(summary(options.lines))
    return 1 if wrong else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soundness.campaign")
    parser.add_argument("part", nargs="?", choices=list(PARTS), default="tiny")
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--to", type=int, help="the number after the last case")
    parser.add_argument("--lines", type=Path, default=Path("campaign.jsonl"))
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--truths", type=Path, help="the lines of an earlier run of part tiny")
    parser.add_argument("--summary", type=Path, help="only sum up such a file")
    return parser.parse_args()


def findings(part: str, tasks: list[Task], processes: int) -> Iterator[dict[str, Any]]:
    """What comes of each case, as soon as it is known."""
    look = partial(_look, part)
    if processes == 1:
        yield from map(look, tasks)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context) as pool:
        for done in as_completed([pool.submit(look, task) for task in tasks]):
            yield done.result()


def _look(part: str, task: Task) -> dict[str, Any]:
    """A case in a folder of its own; an exception anywhere is a finding too."""
    number, truths = task
    look: Look = import_module(f"{__package__}.{part}").look
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        try:
            finding = look(number, Path(folder), *([truths] if truths else []))
        except Exception as error:
            finding = Finding(part, number, "", [f"the case fails: {error!r}"])
    finding.facts["seconds"] = round(time.perf_counter() - begun, 3)
    return asdict(finding)


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]


def summary(path: Path) -> str:
    """How many cases, of which kinds, and what was found."""
    lines = lines_of(path)
    wrong = [line for line in lines if line["wrong"]]
    counts: dict[str, int] = {}
    for line in lines:
        facts = line["facts"]
        for name, value in _tallied(facts):
            counts[f"{name} {value}"] = counts.get(f"{name} {value}", 0) + 1
    seconds = sum(line["facts"].get("seconds", 0.0) for line in lines)
    numbers = [line["number"] for line in lines]
    told = [
        f"{len(lines)} cases from {min(numbers, default=0)} to {max(numbers, default=0)}, "
        f"{seconds:.0f} s in all; wrong: {len(wrong)}"
    ]
    told += [f"  {name}: {count}" for name, count in sorted(counts.items())]
    told += [f"  WRONG {line['number']} ({line['what']}): {line['wrong']}" for line in wrong]
    return "\n".join(told)


def _tallied(facts: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name in ("part", "kind", "scale", "flavour", "exact", "outcome"):
        if name in facts:
            yield name, facts[name]
    for engine in ("bab", "mip"):
        if engine in facts:
            yield engine, facts[engine]["status"]
            if "notes" in facts[engine]:
                yield engine, "with a note"
    if "bab" in facts:
        yield "certificate", "refused" if "refused" in facts else "accepted"


if __name__ == "__main__":
    sys.exit(main())
