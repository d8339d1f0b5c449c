"""Runs in one process, measured in processor seconds: what is known when, and where the time goes.

Processor seconds, unlike those of the clock, do not depend on what else the machine does. The
default engine attacks in a process of its own, so that its run in one process has no attack.
"""

from __future__ import annotations

import cProfile
import pstats
import time
from pathlib import Path
from typing import Any

from figure_data import Stage
from paper_figures import TimeSplit

import vhagar
from vhagar import Problem
from vhagar.errors import InvalidInput
from vhagar.result import Moment
from vhagar.search import engine_named
from vhagar.search.mip.engine import Mip

# For each engine, its parts and the functions they are: a file and a name. None lies in another,
# but for one that is also called from elsewhere: `_ONLY_FROM` says whose calls count.
PARTS: dict[str, dict[str, tuple[str, str]]] = {
    "bab": {
        "bounds of neurons": ("search/region_cache.py", "__getitem__"),
        "bounds of nodes": ("relaxation/lp/region_model.py", "evaluate"),
        "branching": ("search/branch.py", "children"),
        "witnesses": ("search/bounders/lp.py", "_polish"),
    },
    "mip": {
        "attack": ("search/mip/attack_phase.py", "attack_first"),
        "bounds of neurons": ("search/mip/preparation.py", "tighten"),
        "dependencies": ("search/mip/preparation.py", "_relate"),
        "search": ("search/mip/target.py", "run"),
    },
}
# Branching evaluates nodes as well, on trial.
_ONLY_FROM = {("relaxation/lp/region_model.py", "evaluate"): "_bound"}
REST = "the rest"


def watched(problem: Problem, name: str, engine: Mip, timeout: float) -> Stage:
    """Run an engine on a problem, in this process, and note its bounds as they improve.

    The timeout is in seconds of the clock.
    """
    if "attack" not in engine.without:
        import torch  # noqa: F401 (the attack needs it; loading it is no part of the search)

    begun = time.process_time()
    seen: list[Moment] = []

    def note(lower: float, upper: float) -> None:
        if not seen or (lower, upper) != (seen[-1].lower, seen[-1].upper):
            seen.append(Moment(time.process_time() - begun, lower, upper))

    result = vhagar.verify(
        problem,
        engine=engine,
        timeout=timeout,
        workers=0,
        on_progress=lambda progress: note(progress.lower, progress.upper),
    )
    # The last moment is the end, whether or not anything changed then.
    seen.append(Moment(time.process_time() - begun, result.lower, result.upper))
    return Stage(name, tuple(seen))


def profiled(
    model: Path, perturbation: str, pair: tuple[int, int], engine: str, timeout: float
) -> TimeSplit:
    """Run an engine on a problem, in this process, and see where its time goes."""
    if engine not in PARTS:
        raise InvalidInput(f"there are no parts of {engine!r}; choose from {', '.join(PARTS)}")
    problem = Problem(
        vhagar.read_onnx(model),
        perturbation=perturbation,
        source=pair[0],
        targets=pair[1],
        clip=False,
    )
    options = {"engine": engine_named(engine), "workers": 0}
    profile = cProfile.Profile(timer=time.process_time)
    begun = time.process_time()
    profile.enable()
    try:
        vhagar.verify(problem, timeout=timeout, **options)
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
