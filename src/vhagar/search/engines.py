"""The table of engines."""

from __future__ import annotations

from importlib import import_module

from vhagar.engine import AbstractEngine
from vhagar.errors import InvalidInput
from vhagar.options import Options
from vhagar.runtime.devices import check_device
from vhagar.search.bounders.first_order import LargeEngine
from vhagar.search.branch_and_bound import BabEngine
from vhagar.search.mip.engine import MipEngine
from vhagar.solver.backends import backend_named, check_solver_name

# A new engine is one more line.
ENGINES: dict[str, type[AbstractEngine]] = {
    "bab": BabEngine,
    "mip": MipEngine,
}
# These never branch: they bound, but cannot close. The default engine turns to them by itself.
BOUNDING: dict[str, type[AbstractEngine]] = {
    "first-order": LargeEngine,
}
# These raise the lower bound only. They are imported when asked for: they need more libraries.
ATTACKS: dict[str, str] = {
    "attack": "AttackEngine",
    "paper-attack": "PaperAttackEngine",
}


def engine_for(options: Options) -> AbstractEngine:
    """The engine that the options name; complains about what it cannot do or what is missing."""
    engine = engine_named(options.engine)
    check_device(options.device)
    check_solver_name(options.solver)
    if options.certificate is not None and not engine.writes_certificates:
        raise InvalidInput(
            f"the engine {options.engine!r} writes no certificates; leave out the certificate, or "
            "use the engine 'bab'"
        )
    if isinstance(engine, MipEngine):
        backend_named(options.solver)  # its package may be missing
    return engine


def engine_named(name: str) -> AbstractEngine:
    """The engine of that name."""
    if name in ENGINES:
        return ENGINES[name]()
    if name in BOUNDING:
        return BOUNDING[name]()
    if name in ATTACKS:
        engine: AbstractEngine = getattr(import_module("vhagar.attack.engine"), ATTACKS[name])()
        return engine
    known = ", ".join([*ENGINES, *BOUNDING, *ATTACKS])
    raise InvalidInput(f"unknown engine {name!r}; choose one of: {known}")
