"""When the attack joins the workers of a search, and how long it stays."""

from __future__ import annotations

import math

from vhagar.array_types import Array
from vhagar.attack.concurrent import AttackSchedule, ConcurrentAttack, attack_here
from vhagar.attack.options import AttackOptions
from vhagar.result import Run
from vhagar.runtime.deadline import Deadline
from vhagar.runtime.devices import one_torch_thread
from vhagar.runtime.pool import AbstractPool
from vhagar.search.bounders.size import is_small

# Seconds before the attack joins the workers, on small problems and on others: it needs a second of
# a core to import torch, and many small problems are solved before that pays.
_AFTER_SMALL, _AFTER = 3.0, 1.5
# How long the attack stays: a share of the remaining time, for every two workers and altogether,
# and at least and at most so many seconds. It needs one or two seconds to start.
_SHARE, _LARGEST_SHARE, _LEAST_SECONDS, _MOST_SECONDS = 0.15, 0.6, 5.0, 20.0
# The factor by which it stays longer at most, while there is no witness or its witnesses close the
# gap: nearly to the end, because without one the gap is all of the bound. Measured: cifar10_conv1
# `brightness([0,0.1])`, 1 to 9; the attack has a witness after 2 s of a processor, which took 20 s
# beside busy processes, start included.
_PATIENCE = 6.0


def attack_alone(run: Run, deadline: Deadline, dataset: Array | None) -> None:
    """One round of the attack in this process: as many steps every time, so that results repeat."""
    options = AttackOptions(
        rounds=1, polish=False, regions=False, seed=run.options.seed, device="cpu"
    )
    left = None if deadline.left == math.inf else deadline.left
    with one_torch_thread():
        attack_here(run, options, left, dataset)


def attack_beside(
    run: Run, pool: AbstractPool, deadline: Deadline, dataset: Array | None, first: float = 0.0
) -> ConcurrentAttack:
    """Return the attack as it runs beside the workers of a search; `first` is what it starts at."""
    # Beside many workers, one more process takes little from them.
    shares = max(1.0, run.options.worker_count / 2)
    stay = AttackSchedule(
        share=min(_SHARE * shares, _LARGEST_SHARE),
        least=_LEAST_SECONDS,
        most=shares * _MOST_SECONDS,
        after=_AFTER_SMALL if is_small(run.problem) else _AFTER,
        patience=_PATIENCE,
    )
    # Networks that linear programs can hold are too small for a GPU to be worth its start.
    device = "cuda" if run.options.device == "cuda" else "cpu"
    options = AttackOptions(seed=run.options.seed, device=device)
    return ConcurrentAttack(run, pool, options, stay, deadline, dataset, first=first)
