"""PyTorch classifiers of the kinds that people bring."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

SHAPE = (2, 8, 8)


class Residual(nn.Module):
    """A block with a skip connection and everything in place, as torchvision writes it."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding="same")
        self.second_norm = nn.BatchNorm2d(channels, affine=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        same = x
        out = F.relu(self.first_norm(self.first(x)), inplace=True)
        out = self.second_norm(self.second(out))
        out += same
        return F.relu(out, inplace=True)


class Branches(nn.Module):
    """Slices, splits, concatenation, padding, and arithmetic with constants."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("shift", torch.linspace(-1, 1, 2).reshape(1, 2, 1, 1))
        self.last = nn.Linear(36, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left, right = ((x - self.shift) / 2 * 3).chunk(2, dim=1)
        moved = torch.cat([right, 1 - left], 1)
        padded = F.pad(moved, (1, 0, 0, 2), value=0.25)
        pooled = F.avg_pool2d(padded, 3, stride=2, padding=1, count_include_pad=False)
        row = x[:, 0, 3].unsqueeze(1).squeeze(1)
        flat = pooled[:, :, 1:4, ::2].permute(0, 2, 3, 1).reshape(x.size(0), -1)
        flat = torch.cat([flat, row, x[:, 1, :, 2], flat[:, :2]], 1)
        return self.last(flat)


class InPlaceBehindTheBack(nn.Module):
    """The value of `y` is that after the ReLU, though the name says otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(128, 5), nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x.flatten(1))
        z = F.relu(y, inplace=True)
        return self.last(y - 0.5 * z)


class Masked(nn.Module):
    """ReLUs by masks and choices."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(128, 5), nn.Linear(15, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x.flatten(1))
        parts = [y * (y > 0), torch.where(y >= 0, y, 0.2 * y), (y < 0).float() * y]
        return self.last(torch.cat(parts, 1))


def perceptron(*between: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(128, 6), *between, nn.Linear(6, 3))


# Read by a reader of chains.
CHAINS: dict[str, Any] = {
    "perceptron": lambda: perceptron(nn.ReLU(), nn.Dropout(0.5)),
    "without biases": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(128, 6, bias=False), nn.ReLU(), nn.Linear(6, 3, bias=False)
    ),
    "softmax": lambda: perceptron(nn.ReLU()).append(nn.Softmax(dim=1)),
    "log softmax": lambda: perceptron(nn.ReLU()).append(nn.LogSoftmax(dim=-1)),
    "sigmoid": lambda: perceptron(nn.ReLU()).append(nn.Sigmoid()),
    "tanh": lambda: perceptron(nn.ReLU()).append(nn.Tanh()),
    "convolution": lambda: nn.Sequential(
        nn.Conv2d(2, 4, 3, stride=2, padding=(1, 0), dilation=(1, 2), groups=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(4 * 4 * 2, 3),
    ),
    "double": lambda: perceptron(nn.ReLU()).double(),
}

# They need branches, pools and other units.
GRAPHS: dict[str, Any] = {
    "in place": InPlaceBehindTheBack,
    "batch norm": lambda: perceptron(nn.BatchNorm1d(6), nn.ReLU()),
    "leaky": lambda: perceptron(nn.LeakyReLU(0.2)),
    "prelu": lambda: perceptron(nn.PReLU(6)),
    "hardtanh": lambda: perceptron(nn.Hardtanh(-0.25, 0.5)),
    "hardsigmoid": lambda: perceptron(nn.Hardsigmoid()),
    "threshold": lambda: perceptron(nn.Threshold(0.1, 0.1)),
    "masked": Masked,
    "upsample": lambda: nn.Sequential(
        nn.Conv2d(2, 2, 3),
        nn.ReLU(),
        nn.Upsample(scale_factor=2),
        nn.Flatten(),
        nn.Linear(2 * 12 * 12, 3),
    ),
    "relu6": lambda: perceptron(nn.ReLU6(inplace=True)),
    "residual": lambda: nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1),
        Residual(4),
        nn.MaxPool2d(2),
        Residual(4),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(16, 3),
    ),
    "global pool": lambda: nn.Sequential(
        nn.Conv2d(2, 5, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(5, 3)
    ),
    "overlapping pool": lambda: nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1), nn.Flatten(), nn.Linear(36, 3)
    ),
    "uneven pool": lambda: nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d((4, 3)), nn.Flatten(), nn.Linear(48, 3)
    ),
    "uneven maxima": lambda: nn.Sequential(
        nn.Conv2d(2, 2, 3), nn.ReLU(), nn.AdaptiveMaxPool2d((4, 6)), nn.Flatten(), nn.Linear(48, 3)
    ),
    "signals": lambda: nn.Sequential(
        nn.Flatten(2),
        nn.Conv1d(2, 4, 5, stride=2, padding=3, dilation=2),
        nn.BatchNorm1d(4),
        nn.ReLU(),
        nn.MaxPool1d(3, 2, padding=1),
        nn.Conv1d(4, 3, 3, padding="same"),
        nn.ReLU(),
        nn.AvgPool1d(2),
        nn.AdaptiveAvgPool1d(3),
        nn.Flatten(),
        nn.Linear(9, 3),
    ),
    "global signals": lambda: nn.Sequential(
        nn.Flatten(2),
        nn.Conv1d(2, 4, 3),
        nn.ReLU(),
        nn.AdaptiveMaxPool1d(1),
        nn.Flatten(),
        nn.Linear(4, 3),
    ),
    "rrelu": lambda: perceptron(nn.RReLU()),
    "softshrink": lambda: perceptron(nn.Softshrink(0.2)),
    "pixel shuffle": lambda: nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.ReLU(), nn.PixelShuffle(2), nn.Flatten(), nn.Linear(144, 3)
    ),
    "branches": Branches,
}


def made(kind: Any, seed: int = 0) -> nn.Module:
    """A module with weights and statistics that are not those of the beginning."""
    torch.manual_seed(seed)
    module: nn.Module = kind()
    for part in module.modules():
        if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
            part.running_mean.uniform_(-0.5, 0.5)
            part.running_var.uniform_(0.5, 2)
    return module
