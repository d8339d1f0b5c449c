"""Answers a local question: attack and branch and bound first, an engine for what they leave."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from vhagar.errors import InvalidInput
from vhagar.local.branching import device_named
from vhagar.local.certificate import write_local_certificate
from vhagar.local.decide import Clock, Decision
from vhagar.local.engine_search import EngineSearch
from vhagar.local.known import Known, OnProgress
from vhagar.local.problem import LocalProblem
from vhagar.local.result import LocalResult
from vhagar.options import Options
from vhagar.runtime.threads import one_blas_thread
from vhagar.search import AbstractEngine
from vhagar.search.branch_and_bound import Bab, FirstOrder

# Seconds beyond the timeout for what a certificate needs besides the search.
_TO_PROVE = 5.0
# Most neurons of a network for which the engine takes over what the search leaves open: its LPs
# need memory.
_MOST_NEURONS = 2_000


def verify_local(
    problem: LocalProblem,
    *,
    engine: AbstractEngine | None = None,
    timeout: float | None = None,
    relative_gap: float | None = None,
    workers: int = 0,
    seed: int = Options.seed,
    on_progress: OnProgress = lambda progress: None,
    certificate: Path | None = None,
    device: str = "cpu",
) -> LocalResult:
    """Is every perturbed version of the image still of its class, and how large is the margin?

    It ends with the answer, when `timeout` seconds have passed, or on Ctrl-C, and what it says is
    valid whenever it ends. With a `relative_gap` it goes on until the margin's bounds are within
    that of each other. Any other engine than `Bab` answers all by itself; `workers` is the number
    of processes of an engine that is asked, which stays in this process with 0 or 1. `certificate`
    names a file to write that proves the answer. `device` is where branch and bound proposes: what
    counts is proved in float64 on the CPU.
    """
    engine = engine or Bab()
    own = isinstance(engine, Bab)
    if certificate is not None and not own:
        raise InvalidInput(f"the engine {engine.name} writes no certificates about one image")
    if isinstance(engine, Bab | FirstOrder):
        # The search among inputs that the attack is has nothing to start from here.
        engine = replace(engine, attack=False)
    gap = Options.relative_gap if relative_gap is None else relative_gap
    options = Options(relative_gap=gap, workers=workers, seed=seed)
    clock = Clock(math.inf)
    if timeout is not None:
        clock.deadline = clock.started + timeout
    known = Known(problem)
    try:
        if own:
            place = device_named(device)
            decision = Decision(known, clock, seed, on_progress, certificate is not None, place)
            with one_blas_thread():
                decision.run()
        small = not own or problem.everywhere.network.hidden_neurons <= _MOST_NEURONS
        if relative_gap is not None or (small and not known.is_decided):
            EngineSearch(known, engine, options, clock, relative_gap is not None).run()
    except KeyboardInterrupt:
        known.interrupted = True
    if certificate is not None:
        clock.deadline += _TO_PROVE
        write_local_certificate(certificate, known, decision.proved())
    return LocalResult(
        problem,
        known.verdict,
        known.lower,
        known.upper,
        known.witness,
        clock.seconds,
        engine.name,
        known.interrupted,
        tuple(dict.fromkeys(known.notes)),
    )
