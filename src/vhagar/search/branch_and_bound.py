"""The engines that search one frontier: branch and bound, and bounds without branching."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from vhagar.engine import AbstractEngine
from vhagar.errors import InvalidInput
from vhagar.options import Options
from vhagar.problem import Problem
from vhagar.reduction import LINEAR_REDUCTIONS, REDUCTIONS, AbstractReduction
from vhagar.result import Run
from vhagar.runtime.deadline import Deadline
from vhagar.runtime.devices import cuda_is_likely
from vhagar.runtime.output_files import check_writable
from vhagar.runtime.threads import one_blas_thread
from vhagar.search.bounders.first_bounds import MOST_KEPT, BoundMethod, programs_fit
from vhagar.search.bounders.size import is_large
from vhagar.search.checkpoint import Checkpoint, resumed
from vhagar.search.node_search import NodeSearch
from vhagar.search.proofs.recording import recording


class _FrontierEngine(AbstractEngine):
    """What `Bab` and `FirstOrder` have in common: certificates, checkpoints, the attack's dataset.

    They add `search`, and which reductions it needs.
    """

    attack: bool

    def check(self, options: Options) -> None:
        super().check(options)
        _check_dataset(self.attack, options)
        _check_checkpoint(options)

    @contextmanager
    def certifying(self, run: Run) -> Iterator[None]:
        kept = run.resumed = resumed(run)
        with recording(run, None if kept is None else kept.tree) as run.proof:
            yield

    def resume(self, run: Run) -> None:
        if isinstance(run.resumed, Checkpoint):
            run.resumed.offer(run)


@dataclass(frozen=True)
class Bab(_FrontierEngine):
    """Branch and bound on the lambda-LP; networks too large for that are bounded at their roots.

    `attack` says whether the attack runs beside the search; in one process it is one round between
    two nodes. `gpu` says whether thousands of nodes are also bounded at once by primal-dual steps
    on the device, beside the workers; by default they are where the device is a GPU. `slopes` says
    whether there is a second search, which bounds the difference of the copies and branches on
    slopes; `inputs` whether there is one that halves boxes of inputs, where these have few entries.
    `tightening` says whether the hexagons of subtrees are tightened by the class constraints and
    the incumbent: on some networks of dense layers that saves a third of the nodes, on most it
    makes up for its own cost at best.
    """

    attack: bool = True
    gpu: bool | None = None
    slopes: bool = True
    inputs: bool = True
    tightening: bool = False

    name = "bab"
    uses = frozenset({"certificate", "checkpoint", "dataset", "device", "executor", "workers"})

    def uses_gpu(self, options: Options) -> bool:
        """Whether nodes are also bounded in batches, on a GPU or, for tests, on a CPU."""
        if self.gpu is not None:
            return self.gpu
        return options.device == "cuda" or (options.device == "auto" and cuda_is_likely())

    def reductions(self, problem: Problem, options: Options) -> tuple[AbstractReduction, ...]:
        """Networks that are not searched take ranges of contrast as they are."""
        return REDUCTIONS if is_large(problem) else LINEAR_REDUCTIONS

    def search(self, run: Run, deadline: Deadline) -> bool:
        if is_large(run.problem):
            return _search_in_rounds(run, deadline, self.attack, self.slopes, self.inputs)
        if not programs_fit(run.problem, run.bounds, deadline):
            _search_in_rounds(run, deadline, self.attack, self.slopes, self.inputs)
            return True  # with more time there would be linear programs
        search = NodeSearch(run, self.attack, self.slopes, self.inputs, self.tightening)
        # Threads of linear algebra would wait for each other and for workers, and add in any order.
        with search.kept(), one_blas_thread():
            return self._search(search, run, deadline)

    def _search(self, search: NodeSearch, run: Run, deadline: Deadline) -> bool:
        search.probe_ceiling()  # first of all: bounds of the ceiling take as long as all others
        if run.resumed is None:
            search.bound_roots(BoundMethod.DIFFERENCES, deadline)
            # With many pieces this depends on the clock, so not where results must be reproducible.
            if run.options.processes or len(run.problem.pieces) <= MOST_KEPT:
                search.bound_roots(BoundMethod.QUICK, deadline)
            else:
                search.bound_ceiling(BoundMethod.QUICK, deadline, share=1.0)
        if run.options.executor == "ray":
            return search.in_cluster(deadline)
        workers, gpu = run.options.worker_count, self.uses_gpu(run.options)
        asked = self.gpu is not None
        if workers > 1 and run.options.processes:
            return search.in_processes(workers, deadline, gpu, asked)
        # In one process results must be reproducible: no GPU by itself.
        return search.in_this_process(deadline, gpu and (asked or run.options.device == "cuda"))


@dataclass(frozen=True)
class FirstOrder(_FrontierEngine):
    """First-order bounds at the roots, and the attack beside them, unless `attack` is false.

    `Bab` does the same by itself for networks that linear programs cannot hold.
    """

    attack: bool = True

    name = "first-order"
    uses = frozenset({"certificate", "checkpoint", "dataset", "device"})

    def search(self, run: Run, deadline: Deadline) -> bool:
        return _search_in_rounds(run, deadline, self.attack)


def _search_in_rounds(run: Run, deadline: Deadline, *wanted: bool) -> bool:
    from vhagar.search.rounds import SearchInRounds  # with the bounds of large networks

    return SearchInRounds(run, *wanted).run(deadline)


def _check_checkpoint(options: Options) -> None:
    """Complain before the search about a file that cannot be written, or must not be."""
    path = options.checkpoint
    if path is None:
        return
    check_writable(path)
    resumed_here = options.resume is not None and (
        os.path.realpath(path) == os.path.realpath(options.resume)  # which loops of links have, too
    )
    if path.exists() and not resumed_here:
        raise InvalidInput(f"{path} exists already; resume it, remove it, or choose another file")


def _check_dataset(attack: bool, options: Options) -> None:
    if options.dataset is not None and not attack:
        raise InvalidInput("only the attack uses a dataset, and it is switched off")
