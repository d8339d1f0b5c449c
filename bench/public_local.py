"""Local questions about test images, made by the recipe of the verification competition.

    python bench/public_local.py mnist.npz networks/mnistfc_256x2.onnx --epsilon 0.03 \\
        --epsilon 0.05 --count 5 --out questions/
    python bench/public.py local questions/local.csv networks/ --images questions/ --repeats 1

The first test images that a network classifies correctly are asked about, once for each epsilon.
The data set is an .npz file with `x_test` and `y_test`, bytes from 0 to 255.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from script import in_words

from vhagar.network import Network, read_onnx

FIELDS = ("network", "image", "epsilon", "flags", "published")


def first_correct(
    network: Network, images: NDArray[np.uint8], labels: NDArray[np.uint8], count: int
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """The numbers of the first images that are classified as labelled, and the images in [0, 1]."""
    for number, (pixels, label) in enumerate(zip(images, labels, strict=True)):
        if count <= 0:
            return
        x = (pixels / 255).astype(np.float32).reshape(network.input_shape)
        if int(network.forward(x[None]).argmax()) == int(label):
            count -= 1
            yield number, x


def write_questions(
    data: Path, models: list[Path], epsilons: list[float], count: int, out: Path
) -> int:
    """Write the images and `local.csv`; how many questions there are."""
    with np.load(data) as arrays:
        images, labels = arrays["x_test"], arrays["y_test"]
    out.mkdir(parents=True, exist_ok=True)
    rows = []
    for model in models:
        for number, x in first_correct(read_onnx(model), images, labels, count):
            name = f"{model.stem}_{number}"
            np.save(out / f"{name}.npy", x)
            for epsilon in epsilons:
                rows.append((model.stem, name, repr(epsilon), "", ""))
    with (out / "local.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(FIELDS)
        writer.writerows(rows)
    return len(rows)


@in_words
def main(arguments: list[str] | None = None) -> None:
    """Make the questions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--epsilon", type=float, action="append", required=True)
    parser.add_argument("--count", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    number = write_questions(given.data, given.models, given.epsilon, given.count, given.out)
    print(f"{number} questions in {given.out}")


if __name__ == "__main__":
    sys.exit(main())
