"""Input conventions: how a problem's inputs become a model's, by axes, shape and normalisation.

Problems are about raw pixels, channels first: `(channels, rows, columns)`. A model may expect them
channels last, flat, or as `(x - mean) / std`. The convention is part of the network: of its layers,
of the second opinion on its witnesses, of results and of certificates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from vhagar.array_types import Array
from vhagar.errors import InvalidInput

Shape = tuple[int, ...]
Numbers = float | Sequence[float]

LAYOUTS = ("chw", "hwc")
# Numbers of channels of images: grey, colour, colour with transparency.
CHANNELS = (1, 3, 4)


@dataclass(frozen=True)
class Convention:
    """The map from an input of `input_shape` to a model's input of `model_shape`.

    First comes `(x - mean) / std`, with one number for each channel (or each entry, if the input is
    not an image) or one for all; an empty tuple leaves the step out. Then, for the layout "hwc",
    the channels go last. Finally the input is reshaped.
    """

    input_shape: Shape
    model_shape: Shape
    layout: str = "chw"
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.layout not in LAYOUTS:
            raise InvalidInput(f"unknown layout {self.layout!r}; choose chw or hwc")
        if math.prod(self.input_shape) != math.prod(self.model_shape):
            raise InvalidInput(
                f"an image of shape {self.input_shape} does not fill the model's input "
                f"{self.model_shape}"
            )
        taken, own = _sizes(self.taken_shape), _sizes(self.model_shape)
        if len(own) > 1 and taken != own:
            raise InvalidInput(
                f"the model takes an input of shape {self.model_shape}, which an image of shape "
                f"{self.input_shape} is not; leave out --image-shape, or check --layout"
            )
        if self.layout == "hwc" and len(self.input_shape) != 3:
            raise InvalidInput(
                f"an input of shape {self.input_shape} has no channels to put last; give the "
                "image's shape with --image-shape C,H,W"
            )
        for name, values in (("mean", self.mean), ("std", self.std)):
            self._check(name, values)

    def _check(self, name: str, values: tuple[float, ...]) -> None:
        if not all(math.isfinite(value) for value in values):
            raise InvalidInput(f"the {name} must be finite, not {list(values)}")
        if name == "std" and not all(value > 0 for value in values):
            raise InvalidInput(
                f"the std must be above 0, because the input is divided by it, not {list(values)}"
            )
        if len(values) not in (0, 1, self._groups):
            what = "channel" if len(self.input_shape) == 3 else "entry"
            each = f", or {self._groups} (one for each {what})" if self._groups > 1 else ""
            raise InvalidInput(
                f"the {name} of an input of shape {self.input_shape} needs one number{each}, "
                f"not {len(values)}"
            )

    @property
    def _groups(self) -> int:
        """The number of entries of a mean or std that is not uniform."""
        return {2: 1}.get(len(self.input_shape), self.input_shape[0])

    @property
    def taken_shape(self) -> Shape:
        """The input's shape after the layout, before it is reshaped."""
        shape = self.input_shape
        last = self.layout == "hwc" and len(shape) == 3
        return (*shape[1:], shape[0]) if last else shape

    @property
    def is_plain(self) -> bool:
        """Whether the model takes the input as it is."""
        unchanged = self.input_shape == self.model_shape and self.layout == "chw"
        return unchanged and not self.mean and not self.std

    def spread(self, values: tuple[float, ...]) -> Array:
        """Reshape a mean or std so that it broadcasts over inputs."""
        rest = len(self.input_shape) - 1
        return np.asarray(values, dtype=np.float64).reshape(-1, *(1,) * rest)

    def to_model(self, x: Array) -> Array:
        """Convert a batch of inputs to the model's `(batch, *model_shape)`."""
        images = np.asarray(x, dtype=np.float64).reshape(-1, *self.input_shape)
        if self.mean:
            images = images - self.spread(self.mean)
        if self.std:
            images = images / self.spread(self.std)
        if self.layout == "hwc":
            images = images.transpose(0, 2, 3, 1)
        return images.reshape(-1, *self.model_shape)

    def plain(self) -> dict[str, Any]:
        """Return the fields in JSON's own types."""
        return {
            "layout": self.layout,
            "model_shape": list(self.model_shape),
            "mean": list(self.mean),
            "std": list(self.std),
        }

    def __str__(self) -> str:
        parts = []
        if self.mean or self.std:
            mean, std = (_listed(values) for values in (self.mean, self.std))
            less = f"x - {mean}" if self.mean else "x"
            parts.append(f"({less}) / {std}" if self.std else less)
        if self.layout == "hwc":
            parts.append("channels last")
        if self.taken_shape != self.model_shape:
            parts.append(f"as {'x'.join(map(str, self.model_shape))} values")
        return ", ".join(parts) or "x"


def require_layout(model_shape: Shape, image_shape: Sequence[int] | None) -> None:
    """Ask for the layout of a shape that reads as an image with its channels last."""
    if image_shape is not None or len(model_shape) != 3:
        return
    rows, columns, channels = model_shape
    if channels in CHANNELS and rows > channels and columns > 1:
        raise InvalidInput(
            f"the model takes an input of shape {model_shape}: give --layout hwc (layout='hwc' in "
            f"Python) if it is an image of {rows} x {columns} pixels with its channels last "
            f"({channels}), or --layout chw if it has {rows} channels of {columns} x {channels} "
            "pixels"
        )


def convention(
    model_shape: Shape,
    layout: str = "chw",
    image_shape: Sequence[int] | None = None,
    mean: Numbers | None = None,
    std: Numbers | None = None,
) -> Convention:
    """Build the convention from a user's options, for a model whose input has `model_shape`.

    `layout` is that of the model. `image_shape` is `(channels, rows, columns)` or
    `(rows, columns)`; it is needed if the model takes an image as a flat vector.
    """
    if image_shape is not None:
        shape = _image_shape(image_shape)
        if layout == "hwc" and len(model_shape) == 3 and model_shape != (*shape[1:], shape[0]):
            raise InvalidInput(
                f"the model's input {model_shape} is not an image {shape} with its channels last"
            )
    elif layout == "hwc" and len(model_shape) == 3:
        shape = (model_shape[2], *model_shape[:2])
    else:
        shape = model_shape
    numbers = (_numbers(values, name) for values, name in ((mean, "mean"), (std, "std")))
    return Convention(shape, model_shape, layout, *numbers)


def _sizes(shape: Shape) -> Shape:
    """Drop dimensions of 1: a model that has two others or more takes an image."""
    return tuple(size for size in shape if size != 1)


def _image_shape(given: Sequence[int]) -> Shape:
    sizes = tuple(int(size) if math.isfinite(size) else 0 for size in given)
    if len(sizes) not in (2, 3) or min(sizes) < 1 or sizes != tuple(given):
        raise InvalidInput(
            f"an image shape is channels, rows and columns, or rows and columns, not {given!r}"
        )
    return sizes if len(sizes) == 3 else (1, *sizes)


def _numbers(given: Numbers | None, name: str) -> tuple[float, ...]:
    if given is None:
        return ()
    values = (given,) if isinstance(given, Real) else tuple(given)  # type: ignore[arg-type]
    if not values or not all(isinstance(value, Real) for value in values):
        raise InvalidInput(f"the {name} must be a number or a list of numbers, not {given!r}")
    return tuple(float(value) for value in values)


def _listed(values: tuple[float, ...]) -> str:
    text = ",".join(repr(value).removesuffix(".0") for value in values)
    return text if len(values) == 1 else f"[{text}]"
