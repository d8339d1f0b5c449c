"""The attack before the main MIP: its bound becomes a row, its hints a partial start."""

from __future__ import annotations

import contextlib
import pickle
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from vhagar.attack.hints import NO_HINT, Hints
from vhagar.attack.keeper import Attack
from vhagar.attack.options import AttackOptions
from vhagar.attack.run import attack
from vhagar.attack.worker import AttackJob
from vhagar.runtime.pool import Channel
from vhagar.search.mip.encoding import Encoding
from vhagar.solver.linear_model import Array

# Where everything happens in one process: a short attack that always ends alike.
SHORT = AttackOptions(inputs=32, steps=20, basins=1, patience=4, rounds=1)


@dataclass(frozen=True, eq=False)
class HintsFound:
    """For each goal that was attacked, what most of the attacks agree on."""

    hints: Mapping[int | None, Hints]


def attack_until_told(job: AttackJob, channel: Channel) -> None:
    """What runs in a worker: attacks as they are found, and the hints when it ends.

    It ends when its time is up, or when the parent sends anything.
    """
    over = threading.Event()

    def listen() -> None:
        # An error means that nobody is left to tell.
        with contextlib.suppress(EOFError, OSError, pickle.UnpicklingError):
            channel.receive()
        over.set()

    threading.Thread(target=listen, daemon=True).start()
    found = attack(
        job.problem,
        timeout=job.left,
        options=job.options,
        dataset=job.dataset,
        on_attack=channel.send,
        should_stop=over.is_set,
    )
    channel.send(HintsFound(found.hints))


def attack_here(
    job: AttackJob, on_attack: Callable[[Attack], None], should_stop: Callable[[], bool]
) -> HintsFound:
    """The same in this process, in one short round."""
    found = attack(
        job.problem,
        timeout=job.left,
        options=replace(SHORT, seed=job.options.seed),
        dataset=job.dataset,
        on_attack=on_attack,
        should_stop=should_stop,
    )
    return HintsFound(found.hints)


def start_of(encoding: Encoding, hints: Hints) -> Array:
    """The hints as values of the booleans to begin with; NaN for all other columns."""
    start = np.full(len(encoding.arrays.column_lower), np.nan)
    for columns, signs in zip(
        encoding.active, zip(hints.first, hints.second, strict=True), strict=True
    ):
        # Where the copies share a boolean, the second one's word is the last.
        for active, sign in zip(columns, signs, strict=True):
            given = (active >= 0) & (sign != NO_HINT)
            start[active[given]] = sign[given]
    return start
