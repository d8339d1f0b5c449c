"""The options that several commands have in common, in groups.

Imports stay light, so that `--help` is instant.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from vhagar.cli.types import label, named_labels, number, seconds, seed, span, whole, workers
from vhagar.options import DEVICES, EXECUTORS, FORMULATIONS, MIP_PARTS, Options

# Options whose values may begin with a minus sign, which argparse would take for an option.
SIGNED = ("--input-range", "--mean", "--threshold")
# What these options may be; the tables of engines and solvers take a while to import.
NAMES = {
    "--engine": ("bab", "mip", "first-order"),
    "--solver": ("highs", "scip", "gurobi"),
    "--formulation": FORMULATIONS,
    "--executor": EXECUTORS,
}
# Titles of groups of options.
QUESTION, DATA, SEARCH, OUTPUT = "question", "data and requirements", "search", "output"
ENGINES = "engines, for comparison"


def section(parser: argparse.ArgumentParser, title: str) -> Any:
    """The group of options with this title, which is made when it is first asked for."""
    for group in parser._action_groups:
        if group.title == title:
            return group
    return parser.add_argument_group(title)


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the model file."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="ReLU classifier (ONNX file)")


def add_question(parser: argparse.ArgumentParser, listed: bool = False) -> None:
    """Add perturbation, classes, inputs, dataset and device; `listed` as for `add_classes`."""
    add_classes(parser, listed=listed)
    add_input_range(section(parser, QUESTION))
    section(parser, DATA).add_argument(
        "--dataset",
        type=Path,
        metavar="FILE",
        help="inputs (.npz, .csv or a folder of images): how many are proven robust? Attacks "
        "start from them, too",
    )
    section(parser, SEARCH).add_argument(
        "--device",
        default=Options.device,
        choices=DEVICES,
        help="where attacks and first-order steps run; auto (default) uses a GPU if there is one",
    )


def add_classes(parser: argparse.ArgumentParser, local: bool = False, listed: bool = False) -> None:
    """Add perturbation and classes; for one image (`local`) they are optional.

    `listed`: the help of this command ends with all perturbations.
    """
    add = section(parser, QUESTION).add_argument
    add(
        "--perturbation",
        required=not local,
        metavar="P",
        help="for example linf(0.05); see " + ("below" if listed else "vhagar verify --help"),
    )
    whose = "class of the image (default: as the network classifies it)" if local else ""
    add(
        "--source",
        required=not local,
        type=label,
        metavar="C",
        help=whose or "source class: the class of the unperturbed inputs (number, or name)",
    )
    add(
        "--target",
        type=named_labels,
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
    """Add the certificate, checkpoints, the gap, workers, the engine and its options."""
    section(parser, OUTPUT).add_argument(
        "--certificate",
        type=Path,
        metavar="FILE",
        help="write a proof of the interval, for `vhagar check`",
    )
    search = section(parser, SEARCH)
    add_gap(search)
    add_workers(search)
    search.add_argument(
        "--checkpoint",
        type=Path,
        metavar="FILE",
        help="save the search to FILE regularly, for --resume",
    )
    search.add_argument(
        "--resume",
        type=Path,
        metavar="FILE",
        help="continue from the checkpoint FILE of the same question, and keep it up to date",
    )
    engines = section(parser, ENGINES)
    add_engine_name(engines)
    engines.add_argument(
        "--formulation",
        metavar="F",
        help="how --engine mip formulates a ReLU: bigm (default) or lambda",
    )
    add_without(engines, "--engine mip", ", ".join(MIP_PARTS))


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
        type=number,
        default=Options.relative_gap,
        metavar="G",
        help=f"relative gap at which {closed} (default: %(default)s)",
    )


def add_without(parser: Any, whole: str, parts: str) -> None:
    parser.add_argument(
        "--without",
        action="append",
        metavar="PART",
        help=f"leave out a part of {whole}; repeatable: {parts}",
    )


def add_common(parser: argparse.ArgumentParser, timeout: float | None = None) -> None:
    """Add timeout, seed and output."""
    ends = "run until closed" if timeout is None else f"{timeout:g}"
    search, output = section(parser, SEARCH), section(parser, OUTPUT)
    add_timeout(search, timeout, f" (default: {ends})")
    add_seed(search)
    add_outputs(output, "witness and bounds")
    add_verbosity(output)


def add_timeout(parser: Any, timeout: float | None = None, default: str = "") -> None:
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=timeout,
        metavar="S",
        help=f"stop after S seconds, or a time such as 90s, 5m or 1h{default}",
    )


def add_outputs(parser: Any, drawn: str) -> None:
    """Add the files for the result and its plot."""
    add = parser.add_argument
    add(
        "--json",
        type=Path,
        metavar="FILE",
        help="write the result as JSON, witness included; - for the standard output",
    )
    add("--plot", type=Path, metavar="FILE", help=f"plot {drawn} (.png, .pdf or .svg)")


def add_index(parser: Any) -> None:
    """Add which input of a file is meant."""
    parser.add_argument(
        "--index",
        type=whole,
        metavar="N",
        help="index of the input in the file, from 0; of x_train and x_test in the test set",
    )


def add_verbosity(parser: Any) -> None:
    """Add how much is shown while a search runs."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "-q",
        "--quiet",
        action="store_true",
        help="print only the answer, coverage and the outcome of requirements",
    )
    group.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="print every change of the interval, and what the program logs",
    )


def add_seed(parser: Any) -> None:
    parser.add_argument(
        "--seed",
        type=seed,
        default=Options.seed,
        metavar="N",
        help="random seed (default: %(default)s)",
    )


def add_jobs(parser: Any) -> None:
    """Add how many problems there are at a time, and how many processes each has."""
    add = parser.add_argument
    add("--jobs", type=whole, metavar="N", help="problems at a time (default: one per core)")
    add("--workers", type=whole, default=1, metavar="N", help="processes per problem (default: 1)")


def add_input_range(parser: Any, domain: bool = True) -> None:
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
            help="the inputs that the question is about, if not all (TOML file; see vhagar domain)",
        )
