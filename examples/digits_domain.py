"""How confident can a 3 be and still be broken: over all images, and over images like 3s?

    python examples/digits_domain.py [FOLDER]

A small network is trained on the 8 x 8 digits of scikit-learn, and a domain is fitted to its 3s: a
range for every pixel such that nearly all 3s of a held-out half are inside. The same question is
then verified over all images and over the domain. Printed are both bounds, how many of the 3s kept
for tests each bound proves robust, and how far each witness is from the data; `digits_domain.png`
shows the witnesses beside the nearest digits. Needs scikit-learn (`pip install scikit-learn`).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import vhagar
from vhagar.coverage import SeenData
from vhagar.dataset import Neighbour, as_float32, nearest
from vhagar.fitting import Fit, fit_box
from vhagar.fitting.words import coverage_lines
from vhagar.perturbation.domain.writer import write_domain

Array = NDArray[np.float64]

SHAPE = (1, 8, 8)
SOURCE, TARGET, PERTURBATION = 3, 8, "occlusion(3,3,2)"


@dataclass(frozen=True, eq=False)
class Digits:
    """Images `(count, 64)` in [0, 1] with labels; every third digit is kept for tests."""

    train: Array
    train_labels: NDArray[np.int64]
    test: Array
    test_labels: NDArray[np.int64]

    @classmethod
    def load(cls) -> Digits:
        from sklearn.datasets import load_digits

        values, labels = load_digits(return_X_y=True)
        kept = np.arange(len(values)) % 3 == 0
        images = values / 16.0
        return cls(images[~kept], labels[~kept], images[kept], labels[kept])


@dataclass(frozen=True, eq=False)
class Answer:
    """A result, and what it says about the test images of the source class.

    Of `images` of them, `inside` are in the domain, of which `robust` are proven robust; `near` is
    the digit that is nearest to the witness.
    """

    result: vhagar.Result
    images: int
    inside: int
    robust: int
    near: Neighbour | None

    def line(self) -> str:
        """The answer in a line."""
        result, share = self.result, 100 * self.robust / max(self.inside, 1)
        found = f"[{result.lower:.4f}, {result.upper:.4f}] ({result.status.name.lower()})"
        data = f"{self.robust} of {self.inside} test images inside are robust ({share:.1f} %)"
        away = (
            "" if self.near is None else f"; its witness is {self.near.distance:.3f} from a digit"
        )
        return f"over {result.problem.domain}: {found}; {data}{away}"


def trained(data: Digits) -> tuple[vhagar.Network, float]:
    """A network with 16 hidden neurons, and its accuracy on the digits kept for tests."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(64, 16), torch.nn.ReLU(), torch.nn.Linear(16, 10)
    )
    x = torch.tensor(data.train.reshape(-1, *SHAPE), dtype=torch.float32)
    y = torch.tensor(data.train_labels)
    steps = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=1e-3)
    for _ in range(250):
        steps.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        steps.step()
    network = vhagar.from_torch(net, input_shape=SHAPE, name="digits")
    found = network.forward(data.test).argmax(axis=1)
    return network, float((found == data.test_labels).mean())


def fitted(data: Digits, cover: float = 0.95) -> Fit:
    """A range for every pixel that holds nearly all training images of the source class."""
    own = data.train[data.train_labels == SOURCE]
    return fit_box(own, vhagar.Domain(SHAPE), cover, name=f"digits like {SOURCE}")


def answer(
    network: vhagar.Network,
    domain: vhagar.Domain,
    data: Digits,
    timeout: float = 60.0,
    workers: int | None = None,
) -> Answer:
    """Verify the question over a domain, and count what the bound proves."""
    problem = vhagar.Problem(
        network, perturbation=PERTURBATION, source=SOURCE, targets=TARGET, domain=domain
    )
    result = vhagar.verify(problem, timeout=timeout, workers=workers)
    own = as_float32(data.test[data.test_labels == SOURCE], domain)
    inside = domain.contains(own)
    sure = SeenData(network, domain, own, None).sure(SOURCE)
    robust = inside & (sure > 0) & (sure > result.upper)
    near = None
    if result.witness is not None:
        x = result.witness.x.reshape(1, -1)
        (near,) = nearest(x, data.train, vhagar.Domain(SHAPE), data.train_labels)
    return Answer(result, len(own), int(inside.sum()), int(robust.sum()), near)


def draw(answers: list[Answer], path: Path) -> None:
    """A row for each answer: the nearest digit, the witness, and what the perturbation makes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.0, 2.3 * len(answers)), layout="constrained")
    axes: Any = figure.subplots(len(answers), 3, squeeze=False)
    for row, each in zip(axes, answers, strict=True):
        witness, near = each.result.witness, each.near
        for ax in row:
            ax.set_axis_off()
        if witness is None or witness.x_p is None or near is None:
            continue
        titles = (
            f"nearest digit, a {near.label}\ndistance {near.distance:.3f}",
            f"over {each.result.problem.domain}\nconfidence {witness.confidence:.3f} in {SOURCE}",
            f"perturbed:\nclassified {witness.target}",
        )
        for ax, title, x in zip(row, titles, (near.x, witness.x, witness.x_p), strict=True):
            ax.imshow(x.reshape(8, 8), cmap="gray", vmin=0, vmax=1)
            ax.set_title(title, fontsize=9)
    figure.savefig(path, dpi=130)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    data = Digits.load()
    network, accuracy = trained(data)
    fit = fitted(data)
    vhagar.write_onnx(network, folder / "digits.onnx")
    write_domain(fit.domain, folder / "digits_like_3.toml")
    print(f"accuracy {100 * accuracy:.1f} %; {coverage_lines(fit)[0]}")
    answers = [answer(network, each, data) for each in (vhagar.Domain(SHAPE), fit.domain)]
    for each in answers:
        print(each.line())
    draw(answers, folder / "digits_domain.png")
    print(f"wrote digits.onnx, digits_like_3.toml and digits_domain.png to {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "digits_domain"))
