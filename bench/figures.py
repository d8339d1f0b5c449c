"""The paper's figures on the bundled networks: run, split, draw. See docs/figures.md.

    python bench/figures.py run examples/ --out bench/results/figures.csv
    python bench/figures.py watch examples/ --out bench/results/stages.csv --timeout 300
    python bench/figures.py split examples/ --out bench/results/time_split.csv
    python bench/figures.py draw examples/ --results bench/results --out docs/figures

`run` is for the bounds of all approaches, `watch` for the stages of the paper's method, `split` for
where the time goes; the class pairs and the image come from `vhagar sweep`, as tables that `vhagar
report --figures` writes. What is in a file already is not run again. `draw` runs nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from figure_data import (
    facts_of,
    read_splits,
    read_stages,
    read_study,
    write_splits,
    write_stages,
)
from figure_drawing import draw_pairs, draw_spatial, draw_stages
from paper import Bench, Job, run_all
from paper_figures import approaches, draw_approaches, draw_split
from paper_records import RecordFile
from paper_rows import PaperRow, network_file
from profiling import profiled, watched
from records import Store
from script import in_words
from suite import MIP_DEPENDENCIES, MIPS_WITHOUT, PLAIN_MIP, Suite

from vhagar import Problem, read_onnx
from vhagar.errors import InvalidInput
from vhagar.report.data import NetworkFacts
from vhagar.runtime.cores import available_cores
from vhagar.runtime.output_files import check_writable
from vhagar.search.mip.engine import Mip

# A network, a perturbation, and a pair of classes.
Question = tuple[str, str, tuple[int, int]]
# One problem for all approaches, and one for the stages of the paper's method.
ALL_APPROACHES: Question = ("mnist_3x10", "occlusion(14,14,3)", (2, 3))
APPROACHES = ("vhagar", "plain-mip", "marabou", "dataset", "random")
STAGES_OF: Question = ("mnist_3x10", "occlusion(14,14,3)", (2, 3))
# The variants of the paper's method, by what each leaves out, in the order of its figure.
STAGES = {
    "(a) MIP": MIPS_WITHOUT[PLAIN_MIP],
    "(b) with dependencies": MIPS_WITHOUT[MIP_DEPENDENCIES],
    "(c) with bound and hints": (),
}
# Where the time goes is looked at on these, from class 2 to class 3.
SPLIT_PROBLEMS = (
    ("mnist_3x10", "occlusion(14,14,5)"),
    ("mnist_conv1", "occlusion(14,14,3)"),
    ("mnist_3x50_pgd", "occlusion(14,14,3)"),
)
SPLIT_PAIR = (2, 3)
SPLIT_ENGINES = {"bab": "vhagar", "mip": "mip"}
# Any target and the paper's three, as far as they were asked for, and the one that was.
SPATIAL_TARGETS = (None, 1, 2, 3, 6)


def run(arguments: argparse.Namespace) -> None:
    """The runs of the figures about one problem."""
    check_writable(arguments.out)
    networks = arguments.networks
    # For the maximal confidences alone, which are kept beside the results.
    store = Store(arguments.out.with_suffix(".runs.csv"))
    methods = arguments.methods.split(",") if arguments.methods else APPROACHES
    unknown = [method for method in methods if method not in APPROACHES]
    if unknown:
        raise InvalidInput(f"there is no method {unknown[0]}; choose from {', '.join(APPROACHES)}")
    network, perturbation, pair = ALL_APPROACHES
    row, model = PaperRow(network, perturbation, {}), _model(networks, network)
    jobs = [Job(row, model, pair, method) for method in methods]
    suite = Suite(networks, arguments.timeout, arguments.workers, 0, 60.0, store)
    bench = Bench(suite, networks, clip=False, samples=arguments.samples)
    run_all(bench, jobs, RecordFile(arguments.out), float("inf"))


def watch(arguments: argparse.Namespace) -> None:
    """The bounds of the stages of the paper's method over time."""
    check_writable(arguments.out)
    found = read_stages(arguments.out) if arguments.out.exists() else []
    network, perturbation, pair = STAGES_OF
    problem = Problem(
        read_onnx(_model(arguments.networks, network)),
        perturbation=perturbation,
        source=pair[0],
        targets=pair[1],
    )
    for name, without in STAGES.items():
        if any(stage.name == name for stage in found):
            continue
        engine = Mip(without=without)
        found.append(watched(problem, name, engine, arguments.timeout))
        write_stages(arguments.out, found)
        print(name, found[-1].moments[-1], flush=True)


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
    table = results / "figures.csv"
    records = RecordFile(table).records()
    row, pair, title = _words(ALL_APPROACHES)
    chosen = [one for name in APPROACHES for one in records if one.method == name]
    if not chosen:
        raise InvalidInput(
            f"there is no run to draw in {table}; docs/figures.md says how to make it"
        )
    largest = max(one.maximum_upper for one in chosen)
    bars = approaches(chosen, row, pair)
    draw_approaches(bars, title, out / "all_approaches.png", largest)
    *_, title = _words(STAGES_OF)
    draw_stages(read_stages(results / "stages.csv"), title, out / "stages.png")
    for engine, splits in read_splits(results / "time_split.csv").items():
        title = f"where the time goes: {SPLIT_ENGINES[engine]}"
        draw_split(splits, title, out / f"time_split_{engine}.png")

    def facts(name: str) -> NetworkFacts:
        return facts_of(_model(arguments.networks, name))

    study = read_study(results / "pairs.csv", facts, unclipped="brightness")
    draw_pairs(study, "upper", out / "pairs.png")
    study = read_study(results / "spatial.csv", facts)
    draw_spatial(study, ("lower", "upper"), SPATIAL_TARGETS, out / "spatial.png")


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
        ("run", run, "the bounds of all approaches"),
        ("watch", watch, "the bounds of the paper's method over time, in three stages"),
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
            command.add_argument("--workers", type=int, default=available_cores())
            command.add_argument("--samples", type=int, default=70_000, help="of random sampling")
        if name == "draw":
            command.add_argument("--results", type=Path, required=True, help="folder of results")
    return arguments


@in_words
def main(given: Sequence[str] | None = None) -> int:
    arguments = parser().parse_args(given)
    try:
        arguments.action(arguments)
    except KeyboardInterrupt:
        print("# interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
