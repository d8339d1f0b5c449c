"""Sound intervals of large networks: bounds, time and memory against size.

    python bench/scale.py networks/ --out scale.csv --device cuda --timeout 120
    python bench/scale.py networks/ --out scale.csv --plot docs/scale.png

Every network runs in a process of its own, so that its memory is its own. Runs that are in the file
already are not repeated; the plot is drawn from the file.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from script import in_words

import vhagar
from vhagar import Problem
from vhagar.runtime.cores import available_cores
from vhagar.search.branch_and_bound import FirstOrder

PERTURBATIONS = ("occlusion(12,12,5)", "patch([0,1],12,12,3)", "linf(0.02)")
SOURCE, TARGET = 2, 3
FIELDS = (
    "network", "neurons", "perturbation", "device", "cores", "trivial", "lower", "upper",
    "seconds_first", "seconds_upper", "seconds", "cpu_seconds", "memory_mb", "gpu_memory_mb",
)  # fmt: skip


def measure(
    path: Path, perturbation: str, device: str, timeout: float, attack: bool
) -> dict[str, Any]:
    """One run, in this process."""
    network = vhagar.read_onnx(path)
    problem = Problem(network, perturbation=perturbation, source=SOURCE, targets=TARGET)
    engine = FirstOrder(attack=attack)
    result = vhagar.verify(problem, engine=engine, timeout=timeout, device=device)
    trivial = result.history[0].upper
    improved = [m.seconds for m in result.history if m.upper < trivial]
    last = next(m.seconds for m in result.history if m.upper == result.upper)
    used, gpu = resource.getrusage(resource.RUSAGE_SELF), 0.0  # without the attack's process
    if result.device != "cpu":
        import torch

        gpu = torch.cuda.max_memory_allocated() / 2**20
    values = (
        network.name, network.hidden_neurons, perturbation, result.device, available_cores(),
        trivial, result.lower, result.upper, improved[0] if improved else math.nan, last,
        result.seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, gpu,
    )  # fmt: skip
    return dict(zip(FIELDS, values, strict=True))


def measured_apart(
    path: Path, perturbation: str, device: str, timeout: float, attack: bool
) -> dict[str, Any]:
    """The same in a process of its own."""
    given = [str(path), perturbation, device, str(timeout), str(attack)]
    command = [sys.executable, __file__, "--one", *given]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{path.name}, {perturbation}: {done.stderr}")
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def read(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The slope of a line through the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Time and memory against neurons, one line for each device."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
    for device in sorted({row["device"] for row in rows}):
        own = [row for row in rows if row["device"] == device]
        sizes = sorted({int(row["neurons"]) for row in own})
        label = "two cores" if device == "cpu" else device.split("(")[-1].rstrip(")")
        for axis, field, name in (
            (axes[0], "seconds_first", "seconds to the first bound, start included"),
            (axes[1], "memory_mb" if device == "cpu" else "gpu_memory_mb", "memory, MB"),
        ):
            means = [
                np.mean([float(row[field]) for row in own if int(row["neurons"]) == size])
                for size in sizes
            ]
            slope = exponent(sizes, means) if len(sizes) > 1 else math.nan
            axis.loglog(sizes, means, marker="o", label=f"{label} (exponent {slope:.2f})")
            axis.set_xlabel("hidden neurons")
            axis.set_title(name, loc="left", fontsize=10)
    for axis in axes:
        axis.grid(visible=True, which="both", alpha=0.25)
        axis.legend(frameon=False, fontsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


@in_words
def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        path, perturbation, device, timeout, attack = sys.argv[2:]
        found = measure(Path(path), perturbation, device, float(timeout), attack == "True")
        print(json.dumps(found))
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("networks", type=Path, help="folder with ONNX files named *_wide_*")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--timeout", type=float, default=120.0)
    parser.add_argument("--only", default="", help="a part of the networks' names")
    parser.add_argument(
        "--perturbations", default=";".join(PERTURBATIONS), help="separated by semicolons"
    )
    parser.add_argument(
        "--no-attack", action="store_true", help="upper bounds only; the lower ones stay 0"
    )
    parser.add_argument("--plot", type=Path, help="draw what is in the file, measure nothing")
    arguments = parser.parse_args()
    rows = read(arguments.out)
    if arguments.plot is not None:
        plot(rows, arguments.plot)
        return
    done = {(row["network"], row["perturbation"], row["device"].split(" ")[0]) for row in rows}
    for path in sorted(arguments.networks.glob("*_wide_*.onnx")):
        for perturbation in arguments.perturbations.split(";"):
            known = (path.stem, perturbation, arguments.device) in done
            if arguments.only not in path.stem or known:
                continue
            row = measured_apart(
                path, perturbation, arguments.device, arguments.timeout, not arguments.no_attack
            )
            rows.append(row)
            write(arguments.out, rows)
            print(
                f"{row['network']} {perturbation} {row['device']}: "
                f"[{row['lower']:.4g}, {row['upper']:.4g}] of {row['trivial']:.4g}, first after "
                f"{row['seconds_first']:.1f} s, last {row['seconds_upper']:.1f} s, "
                f"{row['cpu_seconds']:.1f} s of a core, {row['memory_mb']:.0f} MB, "
                f"GPU {row['gpu_memory_mb']:.0f} MB",
                flush=True,
            )


if __name__ == "__main__":
    sys.exit(main())
