"""The paper's figures on the bundled networks: run, split, draw. See docs/figures.md.

    python bench/figures.py run examples/ --out bench/results/figures.csv
    python bench/figures.py split examples/ --out bench/results/time_split.csv
    python bench/figures.py draw examples/ --results bench/results --out docs/figures

`run` is for the figures about one problem, `split` for those about where the time goes; the class
pairs and the image come from `vhagar sweep`, as tables that `vhagar report --figures` writes. What
is in a file already is not run again. `draw` runs nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from figure_data import facts_of, read_splits, read_study, stages, write_splits
from figure_drawing import draw_pairs, draw_spatial, draw_stages
from paper import Bench, Job, run_all
from paper_figures import approaches, draw_approaches, draw_split
from paper_records import RecordFile
from paper_rows import PaperRow, network_file
from profiling import profiled
from records import Store
from suite import Suite

from vhagar.errors import InvalidInput, VhagarError
from vhagar.report.study.data import NetworkFacts
from vhagar.result.serialize import check_writable

# A network, a perturbation, and a pair of classes.
Question = tuple[str, str, tuple[int, int]]
# One problem for all approaches, and one for the stages of the paper's method.
ALL_APPROACHES: Question = ("mnist_3x10", "occlusion(14,14,3)", (2, 3))
APPROACHES = ("vhagar", "mip", "plain-mip", "marabou", "dataset", "random")
STAGES_OF: Question = ("mnist_3x10", "occlusion(14,14,3)", (2, 3))
STAGES = ("plain-mip", "mip-dependencies", "mip")
# Where the time goes is looked at on these, from class 2 to class 3.
SPLIT_PROBLEMS = (
    ("mnist_3x10", "occlusion(14,14,5)"),
    ("mnist_3x10", "linf(0.05)"),
    ("mnist_3x50_pgd", "occlusion(14,14,3)"),
    ("mnist_conv1", "occlusion(14,14,3)"),
    ("mnist_conv1", "patch([0,1],14,14,3)"),
)
# What the stages are called, as in the paper's figure.
STAGE_NAMES = dict(
    zip(STAGES, ("(a) MIP", "(b) with dependencies", "(c) with bound and hints"), strict=True)
)
SPLIT_PAIR = (2, 3)
SPLIT_ENGINES = {"bab": "vhagar", "mip": "mip"}
SPATIAL_TARGETS = (None, 1, 2, 3)


def run(arguments: argparse.Namespace) -> None:
    """The runs of the figures about one problem."""
    check_writable(arguments.out)
    networks = arguments.networks
    # For the maximal confidences alone, which are kept beside the results.
    store = Store(arguments.out.with_suffix(".runs.csv"))
    wanted = [(ALL_APPROACHES, method) for method in APPROACHES]
    wanted += [(STAGES_OF, method) for method in STAGES]
    methods = arguments.methods.split(",") if arguments.methods else None
    jobs = []
    for (network, perturbation, pair), method in dict.fromkeys(wanted):
        if methods is None or method in methods:
            row = PaperRow(network, perturbation, {})
            jobs.append(Job(row, _model(networks, network), pair, method))
    if not jobs:
        raise InvalidInput(f"there is no method {arguments.methods}; see APPROACHES and STAGES")
    suite = Suite(networks, arguments.timeout, arguments.workers, 0, 60.0, store)
    bench = Bench(suite, networks, clip=False, samples=arguments.samples)
    run_all(bench, jobs, RecordFile(arguments.out), float("inf"))


def split(arguments: argparse.Namespace) -> None:
    """Profiled runs: where the time of both engines goes."""
    check_writable(arguments.out)
    found = read_splits(arguments.out) if arguments.out.exists() else {}
    for network, perturbation in SPLIT_PROBLEMS:
        model = _model(arguments.networks, network)
        for engine in SPLIT_ENGINES:
            known = found.setdefault(engine, [])
            if any(one.name == f"{network} {perturbation}" for one in known):
                continue
            known.append(profiled(model, perturbation, SPLIT_PAIR, engine, arguments.timeout))
            write_splits(arguments.out, found)
            print(engine, known[-1], flush=True)


def draw(arguments: argparse.Namespace) -> None:
    """All figures, from what is in the results."""
    results, out = arguments.results, arguments.out
    records = RecordFile(results / "figures.csv").records()
    row, pair, title = _words(ALL_APPROACHES)
    chosen = [one for name in APPROACHES for one in records if one.method == name]
    largest = max(one.maximum_upper for one in chosen)
    bars = approaches(chosen, row, pair)
    draw_approaches(bars, title, out / "all_approaches.png", largest)
    row, pair, title = _words(STAGES_OF)
    draw_stages(stages(records, row, pair, STAGE_NAMES), title, out / "stages.png")
    for engine, splits in read_splits(results / "time_split.csv").items():
        title = f"where the time goes: {SPLIT_ENGINES[engine]}"
        draw_split(splits, title, out / f"time_split_{engine}.png")

    def facts(name: str) -> NetworkFacts:
        return facts_of(_model(arguments.networks, name))

    study = read_study(results / "pairs.csv", facts, unclipped="brightness")
    draw_pairs(study, "upper", out / "pairs.png")
    study = read_study(results / "spatial.csv", facts)
    draw_spatial(study, "upper", SPATIAL_TARGETS, out / "spatial.png")


def _words(question: Question) -> tuple[str, tuple[int, int], str]:
    """The row, the pair of classes, and a title."""
    network, perturbation, pair = question
    row = f"{network} {perturbation}"
    return row, pair, f"{row}, class {pair[0]} to {pair[1]}"


def _model(folder: Path, network: str) -> Path:
    found = network_file(folder, network)
    if found is None:
        raise InvalidInput(f"{folder} has no network {network}.onnx")
    return found


def parser() -> argparse.ArgumentParser:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = arguments.add_subparsers(dest="command", required=True)
    for name, action, about in (
        ("run", run, "the bounds of all approaches and stages"),
        ("split", split, "where the time of the engines goes"),
        ("draw", draw, "all figures, from the files of results"),
    ):
        command = commands.add_parser(name, help=about)
        command.set_defaults(action=action)
        command.add_argument("networks", type=Path, help="folder with the bundled ONNX files")
        command.add_argument("--out", type=Path, required=True, help="file, or folder of figures")
        if name != "draw":
            command.add_argument("--timeout", type=float, default=60.0, help="for each run")
        if name == "run":
            command.add_argument("--methods", help="some of them, such as vhagar,dataset")
            command.add_argument("--workers", type=int, default=os.cpu_count() or 1)
            command.add_argument("--samples", type=int, default=70_000, help="of random sampling")
        if name == "draw":
            command.add_argument("--results", type=Path, required=True, help="folder of results")
    return arguments


def main(given: Sequence[str] | None = None) -> int:
    arguments = parser().parse_args(given)
    try:
        arguments.action(arguments)
    except VhagarError as error:
        print(f"figures.py: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("# interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
