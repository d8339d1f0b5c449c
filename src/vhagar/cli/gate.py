"""Requirements on the command line: `--require`, `--junit`, and the exit code."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vhagar.errors import InvalidInput

if TYPE_CHECKING:
    from vhagar.result.requirement import Judged, Requirement

EXIT_MET, EXIT_VIOLATED, EXIT_UNDECIDED = 0, 3, 4


def add_gate(parser: Any, forms: str) -> None:
    """Add `--require` and `--junit`; `forms` are what can be demanded."""
    parser.add_argument(
        "--require",
        action="append",
        default=[],
        metavar="R",
        help=f"{forms}; repeatable. Exit code 3 if a requirement is violated, 4 if one is "
        "undecided",
    )
    parser.add_argument(
        "--junit", type=Path, metavar="FILE", help="write the outcome of requirements as JUnit XML"
    )


def requirements(
    arguments: argparse.Namespace, quantities: Sequence[str], dataset: object = None
) -> list[Requirement]:
    """What is demanded; an error where that makes no sense, such as coverage without data."""
    from vhagar.result.requirement import parse_requirement
    from vhagar.runtime.output_files import check_writable

    found = [parse_requirement(text, quantities) for text in arguments.require]
    if dataset is None and any(each.quantity == "coverage" for each in found):
        raise InvalidInput("coverage is the share of a data set; give it with --dataset")
    if arguments.junit is not None:
        if not found:
            raise InvalidInput("--junit writes what becomes of requirements: give some (--require)")
        check_writable(arguments.junit)
    return found


def conclude(judged: Sequence[Judged], arguments: argparse.Namespace, show: bool = True) -> int:
    """Write and show the judgements, and return the exit code that they amount to."""
    if arguments.junit is not None:
        from vhagar.result.junit import junit_xml
        from vhagar.runtime.output_files import write_bytes

        write_bytes(arguments.junit, junit_xml(judged))
    for each in judged if show else ():
        print(f"required: {each.subject}: {each.words}")
    return exit_code(judged)


def exit_code(judged: Sequence[Judged]) -> int:
    """The exit code that judgements amount to."""
    from vhagar.result.requirement import Judgement

    found = [each.judgement for each in judged]
    if Judgement.VIOLATED in found:
        return EXIT_VIOLATED
    return EXIT_UNDECIDED if Judgement.UNDECIDED in found else EXIT_MET
