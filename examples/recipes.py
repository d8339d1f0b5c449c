"""The networks that ``train.py`` can train: their layers, and how each is trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

Shape = tuple[int, ...]

CLASSES = 10


@dataclass(frozen=True)
class PgdAttack:
    """Projected gradient descent in an l-infinity ball around each image."""

    radius: float
    steps: int = 7

    @property
    def step_size(self) -> float:
        """Long enough for the steps together to cross the ball, whatever the random start."""
        return 2.5 * self.radius / self.steps


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what network a name stands for."""

    dataset: str
    input_shape: Shape
    build: Callable[[Shape], nn.Module]
    epochs: int
    learning_rate: float = 5e-3
    weight_decay: float = 0.2
    batch_size: int = 128
    # The price of each unit of a weight's absolute value: small weights are easier to verify.
    sparsity: float = 0.0
    attack: PgdAttack | None = None
    # Certified training: the worst scores that interval arithmetic allows in balls of this radius.
    certified_radius: float = 0.0
    flips: bool = False
    largest_shift: int = 0
    seed: int = 0


def fully_connected(input_shape: Shape, width: int) -> nn.Sequential:
    """Two hidden layers of ``width`` ReLUs."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(int(np.prod(input_shape)), width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, CLASSES),
    )


def convolutional(input_shape: Shape, filters: int, first_stride: int) -> nn.Sequential:
    """Two unpadded convolutions (4x4, then 3x3 with stride 3) and a hidden layer of 10 ReLUs."""
    features = nn.Sequential(
        nn.Conv2d(input_shape[0], filters, kernel_size=4, stride=first_stride),
        nn.ReLU(),
        nn.Conv2d(filters, filters, kernel_size=3, stride=3),
        nn.ReLU(),
        nn.Flatten(),
    )
    with torch.no_grad():
        width = features(torch.zeros(1, *input_shape)).shape[1]
    return nn.Sequential(*features, nn.Linear(width, 10), nn.ReLU(), nn.Linear(10, CLASSES))


def wide(input_shape: Shape, first: int, second: int) -> nn.Sequential:
    """Two unpadded convolutions (5x5, then 4x4 with stride 2) and a hidden layer of 50 ReLUs.

    Nearly all of the neurons are in the convolutions, which have few weights.
    """
    features = nn.Sequential(
        nn.Conv2d(input_shape[0], first, kernel_size=5),
        nn.ReLU(),
        nn.Conv2d(first, second, kernel_size=4, stride=2),
        nn.ReLU(),
        nn.Flatten(),
    )
    with torch.no_grad():
        width = features(torch.zeros(1, *input_shape)).shape[1]
    return nn.Sequential(*features, nn.Linear(width, 50), nn.ReLU(), nn.Linear(50, CLASSES))


def conv_small(input_shape: Shape) -> nn.Sequential:
    """Two unpadded convolutions (4x4 with stride 2) and a hidden layer of 100 ReLUs.

    With 3,604 ReLUs on MNIST, it has the size that verifiers of local robustness are compared on.
    """
    features = nn.Sequential(
        nn.Conv2d(input_shape[0], 16, kernel_size=4, stride=2),
        nn.ReLU(),
        nn.Conv2d(16, 32, kernel_size=4, stride=2),
        nn.ReLU(),
        nn.Flatten(),
    )
    with torch.no_grad():
        width = features(torch.zeros(1, *input_shape)).shape[1]
    return nn.Sequential(*features, nn.Linear(width, 100), nn.ReLU(), nn.Linear(100, CLASSES))


def one_hidden_layer(input_shape: Shape, width: int) -> nn.Sequential:
    """One hidden layer of ``width`` ReLUs, as networks for tables of measurements often have."""
    inputs = int(np.prod(input_shape))
    return nn.Sequential(
        nn.Flatten(), nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, CLASSES)
    )


class PooledResidual(nn.Module):
    """A convolution, normalised, with max pooling, and a residual block behind it.

    Most of the neurons are those of the pooling: it compares four values for each that it keeps.
    """

    def __init__(self, input_shape: Shape, filters: int, channels: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(input_shape[0], filters, kernel_size=3, padding=1, bias=False)
        self.normalised = nn.BatchNorm2d(filters)
        self.down = nn.Conv2d(filters, channels, kernel_size=5, stride=4)
        self.inner = nn.Conv2d(channels, channels, kernel_size=1)
        self.outer = nn.Conv2d(channels, channels, kernel_size=1)
        self.scores = nn.LazyLinear(CLASSES)
        self.eval()
        with torch.no_grad():
            self(torch.zeros(1, *input_shape))

    def forward(self, images: Tensor) -> Tensor:
        pooled = functional.max_pool2d(functional.relu(self.normalised(self.stem(images))), 2)
        features = functional.relu(self.down(pooled))
        features = features + self.outer(functional.relu(self.inner(features)))
        return self.scores(torch.flatten(features, 1))


GREY = (1, 28, 28)
COLOUR = (3, 32, 32)

CONV1 = partial(convolutional, filters=6, first_stride=3)
CONV2 = partial(convolutional, filters=3, first_stride=1)

RECIPES: dict[str, Recipe] = {
    "mnist_3x10": Recipe("mnist", GREY, partial(fully_connected, width=10), epochs=15),
    "mnist_3x10_pgd": Recipe(
        "mnist",
        GREY,
        partial(fully_connected, width=10),
        epochs=8,
        weight_decay=0.1,
        sparsity=1e-4,
        attack=PgdAttack(radius=0.05, steps=3),
    ),
    "mnist_3x50_pgd": Recipe(
        "mnist",
        GREY,
        partial(fully_connected, width=50),
        epochs=15,
        learning_rate=2e-3,
        weight_decay=0.05,
        attack=PgdAttack(radius=0.1),
    ),
    "mnist_conv1": Recipe("mnist", GREY, CONV1, epochs=15, weight_decay=0.1),
    "mnist_conv2": Recipe("mnist", GREY, CONV2, epochs=10),
    "fashion_conv1": Recipe("fashion", GREY, CONV1, epochs=30),
    # For small training sets: the augmentation stands in for the images that are missing.
    "cifar_conv1": Recipe(
        "cifar",
        COLOUR,
        CONV1,
        epochs=500,
        weight_decay=0.01,
        batch_size=64,
        flips=True,
        largest_shift=4,
        seed=1,
    ),
    "mnist_residual": Recipe(
        "mnist",
        GREY,
        partial(PooledResidual, filters=3, channels=16),
        epochs=6,
        learning_rate=6e-3,
        weight_decay=0.1,
        sparsity=1.5e-3,
        attack=PgdAttack(radius=0.1, steps=2),
    ),
    # Networks of a middle size, with and without training for robustness.
    "mnist_convsmall": Recipe(
        "mnist", GREY, conv_small, epochs=3, learning_rate=2e-3, weight_decay=0.1
    ),
    "mnist_convsmall_pgd": Recipe(
        "mnist",
        GREY,
        conv_small,
        epochs=3,
        learning_rate=2e-3,
        weight_decay=0.1,
        attack=PgdAttack(radius=0.1, steps=4),
    ),
    "mnist_convsmall_certified": Recipe(
        "mnist",
        GREY,
        conv_small,
        epochs=8,
        learning_rate=2e-3,
        weight_decay=0.0,
        certified_radius=0.1,
    ),
    "mnist_1x500": Recipe(
        "mnist",
        GREY,
        partial(one_hidden_layer, width=500),
        epochs=4,
        learning_rate=2e-3,
        weight_decay=0.2,
    ),
    # One build in several sizes, the largest far beyond what linear programs can hold.
    "mnist_wide_1k": Recipe(
        "mnist", GREY, partial(wide, first=1, second=3), epochs=4, weight_decay=0.1
    ),
    "mnist_wide_5k": Recipe(
        "mnist", GREY, partial(wide, first=6, second=12), epochs=4, weight_decay=0.1
    ),
    "mnist_wide_20k": Recipe(
        "mnist",
        GREY,
        partial(wide, first=24, second=48),
        epochs=4,
        learning_rate=2e-3,
        weight_decay=0.2,
    ),
    "cifar_wide_50k": Recipe(
        "cifar",
        COLOUR,
        partial(wide, first=48, second=72),
        epochs=40,
        learning_rate=2e-3,
        weight_decay=0.2,
        flips=True,
        largest_shift=2,
    ),
}
