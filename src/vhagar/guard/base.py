"""What a guard rests on: a network, proven bounds, and the rounding of its forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vhagar.array_types import Array, Mask
from vhagar.errors import InvalidInput
from vhagar.guard.bounds import Bound, one_range
from vhagar.network import Network
from vhagar.perturbation import Domain
from vhagar.perturbation.ranges import interval_text
from vhagar.problem import classed
from vhagar.relaxation import Bounds
from vhagar.relaxation.rounding import FLOAT32, Precision, confidence_error, forward_error
from vhagar.result.numbers import up

# Targets that are listed, if they are all that a class has.
_MOST_NAMED = 3


@dataclass(frozen=True)
class Protection:
    """What is proven about every class under one perturbation.

    `uppers` holds a bound for each class, infinite where none is known. `missing` holds the targets
    of each class that nothing is proven about: a class that lacks one has no bound. `domain` is
    None if the bounds hold for all inputs of the range.
    """

    perturbation: str
    name: str
    clip: bool
    uppers: tuple[float, ...]
    missing: tuple[tuple[int, ...], ...]
    domain: Domain | None = None

    @property
    def label(self) -> str:
        """`occlusion(14,14,5)`, or `occlusion(14,14,5) over twos`."""
        over = "" if self.domain is None else f" over {self.domain}"
        return f"{self.name}{'' if self.clip else ' unclipped'}{over}"

    @property
    def words(self) -> list[str]:
        """What is promised for each class."""
        return self._domain_words + [
            f"{classed(self._class(label))}: robust above {up(upper)}"
            if not missing
            else f"{classed(self._class(label))}: never called robust, because nothing is proven "
            f"about {self._missing(missing)}"
            for label, (upper, missing) in enumerate(zip(self.uppers, self.missing, strict=True))
        ]

    def _missing(self, missing: Sequence[int]) -> str:
        """Name the targets about which nothing is proven; all of many need no list."""
        if len(missing) == len(self.uppers) - 1 > _MOST_NAMED:
            return "any target"
        return _targets([self._class(each) for each in missing])

    def _class(self, label: int) -> str:
        return str(label) if self.domain is None else self.domain.class_name(label)

    @property
    def _domain_words(self) -> list[str]:
        if self.domain is None:
            return []
        lines = [f"only inputs of the domain {self.domain}, SHA-256 {self.domain.fingerprint}"]
        if self.domain.perturbed_inside:
            lines.append("perturbed inputs outside of the domain are not considered")
        return lines


@dataclass(frozen=True, eq=False)
class AbstractGuard:
    """A network, and the bounds from which its predictions are called robust or not."""

    network: Network
    bounds: tuple[Bound, ...]

    def __post_init__(self) -> None:
        if not self.bounds:
            raise InvalidInput("there is no proven bound to make a guard from")
        one_range(self.bounds)
        if not any(np.isfinite(each.uppers).any() for each in self.protections):
            raise InvalidInput(
                "a guard would never call anything robust, because no class has a proven bound for "
                "every other class as its target; leave out --target, or sweep with --untargeted "
                "or --all-pairs"
            )

    @property
    def input_range(self) -> tuple[float, float]:
        """Inputs with an entry outside of it are never robust."""
        return one_range(self.bounds)

    def check_shape(self, shape: Sequence[int]) -> None:
        """Refuse what is neither a batch of inputs nor one input, each as such or flat."""
        own, size = _sides(self.network.input_shape), self.network.input_size
        if not any(_sides(each) in (own, [size]) for each in (shape, shape[1:])):
            raise InvalidInput(
                f"an array of shape {tuple(shape)} is no batch of inputs of shape "
                f"{self.network.input_shape}"
            )

    @cached_property
    def protections(self) -> tuple[Protection, ...]:
        """One for each perturbation, in the order of the bounds."""
        kinds = dict.fromkeys((b.perturbation, b.name, b.clip, b.domain) for b in self.bounds)
        return tuple(self._protection(*kind) for kind in kinds)

    def _protection(
        self, perturbation: str, name: str, clip: bool, domain: Domain | None
    ) -> Protection:
        classes = range(self.network.classes)
        best: dict[tuple[int, int], float] = {}
        for bound in self.bounds:
            if (bound.perturbation, bound.clip) != (perturbation, clip):
                continue
            if bound.domain not in (None, domain):  # a bound over all inputs holds over a domain
                continue
            for target, upper in zip(bound.targets, bound.uppers, strict=True):
                key = (bound.source, target)
                best[key] = min(best.get(key, np.inf), upper)
        uppers, missing = [], []
        for source in classes:
            others = [target for target in classes if target != source]
            known = [best.get((source, target), np.inf) for target in others]
            missing.append(
                tuple(t for t, upper in zip(others, known, strict=True) if not upper < np.inf)
            )
            uppers.append(max(known))
        return Protection(perturbation, name, clip, tuple(uppers), tuple(missing), domain)

    @cached_property
    def domains(self) -> tuple[Domain, ...]:
        """The domains that some of the bounds are about, each once."""
        found = dict.fromkeys(each.domain for each in self.protections)
        return tuple(domain for domain in found if domain is not None)

    def inside(self, x: Array, asked: Mask) -> Mask:
        """Which inputs `(batch, size)` certainly are among those that each bound is about.

        `asked` `(batch, perturbations)` says where to look: a domain can take time.
        """
        low, high = self.input_range
        found = asked & ((x >= low) & (x <= high)).all(axis=1, keepdims=True)
        for domain in self.domains:
            own = np.array([k for k, each in enumerate(self.protections) if each.domain == domain])
            rows = np.flatnonzero(found[:, own].any(axis=1))
            found[np.ix_(rows, own)] &= domain.contains(x[rows])[:, None]
        return found

    def rounding(self, precision: Precision, domain: Domain | None = None) -> Array:
        """For each class, what rounding can add to a computed confidence in it, `(classes,)`.

        That is for all inputs of the range, or for those in the box of a domain.
        """
        size = self.network.input_size
        low, high = (np.full(size, end) for end in self.input_range)
        if domain is not None:
            low, high = domain.low, domain.high
        error = forward_error(self.network, Bounds(low, high), precision)
        return np.array([confidence_error(error, label) for label in range(len(error))])

    def thresholds(self, precision: Precision) -> Array:
        """What a computed confidence must exceed, `(classes, perturbations)`, as float64 numbers.

        A computed difference of two scores is off by one rounding, relative to itself.
        """
        uppers = np.array([each.uppers for each in self.protections]).T
        total = uppers + self._roundings(precision)
        return np.nextafter(total * (1 + 4 * precision.half_ulp), np.inf)

    def _roundings(self, precision: Precision) -> Array:
        """What rounding can add to a computed confidence, `(classes, perturbations)`."""
        known = {
            domain: self.rounding(precision, domain)
            for domain in dict.fromkeys(each.domain for each in self.protections)
        }
        return np.stack([known[each.domain] for each in self.protections], axis=1)

    @property
    def words(self) -> list[str]:
        """What the guard promises, line by line."""
        low, high = self.input_range
        proven = sum(bound.certificate is not None for bound in self.bounds)
        lines = [
            f"{self.network.name}: inputs in {interval_text((low, high))}, float32 rounding up to "
            f"{up(float(self._roundings(FLOAT32).max()))}",
            f"{proven} of {len(self.bounds)} bounds have a certificate",
        ]
        for each in self.protections:
            lines += [f"under {each.label}:", *(f"  {line}" for line in each.words)]
        return lines

    def __repr__(self) -> str:
        under = ", ".join(each.label for each in self.protections)
        return f"Guard({self.network.name}, {under})"


def _sides(shape: Sequence[int]) -> list[int]:
    """The sides that say how entries are arranged; those of length 1 do not."""
    return [side for side in shape if side != 1]


def _targets(names: Sequence[str]) -> str:
    noun = "class" if len(names) == 1 else "classes"
    return f"{noun} {', '.join(names)} as a target"
