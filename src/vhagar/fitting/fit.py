"""Domains from data: a box around one input, and boxes or zonotopes that hold a share of a set.

Half of the data says where inputs lie. The other half, which was held out, says how far the domain
has to reach so that the stated share of it is inside.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vhagar.array_types import Array
from vhagar.dataset import as_float32
from vhagar.errors import InvalidInput
from vhagar.fitting.data_rows import component_rows, component_weights, likely_row, unlikely_weights
from vhagar.perturbation import Domain, Zonotope
from vhagar.relaxation.rounding import float32_above

Labels = NDArray[np.int64]

# An entry reaches at least this part of its range in the data to either side of its middle.
_LEAST_REACH = 0.01


@dataclass(frozen=True, eq=False)
class Fit:
    """A domain, and how many of the held-out inputs lie in it: in all, and of each class.

    Counts are `(inside, held out)`.
    """

    domain: Domain
    covered: tuple[int, int] = (0, 0)
    classes: Mapping[int, tuple[int, int]] | None = None


def box_around(x: ArrayLike, radius: ArrayLike, domain: Domain, name: str = "") -> Domain:
    """The inputs whose entries differ from `x` by at most a radius, one for all or one each."""
    centre = np.asarray(x, dtype=np.float64).reshape(-1)
    reach = np.asarray(radius, dtype=np.float64).reshape(-1)
    if not (np.isfinite(reach) & (reach >= 0)).all():
        raise InvalidInput("a radius must be a finite number of at least 0")
    low, high = np.clip([centre - reach, centre + reach], domain.lower, domain.upper)
    return _named(domain, low, high, name)


def fit_box(
    inputs: Array,
    domain: Domain,
    cover: float = 0.99,
    labels: Labels | None = None,
    name: str = "",
    conditions: Mapping[str, Any] | None = None,
    likely: bool = False,
    coordinates: int = 0,
) -> Fit:
    """A range for every entry such that the share `cover` of the held-out half is inside.

    `conditions` are further arguments of `Domain`, such as `integer` and `one_hot`. If `likely`,
    a linear row leaves out inputs in which more is unusual than in those of the data. With
    `coordinates`, those along so many principal components have ranges, too: further rows.
    """
    first, held = _halves(inputs, cover)
    known, ends = inputs[first], (inputs.min(axis=0), inputs.max(axis=0))
    axes = component_weights(known, _count(coordinates, known)) if coordinates else None
    centre = np.median(known, axis=0)
    floor = _LEAST_REACH * (ends[1] - ends[0])
    below = np.maximum(centre - known.min(axis=0), floor)
    above = np.maximum(known.max(axis=0) - centre, floor)
    gaps = inputs[held] - centre
    needed = np.maximum(_quotient(gaps, above), _quotient(-gaps, below)).max(axis=1)
    if axes is not None:
        needed = np.maximum(needed, _coordinates_needed(known, inputs[held], axes))
    factor = _factor(needed, _first_share(cover, likely))
    # Nowhere beyond all inputs; and rounding must not put those outside that were to be inside.
    low, high = np.clip([centre - factor * below, centre + factor * above], *ends)
    inside = needed <= factor
    chosen = inputs[held][inside]
    low, high = np.minimum(low, chosen.min(axis=0)), np.maximum(high, chosen.max(axis=0))
    low, high = _rounded(*_float32_ends(low, high, domain), conditions or {})
    versions = [inputs[held], as_float32(inputs[held], domain)]
    rows = [] if axes is None else [component_rows(axes, versions, inside)]
    rows += [likely_row(unlikely_weights(known, domain), versions, inside, cover)] if likely else []
    more = {"rows": rows} if rows else {}
    found = _named(domain, low, high, name, {**(conditions or {}), **more})
    return _counted(found, inputs[held], None if labels is None else labels[held])


def fit_components(
    inputs: Array,
    domain: Domain,
    components: int,
    cover: float = 0.99,
    labels: Labels | None = None,
    name: str = "",
    likely: bool = False,
) -> Fit:
    """A zonotope of principal components that holds the share `cover` of the held-out half.

    If `likely`, a linear row leaves out inputs in which more is unusual than in those of the data.
    """
    first, held = _halves(inputs, cover)
    known = inputs[first]
    mean = known.mean(axis=0)
    axes = np.linalg.svd(known - mean, full_matrices=False)[2][: _count(components, known)]
    floor = _LEAST_REACH * domain.width
    ranges, residual = (
        np.maximum(abs(part).max(axis=0), floor) for part in _parts(known, mean, axes)
    )
    needed, most = np.zeros(len(held)), [ranges, residual]
    for each in (inputs[held], as_float32(inputs[held], domain)):
        own, rest = (abs(part) for part in _parts(each, mean, axes))
        needed = np.maximum(needed, (own / ranges).max(axis=1))
        needed = np.maximum(needed, (rest / residual).max(axis=1))
        most = [np.maximum(*pair) for pair in zip(most, (own.max(0), rest.max(0)), strict=True)]
    factor = _factor(needed, _first_share(cover, likely))
    # Nowhere beyond all inputs: one that is bright where all others are dark makes a large factor.
    ranges, residual = np.minimum(factor * ranges, most[0]), np.minimum(factor * residual, most[1])
    # A little wider, because membership is decided in floating-point arithmetic.
    ranges, residual = (1 + 1e-6) * ranges, (1 + 1e-6) * residual
    conditions = {"zonotope": Zonotope(mean, axes, ranges, residual)}
    found = _named(domain, *_ends(domain), name, conditions)
    if likely:
        versions = [inputs[held], as_float32(inputs[held], domain)]
        inside = np.asarray(found.contains(versions[0]) & found.contains(versions[1]))
        row = likely_row(unlikely_weights(known, domain), versions, inside, cover)
        found = _named(domain, *_ends(domain), name, {**conditions, "rows": row})
    return _counted(found, inputs[held], None if labels is None else labels[held])


def _count(components: int, known: Array) -> int:
    """The number of components, if there are so many."""
    most = min(known.shape)
    if not 1 <= components <= most:
        raise InvalidInput(
            f"the number of components must be 1 to {most}, not {components}: half of the data are "
            f"{len(known)} inputs of {known.shape[1]} entries"
        )
    return components


def _coordinates_needed(known: Array, held: Array, axes: Array) -> Array:
    """For each held-out input, the factor by which ranges of coordinates must grow to hold it."""
    own, other = known @ axes.T, held @ axes.T
    middle = np.median(own, axis=0)
    found: Array = _quotient(abs(other - middle), abs(own - middle).max(axis=0)).max(axis=1)
    return found


def _parts(inputs: Array, mean: Array, axes: Array) -> tuple[Array, Array]:
    """Coordinates along the axes, and what is left."""
    own = (inputs - mean) @ axes.T
    return own, inputs - mean - own @ axes


def _halves(inputs: Array, cover: float) -> tuple[Labels, Labels]:
    """Two halves of the inputs, drawn without regard to their order."""
    if not 0 < cover <= 1:
        raise InvalidInput(f"the share to cover must be above 0 and at most 1, not {cover:g}")
    if len(inputs) < 4:
        raise InvalidInput(
            f"a domain is fitted to at least 4 inputs, half of which are held out; this is "
            f"{len(inputs)}"
        )
    order = np.random.default_rng(0).permutation(len(inputs))
    middle = (len(inputs) + 1) // 2
    return np.sort(order[:middle]), np.sort(order[middle:])


def _quotient(gaps: Array, reach: Array) -> Array:
    """`gaps / reach`, and 0 where an entry has one value in all inputs."""
    return np.where(reach > 0, gaps / np.where(reach > 0, reach, 1.0), 0.0)


def _factor(needed: Array, cover: float) -> float:
    """The least factor at which the share to cover is inside."""
    return float(np.sort(needed)[math.ceil(cover * len(needed)) - 1])


def _first_share(cover: float, likely: bool) -> float:
    """The share that ranges must cover: half of what may be left out is left to the row."""
    return (1 + cover) / 2 if likely else cover


def _ends(domain: Domain) -> tuple[float, float]:
    return domain.lower, domain.upper


def _float32_ends(low: Array, high: Array, domain: Domain) -> tuple[Array, Array]:
    """The next float32 numbers outward: inputs that are inside are inside as float32, too."""
    down, up = -float32_above(-low), float32_above(high)
    low = np.maximum(down.astype(np.float64), domain.lower)
    return low, np.minimum(up.astype(np.float64), domain.upper)


def _rounded(low: Array, high: Array, conditions: Mapping[str, Any]) -> tuple[Array, Array]:
    """Whole ends for entries that are whole numbers, and 0 and 1 for those of one-hot groups."""
    low, high = low.copy(), high.copy()
    whole: list[int] = list(conditions.get("integer", ()))
    low[whole], high[whole] = np.floor(low[whole]), np.ceil(high[whole])
    groups: Sequence[Sequence[int]] = conditions.get("one_hot", ())
    hot = [k for group in groups for k in group]
    low[hot], high[hot] = 0.0, 1.0
    return low, high


def _named(
    domain: Domain,
    low: ArrayLike,
    high: ArrayLike,
    name: str,
    conditions: Mapping[str, Any] | None = None,
) -> Domain:
    return Domain(domain.shape, low, high, range=_ends(domain), name=name, **(conditions or {}))


def _counted(domain: Domain, held: Array, labels: Labels | None) -> Fit:
    """How many of the held-out inputs are inside, as they are and as float32."""
    inside = domain.contains(held) & domain.contains(as_float32(held, domain))
    classes = None
    if labels is not None:
        classes = {
            int(label): (int(inside[labels == label].sum()), int((labels == label).sum()))
            for label in np.unique(labels)
        }
    return Fit(domain, (int(inside.sum()), len(held)), classes)
