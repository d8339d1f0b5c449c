"""Command-line arguments as values. Light: it is imported before anything is known to be needed."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vhagar.options import DEVICES, MIP_PARTS, Options

if TYPE_CHECKING:
    from vhagar.problem import Problem

# Their values may begin with a minus sign, which argparse would take for an option.
SIGNED = ("--input-range", "--mean")
# What the options of `add_conventions` are called.
CONVENTIONS = ("layout", "image_shape", "mean", "std")


def labels(text: str) -> list[int]:
    """`3` or `3,5`."""
    try:
        return [int(label) for label in text.split(",")]
    except ValueError:
        message = f"{text!r} is not a class or several separated by commas, such as 3 or 3,5"
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
        message = f"{text!r} is not a number, or several separated by commas"
        raise argparse.ArgumentTypeError(message) from None


def add_conventions(parser: argparse.ArgumentParser) -> None:
    """How the model takes an image; without any of them, as (channels, rows, columns)."""
    add = parser.add_argument_group("how the model takes its input").add_argument
    add("--layout", choices=("chw", "hwc"), help="its channels are first (default) or last")
    add(
        "--image-shape",
        type=sizes,
        metavar="C,H,W",
        help="the image that a flat input is: channels, rows, columns; or rows, columns",
    )
    add(
        "--mean",
        type=numbers,
        metavar="M",
        help="subtracted from the input before the model: one number, or one for each channel",
    )
    add("--std", type=numbers, metavar="S", help="what the input is divided by after that")


def conventions(arguments: argparse.Namespace) -> dict[str, Any]:
    """Those of the options above that were given, as `read_onnx` takes them."""
    given = {name: getattr(arguments, name) for name in CONVENTIONS}
    return {name: value for name, value in given.items() if value is not None}


def problem(arguments: argparse.Namespace) -> Problem:
    """The question that a command's arguments ask."""
    from vhagar.network import read_onnx
    from vhagar.perturbation.loading import named
    from vhagar.problem import Problem

    return Problem(
        read_onnx(arguments.model, **conventions(arguments)),
        named(arguments.perturbation),
        arguments.source,
        arguments.target,
        arguments.clip,
        arguments.input_range,
    )


def seconds(text: str) -> float:
    """A length of time."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not value >= 0:  # NaN is no time either
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, such as 60")
    return value


def seed(text: str) -> int:
    """A seed of random numbers."""
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
    """The model file, and how it takes its input."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="a ReLU classifier, as ONNX file")
    add_conventions(parser)


def add_question(parser: argparse.ArgumentParser) -> None:
    """Perturbation and classes, and what attacks start from."""
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
        type=labels,
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


def add_engine(parser: argparse.ArgumentParser) -> None:
    """The engine and its options."""
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
    add_without(parser, "--engine mip", ", ".join(MIP_PARTS))
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


def add_without(parser: argparse.ArgumentParser, whole: str, parts: str) -> None:
    parser.add_argument(
        "--without",
        action="append",
        metavar="PART",
        help=f"leave a part out of {whole}, for comparison: {parts}",
    )


def add_common(parser: argparse.ArgumentParser, timeout: float | None = None) -> None:
    """Time, files and the seed."""
    add = parser.add_argument
    ends = "when closed" if timeout is None else f"{timeout:g}"
    add(
        "--timeout",
        type=seconds,
        default=timeout,
        metavar="S",
        help=f"stop after S seconds (default: {ends})",
    )
    add_input_range(parser)
    add("--json", type=Path, metavar="FILE", help="write the whole result, witness included")
    add("--plot", type=Path, metavar="FILE", help="draw witness and bounds (.png, .pdf or .svg)")
    add(
        "--seed",
        type=seed,
        default=Options.seed,
        metavar="N",
        help="seed of everything random (default: %(default)s)",
    )


def add_input_range(parser: argparse.ArgumentParser) -> None:
    """The interval of every input entry."""
    parser.add_argument(
        "--input-range",
        type=span,
        default=(0.0, 1.0),
        metavar="LO,HI",
        help="the interval of every input entry (default: 0,1)",
    )


def search_options(arguments: argparse.Namespace) -> Options:
    """The options that a command's arguments set."""
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
