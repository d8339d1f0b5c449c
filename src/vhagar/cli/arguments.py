"""Argument types and groups that the commands share.

Imports stay light, so that `--help` is instant.
"""

from __future__ import annotations

import argparse
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vhagar.options import DEVICES, MIP_PARTS, Options

if TYPE_CHECKING:
    from vhagar.engine import AbstractEngine
    from vhagar.problem import Problem

# Options whose values may begin with a minus sign, which argparse would take for an option.
SIGNED = ("--input-range", "--mean", "--threshold")
# Seconds; beyond it clocks and solvers overflow.
_LONGEST = 1e9
# The options that `add_conventions` adds.
CONVENTIONS = ("layout", "image_shape", "mean", "std", "output", "threshold", "argmin")


def labels(text: str) -> list[int]:
    """`3` or `3,5`."""
    try:
        return [int(label) for label in text.split(",")]
    except ValueError:
        message = f"{text!r} is not a comma-separated list of classes, such as 3 or 3,5"
        raise argparse.ArgumentTypeError(message) from None


def sizes(text: str) -> tuple[int, ...]:
    """`3,32,32` or `28,28`."""
    try:
        return tuple(int(size) for size in text.split(","))
    except ValueError:
        message = f"{text!r} is not a shape; write channels, rows and columns, such as 3,32,32"
        raise argparse.ArgumentTypeError(message) from None


def numbers(text: str) -> tuple[float, ...]:
    """`0.5` or `0.49,0.48,0.45`."""
    try:
        return tuple(float(number) for number in text.split(","))
    except ValueError:
        message = f"{text!r} is not a comma-separated list of numbers, such as 0.5,0.4"
        raise argparse.ArgumentTypeError(message) from None


def number(text: str) -> float:
    """A finite number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number, such as 0.5")
    return value


def add_conventions(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how the model takes an image and gives its scores."""
    add = parser.add_argument_group("input convention of the model").add_argument
    add("--layout", choices=("chw", "hwc"), help="channels first (chw, default) or last (hwc)")
    add(
        "--image-shape",
        type=sizes,
        metavar="C,H,W",
        help="image shape of a flat input: channels, rows, columns; or rows, columns",
    )
    add(
        "--mean",
        type=numbers,
        metavar="M",
        help="subtract M from the input before the model: one number, or one per channel",
    )
    add("--std", type=numbers, metavar="S", help="divide by S after subtracting the mean")
    add = parser.add_argument_group("scores of the model").add_argument
    add("--output", metavar="NAME", help="the output that holds the scores, if there are several")
    add(
        "--threshold",
        type=number,
        metavar="T",
        help="for a model with one score: class 1 is an output above T (default: a score above 0)",
    )
    add(
        "--argmin",
        action="store_true",
        default=None,
        help="the smallest output wins, not the largest (as for ACAS Xu)",
    )


def conventions(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the convention options that were given, as keyword arguments of `read_onnx`."""
    given = {name: getattr(arguments, name) for name in CONVENTIONS}
    return {name: value for name, value in given.items() if value is not None}


def problem(arguments: argparse.Namespace) -> Problem:
    """Build the problem that the arguments describe."""
    from vhagar.network import read_onnx
    from vhagar.perturbation.loading import named
    from vhagar.problem import Problem

    return Problem(
        read_onnx(arguments.model, **conventions(arguments)),
        perturbation=named(arguments.perturbation),
        source=arguments.source,
        targets=arguments.target,
        clip=arguments.clip,
        input_range=arguments.input_range,
        domain=arguments.domain,
    )


def quotient(text: str) -> float:
    """A number such as `0.03`, or a quotient such as `8/255`."""
    above, _, below = text.partition("/")
    divisor = number(below) if below else 1.0
    if not divisor:
        raise argparse.ArgumentTypeError(f"{text!r} divides by zero")
    return number(above) / divisor


def seconds(text: str) -> float:
    """A time from 0: `60`, `90s`, `1m`, `1m30s` or `2h`."""
    parts = re.fullmatch(r"(?:([\d.]+)h)?(?:([\d.]+)m)?(?:([\d.]+)s?)?", text)
    try:
        given = parts.groups() if parts is not None and any(parts.groups()) else (text,)
        units = (3600.0, 60.0, 1.0)[-len(given) :]
        pairs = zip(given, units, strict=True)
        value = sum(float(part) * unit for part, unit in pairs if part is not None)
    except ValueError:
        value = -1.0
    if not value >= 0:  # NaN is no time either
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of seconds, or a time such as 90s, 5m or 1h30m"
        )
    if value > _LONGEST:
        message = f"{value:g} seconds are more than a lifetime; leave the option out for no limit"
        raise argparse.ArgumentTypeError(message)
    return value


def seed(text: str) -> int:
    """A random seed, from 0 to 2**31 - 1."""
    if not (text.isdecimal() and int(text) < 2**31):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 2**31 - 1")
    return int(text)


def span(text: str) -> tuple[float, float]:
    """`0,1` or `[0,1]`."""
    try:
        low, high = (float(end) for end in text.strip("[]").split(","))
    except ValueError:
        message = f"{text!r} is not an interval; write two numbers, such as 0,1"
        raise argparse.ArgumentTypeError(message) from None
    return low, high


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the model file and its input convention."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="ReLU classifier (ONNX file)")
    add_conventions(parser)


def add_question(parser: argparse.ArgumentParser) -> None:
    """Add perturbation, classes, dataset and device."""
    add_classes(parser)
    add = parser.add_argument
    add(
        "--dataset",
        type=Path,
        metavar="FILE",
        help="an .npz file or a folder of images: how many are proven robust? Attacks start from "
        "them, too",
    )
    add(
        "--device",
        default=Options.device,
        choices=DEVICES,
        help="where attacks and first-order steps run; auto (default) uses a GPU if there is one",
    )


def add_classes(parser: argparse.ArgumentParser, local: bool = False) -> None:
    """Add perturbation and classes; for one image (`local`) they are optional."""
    add = parser.add_argument
    add(
        "--perturbation",
        required=not local,
        metavar="P",
        help="for example linf(0.05); see " + ("vhagar verify --help" if local else "below"),
    )
    whose = "class of the image (default: as the network classifies it)" if local else ""
    add(
        "--source",
        required=not local,
        type=int,
        metavar="C",
        help=whose or "source class: the class of the unperturbed inputs",
    )
    add(
        "--target",
        type=labels,
        action="extend",
        metavar="T",
        help="target class; repeatable or comma-separated (default: all other classes)",
    )
    add(
        "--no-clip",
        dest="clip",
        action="store_false",
        help="let brightness, contrast and user-defined maps leave the input range",
    )


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Add the certificate, the engine and its options, and the gap."""
    parser.add_argument(
        "--certificate",
        type=Path,
        metavar="FILE",
        help="write a proof of the interval, for `vhagar check`",
    )
    parser.add_argument(
        "--checkpoint",
        type=Path,
        metavar="FILE",
        help="keep the search in FILE while it goes on",
    )
    parser.add_argument(
        "--resume",
        type=Path,
        metavar="FILE",
        help="go on from the checkpoint FILE of the same question, and keep it up to date",
    )
    add_engine_name(parser)
    add_without(parser, "--engine mip", ", ".join(MIP_PARTS))
    parser.add_argument(
        "--formulation",
        metavar="F",
        help="how --engine mip writes a ReLU: bigm (default) or lambda",
    )
    add_gap(parser)
    add_workers(parser)


def add_workers(parser: Any) -> None:
    """Add the number of processes that share a search."""
    parser.add_argument(
        "-w",
        "--workers",
        type=workers,
        metavar="N",
        help="processes that share the search (default: one per available core; 1 stays in one "
        "process)",
    )


def add_executor(parser: Any) -> None:
    """Add where the workers of a search are."""
    parser.add_argument(
        "--executor",
        default=Options.executor,
        metavar="E",
        help="where workers are: local (default), or ray, in a Ray cluster",
    )
    parser.add_argument(
        "--address", metavar="A", help="address of the Ray cluster (default: start a local one)"
    )


def workers(text: str) -> int:
    """A number of workers, from 1."""
    if not (text.isdecimal() and 0 < int(text) < 10_000):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of processes, such as 4")
    return int(text)


def add_engine_name(parser: Any) -> None:
    """Add the engine by its name, and the solver of the engine that has one."""
    parser.add_argument(
        "--engine",
        default="bab",
        metavar="E",
        help="search engine: bab (default), mip or first-order",
    )
    parser.add_argument(
        "--solver", metavar="S", help="MIP solver of --engine mip: highs (default), scip or gurobi"
    )


def add_gap(parser: Any, closed: str = "the interval counts as closed") -> None:
    parser.add_argument(
        "--gap",
        type=float,
        default=Options.relative_gap,
        metavar="G",
        help=f"relative gap at which {closed} (default: %(default)s)",
    )


def add_without(parser: argparse.ArgumentParser, whole: str, parts: str) -> None:
    parser.add_argument(
        "--without",
        action="append",
        metavar="PART",
        help=f"leave a part of {whole} out, for comparison; repeatable: {parts}",
    )


def add_common(parser: argparse.ArgumentParser, timeout: float | None = None) -> None:
    """Add timeout, input range, output files and seed."""
    add = parser.add_argument
    ends = "run until closed" if timeout is None else f"{timeout:g}"
    add(
        "--timeout",
        type=seconds,
        default=timeout,
        metavar="S",
        help=f"stop after S seconds, or a time such as 90s, 5m or 1h (default: {ends})",
    )
    add_input_range(parser)
    add(
        "--json",
        type=Path,
        metavar="FILE",
        help="write the result as JSON, witness included; - for the standard output",
    )
    add("--plot", type=Path, metavar="FILE", help="plot witness and bounds (.png, .pdf or .svg)")
    add_seed(parser)
    add_verbosity(parser)


def add_verbosity(parser: argparse.ArgumentParser) -> None:
    """Add how much is shown while a search runs."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument("-q", "--quiet", action="store_true", help="print the answer alone")
    group.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="print every change of the interval, and what the program logs",
    )


def verbosity(arguments: argparse.Namespace) -> int:
    """-1 for the answer alone, 1 for everything, 0 otherwise."""
    return int(arguments.verbose) - int(arguments.quiet)


def add_seed(parser: Any) -> None:
    parser.add_argument(
        "--seed",
        type=seed,
        default=Options.seed,
        metavar="N",
        help="random seed (default: %(default)s)",
    )


def add_input_range(parser: argparse.ArgumentParser, domain: bool = True) -> None:
    """Add the interval of every input entry and, with `domain`, which of these inputs count."""
    parser.add_argument(
        "--input-range",
        type=span,
        metavar="LO,HI",
        help="interval of every input entry (default: 0,1)",
    )
    if domain:
        parser.add_argument(
            "--domain",
            type=Path,
            metavar="FILE",
            help="the inputs that the question is about, if not all (TOML file; docs/domains.md)",
        )


def engine(arguments: argparse.Namespace) -> AbstractEngine:
    """Make the engine that the arguments name, with those of its options that were given."""
    from vhagar.search import engine_named

    given = {name: getattr(arguments, name, None) for name in ("solver", "formulation", "without")}
    own = {name: value for name, value in given.items() if value is not None}
    if "without" in own:
        own["without"] = tuple(own["without"])
    return engine_named(arguments.engine, **own)


def options(arguments: argparse.Namespace) -> Options:
    """Collect the options that all engines have in common."""
    return Options(
        relative_gap=getattr(arguments, "gap", Options.relative_gap),
        workers=getattr(arguments, "workers", None),
        seed=arguments.seed,
        dataset=getattr(arguments, "dataset", None),
        device=getattr(arguments, "device", Options.device),
        certificate=getattr(arguments, "certificate", None),
        checkpoint=getattr(arguments, "checkpoint", None),
        resume=getattr(arguments, "resume", None),
        executor=getattr(arguments, "executor", Options.executor),
        address=getattr(arguments, "address", None),
    )
