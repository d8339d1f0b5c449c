"""Affine maps with parameters in a box: `x_p = A x + B e + c`, each `e_k` in a range of its own."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from vhagar.array_types import Array
from vhagar.errors import InvalidInput
from vhagar.perturbation.domain import Domain
from vhagar.perturbation.ranges import GivenRange, as_range

# The largest number in a user's map: beyond practical use, but no product overflows.
LARGEST = 1e9


@dataclass(frozen=True, eq=False)
class AffineMap:
    """`x_p = matrix @ x + directions @ e + offset`, with `lower <= e <= upper`.

    `matrix` is `(size, size)`, `directions` is `(size, parameters)`. `affine_map` builds a map from
    the part that differs from the identity.
    """

    matrix: sparse.csr_array
    directions: sparse.csr_array
    offset: Array
    lower: Array
    upper: Array
    names: tuple[str, ...] = ()
    label: str = "map"

    def __post_init__(self) -> None:
        store = object.__setattr__
        for name in ("matrix", "directions"):
            store(self, name, _canonical_matrix(getattr(self, name)))
        for name in ("offset", "lower", "upper"):
            store(self, name, _frozen(getattr(self, name)))
        store(self, "names", tuple(self.names) or tuple(f"e{k + 1}" for k in range(self.count)))
        self._check_shapes()
        every = (self.matrix.data, self.directions.data, self.offset, self.lower, self.upper)
        if not all(bool(np.isfinite(values).all()) for values in every):
            raise InvalidInput(
                f"the map {self.label!r} holds NaN or a number beyond {LARGEST:g} in size"
            )
        if (self.lower > self.upper).any():
            worst = self.names[int((self.lower - self.upper).argmax())]
            raise InvalidInput(f"the range of {worst!r} in {self.label!r} needs low <= high")

    def _check_shapes(self) -> None:
        size, count = self.size, self.count
        shapes = {
            "matrix": (self.matrix.shape, (size, size)),
            "directions": (self.directions.shape, (size, count)),
            "offset": (self.offset.shape, (size,)),
            "lower": (self.lower.shape, (count,)),
            "upper": (self.upper.shape, (count,)),
        }
        for name, (found, needed) in shapes.items():
            if tuple(found) != needed:
                raise InvalidInput(
                    f"the {name} of the map {self.label!r} has shape {tuple(found)}, not {needed}"
                )
        known = len(self.names) == count == len(set(self.names))
        if not known or not all(isinstance(name, str) and name for name in self.names):
            raise InvalidInput(
                f"the map {self.label!r} has {count} parameter(s) and needs a name for each, "
                f"not {self.names!r}"
            )

    def require_moderate(self) -> AffineMap:
        """The map itself; an error if a number in it is larger than a user's map may contain."""
        every = (self.matrix.data, self.directions.data, self.offset, self.lower, self.upper)
        if any(bool((abs(values) > LARGEST).any()) for values in every):
            raise InvalidInput(f"the map {self.label!r} holds a number beyond {LARGEST:g} in size")
        return self

    @property
    def size(self) -> int:
        """The number of entries of an input."""
        return self.offset.size

    @property
    def count(self) -> int:
        """The number of parameters."""
        return int(self.directions.shape[1])

    def extremes(self, domain: Domain) -> tuple[Array, Array]:
        """The smallest and the largest image `(size,)` over a domain, not rounded outward."""
        low, high = extremes(self.matrix, domain.low, domain.high)
        least, most = extremes(self.directions, self.lower, self.upper)
        return low + least + self.offset, high + most + self.offset

    @property
    def canonical(self) -> bytes:
        """The numbers of the map in a fixed order, little-endian: equal for equal maps only."""
        counts = (self.size, self.count, self.matrix.nnz, self.directions.nnz)
        parts = [struct.pack("<4Q", *counts)]
        for matrix in (self.matrix, self.directions):
            parts += [matrix.indptr.astype("<u4").tobytes(), matrix.indices.astype("<u4").tobytes()]
            parts.append(_plain_zero(matrix.data).tobytes())
        parts += [_plain_zero(part).tobytes() for part in (self.offset, self.lower, self.upper)]
        return b"".join(parts)


def extremes(
    matrix: sparse.csr_array, low: Array | float, high: Array | float
) -> tuple[Array, Array]:
    """The smallest and the largest `matrix @ v` over `low <= v <= high`."""
    width = matrix.shape[1]
    lower, upper = (
        np.broadcast_to(np.asarray(end, dtype=np.float64), width) for end in (low, high)
    )
    up, down = matrix.maximum(0), matrix.minimum(0)
    return up @ lower + down @ upper, up @ upper + down @ lower


def canonical_maps(maps: Iterable[AffineMap]) -> bytes:
    """The numbers of several maps, in order."""
    return b"".join(each.canonical for each in maps)


def fingerprint(maps: Iterable[AffineMap]) -> str:
    """The SHA-256 of the maps' numbers, in hexadecimal, by which certificates identify the maps."""
    return hashlib.sha256(canonical_maps(maps)).hexdigest()


def affine_map(
    domain: Domain,
    *,
    matrix: ArrayLike | sparse.sparray | None = None,
    directions: ArrayLike | sparse.sparray | None = None,
    offset: ArrayLike = 0.0,
    ranges: Sequence[GivenRange] = (),
    names: Sequence[str] = (),
    pixels: ArrayLike | None = None,
    label: str = "map",
) -> AffineMap:
    """Build an affine map over a domain that changes some pixels and leaves all others unchanged.

    `pixels` selects k pixels, by flat numbers from 0 or by a mask of the domain's shape (default:
    all). `matrix` is how the images of these pixels depend on `x`: None if each keeps its own
    value, a number or `(k,)` numbers to multiply it by, or `(k, size)` weights for mixtures of
    pixels. `directions` `(k, parameters)` is how the parameters move them, and `ranges` are the
    ranges of the parameters, each a pair or a single number. `offset` is a number or `(k,)` numbers
    that are added.
    """
    size, chosen = domain.size, _chosen(pixels, domain)
    spans = [as_range(span, f"a range of {label!r}") for span in _as_list(ranges, label)]
    kept = _rows(matrix, chosen, size, label)
    moves = _directions(directions, len(chosen), len(spans), label)
    shift = _numbers(offset, len(chosen), f"the offset of {label!r}")
    others = np.setdiff1d(np.arange(size), chosen)
    pick = sparse.csr_array(
        (np.ones(len(chosen)), (chosen, np.arange(len(chosen)))), shape=(size, len(chosen))
    )
    same = sparse.csr_array((np.ones(len(others)), (others, others)), shape=(size, size))
    return AffineMap(
        sparse.csr_array(pick @ kept + same),
        sparse.csr_array(pick @ moves),
        pick @ shift,
        np.array([span[0] for span in spans]),
        np.array([span[1] for span in spans]),
        tuple(names),
        label,
    ).require_moderate()


def _chosen(pixels: ArrayLike | None, domain: Domain) -> NDArray[np.int64]:
    if pixels is None:
        return np.arange(domain.size)
    given = np.asarray(pixels)
    if given.dtype == np.bool_:
        if given.size != domain.size:
            raise InvalidInput(
                f"the mask of pixels has {given.size} entries, but an input has {domain.size}"
            )
        return np.flatnonzero(given)
    whole = given.ndim == 1 and (given.size == 0 or np.issubdtype(given.dtype, np.integer))
    if not whole or ((given < 0) | (given >= domain.size)).any():
        raise InvalidInput(
            f"pixels must be flat numbers from 0 to {domain.size - 1}, or a mask of the input"
        )
    if len(np.unique(given)) != len(given):
        raise InvalidInput("a pixel is given twice")
    return given.astype(np.int64)


def _rows(given: Any, chosen: NDArray[np.int64], size: int, label: str) -> sparse.csr_array:
    """The matrix rows of the chosen pixels, `(k, size)`."""
    count = len(chosen)
    what = f"the matrix of {label!r}"
    if sparse.issparse(given) or np.ndim(given) == 2:
        rows = _matrix(given, what)
        if rows.shape != (count, size):
            raise InvalidInput(
                f"{what} must have a row for each chosen pixel and a column for each pixel, "
                f"{(count, size)}, not {rows.shape}"
            )
        return rows
    weights = _numbers(1.0 if given is None else given, count, what)
    return sparse.csr_array((weights, (np.arange(count), chosen)), shape=(count, size))


def _directions(given: Any, rows: int, count: int, label: str) -> sparse.csr_array:
    what = f"the directions of {label!r}"
    if given is None:
        if count:
            raise InvalidInput(f"{what} are missing: it has {count} range(s)")
        return sparse.csr_array((rows, 0))
    column = np.ndim(given) == 1 and not sparse.issparse(given)
    found = _matrix(np.reshape(given, (-1, 1)) if column else given, what)
    if found.shape != (rows, count):
        raise InvalidInput(
            f"{what} must have a row for each chosen pixel and a column for each range, "
            f"{(rows, count)}, not {found.shape}"
        )
    return found


def _matrix(given: Any, what: str) -> sparse.csr_array:
    try:
        return sparse.csr_array(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{what} is not a matrix of numbers: {error}") from error


def _numbers(given: Any, count: int, what: str) -> Array:
    try:
        found: Array = np.array(np.broadcast_to(np.asarray(given, dtype=np.float64), (count,)))
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"{what} must be a number or {count} numbers, one for each chosen pixel"
        ) from error
    return found


def _as_list(ranges: Any, label: str) -> list[GivenRange]:
    if isinstance(ranges, str) or not isinstance(ranges, Iterable):
        raise InvalidInput(f"the ranges of {label!r} must be a list of pairs, not {ranges!r}")
    return list(ranges)


def _canonical_matrix(given: Any) -> sparse.csr_array:
    found = sparse.csr_array(given, dtype=np.float64, copy=True)
    found.sum_duplicates()
    found.eliminate_zeros()
    found.sort_indices()
    return found


def _frozen(given: Any) -> Array:
    found = np.array(given, dtype=np.float64)
    found.setflags(write=False)
    return found


def _plain_zero(values: Array) -> Array:
    """The numbers in little-endian order, with -0.0 turned into 0.0."""
    return (values + 0.0).astype("<f8")
