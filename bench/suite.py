"""Engines side by side on the instances of a suite.

    python bench/suite.py suite.csv networks/ --engines bab,mip --timeout 60 --out results.csv

The suite is a CSV file with columns network, perturbation, clip, source, target; a network is the
name of an ONNX file in the folder, without its ending. Every result is saved at once: the same
command goes on where it was stopped. See README.md here for what is measured.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from records import Instance, Run, Store
from script import csv_rows, in_words
from table import markdown, one_line

import vhagar
from vhagar import Interval, Network, Problem, Result, Status
from vhagar.attack.engine import Attack
from vhagar.errors import InvalidInput
from vhagar.options import ATTACK_PARTS, DEVICES, MIP_PARTS
from vhagar.runtime.cores import available_cores
from vhagar.runtime.output_files import check_writable
from vhagar.search import ATTACKS, ENGINES, AbstractEngine, engine_named
from vhagar.search.mip.engine import Mip

# A gap of this part of the upper bound counts as closed.
CLOSED = 0.01
# The engine "mip" without all that the paper adds to the encoding, and with the dependencies alone.
PLAIN_MIP, MIP_DEPENDENCIES = "plain-mip", "mip-dependencies"
MIPS_WITHOUT = {PLAIN_MIP: MIP_PARTS, MIP_DEPENDENCIES: ("attack", "hints")}
# The attack without one of its parts: attack-without-polish and so on.
ATTACKS_WITHOUT = {f"attack-without-{part}": part for part in ATTACK_PARTS}


def read_suite(path: Path) -> list[Instance]:
    """The instances, numbered from 1."""
    rows = csv_rows(path, "network", "perturbation", "clip", "source", "target")
    return [
        Instance(
            number,
            row["network"],
            row["perturbation"],
            row["clip"].strip().lower() in ("true", "1", "yes"),
            _class(path, row["source"]),
            _class(path, row["target"]),
        )
        for number, row in enumerate(rows, start=1)
    ]


def _class(path: Path, text: str) -> int:
    if not text.isdecimal():
        raise InvalidInput(f"{path}: {text!r} is not the number of a class")
    return int(text)


def hard_suite(path: Path) -> Path:
    """The file with the hard instances beside a suite."""
    return path.with_name(f"{path.stem}_hard{path.suffix}")


def chosen(instances: Sequence[Instance], only: str | None) -> list[Instance]:
    """Those with one of the given numbers, or with the given text in their description."""
    if only is None:
        return list(instances)
    parts = [part.strip() for part in only.split(",")]
    if all(part.isdigit() for part in parts):
        return [instance for instance in instances if str(instance.number) in parts]
    return [instance for instance in instances if only in str(instance)]


def seconds_to_close(result: Result) -> float | None:
    """When the gap was first at most 1 % of the upper bound; None if it never was.

    A gap that the verifier itself calls closed counts, too: an upper bound of 1e-14, say.
    """
    for moment in result.history:
        if moment.upper - moment.lower <= CLOSED * moment.upper:
            return moment.seconds
    return result.seconds if result.status in (Status.CLOSED, Status.ROBUST) else None


def gap_integral(result: Result, timeout: float) -> float:
    """The gap over time, from the first bound to the timeout; a closed one counts as 0."""
    ends = [moment.seconds for moment in result.history[1:]]
    closed = result.status in (Status.CLOSED, Status.ROBUST)
    ends.append(result.seconds if closed else timeout)
    total = 0.0
    for moment, end in zip(result.history, ends, strict=True):
        lasted = min(end, timeout) - min(moment.seconds, timeout)
        total += (moment.upper - moment.lower) * max(lasted, 0.0)
    return total


@dataclass(frozen=True)
class Suite:
    """Where the networks are, and how long every run may take."""

    networks: Path
    timeout: float
    workers: int
    seed: int
    confidence_timeout: float
    store: Store
    device: str = "auto"

    @cache  # noqa: B019 (one suite lives as long as the program)
    def network(self, name: str) -> Network:
        return vhagar.read_onnx(self.networks / f"{name}.onnx")

    def options(self, engine: str) -> dict[str, Any]:
        """The arguments of `verify` for an engine of the table."""
        if engine in MIPS_WITHOUT:
            return self.arguments(Mip(without=MIPS_WITHOUT[engine]))
        if engine in ATTACKS_WITHOUT:
            return self.arguments(Attack(without=(ATTACKS_WITHOUT[engine],)))
        return self.arguments(engine_named(engine))

    def arguments(self, engine: AbstractEngine) -> dict[str, Any]:
        """The engine, and of the suite's settings those that make a difference to it."""
        given = {"workers": self.workers, "device": self.device}
        if isinstance(engine, Mip) and {"attack", "hints"} <= set(engine.without):
            del given["device"]  # of use to the attack only
        used = {name: value for name, value in given.items() if name in engine.uses}
        return {"engine": engine, "seed": self.seed, **used}

    def run(self, instance: Instance, engine: str) -> Run:
        """Run one engine on one instance, unless that was done before."""
        known = self.store.find(instance, engine, self.timeout, self.workers)
        if known is not None:
            return known
        largest = self.max_confidence(instance.network, instance.source)
        problem = Problem(
            self.network(instance.network),
            perturbation=instance.perturbation,
            source=instance.source,
            targets=instance.target,
            clip=instance.clip,
        )
        result = vhagar.verify(
            problem,
            timeout=self.timeout,
            **self.options(engine),
            max_confidence=largest,
        )
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        gap, closed_after = result.upper - result.lower, seconds_to_close(result)
        run = Run(
            instance,
            engine,
            self.timeout,
            self.workers,
            result.status.name.lower(),
            result.lower,
            result.upper,
            # Of the smallest possible maximal confidence, so that no gap is made to look smaller.
            100 * gap / largest.lower if largest.lower > 0 else None,
            closed_after is not None,
            result.nodes,
            result.seconds,
            closed_after,
            100 * gap_integral(result, self.timeout) / largest.lower if largest.lower > 0 else None,
        )
        self.store.add(run)
        return run

    def max_confidence(self, network: str, label: int) -> Interval:
        """The maximal confidence in a class: the same for all engines, computed once."""
        known = self.store.max_confidence(network, label)
        if known is None:
            print(f"# maximal confidence of {network}, class {label} ...", flush=True)
            result = vhagar.max_confidence(
                self.network(network),
                source=label,
                timeout=self.confidence_timeout,
                **self.options("bab"),
            )
            if result.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            known = result.interval
            self.store.add_max_confidence(network, label, known, result.seconds)
        return known


def run_all(
    suite: Suite,
    instances: Sequence[Instance],
    engines: Sequence[str],
    report: Callable[[Run], None],
) -> list[Run]:
    """All engines on an instance before the next instance; Ctrl-C keeps what there is."""
    runs = []
    try:
        for instance in instances:
            for engine in engines:
                runs.append(suite.run(instance, engine))
                report(runs[-1])
    except KeyboardInterrupt:
        print("# interrupted; the same command goes on from here", file=sys.stderr)
    return runs


def parser() -> argparse.ArgumentParser:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("suite", type=Path, help="CSV file with the instances")
    arguments.add_argument(
        "--hard", action="store_true", help="the instances of suite_hard.csv beside suite.csv"
    )
    arguments.add_argument("networks", type=Path, help="folder with the ONNX files")
    arguments.add_argument("--engines", default="bab", help="such as bab,mip (default: bab)")
    arguments.add_argument("--timeout", type=float, default=60.0, help="seconds for each run")
    arguments.add_argument("--workers", type=int, default=available_cores())
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--device", default="auto", choices=DEVICES)
    arguments.add_argument("--only", help="numbers of instances (1,4,7), or a part of their text")
    arguments.add_argument("--out", type=Path, help="results, .csv or .json; saved as they come")
    arguments.add_argument(
        "--confidence-timeout",
        type=float,
        default=60.0,
        help="seconds for each maximal confidence (kept beside the results)",
    )
    return arguments


@in_words
def main(given: Sequence[str] | None = None) -> int:
    arguments = parser().parse_args(given)
    engines = [name.strip() for name in arguments.engines.split(",")]
    known = [*ENGINES, *MIPS_WITHOUT, *ATTACKS, *ATTACKS_WITHOUT]
    unknown = [name for name in engines if name not in known]
    if unknown:
        parser().error(f"unknown engine {unknown[0]!r}; choose from {', '.join(known)}")
    if arguments.out is not None:
        if arguments.out.suffix not in (".csv", ".json"):
            parser().error("--out must end in .csv or .json")
        check_writable(arguments.out)
    suite_file = hard_suite(arguments.suite) if arguments.hard else arguments.suite
    instances = chosen(read_suite(suite_file), arguments.only)
    if not instances:
        parser().error("no instance is left; see --only")
    suite = Suite(
        arguments.networks,
        arguments.timeout,
        arguments.workers,
        arguments.seed,
        arguments.confidence_timeout,
        Store(arguments.out),
        arguments.device,
    )
    runs = run_all(suite, instances, engines, lambda run: print(one_line(run), flush=True))
    print()
    print(markdown(runs, engines))
    return 0 if len(runs) == len(instances) * len(engines) else 130


if __name__ == "__main__":
    sys.exit(main())
