"""Features: some features change, each by up to its own radius; the others keep their values."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse

from vhagar.errors import InvalidInput
from vhagar.perturbation.affine import AffinePiece
from vhagar.perturbation.base import Perturbation
from vhagar.perturbation.domain import Domain
from vhagar.perturbation.maps import AffineMap
from vhagar.perturbation.quotients import with_quotients
from vhagar.perturbation.ranges import number

# Names that could be read as numbers: those of other features.
_NUMERIC = re.compile(r"[-+./0-9eE\s]*")
# Sentences name this many features, at most.
_MOST_SHOWN = 4


@dataclass(frozen=True)
class Features(Perturbation):
    """`features([age,income],[2,0.1])`: these features change by up to 2 and 0.1, the others not.

    Features are given by their names in the domain, or by their numbers from 0; a single radius
    applies to all. Radii are in the units of the input. With `clip`, changed features stay in the
    input range.
    """

    chosen: tuple[str | int, ...]
    radii: tuple[float, ...]
    # The names of the features, once `settled` has replaced them by numbers.
    names: tuple[str, ...] = field(default=(), compare=False)

    name = "features"

    def __init__(self, chosen: Sequence[Any], radii: Any, names: Sequence[str] = ()) -> None:
        if isinstance(chosen, str | Real):
            chosen = (chosen,)
        store = object.__setattr__
        store(self, "chosen", tuple(map(_feature, chosen)))
        store(self, "radii", _radii(radii, len(self.chosen)))
        store(self, "names", tuple(names))
        if not self.chosen or len(set(self.chosen)) < len(self.chosen):
            raise InvalidInput("features needs a list of features, each of them once")

    def settled(self, domain: Domain) -> Features:
        """The perturbation with the features' numbers in a domain, in ascending order."""
        entries = [domain.entry(feature) for feature in self.chosen]
        if len(set(entries)) < len(entries):
            raise InvalidInput(f"{self} names a feature twice")
        named = tuple(map(domain.entry_name, entries)) if domain.features else ()
        order = sorted(range(len(entries)), key=entries.__getitem__)
        return Features(
            [entries[k] for k in order],
            [self.radii[k] for k in order],
            [named[k] for k in order] if named else (),
        )

    def pieces(self, domain: Domain, clip: bool = True) -> tuple[AffinePiece, ...]:
        own = self.settled(domain)
        if max(own.radii) > domain.width:
            raise InvalidInput(
                f"a radius of {self} is more than the input range, which is "
                f"{number(domain.width)} wide; radii are in the units of the input, whose range is "
                "given with --input-range or --domain"
            )
        entries, count = [int(entry) for entry in own.chosen], len(own.chosen)
        same = sparse.csr_array(sparse.eye_array(domain.size, format="csr"))
        ones = (np.ones(count), (entries, np.arange(count)))
        spread = sparse.csr_array(ones, shape=(domain.size, count))
        radii = np.array(own.radii)
        names = tuple(f"change of {domain.entry_name(entry)}" for entry in entries)
        label = own.shown
        moved = AffineMap(same, spread, np.zeros(domain.size), -radii, radii, names, label)
        return (AffinePiece(domain, label, moved, clip),)

    def arguments(self) -> tuple[str, ...]:
        alike = len(set(self.radii)) == 1
        radii = number(self.radii[0]) if alike else _list(map(number, self.radii))
        return (_list(self._readable), radii)

    @property
    def _readable(self) -> tuple[str | int, ...]:
        """Names where `parse` reads them as names, and numbers otherwise."""
        pairs = zip(self.names or self.chosen, self.chosen, strict=True)
        return tuple(k if _NUMERIC.fullmatch(str(name)) else name for name, k in pairs)

    @property
    def shown(self) -> str:
        """The textual form for a few features, and otherwise their number."""
        if len(self.chosen) <= _MOST_SHOWN:
            names, radii = self.arguments()
            return f"{self.name}({names},{with_quotients(radii)})"
        least, most = min(self.radii), max(self.radii)
        # Not rounded: a larger radius would say more than is proved.
        radii = number(least) if least == most else f"{number(least)} to {number(most)}"
        return f"features({len(self.chosen)} features, {with_quotients(radii)})"

    @property
    def canonical(self) -> str:
        return f"features({_list(self.chosen)},{_list(map(number, self.radii))})"


def _list(items: Any) -> str:
    return f"[{','.join(map(str, items))}]"


def _feature(given: Any) -> str | int:
    if isinstance(given, Real):
        value = float(given)
        if math.isfinite(value) and value == int(value) and value >= 0:
            return int(value)
    if isinstance(given, str) and given.strip():
        return given.strip()
    raise InvalidInput(f"a feature is a name or a number from 0, not {given!r}")


def _radii(given: Any, count: int) -> tuple[float, ...]:
    radii: list[Any] = [given] * count if isinstance(given, Real) else list(given)
    numbers = all(isinstance(radius, Real) for radius in radii)
    if not numbers or any(not (math.isfinite(each) and each > 0) for each in radii):
        raise InvalidInput("a radius of features must be a number above 0, or one for each of them")
    if len(radii) != count:
        raise InvalidInput(
            f"features has {count} features and {len(radii)} radii; give one for all, or one for "
            "each"
        )
    return tuple(float(radius) for radius in radii)
