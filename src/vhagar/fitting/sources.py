"""Data for domains: inputs of a file with their shape, of one class where that is wanted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array
from vhagar.dataset import read_training_set
from vhagar.errors import BAD_ARRAYS, InvalidInput, array_complaint
from vhagar.network.conventions import CHANNELS
from vhagar.perturbation import Domain
from vhagar.perturbation.domain.file import given_shape, read_toml

Labels = NDArray[np.int64]
Shape = tuple[int, ...]

# A table's range reaches beyond its values by this part, so that perturbed rows are hardly clipped.
_BEYOND = 0.25
# Where labels are looked for, in arrays and in tables.
_HOW_LABELS = {
    False: "labels are one vector of whole numbers, as long as the inputs",
    True: "name the column of the classes with --label",
}
_IMAGES = (".png", ".jpg", ".jpeg", ".bmp")


def data_shape(path: Path, index: int | None = None) -> Shape:
    """The shape of the inputs of a file or folder: images are `(channels, rows, columns)`."""
    if not path.exists():
        raise InvalidInput(f"no data at {path}; check the path")
    if path.is_dir() or path.suffix.lower() in _IMAGES:
        return _image_shape(path)
    try:
        arrays = _arrays_of(path)
    except BAD_ARRAYS as error:
        if path.suffix not in (".npz", ".npy"):
            raise InvalidInput(
                f"{path} is no data: give an .npz file, a folder of images, or a .csv table"
            ) from None
        raise InvalidInput(f"cannot read {path}: {array_complaint(error)}") from None
    if path.suffix == ".npy" and index is None:
        return as_image(arrays[0].shape)
    inner = {array.shape[1:] for array in arrays if array.ndim >= 2}
    if len(inner) != 1:
        raise InvalidInput(f"cannot tell the shape of an input of {path}; give --image-shape C,H,W")
    return as_image(inner.pop())


def _arrays_of(path: Path) -> list[np.ndarray[Any, Any]]:
    """The arrays of an .npz file, or the one of an .npy file."""
    found = np.load(path, allow_pickle=False)
    if isinstance(found, np.ndarray):
        return [found]
    with found:
        return [found[name] for name in found.files]


def _image_shape(path: Path) -> Shape:
    from PIL import Image

    files = [path] if path.is_file() else sorted(path.iterdir())
    images = [file for file in files if file.suffix.lower() in _IMAGES]
    if not images:
        raise InvalidInput(f"{path} holds no images ({', '.join(_IMAGES)})")
    try:
        with Image.open(images[0]) as image:
            return as_image(np.asarray(image).shape)
    except OSError as error:
        raise InvalidInput(f"cannot read {images[0]}: {error}") from None


def as_image(shape: Shape) -> Shape:
    """Channels first: `(1, rows, columns)` for two numbers, and those with channels last turned."""
    if len(shape) == 2:
        return (1, *shape)
    if len(shape) == 3 and shape[2] in CHANNELS and shape[0] not in CHANNELS:
        return (shape[2], *shape[:2])
    return shape


def read_inputs(path: Path, domain: Domain, label: int | str | None) -> tuple[Array, Labels | None]:
    """The inputs of a data set, or those of one class, with their labels if there are some.

    Of a training set and a test set, it is the former: the latter is for measuring coverage.
    """
    inputs, labels = read_training_set(path, domain)
    return of_class(inputs, labels, label, path)


def of_class(
    inputs: Array,
    labels: Labels | None,
    label: int | str | None,
    path: Path,
    names: Sequence[str] = (),
) -> tuple[Array, Labels | None]:
    """The inputs of one class, by its number or its name, or all."""
    if label is None:
        return inputs, labels
    if labels is None:
        table = path.suffix == ".csv"
        raise InvalidInput(
            f"{path} has no labels, so --class cannot choose among its inputs; {_HOW_LABELS[table]}"
        )
    number = names.index(label) if isinstance(label, str) and label in names else label
    chosen = labels == number
    if not np.any(chosen):
        known = names or [str(each) for each in np.unique(labels)]
        raise InvalidInput(f"{path} has no input of class {label}; it has {', '.join(known)}")
    return inputs[chosen], labels[chosen]


def table_range(values: Array) -> tuple[float, float]:
    """One range for all features, in which perturbed rows lie, too."""
    low, high = float(values.min()), float(values.max())
    room = _BEYOND * ((high - low) or 1.0)
    return low - room, high + room


def domain_shape(path: Path) -> Shape:
    """The shape of the inputs that a domain's file is about, from its arrays or names."""
    given = read_toml(path)
    stated = given_shape(given, path)
    if stated is not None:
        return stated
    if isinstance(given.get("features"), list):
        return (len(given["features"]),)
    for key in ("lower", "upper"):
        value = given.get(key)
        if isinstance(value, list):
            return (len(value),)
        if isinstance(value, str):
            file, _, name = value.rpartition(":")
            try:
                with np.load(path.parent / file, allow_pickle=False) as arrays:
                    return tuple(arrays[name].shape)
            except KeyError:
                raise InvalidInput(f"{path} names {value}, which holds no such array") from None
            except BAD_ARRAYS as error:
                why = array_complaint(error)
                raise InvalidInput(f"cannot read {value} of {path}: {why}") from None
    raise InvalidInput(
        f"{path} does not tell the shape of inputs; write it there, such as shape = [1, 28, 28], "
        "or give it with --image-shape"
    )
