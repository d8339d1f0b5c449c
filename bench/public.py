"""Networks that others made: global and local questions about them, as tables.

    python bench/public.py global global.csv networks/ --timeout 20 --repeats 3
    python bench/public.py local local.csv networks/ --images images/ --timeout 20 --repeats 3

`global.csv` has the columns network, flags, perturbation, source, target; `local.csv` has network,
image, epsilon, flags, published. A network is an ONNX file of the folder, an image a .npy file,
both without their endings; flags are options of the command line. Every question is asked on the
command line in a process of its own, so that start, imports and overshoot count. The table has the
medians of the repeats, and the largest memory of all processes of a run together. Options for all
questions, such as another engine, come with `--flags="--engine mip"`.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from script import csv_rows, in_words

# Seconds between two looks at the memory.
_LOOK_EVERY = 0.1

Row = dict[str, str]


@dataclass(frozen=True)
class Run:
    """One run of a command: its result as JSON, seconds and megabytes."""

    result: dict[str, Any]
    seconds: float
    megabytes: float


def run(command: Sequence[str]) -> Run:
    """Run a command of vhagar to its end, and watch its memory."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        whole = [sys.executable, "-m", "vhagar", *command, "--json", str(answer)]
        begun, largest = time.monotonic(), 0.0
        with subprocess.Popen(whole, stdout=subprocess.DEVNULL) as process:
            while process.poll() is None:
                largest = max(largest, _resident(process.pid))
                time.sleep(_LOOK_EVERY)
        seconds = time.monotonic() - begun
        if not answer.exists():
            sys.exit(f"no answer from: {shlex.join(whole)}")
        return Run(json.loads(answer.read_text()), seconds, largest)


def _resident(pid: int) -> float:
    """Megabytes of a process and of all that it has started."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        parts = Path(f"/proc/{pid}/task").glob("*/children")
        started = [int(child) for part in parts for child in part.read_text().split()]
    except OSError:  # it has just ended
        return 0.0
    lines = (line.split() for line in status.splitlines() if line.startswith("VmRSS:"))
    own = sum(int(words[1]) / 1024 for words in lines)
    return own + sum(map(_resident, started))


def ask_globally(row: Row, folder: Path, timeout: float, repeats: int) -> list[str]:
    """The cells of a global question."""
    model = str(folder / f"{row['network']}.onnx")
    flags = [*shlex.split(row["flags"]), "--timeout", str(timeout)]
    question = ["--perturbation", row["perturbation"], "--source", row["source"]]
    question += ["--target", row["target"]]
    runs = [run(["verify", model, *question, *flags]) for _ in range(repeats)]
    ceiling = run(["confidence", model, "--class", row["source"], *flags]).result["upper"]
    first = runs[0].result["history"][0]["upper"]
    lower, upper = (median(run.result[end] for run in runs) for end in ("lower", "upper"))
    return [
        row["network"],
        f"`{row['perturbation']}` {row['source']} to {row['target']}",
        f"{first:.4g}",
        f"[{lower:.4g}, {upper:.4g}]",
        f"{100 * upper / first:.1f} %",
        f"{ceiling:.4g}",
        _seconds([_first(run, lambda moment: moment["upper"] < first) for run in runs]),
        _seconds([_first(run, lambda moment: moment["lower"] > 0) for run in runs]),
        f"{max(run.megabytes for run in runs):.0f}",
        f"{max(max(run.result['seconds'] - timeout, 0.0) for run in runs):.1f}",
    ]


GLOBAL_HEADS = (
    "network",
    "question",
    "interval arithmetic",
    "interval",
    "upper end",
    "`confidence`",
    "first bound (s)",
    "first witness (s)",
    "memory (MB)",
    "overshoot (s)",
)


def _first(run: Run, is_it: Any) -> float | None:
    """When the interval was first so."""
    moments = (moment["seconds"] for moment in run.result["history"] if is_it(moment))
    return next(moments, None)


def _seconds(values: list[float | None]) -> str:
    found = [value for value in values if value is not None]
    return f"{median(found):.1f}" if len(found) > len(values) / 2 else "none"


def ask_locally(row: Row, folder: Path, images: Path, timeout: float, repeats: int) -> list[str]:
    """The cells of a question about one image."""
    model, image = folder / f"{row['network']}.onnx", images / f"{row['image']}.npy"
    flags = [*shlex.split(row["flags"]), "--epsilon", row["epsilon"], "--timeout", str(timeout)]
    runs = [run(["local", str(model), "--image", str(image), *flags]) for _ in range(repeats)]
    answers = sorted({str(run.result["verdict"]) for run in runs})
    return [
        row["network"],
        row["image"],
        f"{float(row['epsilon']):.4g}",
        " or ".join(answers),
        row["published"],
        f"{median(run.result['seconds'] for run in runs):.2f}",
        f"{median(run.seconds for run in runs):.2f}",
        f"{max(run.megabytes for run in runs):.0f}",
    ]


LOCAL_HEADS = (
    "network",
    "image",
    "epsilon",
    "answer",
    "published",
    "seconds",
    "with start (s)",
    "memory (MB)",
)


def table_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


@in_words
def main(arguments: list[str] | None = None) -> None:
    """Ask, and print a row after each question."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("global", "local"))
    parser.add_argument("questions", type=Path)
    parser.add_argument("networks", type=Path)
    parser.add_argument("--images", type=Path, default=Path())
    parser.add_argument("--timeout", type=float, default=20.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="a part of the network's name")
    parser.add_argument("--flags", default="", help="options for all questions: '--engine mip'")
    given = parser.parse_args(arguments)
    rows = csv_rows(given.questions, "network", "flags")
    rows = [row for row in rows if given.only in row["network"]]
    rows = [{**row, "flags": f"{row['flags']} {given.flags}"} for row in rows]
    heads = GLOBAL_HEADS if given.kind == "global" else LOCAL_HEADS
    print(table_row(heads))
    print(table_row(["---"] * len(heads)), flush=True)
    for row in rows:
        if given.kind == "global":
            cells = ask_globally(row, given.networks, given.timeout, given.repeats)
        else:
            cells = ask_locally(row, given.networks, given.images, given.timeout, given.repeats)
        print(table_row(cells), flush=True)


if __name__ == "__main__":
    sys.exit(main())
