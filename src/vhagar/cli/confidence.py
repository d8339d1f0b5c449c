"""The command `vhagar confidence`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from vhagar.cli import groups, parsed, types

if TYPE_CHECKING:
    from vhagar.cli.session import Outcome

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
    """Add the arguments of `vhagar confidence`."""
    parser.set_defaults(command=run)
    groups.add_model(parser)
    parser.add_argument(
        "--class", dest="label", required=True, type=types.label, metavar="C", help="the class"
    )
    groups.add_engine(parser)
    groups.add_common(parser)


def run(arguments: argparse.Namespace) -> Outcome:
    """Search, display, and write the requested files."""
    from vhagar.cli.session import Outputs, run_session
    from vhagar.network import read_onnx
    from vhagar.problem import Problem

    engine, options = parsed.engine(arguments), parsed.options(arguments)
    outputs = Outputs(arguments.json, arguments.plot)
    outputs.check(arguments.model, options.certificate, options.checkpoint)
    network = read_onnx(arguments.model, **parsed.conventions(arguments))
    problem = Problem(
        network,
        perturbation=None,
        source=arguments.label,
        input_range=arguments.input_range,
        domain=arguments.domain,
    )
    return run_session(
        problem,
        engine,
        options,
        arguments.timeout,
        outputs,
        verbosity=parsed.verbosity(arguments),
    )
