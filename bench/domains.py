"""Bounds over all images and over a domain fitted to data, side by side.

    python bench/domains.py mnist.npz examples --out results/domains.csv --timeout 15
    python bench/domains.py mnist.npz examples --out results/domains.csv --table

For each network and perturbation, how confident can an image classified 2 be and still be pushed
into class 3: of all images, and of a domain fitted to the 2s of the training set? The table has
both intervals, and how many of the 2s of the test set each upper bound proves robust. A run that is
in the file already is not repeated; `--seconds` ends the command before it starts another run.
"""

from __future__ import annotations

import argparse
import csv
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import vhagar
from vhagar.coverage import SeenData
from vhagar.dataset import as_float32
from vhagar.fitting import Fit, fit_box, fit_components
from vhagar.perturbation.domain.writer import write_domain
from vhagar.result.serialize import write_bytes

Array = NDArray[np.float64]

SOURCE, TARGET = 2, 3
NETWORKS = ("mnist_conv1", "mnist_3x10", "mnist_3x50_pgd")
PERTURBATIONS = (
    "occlusion(14,14,5)",
    "brightness([0,0.1])",
    "linf(0.02)",
    "translation(1,0)",
    "rotation(5)",
)


@dataclass(frozen=True)
class Row:
    """One run; `robust` counts the test images of class 2 that its upper bound proves robust."""

    network: str
    perturbation: str
    domain: str
    sha256: str
    timeout: float
    lower: float
    upper: float
    status: str
    seconds: float
    robust: int
    inside: int
    images: int

    @property
    def key(self) -> tuple[str, str, str, float]:
        return self.network, self.perturbation, self.sha256, self.timeout


def twos(archive: Path) -> tuple[Array, Array]:
    """The images of class 2 for training and for tests, in [0, 1]."""
    with np.load(archive) as data:
        parts = [data[f"x_{part}"][data[f"y_{part}"] == SOURCE] for part in ("train", "test")]
    first, second = (part.reshape(len(part), -1) / 255.0 for part in parts)
    return first, second


def fit(train: Array, every: vhagar.Domain, arguments: argparse.Namespace) -> Fit:
    """The domain of the 2s: a range for every pixel and further rows, or a zonotope."""
    cover, likely, count = arguments.cover, arguments.likely, arguments.components
    if count is not None:
        return fit_components(train, every, count, cover, name="twos", likely=likely)
    coordinates = arguments.coordinates
    return fit_box(train, every, cover, name="twos", likely=likely, coordinates=coordinates)


def run(
    network: vhagar.Network,
    perturbation: str,
    domain: vhagar.Domain,
    test: Array,
    timeout: float,
) -> Row:
    """Verify one question, and count what its bound proves."""
    asked = {"perturbation": perturbation, "source": SOURCE, "targets": TARGET}
    problem = vhagar.Problem(network, domain=domain, **asked)
    result = vhagar.verify(problem, timeout=timeout)
    inputs = as_float32(test, domain)
    inside = domain.contains(inputs)
    sure = SeenData(network, domain, inputs, None).sure(SOURCE)
    robust = inside & (sure > 0) & (sure > result.upper)
    return Row(
        network.name,
        perturbation,
        str(domain),
        domain.fingerprint or "",
        timeout,
        result.lower,
        result.upper,
        result.status.name.lower(),
        round(result.seconds, 1),
        int(robust.sum()),
        int(inside.sum()),
        len(test),
    )


def read(path: Path) -> list[Row]:
    """The rows of earlier commands."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        kinds = {
            field.name: {"float": float, "int": int}.get(str(field.type), str)
            for field in fields(Row)
        }
        return [
            Row(**{name: kinds[name](value) for name, value in line.items()})
            for line in csv.DictReader(file)
        ]


def write(path: Path, rows: list[Row]) -> None:
    names = [field.name for field in fields(Row)]
    lines = [",".join(names)]
    for row in rows:
        values = asdict(row).values()
        lines.append(
            ",".join(f'"{value}"' if isinstance(value, str) else repr(value) for value in values)
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, ("\n".join(lines) + "\n").encode())


def table(rows: list[Row]) -> str:
    """The rows as Markdown: all images beside the domain."""
    found = {(row.network, row.perturbation, bool(row.sha256)): row for row in rows}
    heads = ("network", "perturbation", "over all images", "over the domain")
    heads = (*heads, "2s proven robust by the first", "by the second")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for network in dict.fromkeys(row.network for row in rows):
        for perturbation in PERTURBATIONS:
            pair = [found.get((network, perturbation, own)) for own in (False, True)]
            if any(row is not None for row in pair):
                cells = [*map(_interval, pair), *map(_share, pair)]
                lines.append(f"| {network} | `{perturbation}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _interval(row: Row | None) -> str:
    if row is None:
        return "not run"
    ends = f"{row.lower:.3f} to {row.upper:.3f}"
    return f"**{ends}**" if row.status in ("closed", "robust") else ends


def _share(row: Row | None) -> str:
    return "" if row is None else f"{np.floor(1000 * row.robust / row.images) / 10:g} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="x_train, y_train, x_test and y_test (.npz)")
    parser.add_argument("networks", type=Path, help="folder of the networks")
    parser.add_argument("--out", type=Path, required=True, help="results (.csv)")
    parser.add_argument("--timeout", type=float, default=15.0, help="seconds for each run")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="seconds in all")
    parser.add_argument("--components", type=int, help="a zonotope instead of ranges of pixels")
    parser.add_argument("--coordinates", type=int, default=0, help="rows of so many components")
    parser.add_argument("--likely", action="store_true", help="a row that asks for likely images")
    parser.add_argument("--cover", type=float, default=0.97, help="share of the held-out half")
    parser.add_argument("--only", default="", help="part of a network's or perturbation's name")
    parser.add_argument("--table", action="store_true", help="print the table alone")
    arguments = parser.parse_args()
    rows = read(arguments.out)
    if not arguments.table:
        rows = measured(arguments, rows)
    print(table(rows))


def measured(arguments: argparse.Namespace, rows: list[Row]) -> list[Row]:
    """Run what is missing, and write the file after every run."""
    begun = time.monotonic()
    train, test = twos(arguments.data)
    every = vhagar.Domain((1, 28, 28))
    fitted = fit(train, every, arguments)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    write_domain(fitted.domain, arguments.out.with_name("twos.toml"))
    done = {row.key for row in rows}
    for name in NETWORKS:
        network = vhagar.read_onnx(arguments.networks / f"{name}.onnx")
        for perturbation in PERTURBATIONS:
            for domain in (every, fitted.domain):
                key = (
                    network.name,
                    perturbation,
                    domain.fingerprint or "",
                    arguments.timeout,
                )
                left = arguments.seconds - (time.monotonic() - begun)
                if key in done or arguments.only not in f"{name} {perturbation}":
                    continue
                if left < arguments.timeout + 5:
                    return rows
                rows = [
                    *rows,
                    run(network, perturbation, domain, test, arguments.timeout),
                ]
                write(arguments.out, rows)
                print(rows[-1], flush=True)
    return rows


if __name__ == "__main__":
    main()
