"""The command `vhagar guard`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from vhagar.cli.conventions import add_conventions, conventions_of
from vhagar.errors import InvalidInput

HELP = "wrap a model so that it says which of its predictions are proven robust"

DESCRIPTION = """\
Write an ONNX model that gives scores, class and confidence, and says for each perturbation whether
the prediction is proven robust: no perturbed version of the input has another class.
"""

EPILOG = """\
examples:
  vhagar guard study.db -o guard.onnx
  vhagar guard proof-0.cert proof-1.cert --model model.onnx -o guard.onnx
  vhagar guard --check guard.onnx --model model.onnx --certificates proofs

exit codes:
  0    written; with --check: everything is proved
  1    with --check: refused, and why
  2    bad input, or a file that cannot be read or written
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=run)
    add = parser.add_argument
    add(
        "sources",
        type=Path,
        nargs="*",
        metavar="SOURCE",
        help="the store of a sweep, saved results, or certificates",
    )
    add("-o", "--onnx", dest="file", type=Path, metavar="FILE", help="ONNX file to write")
    add("--model", type=Path, help="model file, for certificates and for --check")
    add("--network", metavar="NAME", help="which network of the store, if it holds several")
    add("--check", type=Path, metavar="GUARD", help="prove a guard anew instead")
    add(
        "--certificates",
        type=Path,
        action="append",
        default=[],
        metavar="FOLDER",
        help="where the certificates are (default: where the store says; for --check, beside the "
        "guard); repeatable",
    )
    add_conventions(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write or check a guard, and return the exit code."""
    if arguments.check is not None:
        return _check(arguments)
    from vhagar.cli.files import check_files
    from vhagar.guard import guard
    from vhagar.guard.make import networks_behind
    from vhagar.network import read_onnx
    from vhagar.runtime.output_files import check_writable

    if not arguments.sources:
        raise InvalidInput("give the store of a sweep, saved results or certificates")
    if arguments.file is None:
        raise InvalidInput("name the file to write with -o, such as -o guard.onnx")
    check_writable(arguments.file)
    check_files(arguments, networks=networks_behind(arguments.sources))
    network = arguments.network
    if arguments.model is not None:
        network = read_onnx(arguments.model, **conventions_of(arguments))
    made = guard(*arguments.sources, network=network, certificates=arguments.certificates)
    proofs = [bound.certificate.path for bound in made.bounds if bound.certificate is not None]
    check_files(arguments, proofs=proofs)
    made.save(arguments.file)
    print("\n".join(made.words))
    print(f"wrote {arguments.file}")
    return 0


def _check(arguments: argparse.Namespace) -> int:
    from vhagar.guard.check import check_guard
    from vhagar.network import read_onnx

    if arguments.model is None:
        raise InvalidInput("name the model that the guard is about with --model")
    network = read_onnx(arguments.model, **conventions_of(arguments))
    found = check_guard(arguments.check, network, arguments.certificates)
    print(found, file=sys.stderr if found.problems else sys.stdout)
    return 1 if found.problems else 0
