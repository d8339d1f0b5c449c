"""The command `vhagar export`."""

from __future__ import annotations

import argparse
from pathlib import Path

from vhagar.cli import groups, parsed, types
from vhagar.cli.conventions import add_conventions

HELP = "write the question as VNN-LIB and ONNX files for other verifiers"

DESCRIPTION = """\
Write the question "is the network delta-globally robust?" for other verifiers. It is if and only if
every file is unsatisfiable; there is one file per piece of the perturbation.
"""

EPILOG = """\
examples:
  vhagar export model.onnx --perturbation "occlusion(14,14,3)" --source 2 --target 3 --delta 1.5 \\
    --vnnlib question.vnnlib
  vhagar export model.onnx --perturbation "linf(0.05)" --source 2 --delta 1.5 --format 2 \\
    --vnnlib question.vnnlib --onnx copy.onnx
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=run)
    groups.add_model(parser)
    groups.add_classes(parser)
    question = groups.section(parser, groups.QUESTION)
    groups.add_input_range(question)
    question.add_argument(
        "--delta",
        required=True,
        type=types.number,
        metavar="D",
        help="confidence that is asked about",
    )
    add = groups.section(parser, groups.OUTPUT).add_argument
    add("--vnnlib", required=True, type=Path, metavar="FILE", help="output file for the question")
    add(
        "--onnx",
        type=Path,
        metavar="FILE",
        help="output file for the model (default: that of the question, ending in .onnx)",
    )
    add(
        "--format",
        type=int,
        choices=(1, 2),
        default=1,
        help="1 (default): VNN-LIB 1.0 about a product network; 2: VNN-LIB 2.0 about two copies",
    )
    add_conventions(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the files and return the exit code."""
    from vhagar.cli.files import check_files
    from vhagar.export.export import export, export_files
    from vhagar.result.numbers import exact

    problem = parsed.problem(arguments)
    places = export_files(problem, arguments.vnnlib, arguments.onnx)
    named = (arguments.vnnlib, arguments.onnx)
    check_files(arguments, [path for path in places if path not in named])
    found = export(problem, arguments.delta, arguments.vnnlib, arguments.onnx, arguments.format)
    for place in found:
        also = "" if place.zonotope is None else f" and {place.zonotope}"
        print(f"{place.vnnlib} about {place.onnx}{also}")
    every = "it is" if len(found) == 1 else f"all {len(found)} are"
    print(f"{exact(arguments.delta)}-globally robust if and only if {every} unsatisfiable")
    return 0
