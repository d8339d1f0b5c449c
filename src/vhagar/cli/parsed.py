"""What the parsed arguments of a command describe: the problem, the engine and its options."""

from __future__ import annotations

import argparse
from dataclasses import fields
from typing import TYPE_CHECKING

from vhagar.cli.conventions import conventions_of
from vhagar.options import Options

if TYPE_CHECKING:
    from vhagar.engine import AbstractEngine
    from vhagar.problem import Problem


def problem(arguments: argparse.Namespace) -> Problem:
    """Build the problem that the arguments describe."""
    from vhagar.network import read_onnx
    from vhagar.perturbation.loading import named
    from vhagar.problem import Problem

    return Problem(
        read_onnx(arguments.model, **conventions_of(arguments)),
        perturbation=named(arguments.perturbation),
        source=arguments.source,
        targets=arguments.target,
        clip=arguments.clip,
        input_range=arguments.input_range,
        domain=arguments.domain,
    )


def verbosity(arguments: argparse.Namespace) -> int:
    """-1 for the answer alone, 1 for everything, 0 otherwise."""
    return int(arguments.verbose) - int(arguments.quiet)


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
    given = vars(arguments)
    own = {field.name: given[field.name] for field in fields(Options) if field.name in given}
    return Options(relative_gap=given.get("gap", Options.relative_gap), **own)
