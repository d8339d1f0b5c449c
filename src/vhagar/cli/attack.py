"""The command `vhagar attack`: `vhagar verify` with the attack as its engine."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from vhagar.cli import groups
from vhagar.cli.conventions import add_conventions
from vhagar.options import ATTACK_PARTS

if TYPE_CHECKING:
    from vhagar.cli.session import Outcome

HELP = "lower bound only: find the most confident input that can be attacked"

DESCRIPTION = """\
Find the most confident input of the source class that the perturbation pushes into a target class:
the lower bound of `verify`, without a proof that no attackable input is more confident.
"""

EPILOG = """\
example:
  vhagar attack model.onnx --perturbation "linf(0.1)" --source 2 --target 3 --plot attack.png
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=run)
    groups.add_model(parser)
    groups.add_question(parser)
    groups.section(parser, groups.SEARCH).add_argument(
        "--paper",
        dest="engine",
        action="store_const",
        const="paper-attack",
        default="attack",
        help="run the paper's algorithm as published, without our additions",
    )
    groups.add_without(
        groups.section(parser, groups.SEARCH), "the attack, for comparison", ", ".join(ATTACK_PARTS)
    )
    groups.add_workers(groups.section(parser, groups.SEARCH))
    groups.add_common(parser, timeout=10.0)
    add_conventions(parser)


def run(arguments: argparse.Namespace) -> Outcome:
    """Attack, display, and write the requested files."""
    from vhagar.cli.session import run_session

    return run_session(arguments)
