"""`vhagar sweep`: its arguments, and what they start."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vhagar.cli import arguments as types
from vhagar.errors import InvalidInput
from vhagar.options import Options

if TYPE_CHECKING:
    from vhagar.sweep.study import Study

HELP = "many problems at once, kept in a store: all pairs of classes, grids over the image"

DESCRIPTION = """\
Work on a whole study: networks x perturbations x source classes x target classes. Results are kept
in a store, an SQLite file, as they improve: nothing is lost when the program is killed, `--resume`
goes on with it, and several programs may work on one store at the same time.
"""

EPILOG = """\
examples:
  vhagar sweep study.toml --store study.db
  vhagar sweep --network model.onnx --perturbation "occlusion(14,14,5)" --all-pairs --timeout 5 \\
    --store pairs.db
  vhagar sweep --network model.onnx --grid "occlusion(7)" --source 2 --timeout 10 --store grid.db
  vhagar sweep --store study.db --resume --timeout 60
  vhagar report study.db -o report.html
"""

_GRID = re.compile(r"\s*(\w+)\((.*)\)\s*")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `vhagar sweep`."""
    parser.set_defaults(command=run)
    add = parser.add_argument
    add("study", type=Path, nargs="?", metavar="STUDY.toml", help="the study; or describe it below")
    add("--store", type=Path, required=True, metavar="FILE", help="where the results are kept")
    add("--resume", action="store_true", help="go on with a store, or work on it beside others")
    _add_questions(parser.add_argument_group("the study, instead of or on top of the file"))
    types.add_conventions(parser)
    _add_work(parser.add_argument_group("how to work on it"))


def _add_questions(group: Any) -> None:
    add = group.add_argument
    add("--network", action="append", metavar="MODEL", help="a model file; may be repeated")
    add("--perturbation", action="append", metavar="P", help="may be repeated")
    add(
        "--grid",
        action="append",
        type=_grid,
        metavar="G",
        help='one perturbation for every square: "occlusion(7)" for black squares of width 7 side '
        'by side, "occlusion(7,2)" for one every 2 pixels, "patch(0.5,7)" for squares whose '
        "pixels change by up to 0.5; may be repeated",
    )
    add("--source", type=types.labels, action="extend", metavar="C", help="default: every class")
    add("--target", type=types.labels, action="extend", metavar="T", help="a problem for each")
    add("--all-pairs", action="store_true", help="a problem for each pair of classes (default)")
    add("--untargeted", action="store_true", help="a problem for each source, all targets at once")
    add("--confidence", action="store_true", help="the maximal confidence of each source, too")
    add("--no-clip", action="store_true", help="let brightness and contrast leave the input range")
    add("--input-range", type=types.span, metavar="LO,HI", help="of every input entry (0,1)")
    add("--timeout", type=types.seconds, metavar="S", help="seconds for each problem")
    add("--total", type=types.seconds, metavar="S", help="seconds for all problems together")
    add("--name", metavar="TEXT", help="what the study is called")


def _add_work(group: Any) -> None:
    add = group.add_argument
    add("--jobs", type=int, metavar="N", help="problems at a time (default: one for each core)")
    add("--workers", type=int, default=1, metavar="N", help="processes on each problem (default 1)")
    add("--executor", default="local", metavar="E", help="local (default) or ray")
    add("--address", metavar="A", help="of a Ray cluster (default: a local one is started)")
    add("--gpus", type=float, default=0.0, metavar="N", help="GPUs for each problem, with Ray")
    add("--engine", default=Options.engine, metavar="E", help="search engine (%(default)s)")
    add("--solver", default=Options.solver, metavar="S", help="MIP solver (%(default)s)")
    add("--gap", type=float, default=Options.relative_gap, metavar="G", help="(%(default)s)")
    add("--seed", type=types.seed, default=Options.seed, metavar="N", help="(%(default)s)")
    add("--verbose", action="store_true", help="print every improvement, with all its digits")


def run(arguments: argparse.Namespace) -> int:
    """Work on the study; returns the exit code."""
    from vhagar.sweep.runner import run_sweep
    from vhagar.sweep.settings import Settings

    options = Options(
        engine=arguments.engine,
        solver=arguments.solver,
        relative_gap=arguments.gap,
        seed=arguments.seed,
    )
    settings = Settings(
        arguments.executor,
        arguments.jobs,
        arguments.workers,
        arguments.address,
        arguments.gpus,
        options,
    )
    study = described_study(arguments)
    store = run_sweep(
        study,
        arguments.store,
        resume=arguments.resume,
        settings=settings,
        watch=_open_watch(arguments.verbose),
    )
    store.close()
    print(f"for the report: vhagar report {arguments.store} -o report.html")
    return 0


def _open_watch(verbose: bool) -> Any:
    from vhagar.cli.screen import is_terminal

    if is_terminal() and not verbose:
        from vhagar.cli.sweep_live import LiveSweepWatch

        return LiveSweepWatch()
    from vhagar.cli.sweep_plain import PlainSweepWatch

    return PlainSweepWatch(verbose)


def described_study(arguments: argparse.Namespace) -> Study | None:
    """The study of the file and the flags; None where neither says anything: the store's own.

    Flags count more than the file, and the file more than the store.
    """
    from vhagar.sweep.study import Study, read_study

    values: dict[str, Any] = {}
    if arguments.study is not None:
        values = read_study(arguments.study).plain()
    elif arguments.resume and arguments.store.is_file():
        from vhagar.sweep.store import Store

        with Store(arguments.store) as store:
            values = store.study().plain()
    elif arguments.network is None:
        raise InvalidInput("give a STUDY.toml or --network, or --resume with a store that is there")
    return Study.from_plain({**values, **_flags(arguments)})


def _flags(arguments: argparse.Namespace) -> dict[str, Any]:
    """What the flags say, and nothing of what they leave open."""
    given = {
        "networks": arguments.network,
        "perturbations": arguments.perturbation,
        "grids": arguments.grid,
        "sources": arguments.source,
        "targets": _targets(arguments),
        "input_range": arguments.input_range,
        **types.conventions(arguments),
        "timeout": arguments.timeout,
        "total": arguments.total,
        "name": arguments.name,
        "confidence": arguments.confidence or None,
        "clip": False if arguments.no_clip else None,
    }
    return {name: value for name, value in given.items() if value is not None}


def _targets(arguments: argparse.Namespace) -> Any:
    chosen = [
        value
        for value in (
            arguments.target,
            "each" if arguments.all_pairs else None,
            "any" if arguments.untargeted else None,
        )
        if value is not None
    ]
    if len(chosen) > 1:
        raise InvalidInput("choose one of --target, --all-pairs and --untargeted")
    return chosen[0] if chosen else None


def _grid(text: str) -> dict[str, Any]:
    """`occlusion(width)` or `patch(limit,width)`, each perhaps with the step behind."""
    found = _GRID.fullmatch(text)
    try:
        kind, numbers = (found[1], found[2].split(",")) if found else ("", [])
        grid: dict[str, Any] = {"kind": kind}
        if kind == "patch":
            grid["limit"] = float(numbers.pop(0))
        grid["size"], *step = (int(number) for number in numbers)
        if step:
            (grid["step"],) = step
    except ValueError:
        kind = ""
    if kind not in ("occlusion", "patch"):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no grid; write occlusion(7), occlusion(7,2), patch(1,7) or patch(1,7,2)"
        )
    return grid
