"""The command `vhagar baseline`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from vhagar.baseline.defaults import SAMPLES, SPREAD
from vhagar.cli import groups, types
from vhagar.cli.conventions import add_conventions

if TYPE_CHECKING:
    from vhagar.cli.session import Outcome
    from vhagar.search import AbstractEngine

HELP = "answer the same question with Marabou or by sampling, for comparison"

DESCRIPTION = """\
Ask the same question of the methods that VHAGaR is compared with. The answer has the same form and
says how far it can be trusted.
"""

EPILOG = """\
examples:
  vhagar baseline marabou model.onnx --perturbation "occlusion(14,14,3)" --source 2 --target 3 \\
    --timeout 600
  vhagar baseline dataset model.onnx --perturbation "linf(0.1)" --source 2 --target 3 \\
    --dataset mnist.npz
  vhagar baseline random model.onnx --perturbation "linf(0.1)" --source 2 --samples 10000
"""

_MARABOU = """\
Marabou decides whether the network is delta-globally robust, and a binary search over delta gives
an interval. The upper end relies on Marabou alone; inputs that it finds are re-checked.
"""

_DATASET = """\
Find the most confident input of a dataset that the perturbation pushes into a target class. This
gives a lower bound only.
"""

_RANDOM = """\
Draw random inputs and average their local bounds: the confidence of an input that the perturbation
pushes into a target class, and 0 for any other. The half-width comes from Hoeffding's inequality.
The mean says little about the largest confidence.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(title="baselines", metavar="BASELINE", required=True)
    for name, text, description, add in (
        ("marabou", "a binary search with an SMT-based verifier", _MARABOU, _add_marabou),
        ("dataset", "the most confident input of a dataset", _DATASET, _add_dataset),
        ("random", "the mean over random inputs", _RANDOM, _add_random),
    ):
        add(commands.add_parser(name, help=text, description=description, epilog=EPILOG))


def _add_marabou(parser: argparse.ArgumentParser) -> None:
    _add_shared(parser, _marabou, timeout=600.0)
    groups.section(parser, groups.SEARCH).add_argument(
        "--query-timeout",
        type=types.seconds,
        metavar="S",
        help="seconds per query, doubled when every query has timed out (default: a sixth of "
        "--timeout)",
    )
    groups.add_gap(groups.section(parser, groups.SEARCH))
    groups.add_workers(groups.section(parser, groups.SEARCH))


def _add_dataset(parser: argparse.ArgumentParser) -> None:
    _add_shared(parser, _dataset, timeout=None)


def _add_random(parser: argparse.ArgumentParser) -> None:
    _add_shared(parser, _random, timeout=None)
    add = groups.section(parser, groups.SEARCH).add_argument
    add(
        "--samples",
        type=types.whole,
        default=SAMPLES,
        metavar="N",
        help="number of random inputs (default: %(default)s)",
    )
    add(
        "--spread",
        type=types.number,
        default=SPREAD,
        metavar="D",
        help="standard deviation, as a fraction of the input range's width (default: %(default)s)",
    )
    add(
        "--ceiling",
        type=types.number,
        metavar="C",
        help="proven bound on the confidence, such as the upper end of `vhagar confidence`; the "
        "half-width is proportional to it (default: by interval arithmetic)",
    )


def _add_shared(
    parser: argparse.ArgumentParser,
    make: Callable[[argparse.Namespace], AbstractEngine],
    timeout: float | None,
) -> None:
    parser.set_defaults(command=_run, make_engine=make)
    groups.add_model(parser)
    groups.add_question(parser)
    groups.add_common(parser, timeout=timeout)
    add_conventions(parser)


def _marabou(arguments: argparse.Namespace) -> AbstractEngine:
    from vhagar.baseline.marabou import MarabouEngine

    return MarabouEngine(arguments.query_timeout)


def _dataset(arguments: argparse.Namespace) -> AbstractEngine:
    from vhagar.baseline.dataset_sampling import DatasetEngine

    return DatasetEngine()


def _random(arguments: argparse.Namespace) -> AbstractEngine:
    from vhagar.baseline.random_sampling import RandomEngine

    return RandomEngine(arguments.samples, arguments.spread, ceiling=arguments.ceiling)


def _run(arguments: argparse.Namespace) -> Outcome:
    from vhagar.cli.session import run_session

    return run_session(arguments, engine=arguments.make_engine(arguments))
