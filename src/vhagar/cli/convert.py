"""The command `vhagar convert`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vhagar.network import Network

HELP = "write a quantised model, or one of torch.export, as an ONNX file that can be verified"

DESCRIPTION = """\
Write an ONNX model that the other commands can read. A quantised model (QDQ format) is written in
real numbers, without the rounding of its activations; a program of torch.export (.pt2) as it is.
"""

EPILOG = """\
examples:
  vhagar convert quantised.onnx -o real.onnx
  vhagar convert program.pt2 -o model.onnx --trust
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=run)
    add = parser.add_argument
    add("model", type=Path, metavar="MODEL", help="quantised ONNX file, or .pt2 file")
    add("-o", "--out", required=True, type=Path, metavar="FILE", help="ONNX file to write")
    add("--trust", action="store_true", help="load a .pt2 file, which can run code from it")


def run(arguments: argparse.Namespace) -> int:
    """Convert the model, say what was left out, and return the exit code."""
    from vhagar.network.foreign_files import is_program
    from vhagar.network.onnx_reader import model_content
    from vhagar.runtime.output_files import check_writable

    content = model_content(arguments.model)
    check_writable(arguments.out, arguments.model)
    if is_program(content):
        network, remarks = _from_program(arguments)
    else:
        network, remarks = _from_quantised(content, arguments)
    print(f"{arguments.out}: {network}")
    for remark in remarks:
        print(f"  {remark}")
    return 0


def _from_program(arguments: argparse.Namespace) -> tuple[Network, list[str]]:
    """Load a program of torch.export, which may run code."""
    from vhagar.errors import InvalidInput, InvalidNetwork
    from vhagar.network.onnx_writer import save_model
    from vhagar.network.torch.module import from_torch
    from vhagar.runtime.devices import require_torch

    if not arguments.trust:
        raise InvalidInput(
            f"loading {arguments.model} can run code from it; add --trust if you trust the file"
        )
    torch = require_torch()
    try:
        program = torch.export.load(arguments.model)
    except Exception as error:  # whatever a damaged file, or one of another version, leads to
        raise InvalidNetwork(
            f"{arguments.model} cannot be loaded by torch {torch.__version__}: {error}"
        ) from error
    network = from_torch(program, name=arguments.model.stem)
    return save_model(network, arguments.out), list(network.notes)


def _from_quantised(content: bytes, arguments: argparse.Namespace) -> tuple[Network, list[str]]:
    """Leave the rounding of a quantised model out."""
    from vhagar.errors import InvalidInput
    from vhagar.network.onnx_reader import parse_model, read_model
    from vhagar.network.quantised import is_quantised, without_rounding
    from vhagar.result.numbers import counted
    from vhagar.runtime.output_files import write_bytes

    model = parse_model(content, arguments.model)
    if not is_quantised(model):
        # Another kind of quantisation is refused here, by the names of its operators.
        read_model(model, arguments.model.stem, "chw")
        raise InvalidInput(
            f"{arguments.model} needs no conversion: give it to the other commands as it is"
        )
    converted = without_rounding(model)
    network = read_model(converted.model, arguments.out.stem, "chw")
    write_bytes(arguments.out, converted.model.SerializeToString())
    remarks = [f"{counted(converted.constants, 'constant')} dequantised, as runtimes do in float32"]
    if converted.steps:
        remarks += [
            f"{counted(len(converted.steps), 'rounding')} of activations left out, the coarsest to "
            f"multiples of {max(converted.steps):.4g}",
            "what is proven about this file is not proven about the quantised model, which rounds",
        ]
    return network, remarks
