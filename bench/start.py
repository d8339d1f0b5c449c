"""Wall times of small problems from the shell, side by side with another source tree.

    python bench/start.py --other ../before/src --repeat 5

Every run is a fresh interpreter, as a user starts it; the trees take turns, so that what else the
machine does is shared fairly. Shown are medians of the wall time and, in brackets, of the processor
time of the process and all that it started: on a busy machine only the latter says much. The
network is that of `examples/`, unless `--network` names another with the same input.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from script import in_words

ROOT = Path(__file__).resolve().parents[1]
NETWORK = ROOT / "examples" / "mnist_3x10.onnx"
DATA = ROOT / "examples" / "mnist_images.npz"
# Wall time and processor time, in seconds.
Times = tuple[float, float]
# What is run: the arguments of `vhagar`, with files in place of MODEL, DATA and PLOT.
CASES: dict[str, tuple[str, ...]] = {
    "--help": ("--help",),
    "--version": ("--version",),
    "inspect": ("inspect", "MODEL"),
    "brightness([0,0.1]) unclipped": (
        "verify", "MODEL", "--perturbation", "brightness([0,0.1])", "--no-clip",
        "--source", "0", "--target", "1",
    ),
    "occlusion(14,14,5)": (
        "verify", "MODEL", "--perturbation", "occlusion(14,14,5)", "--source", "2", "--target", "3",
    ),
    "README's first example": (
        "verify", "MODEL", "--perturbation", "occlusion(14,14,5)", "--source", "2", "--target", "3",
        "--dataset", "DATA", "--timeout", "40", "--plot", "PLOT",
    ),
    "linf(0.01), any target": (
        "verify", "MODEL", "--perturbation", "linf(0.01)", "--source", "2",
    ),
    "maximal confidence": ("confidence", "MODEL", "--class", "2"),
}  # fmt: skip


def seconds(arguments: Sequence[str], source: Path, limit: float, compiled: Path) -> Times:
    """How long one command takes, by the clock and of processors; infinite beyond the limit.

    Like an installed package, the tree is compiled once, into the folder `compiled`.
    """
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONPYCACHEPREFIX": str(compiled)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "vhagar", *arguments]
    begun, before = time.monotonic(), _of_children()
    try:
        subprocess.run(command, env=environment, timeout=limit, check=True, capture_output=True)
    except subprocess.TimeoutExpired:
        return float("inf"), float("inf")
    return time.monotonic() - begun, _of_children() - before


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(
    trees: dict[str, Path],
    cases: dict[str, tuple[str, ...]],
    network: Path,
    repeat: int,
    limit: float,
    scratch: Path,
) -> dict[str, dict[str, Times]]:
    """The median times of each case and tree; the first run, which compiles, does not count."""
    found: dict[str, dict[str, Times]] = {}
    files = {"MODEL": network, "DATA": DATA, "PLOT": scratch / "witness.png"}
    for case, words in cases.items():
        arguments = [str(files.get(word, word)) for word in words]
        times: dict[str, list[Times]] = {tree: [] for tree in trees}
        for k in range(repeat + 1):
            for tree, source in trees.items():
                taken = seconds(arguments, source, limit, scratch)
                if k:
                    times[tree].append(taken)
        found[case] = {
            tree: (median(wall for wall, _ in taken), median(used for _, used in taken))
            for tree, taken in times.items()
        }
    return found


def table(found: dict[str, dict[str, Times]]) -> str:
    """The medians as a Markdown table, in seconds."""
    trees = list(next(iter(found.values())))
    lines = ["| case | " + " | ".join(trees) + " |", "| --- |" + " ---: |" * len(trees)]
    for case, times in found.items():
        cells = ("{:.2f} ({:.2f})".format(*times[tree]) for tree in trees)
        lines.append(f"| {case} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


@in_words
def main(given: Sequence[str] | None = None) -> int:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--other", type=Path, help="another source tree, such as ../before/src")
    arguments.add_argument("--repeat", type=int, default=5, help="runs that count, of each")
    arguments.add_argument("--limit", type=float, default=60.0, help="most seconds of a run")
    arguments.add_argument("--network", type=Path, default=NETWORK, help="another network")
    arguments.add_argument("--only", help="cases with this text in their name")
    chosen = arguments.parse_args(given)
    trees = {"here": ROOT / "src"}
    if chosen.other is not None:
        trees["other"] = chosen.other.resolve()
    cases = {name: words for name, words in CASES.items() if (chosen.only or "") in name}
    if not cases or chosen.repeat < 1:
        arguments.error("no case is left; see --only and --repeat")
    network, repeat, limit = chosen.network.resolve(), chosen.repeat, chosen.limit
    with tempfile.TemporaryDirectory() as scratch:
        print(table(measure(trees, cases, network, repeat, limit, Path(scratch))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
