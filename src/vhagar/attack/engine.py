"""The attack as engines of their own: they raise the lower bound and leave the upper one alone."""

from __future__ import annotations

import math
import time
from dataclasses import replace

from vhagar.attack.beside import attack_here, offer
from vhagar.attack.keeper import Attack
from vhagar.attack.options import AttackOptions
from vhagar.attack.worker import AttackJob, attack_beside
from vhagar.dataset import named_dataset
from vhagar.engine import AbstractEngine
from vhagar.errors import InvalidInput
from vhagar.options import ATTACK_PARTS, Options
from vhagar.result import Run
from vhagar.runtime.pool import Finished
from vhagar.runtime.processes import ProcessPool

# Seconds, and of the time: what the last reports of workers may take.
_LAST_WORDS, _LAST_WORDS_SHARE = 0.2, 0.08
# Of each process. The paper has 10,000.
_PAPER_INPUTS = 1_000


class AttackEngine(AbstractEngine):
    """The attack with all its additions, until the time is up."""

    def search(self, run: Run, deadline: float) -> bool:
        options = _as_asked(self._options(run.options.seed), run.options)
        if deadline == math.inf and options.rounds is None:
            raise InvalidInput("the attack would never end: give a timeout")
        dataset = named_dataset(run.options, run.original.domain)
        left = None if deadline == math.inf else max(deadline - time.monotonic(), 0.0)
        job = AttackJob(run.original, options, left, dataset)
        workers = run.options.worker_count
        if workers > 1 and run.options.processes:
            return _run_in_processes(run, job, workers, deadline)
        return _run_here(run, job, deadline)

    def _options(self, seed: int) -> AttackOptions:
        return AttackOptions(seed=seed)


class PaperAttackEngine(AttackEngine):
    """The paper's Algorithm 2 as published, with fewer inputs so that it ends within seconds."""

    def _options(self, seed: int) -> AttackOptions:
        return AttackOptions.paper(inputs=_PAPER_INPUTS, seed=seed)


def _as_asked(options: AttackOptions, asked: Options) -> AttackOptions:
    """On the device, and without the parts that were named."""
    gone = {part for part in asked.without if part in ATTACK_PARTS}
    if "polish" in gone:
        gone.add("regions")  # which are searched by polishing
    return replace(options, device=asked.device, **dict.fromkeys(gone, False))


def _run_here(run: Run, job: AttackJob, deadline: float) -> bool:
    attack_here(run, job.options, job.timeout, job.dataset)
    return time.monotonic() > deadline


def _run_in_processes(run: Run, job: AttackJob, count: int, deadline: float) -> bool:
    """Several attacks with different seeds, each of which hears of what the others find."""
    with ProcessPool() as pool:
        for k in range(count):
            pool.start(k, (attack_beside, own_job(job, k)))
        while len(pool) and not run.interval.closed:
            if time.monotonic() > deadline:
                return True
            heard = pool.next_message(deadline)
            if heard is None:
                run.report()
                continue
            name, message = heard
            if isinstance(message, Attack):
                offer(run, message)
                found = (message.target, message.root, message.x, message.parameters)
                for other in pool:
                    if other != name:
                        pool.tell(other, found)
            elif isinstance(message, Finished) and message.error is not None:
                run.note(f"an attack ended early: {message.error}")
        # Without a number of rounds only the time ends a worker, a little before it is up.
        return job.options.rounds is None or time.monotonic() > deadline


def own_job(job: AttackJob, worker: int) -> AttackJob:
    """A worker's part: every other one begins with relaxations instead of gradients."""
    timeout, options = job.timeout, job.options
    if timeout is not None:  # what is found last must still arrive
        timeout -= min(_LAST_WORDS, _LAST_WORDS_SHARE * timeout)
    own = replace(
        options,
        seed=options.seed + worker,
        relax_first=options.regions and worker % 2 == 1,
        device=options.device if worker == 0 else "cpu",  # one process fills a GPU
    )
    return replace(job, options=own, timeout=timeout)
