"""The command `vhagar compare`."""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vhagar.cli import gate, groups, sweep
from vhagar.cli.conventions import add_conventions
from vhagar.errors import InvalidInput

if TYPE_CHECKING:
    from vhagar.report.two_models import CoverageVerdict, ModelComparison
    from vhagar.result.requirement import Judged, Requirement

HELP = "which of two models is proven more robust?"

DESCRIPTION = """\
Compare two models: by how much of a data set is proven robust, and pair by pair of classes, in
percent of the maximal confidence that each can reach. Input convention and scores are those of both
models, but for the layout, of which each may have its own; where the others differ, sweep each
model with its own and compare the two stores.
"""

EPILOG = """\
examples:
  vhagar compare old.onnx new.onnx --perturbation "linf(0.02)" --dataset test.npz --timeout 10
  vhagar compare old.db new.db -o compare.html --require not-worse
  vhagar compare study.db:first study.db:second

exit codes:
  0    answered
  2    bad input, or a file that cannot be read or written
  3    a requirement (--require) is violated, with proof
  4    a requirement is undecided
"""

# Percentage points that B's bounds may be larger than A's for B to count as not worse.
_SLACK = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=run)
    add = parser.add_argument
    add("first", metavar="A", help="model file, or the store of a sweep (STORE or STORE:NAME)")
    add("second", metavar="B", help="another one")
    add("-o", "--page", type=Path, metavar="FILE", help="write the comparison as one HTML page")
    add("--json", type=Path, metavar="FILE", help="write the comparison as JSON")
    add("--store", type=Path, metavar="FILE", help="keep what is computed about two models")
    gate.add_gate(parser, '"not-worse" or "coverage>=0.6", of B')
    sweep.add_questions(parser.add_argument_group("what is asked of two models"), network=False)
    add_conventions(parser, two=True)
    groups.add_jobs(parser)
    groups.add_seed(parser)


def run(arguments: argparse.Namespace) -> int:
    """Compare, print and write, and return the exit code."""
    from vhagar.report.compare_models import compare
    from vhagar.report.two_models_page import write_two
    from vhagar.result.requirement import OF_COMPARISONS
    from vhagar.runtime.output_files import check_writable, write_bytes
    from vhagar.sweep.settings import Settings

    # Stores may hold the coverage of a data set already.
    asked_now = arguments.perturbation or arguments.grid
    data = arguments.dataset if asked_now else True
    requirements = gate.requirements(arguments, OF_COMPARISONS, data)
    for path in (arguments.page, arguments.json):
        if path is not None:
            check_writable(path, arguments.first, arguments.second)
    arguments.network = None
    asked: dict[str, Any] = sweep.flags(arguments)
    if arguments.store is not None and arguments.store.exists():
        raise InvalidInput(f"a store exists at {arguments.store}; choose another file")
    found = compare(
        arguments.first,
        arguments.second,
        perturbations=asked.pop("perturbations", ()),
        store=arguments.store,
        settings=Settings(jobs=arguments.jobs, workers=arguments.workers, seed=arguments.seed),
        watch=sweep.open_watch(False) if asked or arguments.perturbation else None,
        **asked,
    )
    print("\n".join(found.lines))
    if arguments.json is not None:
        write_bytes(arguments.json, f"{json.dumps(found.to_dict())}\n".encode())
        print(f"wrote {arguments.json}")
    if arguments.page is not None:
        write_two(found, arguments.page)
        print(f"wrote {arguments.page}")
    judged = [each for demand in requirements for each in _judged(found, demand)]
    return gate.conclude(judged, arguments)


def _judged(found: ModelComparison, demand: Requirement) -> list[Judged]:
    from vhagar.result.numbers import counted, up
    from vhagar.result.requirement import Facts, Judged, judgement

    name = found.second.name
    if demand.quantity == "coverage":
        totals = [each for each in found.coverages if each.source is None]
        facts = [(_under(each), Facts(counts=each.second)) for each in totals]
        about = facts or [("no data set", Facts())]
        return [demand.judged(f"{name}, {text}", own) for text, own in about]
    data = [each for each in found.coverages if each.more_robust == "first"]
    worse = found.count("first") + len(data)
    within = found.worst <= _SLACK
    verdict = judgement(within and not worse, worse > 0)
    why = f"A is proven more robust in {counted(worse, 'comparison')}"
    if data:
        label = "all classes" if data[0].source is None else f"class {data[0].source}"
        why += (
            f", {'one of them ' if worse > 1 else ''}by the data in {label} under {_under(data[0])}"
        )
    if not worse:
        why += (
            f", and B's bounds are at most {up(max(found.worst, 0.0))} percentage points larger"
            if math.isfinite(found.worst)
            else ", and not every question was asked of both"
        )
    words = f"not-worse: {verdict.value} ({why})"
    return [Judged(f"{name} beside {found.first.name}", str(demand), verdict, words)]


def _under(verdict: CoverageVerdict) -> str:
    from vhagar.perturbation.quotients import with_quotients
    from vhagar.sweep.class_coverage import over

    return f"{with_quotients(verdict.perturbation)}{over(verdict.domain)}"
