"""Wall times of small problems from the shell, side by side with another source tree.

    python bench/start.py --other ../before/src --repeat 5

Every run is a fresh interpreter, as a user starts it; the trees take turns, so that what else the
machine does is shared fairly. Shown are medians. The networks are those of `examples/`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
NETWORK = ROOT / "examples" / "mnist_3x10.onnx"
# What is run: the arguments of `vhagar`, with the network in place of MODEL.
CASES: dict[str, tuple[str, ...]] = {
    "--help": ("--help",),
    "inspect": ("inspect", "MODEL"),
    "brightness([0,0.1]) unclipped": (
        "verify", "MODEL", "--perturbation", "brightness([0,0.1])", "--no-clip",
        "--source", "0", "--target", "1",
    ),
    "occlusion(14,14,5)": (
        "verify", "MODEL", "--perturbation", "occlusion(14,14,5)", "--source", "2", "--target", "3",
    ),
    "linf(0.01), any target": (
        "verify", "MODEL", "--perturbation", "linf(0.01)", "--source", "2",
    ),
    "maximal confidence": ("confidence", "MODEL", "--class", "2"),
}  # fmt: skip


def seconds(arguments: Sequence[str], source: Path, limit: float, compiled: Path) -> float:
    """How long one command takes; infinite beyond the limit.

    Like an installed package, the tree is compiled once, into the folder `compiled`.
    """
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONPYCACHEPREFIX": str(compiled)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "vhagar", *arguments]
    begun = time.monotonic()
    try:
        subprocess.run(command, env=environment, timeout=limit, check=True, capture_output=True)
    except subprocess.TimeoutExpired:
        return float("inf")
    return time.monotonic() - begun


def measure(
    trees: dict[str, Path],
    cases: dict[str, tuple[str, ...]],
    repeat: int,
    limit: float,
    compiled: Path,
) -> dict[str, dict[str, float]]:
    """The median time of each case for each tree; the first run, which compiles, does not count."""
    found: dict[str, dict[str, float]] = {}
    for case, words in cases.items():
        arguments = [str(NETWORK) if word == "MODEL" else word for word in words]
        times: dict[str, list[float]] = {tree: [] for tree in trees}
        for k in range(repeat + 1):
            for tree, source in trees.items():
                taken = seconds(arguments, source, limit, compiled)
                if k:
                    times[tree].append(taken)
        found[case] = {tree: median(taken) for tree, taken in times.items()}
    return found


def table(found: dict[str, dict[str, float]]) -> str:
    """The medians as a Markdown table, in seconds."""
    trees = list(next(iter(found.values())))
    lines = ["| case | " + " | ".join(trees) + " |", "| --- |" + " ---: |" * len(trees)]
    for case, times in found.items():
        lines.append(f"| {case} | " + " | ".join(f"{times[tree]:.2f}" for tree in trees) + " |")
    return "\n".join(lines)


def main(given: Sequence[str] | None = None) -> int:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--other", type=Path, help="another source tree, such as ../before/src")
    arguments.add_argument("--repeat", type=int, default=5, help="runs that count, of each")
    arguments.add_argument("--limit", type=float, default=60.0, help="most seconds of a run")
    arguments.add_argument("--only", help="cases with this text in their name")
    chosen = arguments.parse_args(given)
    trees = {"here": ROOT / "src"}
    if chosen.other is not None:
        trees["other"] = chosen.other.resolve()
    cases = {name: words for name, words in CASES.items() if (chosen.only or "") in name}
    if not cases or chosen.repeat < 1:
        arguments.error("no case is left; see --only and --repeat")
    with tempfile.TemporaryDirectory() as compiled:
        print(table(measure(trees, cases, chosen.repeat, chosen.limit, Path(compiled))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
