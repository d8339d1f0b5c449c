"""The command `vhagar inspect`."""

from __future__ import annotations

import argparse
from pathlib import Path

from vhagar.cli import arguments as types
from vhagar.errors import InvalidInput

HELP = "show a model's operators, the layers they become, and what is not supported"

DESCRIPTION = """\
Read a model as `verify` does and show what was found: the operators in the file, and the layers
they become with their shapes and units. If the model uses unsupported operators, all of them are
listed, and the exit code is 1.
"""

EPILOG = """\
examples:
  vhagar inspect model.onnx
  vhagar inspect model.onnx --json model.json
"""

EXIT_SUPPORTED = 0
EXIT_UNSUPPORTED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vhagar inspect`."""
    parser.set_defaults(command=run)
    add = parser.add_argument
    add("model", type=Path, metavar="MODEL", help="classifier (ONNX file)")
    types.add_conventions(parser)
    add(
        "--input-range",
        type=types.span,
        default=(0.0, 1.0),
        metavar="LO,HI",
        help="interval of every input entry (default: 0,1)",
    )
    add("--json", type=Path, metavar="FILE", help="also write the output as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print the inspection and return the exit code."""
    from vhagar.cli.inspection_table import text
    from vhagar.network.inspection import inspect
    from vhagar.result.serialize import check_writable, write_bytes

    if arguments.json is not None:
        check_writable(arguments.json, arguments.model)
        if arguments.json.resolve() == arguments.model.resolve():
            raise InvalidInput(f"{arguments.json} is the model file; choose another output file")
    found = inspect(arguments.model, arguments.input_range, **types.conventions(arguments))
    print(text(found))
    if arguments.json is not None:
        write_bytes(arguments.json, found.json().encode())
        print(f"wrote {arguments.json}")
    return EXIT_UNSUPPORTED if found.unsupported else EXIT_SUPPORTED
