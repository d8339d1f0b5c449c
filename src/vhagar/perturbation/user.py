"""Perturbations that users define: any union of affine maps with parameters in boxes.

Derive from `AffinePerturbation` and define the maps over a domain:

    class DeadRows(AffinePerturbation):
        name = "dead rows"

        def maps(self, domain):
            rows = np.zeros(domain.image, dtype=bool)
            rows[:, 9:11] = True
            yield affine_map(domain, matrix=0.0, offset=domain.lower, pixels=rows)

or pass the arrays to a `UserPerturbation`. All engines, attacks and certificates support it. The
user's code is called once for each problem; from then on only the maps are used.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from numpy.typing import ArrayLike

from vhagar.errors import InvalidInput, VhagarError
from vhagar.perturbation.affine import AffinePiece
from vhagar.perturbation.base import Perturbation
from vhagar.perturbation.domain import Domain
from vhagar.perturbation.maps import AffineMap, affine_map, fingerprint
from vhagar.perturbation.ranges import GivenRange

# Most maps of a perturbation: each is a piece that is searched separately.
_MOST_MAPS = 100_000
# Most characters of a name.
_LONGEST_NAME = 500


class AffinePerturbation(Perturbation):
    """A union of affine maps `x_p = A x + B e + c`, each with its parameters `e` in a box.

    With `clip`, images that leave the input range are clipped to it, pixel by pixel.
    """

    name = "affine"
    affine = True
    by_text = False

    @abstractmethod
    def maps(self, domain: Domain) -> Iterable[AffineMap]:
        """The maps over a domain; `affine_map` builds them."""

    def arguments(self) -> tuple[str, ...]:
        """The arguments shown in brackets after the name; none unless a subclass defines them."""
        return ()

    def __str__(self) -> str:
        return super().__str__() if self.arguments() else self.name

    def settled(self, domain: Domain) -> RecordedMaps:
        try:
            maps = tuple(self.maps(domain))
        except VhagarError:
            raise
        except Exception as error:  # it is the user's code
            raise InvalidInput(
                f"the maps of {self} cannot be made for inputs of shape {domain.shape}: "
                f"{type(error).__name__}: {error}"
            ) from error
        if not all(isinstance(each, AffineMap) for each in maps):
            raise InvalidInput(f"the maps of {self} must be AffineMap objects; see affine_map")
        return RecordedMaps(str(self), maps)

    def pieces(self, domain: Domain, clip: bool = True) -> tuple[AffinePiece, ...]:
        return self.settled(domain).pieces(domain, clip)

    def fingerprint(self, domain: Domain) -> str:
        """The SHA-256 of the maps over a domain, by which certificates identify them."""
        return fingerprint(self.settled(domain).recorded)


@dataclass(frozen=True, eq=False)
class RecordedMaps(AffinePerturbation):
    """Given maps for inputs of their size; two are equal if all their numbers are equal."""

    text: str
    recorded: tuple[AffineMap, ...]

    def __post_init__(self) -> None:
        if not self.text.isprintable() or not 0 < len(self.text) <= _LONGEST_NAME:
            raise InvalidInput(f"the name of a map must be a line of text, not {self.text[:80]!r}")
        if not 1 <= len(self.recorded) <= _MOST_MAPS:
            raise InvalidInput(
                f"{self.text} has {len(self.recorded)} maps; it needs one to {_MOST_MAPS}"
            )
        for each in self.recorded:
            each.require_moderate()

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RecordedMaps) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @cached_property
    def _key(self) -> str:
        return fingerprint(self.recorded)

    def maps(self, domain: Domain) -> tuple[AffineMap, ...]:
        return self.recorded

    def settled(self, domain: Domain) -> RecordedMaps:
        for each in self.recorded:
            if each.size != domain.size:
                raise InvalidInput(
                    f"{self.text} is a map of {each.size} values, but the network's input has "
                    f"{domain.size}"
                )
        return self

    def pieces(self, domain: Domain, clip: bool = True) -> tuple[AffinePiece, ...]:
        own = self.settled(domain)
        return tuple(AffinePiece(domain, each.label, each, clip) for each in own.recorded)


class UserPerturbation(AffinePerturbation):
    """A perturbation by one map, given by its arrays; the arguments are those of `affine_map`."""

    def __init__(
        self,
        matrix: Any = None,
        directions: Any = None,
        offset: ArrayLike = 0.0,
        ranges: Sequence[GivenRange] = (),
        names: Sequence[str] = (),
        pixels: ArrayLike | None = None,
        name: str = "affine",
    ) -> None:
        self.name = name  # type: ignore[misc]
        self._given: dict[str, Any] = {
            "matrix": matrix,
            "directions": directions,
            "offset": offset,
            "ranges": ranges,
            "names": names,
            "pixels": pixels,
        }

    def maps(self, domain: Domain) -> Iterable[AffineMap]:
        yield affine_map(domain, label=self.name, **self._given)
