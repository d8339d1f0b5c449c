"""The command `vhagar local`."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from vhagar.cli import gate, groups, parsed, types
from vhagar.cli.conventions import add_conventions, conventions_of
from vhagar.errors import InvalidInput
from vhagar.options import DEVICES

if TYPE_CHECKING:
    from vhagar.local.known import LocalProgress
    from vhagar.local.problem import LocalProblem
    from vhagar.local.result import LocalResult
    from vhagar.result.requirement import Judged, Requirement

HELP = "does one image keep its class under the perturbation (local robustness)?"

DESCRIPTION = """\
Local robustness, the special case of one given input: does every perturbed version of it keep its
class, and how large is the smallest margin?
"""

EPILOG = """\
examples:
  vhagar local model.onnx --image digit.png --epsilon 0.02
  vhagar local model.onnx --vnnlib property.vnnlib --timeout 5m
  vhagar local model.onnx --image test.npz --index 7 --perturbation "occlusion([1,20],[1,20],5)"

exit codes:
  0    answered, even if time ran out before anything was proven
  2    bad input, or a file that cannot be read or written
  3    a requirement (--require robust) is violated: a version loses its class, or with --vnnlib
       (--require unsat) there is a counterexample
  4    a requirement is undecided
  130  interrupted (Ctrl-C or SIGTERM); the interval reached so far is printed
"""


# Options without effect on a specification.
_OF_IMAGES = (
    "image", "index", "epsilon", "perturbation", "source", "target", "json", "plot", "gap",
    "workers",
)  # fmt: skip
# Seconds between lines about a search, by how much is to be shown.
_PAUSES = {-1: math.inf, 0: 1.0, 1: 0.0}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=run)
    groups.add_model(parser)
    _add_question(parser)
    groups.add_classes(parser, local=True)
    groups.add_input_range(groups.section(parser, groups.QUESTION))
    _add_search(parser)
    output = groups.section(parser, groups.OUTPUT)
    output.add_argument(
        "--certificate", type=Path, metavar="FILE", help="write a proof for `vhagar check`"
    )
    groups.add_outputs(output, "image and witness")
    gate.add_gate(output, '"robust", or "unsat" of a VNN-LIB file')
    groups.add_verbosity(output)
    add_conventions(parser)


def _add_search(parser: argparse.ArgumentParser) -> None:
    """Add time, processors and the engine."""
    search = groups.section(parser, groups.SEARCH)
    add = search.add_argument
    groups.add_timeout(search)
    add(
        "--gap",
        type=types.number,
        metavar="G",
        help="relative gap at which the margin counts as known (default: stop at the answer)",
    )
    add(
        "--device",
        default="cpu",
        choices=DEVICES,
        help="where branch and bound runs: cpu (default), cuda, or auto for a GPU if there is one",
    )
    add(
        "-w",
        "--workers",
        type=types.workers,
        metavar="N",
        help="processes of the engine for what the first search leaves open (default: 1)",
    )
    groups.add_seed(search)
    groups.add_engine_name(search)


def _add_question(parser: argparse.ArgumentParser) -> None:
    """Add what the question is about: a VNN-LIB file, or an image and how far it may change."""
    question = groups.section(parser, groups.QUESTION)
    add = question.add_argument
    add(
        "--vnnlib",
        type=Path,
        metavar="FILE",
        help="answer a VNN-LIB file instead: sat (with a counterexample), unsat or unknown",
    )
    add(
        "--second",
        type=Path,
        metavar="MODEL",
        help="the second network of a VNN-LIB file about two, such as whether they are equivalent",
    )
    add(
        "--image",
        type=Path,
        metavar="FILE",
        help="the input: an image or .npy file, or with --index an .npz or .csv file or a folder",
    )
    groups.add_index(question)
    add(
        "--epsilon",
        type=types.quotient,
        metavar="E",
        help='short for --perturbation "linf(E)", such as 0.02 or 8/255',
    )


def run(arguments: argparse.Namespace) -> int:
    """Verify, write the requested files, print the answer and return the exit code."""
    from vhagar.cli.session import check_outputs, write_outputs
    from vhagar.local.run import verify_local
    from vhagar.result.requirement import OF_LOCAL

    if arguments.vnnlib is not None:
        return _answer(arguments)
    if arguments.second is not None:
        raise InvalidInput("--second is for a VNN-LIB file: give one with --vnnlib")
    if arguments.image is None:
        raise InvalidInput("give the input with --image, or a specification with --vnnlib")
    if (arguments.epsilon is None) == (arguments.perturbation is None):
        raise InvalidInput("give either --epsilon or --perturbation")
    check_outputs(arguments, arguments.certificate)
    requirements = gate.requirements(arguments, OF_LOCAL)
    problem = _problem(arguments)
    result = verify_local(
        problem,
        engine=parsed.engine(arguments),
        timeout=arguments.timeout,
        relative_gap=arguments.gap,
        workers=arguments.workers or 0,
        seed=arguments.seed,
        on_progress=_Lines(_PAUSES[parsed.verbosity(arguments)]),
        certificate=arguments.certificate,
        device=arguments.device,
    )
    rows: list[tuple[str, str]] = []
    write = partial(_write_json, result)
    failures = write_outputs(arguments, rows, json=write, plot=result.plot)
    for failure in failures:
        print(f"vhagar: error: {failure}", file=sys.stderr)
    for label, text in () if arguments.quiet else rows:
        print(f"{label + ':':10}{text}")
    print(result if arguments.quiet else result.summary())
    about = str(problem.everywhere)
    judged = _judged(about, "robust", result.verdict, result.seconds, requirements)
    code = gate.conclude(judged, arguments)
    if failures:
        return 2
    return 130 if result.interrupted else code


def _problem(arguments: argparse.Namespace) -> LocalProblem:
    from vhagar.dataset import read_image
    from vhagar.local.problem import LocalProblem
    from vhagar.network import read_onnx
    from vhagar.perturbation.loading import named
    from vhagar.problem import domain_of

    network = read_onnx(arguments.model, **conventions_of(arguments))
    domain = domain_of(network, arguments.domain, arguments.input_range)
    return LocalProblem(
        network,
        perturbation=named(arguments.perturbation or f"linf({arguments.epsilon!r})"),
        image=read_image(arguments.image, domain, arguments.index),
        source=arguments.source,
        targets=arguments.target,
        clip=arguments.clip,
        domain=domain,
    )


def _answer(arguments: argparse.Namespace) -> int:
    """Answer a specification in the words of the competition for verifiers."""
    from vhagar.local.specification import answer_specification
    from vhagar.local.vnnlib import read_vnnlib
    from vhagar.network import read_onnx
    from vhagar.result.requirement import OF_SPECIFICATIONS

    # The file is about the model's own inputs and outputs.
    conventions = conventions_of(arguments)
    given = [name for name in _OF_IMAGES if getattr(arguments, name) is not None]
    given += [name for name in conventions if name != "output"]
    if given:
        option = given[0].replace("_", "-")
        raise InvalidInput(f"--{option} has no effect with --vnnlib, which is a whole question")
    requirements = gate.requirements(arguments, OF_SPECIFICATIONS)
    specification = read_vnnlib(arguments.vnnlib)
    network = read_onnx(arguments.model, layout="chw", **conventions)
    second = None
    if arguments.second is not None:
        second = read_onnx(arguments.second, layout="chw", **conventions)
    found = answer_specification(network, specification, arguments.timeout, second)
    print(found.text(), end="")
    name = arguments.vnnlib.name
    judged = _judged(name, "unsat", found.answer, found.seconds, requirements)
    return gate.conclude(judged, arguments)


def _judged(
    about: str, demand: str, answer: Enum, seconds: float, requirements: Sequence[Requirement]
) -> list[Judged]:
    """There is one thing to demand: that an image keeps its class, or that a file is unsat."""
    from vhagar.local.result import LocalVerdict
    from vhagar.local.specification import Satisfiability
    from vhagar.result.requirement import Judged, judgement

    met = answer in (LocalVerdict.ROBUST, Satisfiability.NEVER)
    found = judgement(met, answer in (LocalVerdict.BROKEN, Satisfiability.SATISFIED))
    words = f"{demand}: {found.value} ({answer.value})"
    return [Judged(about, str(each), found, words, seconds) for each in requirements]


class _Lines:
    """A line about where the search stands, at most once in `pause` seconds.

    Without a pause, every change is shown, where it can be seen in the digits that are printed.
    """

    def __init__(self, pause: float) -> None:
        self._pause = self._next = pause
        self._last = ""

    def __call__(self, progress: LocalProgress) -> None:
        if progress.seconds < self._next:
            return
        time, words = progress.words()
        if self._pause or words != self._last:
            print(time, words, flush=True)
        self._next, self._last = progress.seconds + self._pause, words


def _write_json(result: LocalResult, path: Path) -> None:
    from vhagar.runtime.output_files import write_bytes

    write_bytes(path, f"{json.dumps(result.to_dict(), allow_nan=False)}\n".encode())
