"""Bounds over all images and over a domain fitted to data, side by side.

    python bench/domains.py mnist.npz examples --out results/domains.csv --components 30 \\
        --cover 0.95 --timeout 60 --jobs 8 --page docs/domains.md
    python bench/domains.py mnist.npz examples --out results/domains.csv --table

For each network and perturbation, how confident can an image classified 2 be and still be pushed
into class 3: of all images, and of a domain fitted to the 2s of the training set? The table has
both intervals, and how many of the 2s of the test set each upper bound proves robust. A run that is
in the file already is not repeated; `--seconds` ends the command before it starts another run.
`--page` puts the table between two lines of a page, `<!-- bench/domains.py -->` and
`<!-- end -->`.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from script import in_words

import vhagar
from vhagar.coverage import SeenData
from vhagar.dataset import as_float32
from vhagar.errors import InvalidInput
from vhagar.fitting import Fit, fit_box, fit_components
from vhagar.perturbation.domain.writer import write_domain
from vhagar.runtime.output_files import write_bytes

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


BEGIN, END = "<!-- bench/domains.py -->", "<!-- end -->"


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
    workers: int | None = None,
) -> Row:
    """Verify one question, and count what its bound proves."""
    asked = {"perturbation": perturbation, "source": SOURCE, "targets": TARGET}
    problem = vhagar.Problem(network, domain=domain, **asked)
    result = vhagar.verify(problem, timeout=timeout, workers=workers)
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
    places = {name: place for place, name in enumerate(NETWORKS)}
    networks = dict.fromkeys(row.network for row in rows)
    for network in sorted(networks, key=lambda name: places.get(name, len(places))):
        for perturbation in PERTURBATIONS:
            pair = [found.get((network, perturbation, own)) for own in (False, True)]
            if any(row is not None for row in pair):
                cells = [*map(_interval, pair), *map(_share, pair)]
                lines.append(f"| {network} | `{perturbation}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _interval(row: Row | None) -> str:
    if row is None:
        return "not run"
    low, high = np.floor(1000 * row.lower) / 1000, np.ceil(1000 * row.upper) / 1000
    ends = f"{low:.3f} to {high:.3f}"
    return f"**{ends}**" if row.status in ("closed", "robust") else ends


def _share(row: Row | None) -> str:
    return "" if row is None else f"{np.floor(1000 * row.robust / row.images) / 10:g} %"


def on_page(page: str, lines: str) -> str:
    """The text of a page with other lines between the two marks."""
    before, mark, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise InvalidInput(f"the page needs the lines {BEGIN} and {END}, in this order")
    return f"{before}{BEGIN}\n\n{lines}\n\n{END}{after}"


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="x_train, y_train, x_test and y_test (.npz)")
    parser.add_argument("networks", type=Path, help="folder of the networks")
    parser.add_argument("--out", type=Path, required=True, help="results (.csv)")
    parser.add_argument("--timeout", type=float, default=15.0, help="seconds for each run")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="seconds in all")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--workers", type=int, default=2, help="processes of each run")
    parser.add_argument("--components", type=int, help="a zonotope instead of ranges of pixels")
    parser.add_argument("--coordinates", type=int, default=0, help="rows of so many components")
    parser.add_argument("--likely", action="store_true", help="a row that asks for likely images")
    parser.add_argument("--cover", type=float, default=0.97, help="share of the held-out half")
    parser.add_argument("--only", default="", help="part of a network's or perturbation's name")
    parser.add_argument("--table", action="store_true", help="print the table alone")
    parser.add_argument("--page", type=Path, help="also write the table on this page")
    return parser.parse_args()


@in_words
def main() -> None:
    arguments = parsed()
    rows = read(arguments.out)
    if not arguments.table:
        rows = measured(arguments, rows)
    print(table(rows))
    if arguments.page is not None:
        page = on_page(arguments.page.read_text(encoding="utf-8"), table(rows))
        write_bytes(arguments.page, page.encode())


@dataclass(frozen=True, eq=False)
class Run:
    """One run of the table that is still to be made."""

    network: Path
    perturbation: str
    domain: vhagar.Domain
    test: Array
    timeout: float
    workers: int

    def __call__(self) -> Row:
        network = vhagar.read_onnx(self.network)
        return run(network, self.perturbation, self.domain, self.test, self.timeout, self.workers)


def missing(arguments: argparse.Namespace, rows: list[Row]) -> Iterator[Run]:
    """The runs that no row is about."""
    train, test = twos(arguments.data)
    every = vhagar.Domain((1, 28, 28))
    fitted = fit(train, every, arguments)
    inside, held = fitted.covered
    print(f"# {inside} of {held} held-out 2s ({inside / held:.1%}) are inside", file=sys.stderr)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    write_domain(fitted.domain, arguments.out.with_name(f"{arguments.out.stem}_twos.toml"))
    done = {row.key for row in rows}
    timeout, workers = arguments.timeout, arguments.workers
    for name in NETWORKS:
        path = arguments.networks / f"{name}.onnx"
        own = vhagar.read_onnx(path).name
        for perturbation in PERTURBATIONS:
            for domain in (every, fitted.domain):
                key = (own, perturbation, domain.fingerprint or "", timeout)
                if key not in done and arguments.only in f"{name} {perturbation}":
                    yield Run(path, perturbation, domain, test, timeout, workers)


def measured(arguments: argparse.Namespace, rows: list[Row]) -> list[Row]:
    """Run what is missing, some runs at a time, and write the file after every run."""
    begun, left = time.monotonic(), list(missing(arguments, rows))
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(arguments.jobs, spawn) as pool:
        while left:
            if arguments.seconds - (time.monotonic() - begun) < arguments.timeout + 5:
                print(f"# {len(left)} runs are left", file=sys.stderr)
                break
            some, left = left[: arguments.jobs], left[arguments.jobs :]
            for done in as_completed([pool.submit(each) for each in some]):
                rows = [*rows, done.result()]
                write(arguments.out, rows)
                print(rows[-1], flush=True)
    return rows


if __name__ == "__main__":
    sys.exit(main())
