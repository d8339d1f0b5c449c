"""The command `vhagar local`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from vhagar.cli import arguments as types
from vhagar.errors import InvalidInput

if TYPE_CHECKING:
    from vhagar.local.known import LocalProgress
    from vhagar.local.result import LocalResult

HELP = "local robustness: does one image keep its class under the perturbation?"

DESCRIPTION = """\
Local robustness, the special case of one given input: does every perturbed version of it keep its
class, and how large is the smallest margin?
"""

EPILOG = """\
examples:
  vhagar local model.onnx --image digit.png --epsilon 0.02
  vhagar local model.onnx --image test.npz --index 7 --perturbation "occlusion([1,20],[1,20],5)"

exit codes:
  0    answered, even if time ran out before anything was proven
  2    bad input, or a file that cannot be read or written
  130  interrupted (Ctrl-C or SIGTERM); the interval reached so far is printed
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vhagar local`."""
    parser.set_defaults(command=run)
    types.add_model(parser)
    add = parser.add_argument
    add(
        "--image",
        required=True,
        type=Path,
        metavar="FILE",
        help="the input: an image or .npy file, or with --index an .npz file or a folder",
    )
    add("--index", type=int, metavar="N", help="index of the input in the file, from 0")
    add("--epsilon", type=float, metavar="E", help='short for --perturbation "linf(E)"')
    types.add_classes(parser, local=True)
    types.add_input_range(parser)
    types.add_engine_name(parser)
    add(
        "--gap",
        type=float,
        metavar="G",
        help="relative gap at which the margin counts as known (default: stop at the answer)",
    )
    add("--timeout", type=types.seconds, metavar="S", help="stop after S seconds")
    add("--json", type=Path, metavar="FILE", help="write the result as JSON, witness included")
    add("--plot", type=Path, metavar="FILE", help="plot image and witness (.png, .pdf or .svg)")
    types.add_seed(parser)


def run(arguments: argparse.Namespace) -> int:
    """Verify, write the requested files, print the answer and return the exit code."""
    from vhagar.cli.session import Outputs
    from vhagar.dataset import read_image
    from vhagar.local.problem import LocalProblem
    from vhagar.local.result import LocalResult
    from vhagar.local.run import verify_local
    from vhagar.network import read_onnx
    from vhagar.perturbation import Domain
    from vhagar.perturbation.loading import named

    if (arguments.epsilon is None) == (arguments.perturbation is None):
        raise InvalidInput("give either --epsilon or --perturbation")
    Outputs(arguments.json, arguments.plot).check(arguments.model)
    network = read_onnx(arguments.model, **types.conventions(arguments))
    domain = Domain(network.input_shape, *arguments.input_range)
    problem = LocalProblem(
        network,
        perturbation=named(arguments.perturbation or f"linf({arguments.epsilon!r})"),
        image=read_image(arguments.image, domain, arguments.index),
        source=arguments.source,
        targets=arguments.target,
        clip=arguments.clip,
        input_range=arguments.input_range,
    )
    result = verify_local(
        problem,
        engine=types.engine(arguments),
        timeout=arguments.timeout,
        relative_gap=arguments.gap,
        seed=arguments.seed,
        on_progress=_Lines(),
    )
    failures = 0
    for path, write in ((arguments.json, _write_json), (arguments.plot, LocalResult.plot)):
        if path is None:
            continue
        try:
            write(result, path)
            print(f"wrote:    {path}")
        except Exception as error:  # a file that cannot be written must not cost the answer
            print(f"vhagar: error: cannot write {path}: {error}", file=sys.stderr)
            failures += 1
    print(result.summary())
    if failures:
        return 2
    return 130 if result.interrupted else 0


class _Lines:
    """A line about where the search stands, at most once a second."""

    def __init__(self) -> None:
        self._next = 1.0

    def __call__(self, progress: LocalProgress) -> None:
        if progress.seconds < self._next:
            return
        self._next = progress.seconds + 1.0
        print(progress.words(), flush=True)


def _write_json(result: LocalResult, path: Path) -> None:
    from vhagar.result.serialize import write_bytes

    write_bytes(path, f"{json.dumps(result.to_dict(), allow_nan=False)}\n".encode())
