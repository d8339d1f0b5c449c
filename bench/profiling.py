"""Where an engine's time goes: a run in one process, in processor seconds, by the engine's parts.

Processor seconds, unlike those of the clock, do not depend on what else the machine does. The
default engine attacks in a process of its own, so that its run in one process has no attack.
"""

from __future__ import annotations

import cProfile
import pstats
import time
from pathlib import Path
from typing import Any

from paper_figures import TimeSplit

import vhagar
from vhagar import Options, Problem
from vhagar.errors import InvalidInput

# For each engine, its parts and the functions they are: a file and a name. None lies in another,
# but for one that is also called from elsewhere: `_ONLY_FROM` says whose calls count.
PARTS: dict[str, dict[str, tuple[str, str]]] = {
    "bab": {
        "bounds of neurons": ("search/bab/regions.py", "__getitem__"),
        "bounds of nodes": ("search/bab/context.py", "evaluate"),
        "branching": ("search/bab/brancher.py", "children"),
        "witnesses": ("search/bab/explorer.py", "_polish"),
    },
    "mip": {
        "attack": ("search/mip/attacking.py", "attack_first"),
        "bounds of neurons": ("search/mip/preparation.py", "tighten"),
        "dependencies": ("search/mip/preparation.py", "_relate"),
        "search": ("search/mip/target.py", "run"),
    },
}
# Branching evaluates nodes as well, on trial.
_ONLY_FROM = {("search/bab/context.py", "evaluate"): "_expand"}
REST = "the rest"


def profiled(
    model: Path, perturbation: str, pair: tuple[int, int], engine: str, timeout: float
) -> TimeSplit:
    """Run an engine on a problem, in this process, and see where its time goes."""
    if engine not in PARTS:
        raise InvalidInput(f"there are no parts of {engine!r}; choose from {', '.join(PARTS)}")
    problem = Problem(vhagar.read_onnx(model), perturbation, *pair, clip=False)
    options = Options(engine=engine, processes=False)
    profile = cProfile.Profile(timer=time.process_time)
    begun = time.process_time()
    profile.enable()
    try:
        vhagar.verify(problem, timeout=timeout, options=options)
    finally:
        profile.disable()
    total = time.process_time() - begun
    return TimeSplit(f"{model.stem} {perturbation}", split_of(profile, engine, total))


def split_of(profile: cProfile.Profile, engine: str, total: float) -> dict[str, float]:
    """Seconds of each part of an engine, and of all else."""
    stats: dict[tuple[str, int, str], Any] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    found = dict.fromkeys(PARTS[engine], 0.0)
    for (file, _, name), (_, _, _, everything, callers) in stats.items():
        for part, (own_file, own_name) in PARTS[engine].items():
            if name != own_name or not Path(file).as_posix().endswith(own_file):
                continue
            caller = _ONLY_FROM.get((own_file, own_name))
            counted = [calls[3] for (*_, by), calls in callers.items() if by == caller]
            found[part] += everything if caller is None else sum(counted)
    return {**found, REST: max(total - sum(found.values()), 0.0)}
