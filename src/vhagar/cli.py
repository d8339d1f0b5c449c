"""The command line: arguments -> Problem -> verify -> output.

Nothing heavy is imported before the arguments are understood, so that `--help` is instant.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import vhagar
from vhagar import arguments as types
from vhagar.baseline import command as baseline
from vhagar.errors import VhagarError
from vhagar.inspection import command as inspection
from vhagar.interchange import command as export
from vhagar.local import command as local
from vhagar.options import ATTACK_PARTS, DEVICES, MIP_PARTS, Options
from vhagar.report import command as report
from vhagar.sweep import command as sweep
from vhagar_check import cli as check

if TYPE_CHECKING:
    from vhagar.report.session import Outcome

EXIT_ANSWERED = 0
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130

_DESCRIPTION = """\
Verify the global robustness of neural networks. The answer is an interval, valid at every moment.
"""

_EPILOG = """\
examples:
  vhagar verify model.onnx --perturbation "occlusion(14,14,3)" --source 2 --target 3
  vhagar attack model.onnx --perturbation "linf(0.1)" --source 2 --plot attack.png
  vhagar confidence model.onnx --class 2 --timeout 60
  vhagar inspect model.onnx
  vhagar check proof.cert --model model.onnx
  vhagar sweep study.toml --store study.db
  vhagar report study.db -o report.html

exit codes:
  0    answered, also when the time was up before the interval was closed
  1    inspect: the model uses operators that are not supported
  2    bad input, or a file that cannot be read or written
  130  interrupted (Ctrl-C or SIGTERM); the interval so far is printed
"""

_VERIFY = """\
How confident can an input of the source class be and still be pushed into a target class by the
perturbation? The answer is an interval around that confidence: inputs above its upper end are
proven robust, and its lower end is the confidence of a concrete input that is not.
"""

_VERIFY_EPILOG = """\
perturbations (an argument is a number or an interval [lo,hi]; rows and columns start at 1):
  linf(e)               every pixel changes by at most e
  brightness([lo,hi])   one number is added to every pixel
  contrast([lo,hi])     every pixel is multiplied by one number
  occlusion(i,j,w)      a black square of width w at row i, column j
  patch([0,e],i,j,w)    the pixels of such a square change by at most e each
  translation(tx,ty)    the image moves
  rotation(theta)       the image turns, in degrees
  occlusion(i,j,w)+linf(e)
                        occlusion, translation or one rotation, then linf or brightness on top
  FILE.py:NAME          your own (docs/perturbations.md); the file is executed

examples:
  vhagar verify model.onnx --perturbation "occlusion(14,14,3)" --source 2 --target 3
  vhagar verify model.onnx --perturbation "linf(0.05)" --source 2 --target 3,5 --timeout 600
  vhagar verify model.onnx --perturbation "contrast([1,1.5])" --source 0 --no-clip --percent
  vhagar verify model.onnx --perturbation "patch([0,1],14,14,3)" --source 7 --plot witness.png
"""

_ATTACK = """\
Find the most confident input of the source class that the perturbation pushes into a target class:
the lower bound of `verify` and its picture, without a proof that there is none more confident.
"""

_ATTACK_EPILOG = """\
example:
  vhagar attack model.onnx --perturbation "linf(0.1)" --source 2 --target 3 --plot attack.png
"""

_CONFIDENCE = """\
How confident can the network be in a class at all? No robustness bound of the class exceeds that.
"""

_CONFIDENCE_EPILOG = """\
example:
  vhagar confidence model.onnx --class 2 --timeout 60 --json confidence.json
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a file's name may be anything
    arguments = _parser().parse_args(_joined(sys.argv[1:] if argv is None else argv))
    from vhagar.report.interrupts import interrupts

    try:
        with interrupts():
            return _exit_code(arguments.command(arguments))
    except VhagarError as error:
        return _complain(str(error))
    except KeyboardInterrupt:
        print("vhagar: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED


def _exit_code(outcome: Outcome | int) -> int:
    from vhagar.result import Status

    if isinstance(outcome, int):
        return outcome

    for failure in outcome.failures:
        _complain(failure)
    if outcome.failures:
        return EXIT_BAD_INPUT
    return EXIT_INTERRUPTED if outcome.result.status is Status.INTERRUPTED else EXIT_ANSWERED


def _complain(message: str) -> int:
    print(f"vhagar: error: {message}", file=sys.stderr)
    return EXIT_BAD_INPUT


def _verify(arguments: argparse.Namespace) -> Outcome:
    from vhagar.report.session import Outputs, run

    options, outputs = _options(arguments), Outputs(arguments.json, arguments.plot)
    outputs.check(arguments.model, options.certificate)
    problem = types.problem(arguments)
    return run(problem, options, arguments.timeout, outputs, arguments.percent)


def _confidence(arguments: argparse.Namespace) -> Outcome:
    from vhagar.network import read_onnx
    from vhagar.problem import Problem
    from vhagar.report.session import Outputs, run

    options, outputs = _options(arguments), Outputs(arguments.json, arguments.plot)
    outputs.check(arguments.model, options.certificate)
    network = read_onnx(arguments.model, **types.conventions(arguments))
    problem = Problem(network, None, arguments.label, input_range=arguments.input_range)
    return run(problem, options, arguments.timeout, outputs)


def _options(arguments: argparse.Namespace) -> Options:
    return Options(
        engine=arguments.engine,
        relative_gap=arguments.gap,
        seed=arguments.seed,
        dataset=getattr(arguments, "dataset", None),
        device=getattr(arguments, "device", Options.device),
        solver=getattr(arguments, "solver", Options.solver),
        formulation=getattr(arguments, "formulation", Options.formulation),
        without=tuple(getattr(arguments, "without", None) or ()),
        certificate=getattr(arguments, "certificate", None),
    )


class _Parser(argparse.ArgumentParser):
    """Its errors look like all others of the program."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **settings
        )

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        raise SystemExit(_complain(message))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="vhagar", description=_DESCRIPTION, epilog=_EPILOG)
    parser.add_argument("--version", action="version", version=f"vhagar {vhagar.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_verify(
        commands.add_parser(
            "verify",
            help="how confident can an input be and still be attackable?",
            description=_VERIFY,
            epilog=_VERIFY_EPILOG,
        )
    )
    _add_attack(
        commands.add_parser(
            "attack",
            help="the lower bound only: the most confident input that can be attacked",
            description=_ATTACK,
            epilog=_ATTACK_EPILOG,
        )
    )
    _add_confidence(
        commands.add_parser(
            "confidence",
            help="how confident can the network be in a class at all?",
            description=_CONFIDENCE,
            epilog=_CONFIDENCE_EPILOG,
        )
    )
    rooms = (
        ("inspect", inspection),
        ("check", check),
        ("sweep", sweep),
        ("report", report),
        ("baseline", baseline),
        ("local", local),
        ("export", export),
    )
    for name, room in rooms:
        room.add_arguments(
            commands.add_parser(
                name, help=room.HELP, description=room.DESCRIPTION, epilog=room.EPILOG
            )
        )
    return parser


def _add_verify(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=_verify)
    add_model(parser)
    add_question(parser)
    parser.add_argument(
        "--percent",
        action="store_true",
        help="compute the maximal confidence too, and state the bounds as percentages of it",
    )
    _add_engine(parser)
    add_common(parser)


def _add_attack(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=_verify, percent=False, gap=Options.relative_gap)
    add_model(parser)
    add_question(parser)
    parser.add_argument(
        "--paper",
        dest="engine",
        action="store_const",
        const="paper-attack",
        default="attack",
        help="the paper's algorithm as published, without additions",
    )
    _add_without(parser, "the attack", ", ".join(ATTACK_PARTS))
    add_common(parser, timeout=10.0)


def _add_confidence(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=_confidence)
    add_model(parser)
    parser.add_argument(
        "--class", dest="label", required=True, type=int, metavar="C", help="the class"
    )
    _add_engine(parser)
    add_common(parser)


def add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path, metavar="MODEL", help="a ReLU classifier, as ONNX file")
    types.add_conventions(parser)


def add_question(parser: argparse.ArgumentParser) -> None:
    add_classes(parser)
    add = parser.add_argument
    add(
        "--dataset",
        type=Path,
        metavar="FILE",
        help="inputs to start attacks from: an .npz file or a folder of images",
    )
    add(
        "--device",
        default=Options.device,
        choices=DEVICES,
        help="where attacks and first-order steps run; auto: a GPU if there is one (default)",
    )


def add_classes(parser: argparse.ArgumentParser, local: bool = False) -> None:
    """Perturbation and classes; those of one image need not be said."""
    add = parser.add_argument
    add(
        "--perturbation",
        required=not local,
        metavar="P",
        help="for example linf(0.05); see " + ("vhagar verify --help" if local else "below"),
    )
    whose = "the image's class (default: what the network says)" if local else ""
    add(
        "--source",
        required=not local,
        type=int,
        metavar="C",
        help=whose or "the class of the inputs",
    )
    add(
        "--target",
        type=types.labels,
        action="extend",
        metavar="T",
        help="a class not to be pushed into; repeat it or separate several by commas "
        "(default: all others)",
    )
    add(
        "--no-clip",
        dest="clip",
        action="store_false",
        help="let brightness, contrast and maps of your own leave the input range",
    )


def _add_engine(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--certificate",
        type=Path,
        metavar="FILE",
        help="write a proof of the interval, which `vhagar check` checks",
    )
    add(
        "--engine", default=Options.engine, metavar="E", help="search engine (default: %(default)s)"
    )
    add(
        "--solver",
        default=Options.solver,
        metavar="S",
        help="MIP solver of --engine mip: highs, scip or gurobi (default: %(default)s)",
    )
    _add_without(parser, "--engine mip", ", ".join(MIP_PARTS))
    add(
        "--formulation",
        default=Options.formulation,
        metavar="F",
        help="how --engine mip writes a ReLU: bigm or lambda (default: %(default)s)",
    )
    add(
        "--gap",
        type=float,
        default=Options.relative_gap,
        metavar="G",
        help="relative gap at which the interval counts as closed (default: %(default)s)",
    )


def _add_without(parser: argparse.ArgumentParser, whole: str, parts: str) -> None:
    parser.add_argument(
        "--without",
        action="append",
        metavar="PART",
        help=f"leave a part out of {whole}, for comparison: {parts}",
    )


def add_common(parser: argparse.ArgumentParser, timeout: float | None = None) -> None:
    add = parser.add_argument
    ends = "when closed" if timeout is None else f"{timeout:g}"
    add(
        "--timeout",
        type=types.seconds,
        default=timeout,
        metavar="S",
        help=f"stop after S seconds (default: {ends})",
    )
    add_input_range(parser)
    add("--json", type=Path, metavar="FILE", help="write the whole result, witness included")
    add("--plot", type=Path, metavar="FILE", help="draw witness and bounds (.png, .pdf or .svg)")
    add(
        "--seed",
        type=types.seed,
        default=Options.seed,
        metavar="N",
        help="seed of everything random (default: %(default)s)",
    )


def add_input_range(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--input-range",
        type=types.span,
        default=(0.0, 1.0),
        metavar="LO,HI",
        help="the interval of every input entry (default: 0,1)",
    )


def _joined(argv: Sequence[str]) -> list[str]:
    """`--input-range -1,1` as one argument: argparse would take `-1,1` for an option."""
    words: list[str] = []
    for word in argv:
        if words and words[-1] in types.SIGNED:
            words[-1] += f"={word}"
        else:
            words.append(word)
    return words
