"""Answers a local question: attack, branch and bound, and an engine for what they leave open."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from vhagar.errors import InvalidInput
from vhagar.local.certificate import write_local_certificate
from vhagar.local.decide import Clock, Decider
from vhagar.local.device import device_named
from vhagar.local.engine_search import EngineSearch
from vhagar.local.known import Known, OnProgress
from vhagar.local.problem import LocalProblem
from vhagar.local.result import LocalResult
from vhagar.network.onnx_reader import require_one_file
from vhagar.options import Options
from vhagar.runtime.deadline import Deadline
from vhagar.runtime.threads import one_blas_thread
from vhagar.search import AbstractEngine
from vhagar.search.branch_and_bound import Bab, FirstOrder

# Seconds beyond the timeout for proofs that a certificate needs in addition to the search.
_TO_PROVE = 5.0
# Most neurons of a network for which an engine takes over if the search leaves the question open:
# its LPs need memory.
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
    """Decide whether every perturbed version of the image keeps its class, and by which margin.

    It ends with the answer, when `timeout` seconds have passed, or on Ctrl-C; its bounds are valid
    whenever it ends. With a `relative_gap` it goes on until the margin's bounds are within that of
    each other. An engine other than `Bab` answers alone, without the attack and the search of this
    package. `workers` is the number of processes that an engine uses; with 0 or 1 it stays in this
    process. `certificate` is a file to write that proves the answer. `device` is where branch and
    bound proposes multipliers; what they prove is computed in float64 on the CPU.
    """
    engine = engine or Bab()
    own = isinstance(engine, Bab)
    if certificate is not None and not own:
        raise InvalidInput(f"the engine {engine.name} writes no certificates about one image")
    if certificate is not None:
        require_one_file(problem.everywhere.network)
    if isinstance(engine, Bab | FirstOrder):
        # The engine's attack searches among inputs, of which there is only one here.
        engine = replace(engine, attack=False)
    gap = Options.relative_gap if relative_gap is None else relative_gap
    options = Options(relative_gap=gap, workers=workers, seed=seed)
    clock = Clock(Deadline.after(timeout).at)
    known = Known(problem)
    try:
        if own:
            place = device_named(device)
            decision = Decider(known, clock, seed, on_progress, certificate is not None, place)
            with one_blas_thread():
                decision.run()
        small = not own or problem.everywhere.network.hidden_neurons <= _MOST_NEURONS
        if relative_gap is not None or (small and not known.is_decided):
            margins = relative_gap is not None
            EngineSearch(known, engine, options, clock, margins, on_progress).run()
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
