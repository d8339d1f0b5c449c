"""The command `vhagar verify`.

Like the function `vhagar.verify`, it calls `run_engine`; `session` puts the screen around it.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from vhagar.cli import config, gate, groups
from vhagar.cli.conventions import add_conventions
from vhagar.cli.types import number
from vhagar.errors import InvalidInput, documentation

if TYPE_CHECKING:
    from vhagar.cli.session import Outcome

HELP = "how confident can an input be and still be attackable?"

DESCRIPTION = """\
How confident can an input of the source class be and still be pushed into a target class by the
perturbation? The answer is an interval: every input that is more confident than its upper end is
proven robust, and its lower end is the confidence of a concrete input that is not. (Confidence is
the margin between the score of the input's class and the next highest score.)
"""

EPILOG = f"""\
perturbations (an argument is a number or an interval [lo,hi]; rows and columns start at 1):
  linf(e)               every pixel changes by at most e
  brightness([lo,hi])   one number is added to every pixel
  contrast([lo,hi])     every pixel is multiplied by one number
  occlusion(i,j,w)      a black square of width w at row i, column j
  patch([0,e],i,j,w)    the pixels of such a square change by at most e each
  translation(tx,ty)    the image moves down by tx rows and right by ty columns
  features([f,g],e)     features, by name or number, change by at most e; or [e,h], one for each
  rotation(theta)       the image turns clockwise by theta degrees
  occlusion(i,j,w)+linf(e)
                        occlusion, translation or rotation by one angle, then linf or brightness
  FILE.py:NAME          a perturbation of your own, in Python; executes the file
  all of them: see {documentation("perturbations")}

examples:
  vhagar verify model.onnx --perturbation "occlusion(14,14,3)" --source 2 --target 3
  vhagar verify model.onnx --perturbation "linf(0.05)" --source 2 --target 3,5 --timeout 10m
  vhagar verify model.onnx --perturbation "contrast([1,1.5])" --source 0 --no-clip --percent
  vhagar verify model.onnx --perturbation "patch([0,1],14,14,3)" --source 7 --plot witness.png
  vhagar verify model.onnx --perturbation "linf(0.05)" --source 2 --certificate proof.cert
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=run)
    groups.add_model(parser)
    groups.add_question(parser, listed=True)
    groups.section(parser, groups.DATA).add_argument(
        "--plausible",
        type=number,
        metavar="SHARE",
        help="also find a witness near --dataset with at least this share of the confidence: 0.9",
    )
    groups.section(parser, groups.DATA).add_argument(
        "--verdicts",
        type=Path,
        metavar="FILE",
        help="write a table (.csv) of the inputs of --dataset: which are proven robust?",
    )
    gate.add_gate(groups.section(parser, groups.DATA), '"upper<=5", "coverage>=0.6" or "closed"')
    groups.add_common(parser)
    groups.section(parser, groups.OUTPUT).add_argument(
        "--percent",
        action="store_true",
        help="also search for the maximal confidence, so that percentages of it are more precise",
    )
    groups.add_engine(parser)
    groups.add_executor(groups.section(parser, groups.SEARCH))
    add_conventions(parser)
    config.add_config(parser)


def run(arguments: argparse.Namespace) -> Outcome:
    """Verify, display, and write the requested files."""
    from vhagar.cli.session import run_session
    from vhagar.result.requirement import OF_RESULTS

    if arguments.verdicts is not None and arguments.dataset is None:
        raise InvalidInput("--verdicts is a table of the inputs of a data set: give --dataset, too")
    if arguments.verdicts is not None and arguments.verdicts.suffix.lower() != ".csv":
        raise InvalidInput(f"{arguments.verdicts} is to be a table; end its name with .csv")
    requirements = gate.requirements(arguments, OF_RESULTS, arguments.dataset)
    outcome = run_session(
        arguments, percent=arguments.percent, covering=True, requirements=requirements
    )
    gate.conclude(outcome.judged, arguments, show=False)
    return outcome
