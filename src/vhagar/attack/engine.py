"""The attack as an engine: it raises the lower bound and leaves the upper bound alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

from vhagar.attack.attack_worker import AttackJob, HintsFound, attack_in_worker
from vhagar.attack.concurrent import attack_here, messages, offer
from vhagar.attack.incumbents import AttackFound
from vhagar.attack.options import AttackOptions
from vhagar.dataset import attack_starts
from vhagar.engine import AbstractEngine
from vhagar.errors import InvalidInput
from vhagar.options import ATTACK_PARTS, Options, check_parts
from vhagar.result import Run
from vhagar.runtime.deadline import NEVER, Deadline
from vhagar.runtime.pool import Finished
from vhagar.runtime.processes import ProcessPool

# Time reserved for the workers' last reports, in seconds and as a share of the timeout.
_GRACE, _GRACE_SHARE = 0.2, 0.08
# Inputs per process. The paper uses 10,000.
_PAPER_INPUTS = 1_000


@dataclass(frozen=True)
class Attack(AbstractEngine):
    """Attacks until the time is up; raises the lower bound and proves nothing.

    `without` names additions to the published algorithm to leave out, for comparison (see
    `AttackOptions`). `paper` leaves all of them out: Algorithm 2 as published, with fewer inputs so
    that it ends within seconds.
    """

    without: tuple[str, ...] = ()
    paper: bool = False

    uses = frozenset({"dataset", "device", "workers"})

    def __post_init__(self) -> None:
        check_parts(self.without, ATTACK_PARTS)
        if self.paper and self.without:
            raise InvalidInput("the attack as published has no additions that could be left out")

    @property
    def name(self) -> str:
        return "paper-attack" if self.paper else "attack"

    def search(self, run: Run, deadline: Deadline) -> bool:
        options = self._options(run.options)
        if deadline == NEVER and options.rounds is None:
            raise InvalidInput("the attack would never end: give a timeout")
        dataset = attack_starts(run.options, run.original.domain)
        left = None if deadline == NEVER else deadline.left
        job = AttackJob(run.original, options, left, dataset)
        workers = run.options.worker_count
        if workers > 1 and run.options.processes:
            return _run_in_processes(run, job, workers, deadline)
        return _run_here(run, job, deadline)

    def _options(self, options: Options) -> AttackOptions:
        if self.paper:
            published = AttackOptions.paper(inputs=_PAPER_INPUTS, seed=options.seed)
            return replace(published, device=options.device)
        off = set(self.without)
        if "polish" in off:
            off.add("regions")  # regions are searched by polishing
        return AttackOptions(seed=options.seed, device=options.device, **dict.fromkeys(off, False))


def _run_here(run: Run, job: AttackJob, deadline: Deadline) -> bool:
    found = attack_here(run, job.options, job.timeout, job.dataset)
    return deadline.passed or not found.completed


def _run_in_processes(run: Run, job: AttackJob, count: int, deadline: Deadline) -> bool:
    """Run several attacks with different seeds that share what they find."""
    cut_short = False
    with ProcessPool() as pool:
        for k in range(count):
            pool.start(k, (attack_in_worker, job_of_worker(job, k)))
        for name, message in messages(run, pool, deadline):
            if isinstance(message, AttackFound):
                offer(run, message)
                found = (message.target, message.piece_index, message.x, message.parameters)
                for other in pool:
                    if other != name:
                        pool.tell(other, found)
            elif isinstance(message, HintsFound):
                cut_short |= not message.completed
            elif isinstance(message, Finished) and message.error is not None:
                run.note(f"an attack ended early: {message.error}")
        # Workers that run out of time end a little before the deadline.
        return job.options.rounds is None or cut_short or deadline.passed


def job_of_worker(job: AttackJob, worker: int) -> AttackJob:
    """The job of one worker; every other worker starts from relaxations instead of gradients."""
    timeout, options = job.timeout, job.options
    if timeout is not None:  # the last attacks must still arrive
        timeout -= min(_GRACE, _GRACE_SHARE * timeout)
    own = replace(
        options,
        seed=options.seed + worker,
        relax_first=options.regions and worker % 2 == 1,
        device=options.device if worker == 0 else "cpu",  # one process fills a GPU
    )
    return replace(job, options=own, timeout=timeout)
