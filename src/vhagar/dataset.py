"""Inputs from files: an .npz archive, a table, or a folder of images."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array
from vhagar.errors import BAD_ARRAYS, InvalidInput, array_complaint
from vhagar.options import Options
from vhagar.perturbation import Domain
from vhagar.table import table_inputs

# Inputs per forward pass, which bounds the memory.
CHUNK = 1024
# What an archive calls its two parts, where it has them.
_PARTS = ("x_train", "x_test")
_LABELS = ("y", "label", "labels", "target", "targets")
IMAGES = (".png", ".jpg", ".jpeg", ".bmp")
# Values this far outside of the input range, as a part of its width, come from rounding to float32.
_ROUNDING = 1e-6
# Inputs of a data set that attacks start from, at most.
# Measured: ranking them and their class means takes 0.1 s of a core on mnist_3x10 and 1.1 s on
# mnist_conv2; with 10,000 of them 1.5 and 5.7 s.
_MOST_STARTS = 2_000
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Neighbour:
    """The input of a data set that is nearest to a given one; `row` is its place, from 0.

    `distance` is the root mean square difference of their entries, each as a part of its range in
    the domain: 0 for the same input, and at most 1.
    """

    row: int
    x: Array
    label: int | None
    distance: float


def nearest(
    x: Array, inputs: Array, domain: Domain, labels: NDArray[np.int64] | None = None
) -> list[Neighbour]:
    """For each input `(count, size)`, the nearest one of a data set that is not empty."""
    width = domain.high - domain.low
    scale = 1.0 / np.where(width > 0, width, 1.0)
    given, data = (values.reshape(len(values), -1) * scale for values in (x, inputs))
    # |a - b|^2 = |a|^2 - 2 a b + |b|^2, of which the first is the same for all b.
    rows = ((data**2).sum(axis=1) - 2.0 * given @ data.T).argmin(axis=1)
    found = []
    for own, row in zip(given, rows.tolist(), strict=True):
        distance = float(np.sqrt(np.mean((own - data[row]) ** 2)))
        label = None if labels is None else int(labels[row])
        found.append(Neighbour(row, inputs[row], label, distance))
    return found


def attack_starts(options: Options, domain: Domain) -> Array | None:
    """The inputs of the data set that attacks start from, if the options name one.

    They are taken evenly from the test set, and no more than an attack can rank in no time.
    """
    if options.dataset is None:
        return None
    inputs, _ = read_test_set(options.dataset, domain)
    chosen: Array = inputs[:: max(-(-len(inputs) // _MOST_STARTS), 1)]
    return chosen


def read_dataset(path: Path, domain: Domain) -> Array:
    """The inputs `(count, size)`, scaled to the domain where they are bytes."""
    if path.is_dir():
        files = _images(path)
        if not files:
            raise InvalidInput(f"{path} holds no images ({', '.join(IMAGES)})")
        return np.concatenate([_fitted(_image(file), domain, file) for file in files])
    if path.suffix == ".csv":
        return _table(path, domain)[0]
    if path.suffix != ".npz":
        if not path.exists():
            raise InvalidInput(f"no data at {path}; check the path")
        raise InvalidInput(f"{path} is neither a folder of images nor an .npz or .csv file")
    return _fitted(_inputs_of(_arrays(path), domain, path), domain, path)


def read_test_set(path: Path, domain: Domain) -> tuple[Array, NDArray[np.int64] | None]:
    """Inputs `(count, size)` and their labels, where the file has some; of two parts, the test set.

    Labels of an archive are the one vector of whole numbers that is as long as the inputs, or the
    one whose name says that it holds labels.
    """
    return _labelled(path, domain, "test")


def read_training_set(path: Path, domain: Domain) -> tuple[Array, NDArray[np.int64] | None]:
    """As `read_test_set`, but of two parts the training set."""
    return _labelled(path, domain, "train")


def _labelled(path: Path, domain: Domain, part: str) -> tuple[Array, NDArray[np.int64] | None]:
    if path.suffix == ".csv":
        return _table(path, domain)
    if path.is_dir() or path.suffix != ".npz":
        return read_dataset(path, domain), None
    arrays = _arrays(path, part)
    inputs = _fitted(_inputs_of(arrays, domain, path), domain, path)
    return inputs, _labels_of(arrays, len(inputs), path)


def _test_inputs(path: Path, domain: Domain) -> Array:
    """The inputs of a test set, whatever the file holds beside them."""
    if path.suffix != ".npz" or path.is_dir():
        return read_dataset(path, domain)
    return _fitted(_inputs_of(_arrays(path, "test"), domain, path), domain, path)


def dataset_sha256(path: Path) -> str:
    """What tells a data set from others: the hash of its file, or of the images of a folder."""
    if not path.is_dir():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    # Hashes have one length, so that no two folders give the same bytes.
    hashes = [hashlib.sha256(image.read_bytes()).digest() for image in _images(path)]
    return hashlib.sha256(b"".join(hashes)).hexdigest()


def as_float32(inputs: Array, domain: Domain) -> Array:
    """The same rounding as the witness check's, so that both speak of the same inputs."""
    rounded = inputs.astype(np.float32).astype(np.float64)
    clipped: Array = np.clip(rounded, domain.lower, domain.upper)
    return clipped


def read_image(path: Path, domain: Domain, index: int | None = None) -> Array:
    """One input `(size,)`: an image, an array in an .npy file, or one of a data set by its index.

    Of an archive with a training and a test set, it is one of the test set, as for coverage.
    """
    if not path.exists():
        raise InvalidInput(f"no image at {path}; check the path")
    if path.is_dir() or path.suffix in (".npz", ".csv"):
        inputs = _test_inputs(path, domain)  # its label is of no interest
        if index is None or not 0 <= index < len(inputs):
            none = "" if index is None else f"there is no input {index}: "
            raise InvalidInput(
                f"{none}{path} holds {len(inputs)} inputs; choose one with --index, from 0 to "
                f"{len(inputs) - 1}"
            )
        chosen: Array = inputs[index]
        return chosen
    if path.suffix.lower() in IMAGES:
        if index is not None:
            raise InvalidInput(f"{path} holds one image: leave out the index")
        return _fitted(_image(path), domain, path).reshape(-1)
    if path.suffix != ".npy":
        raise InvalidInput(f"{path} is not an image ({', '.join(IMAGES)}), .npy, .npz or .csv file")
    try:
        values = np.load(path, allow_pickle=False)
    except BAD_ARRAYS as error:
        raise InvalidInput(f"cannot read {path}: {array_complaint(error)}") from None
    if values.dtype.kind not in "fiu":
        raise InvalidInput(f"{path} holds {values.dtype}, not numbers")
    if values.size != domain.size and index is not None and 0 <= index < len(values):
        values = values[index]
    # A batch of one is an input, too.
    values = values[0] if values.ndim == len(domain.shape) + 1 and len(values) == 1 else values
    return _fitted(values[None], domain, path).reshape(-1)


def _table(path: Path, domain: Domain) -> tuple[Array, NDArray[np.int64] | None]:
    """The rows of a table, whose columns are the features of the domain."""
    values, labels = table_inputs(path, domain.size, domain.features, domain.classes)
    return _fitted(values, domain, path), labels


def _arrays(path: Path, part: str = "") -> dict[str, Any]:
    """The arrays of an archive; of one that has two parts, those of the given `part`, if any."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            parted = part and set(_PARTS) <= set(archive.files)
            names = [name for name in archive.files if not parted or name.endswith(f"_{part}")]
            return {name: archive[name] for name in names}
    except FileNotFoundError:
        raise InvalidInput(f"no data at {path}; check the path") from None
    except BAD_ARRAYS as error:
        raise InvalidInput(f"cannot read {path}: {array_complaint(error)}") from None


def _inputs_of(arrays: dict[str, Any], domain: Domain, path: Path) -> Any:
    """The one array whose entries have the size of an input, or training and test inputs."""
    fitting = {
        name: array
        for name, array in arrays.items()
        if array.ndim >= 2 and len(array) and array[0].size == domain.size
    }
    if set(fitting) == set(_PARTS):
        # Arrays of different types would be joined into one of a third type.
        first, second = (fitting[name] for name in _PARTS)
        if first.dtype == second.dtype and first.shape[1:] == second.shape[1:]:
            return np.concatenate([first, second])
    if len(fitting) != 1:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise InvalidInput(
            f"{path} should hold one array of inputs of shape {domain.shape}; it holds {shapes}"
        )
    return next(iter(fitting.values()))


def _labels_of(arrays: dict[str, Any], count: int, path: Path) -> NDArray[np.int64] | None:
    """The labels among the arrays; one with such a name that cannot be labels is refused."""
    plain = {name: name.removesuffix("_test").removesuffix("_train") for name in arrays}
    named = [name for name in arrays if plain[name] in _LABELS]
    if len(named) == 1:
        found = arrays[named[0]]
        flat = found.reshape(-1)
        if found.shape not in ((count,), (count, 1)) or not _are_whole(flat):
            raise InvalidInput(
                f"{named[0]} in {path} should hold the labels of {count} inputs, one whole number "
                f"each; it holds {found.dtype} of shape {found.shape}"
            )
        return np.asarray(flat, dtype=np.int64)
    labels = [
        array for array in arrays.values() if array.shape == (count,) and array.dtype.kind in "iu"
    ]
    return labels[0].astype(np.int64) if len(labels) == 1 else None


def _are_whole(values: Any) -> bool:
    if values.dtype.kind in "iu":
        return True
    return values.dtype.kind == "f" and bool((values == np.round(values)).all())


def _images(folder: Path) -> list[Path]:
    """The images of a folder, in the order of their names."""
    return sorted(file for file in folder.iterdir() if file.suffix.lower() in IMAGES)


def _image(path: Path) -> Any:
    """Channels first, as networks have them."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            pixels = np.asarray(image)
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error}") from None
    return (pixels if pixels.ndim == 2 else np.moveaxis(pixels, -1, 0))[None]


def _fitted(values: Any, domain: Domain, path: Path) -> Array:
    channels_last = (*domain.shape[1:], domain.shape[0])
    if len(domain.shape) == 3 and values.shape[1:] == channels_last != domain.shape:
        values = np.moveaxis(values, -1, 1)
    flat = values.reshape(len(values), -1)
    if flat.shape[1] != domain.size:
        raise InvalidInput(
            f"{path}: an input of shape {values.shape[1:]} does not fit the network's input "
            f"{domain.shape}"
        )
    if flat.dtype.kind not in "fiub":
        raise InvalidInput(f"the inputs of {path} are of type {flat.dtype}, not numbers")
    if flat.dtype == np.uint8:
        inputs: Array = _scaled_bytes(domain)[flat]
        return inputs
    inputs = flat.astype(np.float64)
    # The least and the largest entry, of all and of the range; NaN if there is one.
    low, high = inputs.min(initial=domain.lower), inputs.max(initial=domain.upper)
    if np.isnan(low):
        row = int(np.isnan(inputs).any(axis=1).argmax())
        raise InvalidInput(f"input {row} of {path} holds NaN; leave such inputs out")
    beyond = float(max(domain.lower - low, high - domain.upper))
    if beyond > _ROUNDING * domain.width:
        raise InvalidInput(
            f"{path} has values outside the input range [{domain.lower:g},{domain.upper:g}]; "
            "scale them, or give the range with --input-range"
        )
    if beyond:
        _LOG.warning(
            "%s: values up to %.1g outside the input range [%g,%g] are clipped",
            path,
            beyond,
            domain.lower,
            domain.upper,
        )
        inputs = np.clip(inputs, domain.lower, domain.upper)
    return inputs


def _scaled_bytes(domain: Domain) -> Array:
    """What each byte is in the input range, `(256,)`: a whole data set is then one look-up."""
    scaled = domain.lower + domain.width * (np.arange(256) / 255.0)
    return np.clip(scaled, domain.lower, domain.upper)
