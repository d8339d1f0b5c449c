"""The paper's ablation table, and two rows of ours: what does each idea bring?

    python bench/ablation.py networks/ --timeout 45 --out ablation.csv --page docs/ablation.md

The folder holds the paper's `mnist_3x50_pgd.onnx` and `mnist_conv1.onnx`. Every result is saved at
once: the same command goes on where it was stopped, and `--stop-after` ends it in order after so
many seconds. The page is written from whatever is in the file.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path

from ablation_table import ROWS, Run, page
from records import Instance, Store
from script import in_words
from suite import Suite

import vhagar
from vhagar import Problem, Status
from vhagar.options import MIP_PARTS
from vhagar.runtime.cores import available_cores
from vhagar.runtime.output_files import check_writable, write_bytes
from vhagar.search import AbstractEngine
from vhagar.search.branch_and_bound import Bab
from vhagar.search.mip.engine import Mip

# The variants: the paper's three, then ours.
VARIANTS: dict[str, AbstractEngine] = {
    "MIP": Mip(without=MIP_PARTS),
    "MIP + dependencies": Mip(without=("attack", "hints")),
    "everything": Mip(),
    "everything, lambda": Mip(formulation="lambda"),
    "bab": Bab(),
}


class Results:
    """The runs so far, in a CSV file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.runs: list[Run] = []
        if path.exists():
            with path.open(newline="") as file:
                self.runs = [_run_of(row) for row in csv.DictReader(file)]

    def find(self, instance: Instance, variant: str, timeout: float, workers: int) -> Run | None:
        wanted = (str(instance), variant, timeout, workers)
        for run in self.runs:
            if (run.instance, run.variant, run.timeout, run.workers) == wanted:
                return run
        return None

    def add(self, run: Run) -> None:
        self.runs.append(run)
        text = io.StringIO()
        names = [field.name for field in fields(Run)]
        writer = csv.DictWriter(text, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(one) for one in self.runs)
        write_bytes(self._path, text.getvalue().encode())


_TEXTS = ("instance", "variant", "status")


def _run_of(row: dict[str, str]) -> Run:
    values: dict[str, object] = {}
    for name, text in row.items():
        if name in _TEXTS:
            values[name] = text
        elif name == "workers":
            values[name] = int(text)
        else:
            values[name] = float(text) if text else None
    return Run(**values)  # type: ignore[arg-type]


def measure(suite: Suite, instance: Instance, variant: str) -> Run:
    """Run a variant on an instance."""
    largest = suite.max_confidence(instance.network, instance.source)
    problem = Problem(
        suite.network(instance.network),
        perturbation=instance.perturbation,
        source=instance.source,
        targets=instance.target,
        clip=instance.clip,
    )
    arguments = suite.arguments(VARIANTS[variant])
    result = vhagar.verify(problem, timeout=suite.timeout, **arguments)
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    first = next((moment for moment in result.history if moment.lower > 0), None)
    return Run(
        str(instance),
        variant,
        suite.timeout,
        suite.workers,
        result.status.name.lower(),
        result.lower,
        result.upper,
        result.seconds,
        None if first is None else first.lower,
        None if first is None else first.seconds,
        largest.lower,
    )


def parser() -> argparse.ArgumentParser:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("networks", type=Path, help="folder with the ONNX files")
    arguments.add_argument("--timeout", type=float, default=45.0, help="seconds for each run")
    arguments.add_argument("--workers", type=int, default=available_cores())
    arguments.add_argument("--out", type=Path, required=True, help="results, .csv")
    arguments.add_argument("--page", type=Path, help="write the table as Markdown")
    arguments.add_argument("--rows", help="numbers of rows, such as 4,5 (default: all)")
    arguments.add_argument("--stop-after", type=float, help="start no run after so many seconds")
    arguments.add_argument("--confidence-timeout", type=float, default=30.0)
    return arguments


@in_words
def main(given: Sequence[str] | None = None) -> int:
    arguments = parser().parse_args(given)
    if arguments.out.suffix != ".csv":
        parser().error("--out must end in .csv")
    for path in filter(None, (arguments.out, arguments.page)):
        check_writable(path)
    known = {str(instance.number) for instance, _ in ROWS}
    wanted = known if arguments.rows is None else set(arguments.rows.split(","))
    if not wanted <= known:
        parser().error(f"there are rows {', '.join(sorted(known))}, not {arguments.rows}")
    suite = Suite(
        arguments.networks,
        arguments.timeout,
        arguments.workers,
        0,
        arguments.confidence_timeout,
        # For the maximal confidences alone: those of a suite in the same folder count as well.
        Store(arguments.out.with_suffix(".runs.csv")),
    )
    results = Results(arguments.out)
    complete = run_all(suite, results, wanted, arguments.stop_after)
    if arguments.page is not None:
        timeout, workers = arguments.timeout, arguments.workers
        text = page(
            lambda instance, variant: results.find(instance, variant, timeout, workers),
            VARIANTS,
            timeout,
            workers,
        )
        write_bytes(arguments.page, text.encode())
    return 0 if complete else 130


def run_all(suite: Suite, results: Results, wanted: set[str], stop_after: float | None) -> bool:
    """Whatever is missing; returns whether nothing is any more."""
    begun = time.monotonic()
    for instance, _ in ROWS:
        for variant in VARIANTS:
            done = results.find(instance, variant, suite.timeout, suite.workers)
            if str(instance.number) not in wanted or done is not None:
                continue
            if stop_after is not None and time.monotonic() - begun > stop_after:
                return False
            try:
                run = measure(suite, instance, variant)
            except KeyboardInterrupt:
                print("# interrupted; the same command goes on from here", file=sys.stderr)
                return False
            results.add(run)
            print(
                f"{instance!s:58s} {variant:20s} [{run.lower:.5g}, {run.upper:.5g}] "
                f"{run.seconds:.1f} s, first {run.first_lower} after {run.first_seconds} s",
                flush=True,
            )
    return True


if __name__ == "__main__":
    sys.exit(main())
