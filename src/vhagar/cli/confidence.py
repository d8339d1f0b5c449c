"""The command `vhagar confidence`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from vhagar.cli import groups, types
from vhagar.cli.conventions import add_conventions, conventions_of

if TYPE_CHECKING:
    from vhagar.cli.session import Outcome
    from vhagar.problem import Problem

HELP = "how confident can the network be in a class at all?"

DESCRIPTION = """\
How confident can the network be in a class at all? No robustness bound of the class can exceed
this maximal confidence.
"""

EPILOG = """\
example:
  vhagar confidence model.onnx --class 2 --timeout 60 --json confidence.json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=run)
    groups.add_model(parser)
    question = groups.section(parser, groups.QUESTION)
    question.add_argument(
        "--class", dest="label", required=True, type=types.label, metavar="C", help="the class"
    )
    groups.add_input_range(question)
    groups.add_engine(parser)
    groups.add_common(parser)
    add_conventions(parser)


def run(arguments: argparse.Namespace) -> Outcome:
    """Search, display, and write the requested files."""
    from vhagar.cli.session import run_session

    return run_session(arguments, problem_of=_problem)


def _problem(arguments: argparse.Namespace) -> Problem:
    from vhagar.network import read_onnx
    from vhagar.problem import Problem

    return Problem(
        read_onnx(arguments.model, **conventions_of(arguments)),
        perturbation=None,
        source=arguments.label,
        input_range=arguments.input_range,
        domain=arguments.domain,
    )
