"""The rows of the paper's tables, and which of them to run on which pairs of classes."""

from __future__ import annotations

import csv
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vhagar.errors import InvalidInput

# Names of the paper's networks and datasets, and the files that may stand for them: the first that
# is there counts. The last ones are the bundled files.
_NETWORK_FILES = {
    "fmnist_conv1": ("fmnist_conv1", "fashion_conv1"),
    "cifar10_conv1": ("cifar10_conv1", "cifar_conv1"),
}
_DATA_FILES = {
    "mnist": ("mnist", "mnist_images"),
    "fmnist": ("fashion_mnist", "fashion_mnist_subset", "fashion_images"),
    "cifar10": ("cifar10", "cifar10_subset", "cifar_images"),
}


@dataclass(frozen=True)
class Figures:
    """Percentages of the maximal confidence, and minutes; None where there is no such number."""

    lower: float | None = None
    upper: float | None = None
    minutes: float | None = None
    half_width: float | None = None

    @property
    def gap(self) -> float | None:
        if self.lower is None or self.upper is None:
            return None
        return self.upper - self.lower


@dataclass(frozen=True)
class PaperRow:
    """One row of a table of the paper: a network, a perturbation, and what each method got."""

    network: str
    perturbation: str
    methods: dict[str, Figures]

    def __str__(self) -> str:
        return f"{self.network} {self.perturbation}"


def read_rows(path: Path) -> list[PaperRow]:
    """All rows; one that is in several tables comes once."""
    with path.open(newline="") as file:
        rows = [_row(line) for line in csv.DictReader(file)]
    return list({str(row): row for row in rows}.values())


def _row(line: dict[str, str]) -> PaperRow:
    def number(name: str) -> float | None:
        return None if line[name] in ("", "NA") else float(line[name])

    return PaperRow(
        line["network"],
        line["perturbation"],
        {
            "vhagar": Figures(number("lower_percent"), number("upper_percent"), number("minutes")),
            "marabou": Figures(
                number("marabou_lower_percent"),
                number("marabou_upper_percent"),
                number("marabou_minutes"),
            ),
            "dataset": Figures(
                number("dataset_sampling_percent"), None, number("dataset_sampling_minutes")
            ),
            "random": Figures(
                number("random_sampling_percent"),
                None,
                number("random_sampling_minutes"),
                number("random_sampling_half_width"),
            ),
        },
    )


def chosen(rows: Sequence[PaperRow], only: str | None, part: str | None) -> list[PaperRow]:
    """Rows with one of the texts (separated by ;) in their names; of those, part k of n (`k/n`)."""
    texts = [text.strip() for text in only.split(";")] if only else [""]
    found = [row for row in rows if any(text in str(row) for text in texts)]
    if part is None:
        return found
    place, _, count = part.partition("/")
    if not (place.isdecimal() and count.isdecimal() and 1 <= int(place) <= int(count)):
        raise InvalidInput(f"{part} is no part: write 2/4 for the second of four")
    return found[int(place) - 1 :: int(count)]


def pairs_of(row: PaperRow, wanted: str, classes: int, seed: int) -> list[tuple[int, int]]:
    """The pairs `source:target` that are named, or as many random ones as wanted.

    The same row gets the same pairs every time, and more pairs are the old ones and others.
    """
    if not wanted.isdecimal():
        pairs = [pair.split(":") for pair in wanted.split(",")]
        return [(int(source), int(target)) for source, target in pairs]
    everything = [(s, t) for s in range(classes) for t in range(classes) if s != t]
    rng = np.random.default_rng([seed, zlib.crc32(str(row).encode())])
    return [everything[k] for k in rng.permutation(len(everything))[: int(wanted)]]


def network_file(folder: Path, network: str) -> Path | None:
    """The ONNX file that stands for a network of the paper; None if there is none."""
    names = _NETWORK_FILES.get(network, (network,))
    return _first(folder / f"{name}.onnx" for name in names)


def data_file(folder: Path, network: str) -> Path | None:
    """The dataset that belongs to a network of the paper."""
    dataset = network.partition("_")[0]
    names = _DATA_FILES.get(dataset, (dataset,))
    return _first(folder / f"{name}.npz" for name in names)


def _first(paths: Iterable[Path]) -> Path | None:
    return next((path for path in paths if path.exists()), None)
