"""`vhagar export`: its arguments, and what they write."""

from __future__ import annotations

import argparse
from pathlib import Path

from vhagar.cli import arguments as types

HELP = "write the question for other verifiers, as VNN-LIB and ONNX files"

DESCRIPTION = """\
Write the question "is the network delta-globally robust?" for other verifiers. It is, if and only
if every file written is unsatisfiable; there is one for each piece of the perturbation.
"""

EPILOG = """\
examples:
  vhagar export model.onnx --perturbation "occlusion(14,14,3)" --source 2 --target 3 --delta 1.5 \\
    --vnnlib question.vnnlib
  vhagar export model.onnx --perturbation "linf(0.05)" --source 2 --delta 1.5 --format 2 \\
    --vnnlib question.vnnlib --onnx copy.onnx
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `vhagar export`."""
    parser.set_defaults(command=run)
    types.add_model(parser)
    types.add_classes(parser)
    types.add_input_range(parser)
    add = parser.add_argument
    add("--delta", required=True, type=float, metavar="D", help="the confidence asked about")
    add("--vnnlib", required=True, type=Path, metavar="FILE", help="the question's file")
    add(
        "--onnx",
        type=Path,
        metavar="FILE",
        help="the model's file (default: the question's with the ending .onnx)",
    )
    add(
        "--format",
        type=int,
        choices=(1, 2),
        default=1,
        help="VNN-LIB 1.0 about a product network (default), or 2.0 about two copies of one",
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the files; returns the exit code."""
    from vhagar.export.export import export

    problem = types.problem(arguments)
    found = export(problem, arguments.delta, arguments.vnnlib, arguments.onnx, arguments.format)
    for place in found:
        print(f"{place.vnnlib} about {place.onnx}")
    every = "it is" if len(found) == 1 else f"all {len(found)} are"
    print(f"{arguments.delta:g}-globally robust if and only if {every} unsatisfiable")
    return 0
