"""Names of features and classes, which messages and tables show instead of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vhagar.errors import InvalidInput

# Characters that separate names in lists.
_SEPARATORS = frozenset(",[]()")


@dataclass(frozen=True)
class Names:
    """The names of all entries of an input, and of all classes; empty if there are none."""

    features: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()

    @classmethod
    def of(cls, size: int, features: Sequence[Any], classes: Sequence[Any]) -> Names:
        """The names that a user has given for inputs of `size` entries."""
        for given, what in ((features, "features"), (classes, "classes")):
            listed = isinstance(given, Iterable) and not isinstance(given, str | Mapping)
            if not listed or not all(isinstance(name, str) for name in given):
                raise InvalidInput(f"{what} of the domain must be a list of names, not {given!r}")
            bad = [name for name in given if not _is_name(name)]
            if bad:
                raise InvalidInput(
                    f"{bad[0]!r} cannot be one of the {what} of the domain: a name is a line of "
                    "text without commas and brackets"
                )
            if len(set(given)) < len(given):
                raise InvalidInput(f"{what} of the domain has a name twice")
        if len(features) not in (0, size):
            raise InvalidInput(
                f"the domain names {len(features)} features, but inputs have {size} entries"
            )
        return cls(tuple(features), tuple(classes))

    def plain(self) -> dict[str, list[str]]:
        """The names that are given, in JSON's own types."""
        found = {"features": list(self.features), "classes": list(self.classes)}
        return {key: names for key, names in found.items() if names}


def _is_name(name: str) -> bool:
    return bool(name.strip()) and name.isprintable() and not _SEPARATORS & set(name)


def _known(names: Sequence[str], count: int, what: str) -> str:
    """What could have been given instead."""
    if names:
        return f"there are {', '.join(names)}"
    key = "classes" if what.endswith("class") else "features"
    return (
        f"without names, write a number from 0 to {count - 1}; names are those that a domain file "
        f"(--domain) lists as {key}"
    )


def number_of(given: str | int, names: Sequence[str], count: int, what: str) -> int:
    """The number of a feature or class that a user gives by name or by number."""
    if isinstance(given, str):
        if given in names:
            return list(names).index(given)
        if not given.isdecimal():
            raise InvalidInput(f"there is no {what} {given!r}; {_known(names, count, what)}")
        given = int(given)
    if not 0 <= given < count:
        raise InvalidInput(f"there is no {what} {given}; they are 0 to {count - 1}")
    return int(given)
