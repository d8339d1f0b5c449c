"""The paper's tables, row by row: ours and the baselines, beside the paper's own figures.

    python bench/paper.py run tables.csv networks/ --out results/paper.csv --methods vhagar,dataset
    python bench/paper.py report tables.csv results/paper.csv --out docs/benchmarks.md
    python bench/paper.py all tables.csv networks/ --out results/paper.csv --page docs/benchmarks.md

`run` goes through the rows of the paper's tables that are chosen, with pairs of classes that are
named or drawn. Every run is one line of the results, written when it ends; a line that is there is
not computed again, so the same command goes on where it was stopped, and parts of the work can be
done one after the other or side by side. `report` makes the page from the lines. `all` does both:
every row with three random pairs, and a page that names the commits of the runs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from paper_records import Record, RecordFile, thinned
from paper_report import write_report
from paper_rows import PaperRow, chosen, data_file, network_file, pairs_of, read_rows
from records import Store
from script import in_words
from suite import MIPS_WITHOUT, Suite

import vhagar
from vhagar import Interval, Problem, Status
from vhagar.baseline import DatasetEngine, MarabouEngine, RandomEngine
from vhagar.errors import InvalidInput
from vhagar.runtime.cores import available_cores
from vhagar.runtime.output_files import check_writable
from vhagar.search import ATTACKS, ENGINES

# Ours is what users get; the baselines; and every engine by its name.
OURS = "vhagar"
BASELINES = ("marabou", "dataset", "random")
METHODS = (OURS, *BASELINES, *ENGINES, *MIPS_WITHOUT, *ATTACKS)
NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True)
class Job:
    """One method on one pair of classes of a row."""

    row: PaperRow
    model: Path
    pair: tuple[int, int]
    method: str


@dataclass(frozen=True, eq=False)
class Bench:
    """Where things are, and how every run is made."""

    suite: Suite
    data: Path
    clip: bool
    samples: int

    def jobs(self, rows: Sequence[PaperRow], pairs: str, methods: Sequence[str]) -> Iterator[Job]:
        """The first pair of every row before the second of any: what is there soon says most."""
        known = []
        for row in rows:
            model = network_file(self.suite.networks, row.network)
            if model is None:
                print(f"# {row}: there is no such network here, left out", flush=True)
                continue
            classes = self.suite.network(model.stem).classes
            known.append((row, model, pairs_of(row, pairs, classes, self.suite.seed)))
        for turn in range(max((len(pairs) for _, _, pairs in known), default=0)):
            for row, model, own in known:
                if turn < len(own):
                    yield from (Job(row, model, own[turn], method) for method in methods)

    def empty(self, job: Job) -> Record:
        """The line of a job before anything is known."""
        source, target = job.pair
        return Record(
            *(job.row.network, job.row.perturbation, self.clip, source, target, job.method),
            *(self.suite.timeout, self.suite.workers, self.suite.seed),
            *(NOT_APPLICABLE, "", None, None, None, 0.0, 0.0),
        )

    def run(self, job: Job) -> Record:
        """Run one job. A method that cannot take the question says so in its line."""
        name, (source, target) = job.model.stem, job.pair
        largest = self.suite.max_confidence(name, source)
        blank = replace(self.empty(job), maximum_lower=largest.lower, maximum_upper=largest.upper)
        network = self.suite.network(name)
        problem = Problem(
            network,
            perturbation=job.row.perturbation,
            source=source,
            targets=target,
            clip=self.clip,
        )
        try:
            result = vhagar.verify(
                problem,
                timeout=self.suite.timeout,
                **self._arguments(job, largest),
            )
        except InvalidInput as refusal:
            return replace(blank, note=str(refusal))
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        estimate = result.estimate
        return replace(
            blank,
            status=result.status.name.lower(),
            kind=result.kind.name.lower(),
            lower=result.lower,
            upper=result.upper,
            seconds=result.seconds,
            mean=estimate and estimate.mean,
            half_width=estimate and estimate.half_width,
            samples=estimate and estimate.samples,
            nodes=result.nodes,
            timings=json.dumps({k: round(v, 3) for k, v in result.timings.items()}),
            history=thinned(result),
            note="; ".join(result.notes),
        )

    def _arguments(self, job: Job, largest: Interval) -> dict[str, Any]:
        """What `verify` is to be told for a method."""
        if job.method == "marabou":
            return self.suite.arguments(MarabouEngine())
        if job.method == "random":
            return self.suite.arguments(RandomEngine(self.samples, ceiling=largest.upper))
        if job.method == "dataset":
            dataset = data_file(self.data, job.row.network)
            return dict(self.suite.arguments(DatasetEngine()), dataset=dataset)
        return self.suite.options("bab" if job.method == OURS else job.method)


def run_all(
    bench: Bench,
    jobs: Sequence[Job],
    file: RecordFile,
    stop_at: float,
    say: Callable[[str], None] = lambda text: print(text, flush=True),
) -> bool:
    """Do what is not in the file yet; returns whether all of it is there now."""
    left = [job for job in jobs if bench.empty(job).key not in file]
    say(f"# {len(jobs) - len(left)} of {len(jobs)} runs are there already")
    for place, job in enumerate(left, start=1):
        if time.monotonic() >= stop_at:
            say(f"# stopped with {len(left) - place + 1} runs to go; the same command goes on")
            return False
        record = bench.run(job)
        file.add(record)
        say(f"{place}/{len(left)} {_words(record)}")
    return True


def _words(record: Record) -> str:
    who = f"{record.row} {record.source}->{record.target} {record.method}"
    if record.lower is None or record.upper is None:
        return f"{who}: {record.status} ({record.note})"
    mean = "" if record.mean is None else f", mean {record.mean:.4g} +- {record.half_width:.2g}"
    return f"{who}: [{record.lower:.5g}, {record.upper:.5g}]{mean}, {record.seconds:.1f} s"


def parser() -> argparse.ArgumentParser:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = arguments.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run what is not in the results yet")
    _add_run(run)
    report = commands.add_parser("report", help="make the page and the figures from the results")
    add = report.add_argument
    add("tables", type=Path, help="CSV file with the rows of the paper's tables")
    add("results", type=Path, help="CSV file that `run` wrote")
    add("--out", type=Path, required=True, help="the page, .md; figures go to a folder beside it")
    _add_words(report)
    both = commands.add_parser("all", help="run everything, then make the page")
    _add_run(both)
    add = both.add_argument
    add("--page", type=Path, required=True, help="the page, .md; figures go to a folder beside it")
    _add_words(both)
    return arguments


def _add_run(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("tables", type=Path, help="CSV file with the rows of the paper's tables")
    add("networks", type=Path, help="folder with the ONNX files")
    add("--data", type=Path, help="folder with the datasets (default: that of the networks)")
    add("--out", type=Path, required=True, help="results, .csv; a line is added after every run")
    add("--methods", default=OURS, help=f"of {', '.join(METHODS)} (default: {OURS})")
    add("--only", help='rows with one of these texts: "conv1 occlusion;linf" (default: all)')
    add("--part", help="2/4: the second of four parts of the rows")
    add("--pairs", default="3", help="2:3,0:1, or how many random ones for each row (default: 3)")
    add("--timeout", type=float, default=60.0, help="seconds for each run (default: 60)")
    add("--stop-after", type=float, metavar="MINUTES", help="start nothing new after so long")
    add("--workers", type=int, default=available_cores())
    add("--seed", type=int, default=0)
    add("--samples", type=int, default=70_000, help="of random sampling (default: 70000)")
    add("--clip", action="store_true", help="clip brightness and contrast (the paper did not)")
    add("--confidence-timeout", type=float, default=60.0, help="for each maximal confidence")


def _add_words(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--machine", default="two x86-64 cores", help="what it ran on, in words")
    add("--networks", dest="which", default="the paper's networks", help="which, in words")
    add("--sampled", default="all of the dataset, 70,000 random inputs", help="what, in words")
    add("--note", help="a sentence to begin the page with")
    add("--same-networks", action="store_true", help="the networks are the paper's own")
    add("--problem", help='draw this one: "mnist_conv1 occlusion(14,14,3) 2:3" (default: one)')
    add("--commit", default="", help="what was run (`all`: the commits of its runs)")


def _run(arguments: argparse.Namespace) -> int:
    methods = [name.strip() for name in arguments.methods.split(",")]
    unknown = [name for name in methods if name not in METHODS]
    if unknown:
        raise InvalidInput(f"there is no method {unknown[0]!r}; choose from {', '.join(METHODS)}")
    if "marabou" in methods:
        MarabouEngine()  # its package may be missing
    check_writable(arguments.out)
    # The store is for the maximal confidences alone: those of a suite in the same folder count.
    store = Store(arguments.out.with_suffix(".runs.csv"))
    suite = Suite(
        *(arguments.networks, arguments.timeout, arguments.workers, arguments.seed),
        *(arguments.confidence_timeout, store),
    )
    bench = Bench(suite, arguments.data or arguments.networks, arguments.clip, arguments.samples)
    rows = chosen(read_rows(arguments.tables), arguments.only, arguments.part)
    jobs = list(bench.jobs(rows, arguments.pairs, methods))
    if not jobs:
        raise InvalidInput("no row is left to run; see --only and the folder of networks")
    for job in jobs if "dataset" in methods else ():
        if data_file(bench.data, job.row.network) is None:
            raise InvalidInput(f"{bench.data} has no dataset for {job.row.network}; see --data")
    limit = float("inf") if arguments.stop_after is None else 60 * arguments.stop_after
    try:
        run_all(bench, jobs, RecordFile(arguments.out), time.monotonic() + limit)
    except KeyboardInterrupt:
        print("# interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


def _all(arguments: argparse.Namespace) -> int:
    """Run everything that is missing, and write the page from what is there."""
    check_writable(arguments.page)
    code = _run(arguments)
    if code or not RecordFile(arguments.out).records():
        return code
    arguments.commit = arguments.commit or ", ".join(_commits(arguments.out))
    arguments.results, arguments.out = arguments.out, arguments.page
    write_report(arguments)
    print(f"# wrote {arguments.page}", flush=True)
    return 0


def _commits(results: Path) -> list[str]:
    """The commits that the runs of a file were made with, this one among them."""
    place = results.with_suffix(".commits")
    known = place.read_text().split() if place.exists() else []
    here = Path(__file__).parent
    try:
        command = ["git", "-C", str(here), "rev-parse", "--short", "HEAD"]
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    except (OSError, subprocess.CalledProcessError):  # no git, or no repository
        found = [f"version {vhagar.__version__}"]
    known += [commit for commit in found if commit not in known]
    place.write_text("\n".join(known) + "\n")
    return known


@in_words
def main(given: Sequence[str] | None = None) -> int:
    arguments = parser().parse_args(given)
    try:
        if arguments.command == "run":
            return _run(arguments)
        if arguments.command == "all":
            return _all(arguments)
        write_report(arguments)
    except ValueError as error:  # a cell of a table that is no number
        raise InvalidInput(str(error)) from error
    return 0


if __name__ == "__main__":
    sys.exit(main())
