"""`vhagar inspect`: its arguments, and what they start."""

from __future__ import annotations

import argparse
from pathlib import Path

from vhagar.cli import arguments as types
from vhagar.errors import InvalidInput

HELP = "what a model holds, what becomes of it, and what of it is not supported"

DESCRIPTION = """\
Read a model as `verify` does and say what it found: the operators of the file, the layers they
become with their shapes and units, and what to know about them. If the model uses operators that
are not supported, all of them are named, and the exit code is 1.
"""

EPILOG = """\
examples:
  vhagar inspect model.onnx
  vhagar inspect model.onnx --json model.json
"""

EXIT_SUPPORTED = 0
EXIT_UNSUPPORTED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `vhagar inspect`."""
    parser.set_defaults(command=run)
    add = parser.add_argument
    add("model", type=Path, metavar="MODEL", help="a classifier, as ONNX file")
    types.add_conventions(parser)
    add(
        "--input-range",
        type=types.span,
        default=(0.0, 1.0),
        metavar="LO,HI",
        help="the interval of every input entry (default: 0,1)",
    )
    add("--json", type=Path, metavar="FILE", help="write what is printed, as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print the inspection; returns the exit code."""
    from vhagar.cli.inspection_table import text
    from vhagar.network.inspection import inspect
    from vhagar.result.serialize import check_writable, write_bytes

    if arguments.json is not None:
        check_writable(arguments.json)
        if arguments.json.resolve() == arguments.model.resolve():
            raise InvalidInput(f"{arguments.json} is the model; writing it would lose that")
    found = inspect(arguments.model, arguments.input_range, **types.conventions(arguments))
    print(text(found))
    if arguments.json is not None:
        write_bytes(arguments.json, found.json().encode())
        print(f"wrote {arguments.json}")
    return EXIT_UNSUPPORTED if found.unsupported else EXIT_SUPPORTED
