"""The command `vhagar sweep`."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vhagar.cli import gate, groups, parsed, types
from vhagar.cli.conventions import add_conventions, conventions_of
from vhagar.errors import InvalidInput

if TYPE_CHECKING:
    from vhagar.sweep.study import Study

HELP = "run many problems and keep the results: all pairs of classes, grids over the image"

DESCRIPTION = """\
Run a whole study: networks x perturbations x source classes x target classes. Results are saved in
a store, an SQLite file, as soon as they improve: nothing is lost when the program is killed,
`--resume` continues the study, and several processes may work on one store at the same time.
Inputs that are more confident than a problem's upper bound are proven robust. (Confidence is the
margin between the score of the input's class and the next highest score.)
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
    parser.set_defaults(command=run)
    add = parser.add_argument
    add("study", type=Path, nargs="?", metavar="STUDY.toml", help="study file (or use the options)")
    add("--store", type=Path, required=True, metavar="FILE", help="SQLite file for the results")
    add("--resume", action="store_true", help="continue an existing store, or join others on it")
    add_questions(parser.add_argument_group("the study, instead of or overriding the file"))
    add_conventions(parser)
    _add_work(parser.add_argument_group("how to run it"))
    gate.add_gate(parser, '"upper<=5" or "closed", of each problem; "coverage>=0.6", of a data set')


def add_questions(group: Any, network: bool = True) -> None:
    """Add what a study asks, with or without the networks that it asks about."""
    add = group.add_argument
    if network:
        add("--network", action="append", metavar="MODEL", help="model file; repeatable")
    add("--perturbation", action="append", metavar="P", help="perturbation; repeatable")
    add(
        "--grid",
        action="append",
        type=_grid,
        metavar="G",
        help='one perturbation per square of a grid: "occlusion(7)" for adjacent black squares of '
        'width 7, "occlusion(7,2)" for one every 2 pixels, "patch(0.5,7)" for squares whose '
        "pixels change by up to 0.5; repeatable",
    )
    add(
        "--source",
        type=types.named_labels,
        action="extend",
        metavar="C",
        help="source class; repeatable or comma-separated (default: every class)",
    )
    add(
        "--target",
        type=types.named_labels,
        action="extend",
        metavar="T",
        help="target class, one problem for each; repeatable or comma-separated",
    )
    add("--all-pairs", action="store_true", help="one problem per pair of classes (default)")
    add("--untargeted", action="store_true", help="one problem per source, all targets at once")
    add("--confidence", action="store_true", help="also find each source's maximal confidence")
    add("--no-clip", action="store_true", help="let brightness and contrast leave the input range")
    groups.add_input_range(group, domain=False)
    add("--domain", metavar="FILE", help="the inputs that all questions are about (TOML file)")
    add("--timeout", type=types.seconds, metavar="S", help="seconds for each problem")
    add("--total", type=types.seconds, metavar="S", help="seconds for all problems together")
    add(
        "--dataset",
        metavar="FILE",
        help="inputs (.npz, .csv or a folder of images); in the end, count those proven robust",
    )
    add("--name", metavar="TEXT", help="name of the study (default: the file's name)")


def _add_work(group: Any) -> None:
    add = group.add_argument
    groups.add_jobs(group)
    groups.add_executor(group)
    add("--gpus", type=types.number, default=0.0, metavar="N", help="GPUs per problem, with Ray")
    add(
        "--certificates",
        type=Path,
        metavar="FOLDER",
        help="write a proof of each problem for `vhagar check` and `vhagar guard`",
    )
    groups.add_engine_name(group)
    groups.add_gap(group, "an interval counts as closed")
    groups.add_seed(group)
    add("--verbose", action="store_true", help="print every improvement, with all digits")


def run(arguments: argparse.Namespace) -> int:
    """Run the study and return the exit code."""
    from vhagar.cli.files import check_files
    from vhagar.result.requirement import OF_RESULTS
    from vhagar.sweep.gate import judged_store, shown_perturbations
    from vhagar.sweep.runner import run_sweep
    from vhagar.sweep.settings import Settings

    settings = Settings(
        executor=arguments.executor,
        jobs=arguments.jobs,
        workers=arguments.workers,
        address=arguments.address,
        gpus=arguments.gpus,
        engine=parsed.engine(arguments),
        relative_gap=arguments.gap,
        seed=arguments.seed,
        certificates=arguments.certificates,
    )
    study = described_study(arguments)
    dataset = None if study is None else study.dataset
    if study is not None:  # whose files only the store may name
        check_files(arguments, networks=study.networks, dataset=dataset, domain=study.domain)
    requirements = gate.requirements(arguments, OF_RESULTS, dataset)
    store = run_sweep(
        study,
        arguments.store,
        resume=arguments.resume,
        settings=settings,
        watch=open_watch(arguments.verbose),
    )
    found, judged = store.coverage(), judged_store(store, requirements)
    names = {row["fingerprint"]: row["name"] for row in store.rows("networks")}
    shown = shown_perturbations(store)
    store.close()
    for line in () if found is None else found.lines(names, shown):
        print(line)
    print(f"write the report with: vhagar report {arguments.store} -o report.html")
    return gate.conclude(judged, arguments)


def open_watch(verbose: bool) -> Any:
    from vhagar.cli.screen import is_terminal

    if is_terminal() and not verbose:
        from vhagar.cli.sweep_live import LiveSweepWatch

        return LiveSweepWatch()
    from vhagar.cli.sweep_plain import PlainSweepWatch

    return PlainSweepWatch(verbose)


def described_study(arguments: argparse.Namespace) -> Study | None:
    """Return the study that file and flags describe; None means the store's own.

    Flags override the file, and the file overrides the store.
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
        raise InvalidInput("give a STUDY.toml or --network, or --resume with an existing store")
    return Study.from_plain({**values, **flags(arguments)})


def flags(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the study's fields that were given as flags."""
    given = {
        "networks": arguments.network,
        "perturbations": arguments.perturbation,
        "grids": arguments.grid,
        "sources": arguments.source,
        "targets": _targets(arguments),
        "input_range": arguments.input_range,
        "domain": arguments.domain,
        **conventions_of(arguments),
        "timeout": arguments.timeout,
        "total": arguments.total,
        "dataset": arguments.dataset,
        "name": arguments.name,
        "confidence": arguments.confidence or None,
        "clip": False if arguments.no_clip else None,
    }
    return {name: value for name, value in given.items() if value is not None}


def _targets(arguments: argparse.Namespace) -> Any:
    chosen = [] if arguments.target is None else [arguments.target]
    chosen += ["each"] * arguments.all_pairs + ["any"] * arguments.untargeted
    if len(chosen) > 1:
        raise InvalidInput("choose one of --target, --all-pairs and --untargeted")
    return chosen[0] if chosen else None


def _grid(text: str) -> dict[str, Any]:
    """Read `occlusion(width)` or `patch(limit,width)`, with an optional step at the end."""
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
            f"{text!r} is not a grid; write occlusion(7), occlusion(7,2), patch(1,7) or "
            "patch(1,7,2)"
        )
    return grid
