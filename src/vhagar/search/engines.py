"""The table of engines, by the names that the command line knows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

from vhagar.engine import AbstractEngine
from vhagar.errors import InvalidInput
from vhagar.search.branch_and_bound import Bab, FirstOrder


def _mip(**own: Any) -> AbstractEngine:
    from vhagar.search.mip.engine import Mip  # takes a while to import

    return Mip(**own)


def _attack(**own: Any) -> AbstractEngine:
    from vhagar.attack.engine import Attack  # needs more libraries

    return Attack(**own)


def _paper_attack(**own: Any) -> AbstractEngine:
    return _attack(paper=True, **own)


# A new engine is one more line.
ENGINES: dict[str, Callable[..., AbstractEngine]] = {"bab": Bab, "mip": _mip}
# These never branch: they bound, but cannot close. The default engine turns to them by itself.
BOUNDING: dict[str, Callable[..., AbstractEngine]] = {"first-order": FirstOrder}
# These raise the lower bound only.
ATTACKS: dict[str, Callable[..., AbstractEngine]] = {
    "attack": _attack,
    "paper-attack": _paper_attack,
}


def engine_named(name: str, **own: Any) -> AbstractEngine:
    """The engine of that name with options of its own; complains about those it does not have."""
    makers = {**ENGINES, **BOUNDING, **ATTACKS}
    if name not in makers:
        raise InvalidInput(f"unknown engine {name!r}; choose one of: {', '.join(makers)}")
    engine = makers[name]()
    known = {field.name for field in fields(engine)} if is_dataclass(engine) else set[str]()
    for option in own:
        if option not in known:
            raise InvalidInput(
                f"the engine {name!r} has no option {option!r}: leave it out, or choose another "
                "engine"
            )
    return makers[name](**own) if own else engine
