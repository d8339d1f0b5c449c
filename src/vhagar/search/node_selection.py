"""Node selection among the searches that go on side by side: which nodes come next, what is known.

The main search branches on signs of neurons. Beside it there are a search that branches on slopes,
one for the ceiling, and one that halves boxes of inputs, each only where it can help.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from vhagar.problem import Target
from vhagar.result import BoundKind, Run
from vhagar.search.bounders.gpu.messages import GpuReport
from vhagar.search.bounders.size import is_large, is_small
from vhagar.search.ceiling import Ceiling, CeilingTime
from vhagar.search.checkpoint import Checkpoint, SearchState
from vhagar.search.frontier import MOST_HANDED_OUT, Frontier
from vhagar.search.input_process import InputProcess, InputsReport
from vhagar.search.input_search import splits_inputs
from vhagar.search.node import Node, root_nodes
from vhagar.search.node_solver import Explored
from vhagar.search.proofs.tree import ProofTree
from vhagar.search.proofs.tree_state import SearchKind
from vhagar.search.slope_search import SlopeSearch
from vhagar.search.worker import AnyTask, CeilingTask, SignTask

# The number by which this process goes beside workers.
HERE = -1
# Head start of the search by signs over the one by slopes on small problems with one target, in
# seconds: many end before it does. The ceiling waits no longer than that, either.
_HEAD_START = 1.5
# Seconds that a task of such a problem counts for where results must be reproducible.
_SMALL_TASK = 0.1
# Rounds for each root, on average, before the ceiling may take every round.
_BEFORE_CEILING = 3
# Share of all nodes for the ceiling's search while there is other work, and on small problems the
# nodes before it gets any: by then, the ceiling is often higher than what is known.
_CEILING_SHARE, _BEFORE_CEILING_SMALL = 0.2, 50
# The time of boxes of inputs in one process, as a share of all others', while they do not bound the
# answer, and steps between two looks at whether they do.
_BOXES_SHARE, _BOXES_STEPS = 0.25, 16


class Frontiers:
    """The open nodes of all searches and the bounds of the closed ones, wherever nodes are bounded.

    `slopes` and `inputs` say whether there may be searches by slopes and by boxes of inputs.
    """

    def __init__(self, run: Run, slopes: bool, inputs: bool) -> None:
        self._run = run
        self._tree = run.proof if isinstance(run.proof, ProofTree) else None
        self._resumed = run.resumed if isinstance(run.resumed, Checkpoint) else None
        problem = run.problem
        roots = root_nodes(problem, problem.search_targets, run.interval.computed_upper)
        self.signs = self._frontier_of(roots, SearchKind.SIGNS)
        self._roots = len(roots)
        largest = max(map(run.interval.computed_upper, problem.search_targets))
        self.ceiling = Ceiling(run.original, largest, self._frontier_of)
        by_inputs = inputs and problem is run.original and splits_inputs(problem)
        self.boxes = InputProcess(run, self._record_boxes) if by_inputs else None
        by_slopes = slopes and not is_large(problem)
        small = is_small(problem)
        self._first_nodes = _BEFORE_CEILING_SMALL if small else 0
        later = _HEAD_START if small and len(problem.search_targets) == 1 else 0.0
        # Seconds that the first bounds of all roots count for: with one, slopes need not wait for
        # the first LP; with none, signs have their head start.
        self._first_effort = 0.0 if later else 1.0
        # The same for every task where results must be reproducible.
        self._task_effort = _SMALL_TASK if later else 1.0
        self._slopes = SlopeSearch(problem, by_slopes, self._known_upper, later, self._frontier_of)
        self.signs.known_elsewhere = self._slopes.uppers
        self.signs.roots_as_they_are = True  # every target may have a witness, which LPs find
        self._slopes.frontier.known_elsewhere = self._sign_uppers
        # When workers were given their tasks, unless results must be reproducible.
        self._begun: dict[int, float] = {}
        self._ceiling_time = CeilingTime()
        self.timed = False

    def _frontier_of(self, roots: list[Node], kind: SearchKind) -> Frontier:
        """The frontier of a search: as the checkpoint has it, or from its roots, if there are any.

        A search without roots is not wanted, so that its frontier is empty.
        """
        keeps_closed = self._run.options.checkpoint is not None
        state = None if self._resumed is None else self._resumed.searches.get(kind)
        if state is None or not roots:
            return Frontier(roots, keeps_closed=keeps_closed)
        return Frontier(state.open, state.closed, keeps_closed)

    def states(self) -> dict[SearchKind, SearchState]:
        """Return what a checkpoint keeps of each search."""
        frontiers = {
            SearchKind.SIGNS: self.signs,
            SearchKind.CEILING: self.ceiling.frontier,
            SearchKind.SLOPES: self._slopes.frontier,
        }
        found = {kind: SearchState(*frontier.kept()) for kind, frontier in frontiers.items()}
        return {kind: state for kind, state in found.items() if state.open or state.closed}

    def next_task(self, worker: int, workers: int, whole_piece: bool = False) -> AnyTask | None:
        """Return the nodes that a worker should explore next, or None if none is open."""
        task = self._chosen_task(worker, workers, whole_piece)
        if task is not None:
            self._begun[worker] = _clock(worker)
        return task

    def _chosen_task(self, worker: int, workers: int, whole_piece: bool) -> AnyTask | None:
        ceiling, frontier, lower = self.ceiling, self.signs, self._run.interval.lower
        idle = not len(frontier)
        is_wanted = ceiling.is_wanted(self._run.interval.upper)
        if not (is_wanted and self._has_time_for_ceiling(whole_piece)):
            slopes = self._slopes.next_task(worker, workers, lower, idle)
            if slopes is not None:
                return slopes
            is_wanted &= idle or self._has_nodes_for_ceiling(whole_piece)
        if is_wanted:
            return self.ceiling_task(worker, MOST_HANDED_OUT)
        if idle:
            return None
        take = frontier.take_alike if whole_piece else lambda w: frontier.take_share(w, workers)
        return SignTask(take(worker), lower, ceiling.upper)

    def ceiling_task(self, worker: int, most: int) -> CeilingTask:
        """Return nodes of the ceiling's search, to which an attack is a confident input, too."""
        known = max(self.ceiling.lower, self._run.interval.lower)
        return CeilingTask(self.ceiling.frontier.take(worker, most), known)

    def next_slope_task(self) -> AnyTask | None:
        """Return the best node of the search by slopes for this process, or None if it has none."""
        task = self._slopes.next_task(HERE, 1, self._run.interval.lower, idle=True, most=1)
        if task is not None:
            self._begun[HERE] = _clock(HERE)
        return task

    @property
    def bounded_by_boxes(self) -> bool:
        """Whether nothing better is known of the answer than what boxes of inputs say."""
        if self.boxes is None or self.boxes.is_done:
            return False
        return max(self.boxes.uppers.values(), default=math.inf) <= self._run.interval.upper

    @property
    def bounded_by_ceiling(self) -> bool:
        """Whether nothing better is known of the answer than the ceiling."""
        return self.ceiling.upper <= self._run.interval.upper

    def _has_time_for_ceiling(self, whole_piece: bool) -> bool:
        """Whether the ceiling comes next by the time that it and all others have had."""
        time_of, under_way = self._ceiling_time, self._under_way()
        few_nodes = self.signs.explored < self._first_nodes
        if few_nodes and not (self.timed and time_of.on_others + under_way > _HEAD_START):
            return False
        interval, binds = self._run.interval, self.bounded_by_ceiling
        return time_of.is_next(
            self.ceiling, interval.upper, interval.lower, binds, under_way, whole_piece
        )

    def _under_way(self) -> float:
        """Seconds so far of tasks that are not about the ceiling."""
        if not self.timed:
            return 0.0
        mine = self.ceiling.frontier
        return sum(_clock(name) - at for name, at in self._begun.items() if not mine.has(name))

    def _has_nodes_for_ceiling(self, whole_piece: bool) -> bool:
        """Whether the ceiling comes next by its share of all nodes."""
        # In rounds the ceiling keeps up with the others: a round of it for each of theirs.
        part = self._ceiling_part() if whole_piece else _CEILING_SHARE
        return self.ceiling.frontier.explored < part * (self.signs.explored - self._first_nodes)

    def _ceiling_part(self) -> float:
        """Rounds of the ceiling per round of the others: all, once it is what bounds the answer."""
        others = self.signs.explored
        if others >= _BEFORE_CEILING * self._roots and self.bounded_by_ceiling:
            return math.inf
        return 1 / self._roots

    def put_back(self, name: int, explored: Explored, underway: bool = False) -> None:
        """Take a worker's report on its task; it may keep the nodes that are still open."""
        kind = self._search_of(name)
        self._record(explored, kind)
        if kind is SearchKind.CEILING:
            self.ceiling.frontier.put_back(name, explored, underway)
            self.ceiling.update()
        elif kind is SearchKind.SLOPES:
            self._slopes.put_back(name, explored, underway)
        else:
            self.signs.put_back(name, explored, underway)
        if not underway:
            self._count_effort(name, kind, explored.work)
        self._run.count_nodes(explored.nodes)
        if explored.trouble is not None:
            self._run.note(f"a part of the search failed: {explored.trouble}")
        self.announce(explored.kind)

    def _count_effort(self, name: int, kind: SearchKind, work: float) -> None:
        """Record what a worker's task has taken."""
        is_first = name not in self._begun
        effort = self._effort(name)
        # Where results must be reproducible, LPs count for what they are estimated to take: those
        # for the ceiling may take a tenth of the others'. First bounds take next to nothing.
        seconds = effort if self.timed else work or (0.0 if is_first else effort)
        if kind is SearchKind.CEILING:
            self._ceiling_time.spent += seconds
        else:
            self._ceiling_time.on_others += seconds
            self._slopes.spent(effort, kind is SearchKind.SLOPES)

    def _effort(self, name: int) -> float:
        """The seconds that a worker's task has taken; first bounds are nobody's task."""
        begun = self._begun.pop(name, None)
        if begun is None:
            return 0.0 if self.timed else self._first_effort
        return max(_clock(name) - begun, 0.0) if self.timed else self._task_effort

    def _search_of(self, name: int) -> SearchKind:
        """The search whose nodes a worker has."""
        if self.ceiling.frontier.has(name):
            return SearchKind.CEILING
        return SearchKind.SLOPES if self._slopes.frontier.has(name) else SearchKind.SIGNS

    def take_batch(self, name: int, report: GpuReport) -> None:
        """Take a report on nodes that are bounded in batches."""
        self._record(report.explored, SearchKind.SIGNS)
        self.signs.report(name, report.explored, report.held)
        self._run.count_nodes(report.explored.nodes)
        self.announce()

    def abandon(self, name: int) -> None:
        """Open the nodes of a lost worker again."""
        self._begun.pop(name, None)
        self.signs.abandon(name)
        self.ceiling.frontier.abandon(name)
        self._slopes.frontier.abandon(name)

    def _record(self, report: Explored | InputsReport, kind: SearchKind) -> None:
        """Record proofs before bounds are announced, so that Ctrl-C leaves no claim unproven."""
        if self._tree is not None:
            self._tree.add(report.logged, kind)

    def _record_boxes(self, report: InputsReport) -> None:
        self._record(report, SearchKind.BOXES)

    def split_inputs(self, seconds: float) -> bool:
        """Halve boxes of inputs for about `seconds`; return whether there were any to halve."""
        if self.boxes is None or self.boxes.is_done:
            return False
        self.boxes.work(seconds)
        self.announce()
        return True

    def step_inputs(self, is_late: Callable[[], bool] = lambda: False) -> None:
        """Halve boxes of inputs once or more, always in the same way.

        They have their share of the time: as much as all else while they bound the answer.
        """
        if self.boxes is None:
            return
        spent, steps = self._ceiling_time.spent + self._ceiling_time.on_others, 1
        while not (self._run.interval.closed or is_late() or self.boxes.is_done):
            self.boxes.step(steps)
            self.announce()
            share, steps = 1.0 if self.bounded_by_boxes else _BOXES_SHARE, _BOXES_STEPS
            if self.boxes.spent >= share * spent:
                break

    def last_boxes(self) -> None:
        """Announce the bounds of boxes that have not been reported yet."""
        if self.boxes is not None:
            self.boxes.report()
            self.announce()

    def announce(self, kind: BoundKind = BoundKind.TWIN) -> None:
        """Offer all bounds; `kind` is that of the bounds that have become better."""
        restore = self._run.reduced.restore
        for target, upper in self._sign_uppers().items():
            known = min(restore.upper(upper), self.ceiling.upper)
            self._run.interval.offer_upper(target, known, kind)
        for target, upper in self._slopes.uppers().items():
            self._run.interval.offer_upper(target, restore.upper(upper), BoundKind.QUADRATIC)
        for target, upper in self._by_inputs().items():
            self._run.interval.offer_upper(target, upper, BoundKind.BOXES)

    def _sign_uppers(self) -> dict[Target, float]:
        return self.signs.uppers(self._run.problem.search_targets)

    def _known_upper(self, target: int | None) -> float:
        """A target's bound without the search by slopes."""
        return min(
            self._sign_uppers()[target], self.ceiling.upper, self._by_inputs().get(target, math.inf)
        )

    def _by_inputs(self) -> dict[int | None, float]:
        """Each target's bound by boxes of inputs, where there are any."""
        return {} if self.boxes is None else self.boxes.uppers


def _clock(worker: int) -> float:
    """The time of a worker: in this process that of its processor, as the machine may be busy."""
    return time.process_time() if worker == HERE else time.monotonic()
