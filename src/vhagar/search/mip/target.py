"""The search for one target: one MIP for each piece of the perturbation.

Pieces take turns in time slices that double, so that every piece gets a bound early and a hard one
all the time it needs. A piece whose rows are a relaxation (a range of contrasts) is split if its
bound still matters when its MIP is solved. If a solver reports infeasibility, that is checked, like
everything that a solver reports.

The facts prepared for a piece (bounds, relations, hexagons) also hold for its parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from vhagar.array_types import Array
from vhagar.perturbation import AbstractPiece
from vhagar.reduction import Reduced
from vhagar.relaxation import Bounds, largest_confidence
from vhagar.result import Witness
from vhagar.result.witness import RestoredCheck
from vhagar.runtime.deadline import NEVER, Deadline
from vhagar.search.mip.encoding import Encoding, PieceFacts, encode, known_ranges
from vhagar.search.mip.hexagons import hexagons_of
from vhagar.search.mip.infeasibility_check import infeasibility_model
from vhagar.search.mip.messages import CandidateFound, Message, NodesSearched, UpperFound
from vhagar.search.mip.options import MipOptions
from vhagar.search.mip.polish import Polish, WitnessCandidate, first_accepted
from vhagar.search.mip.preparation import UNPREPARED, Prepared
from vhagar.solver.backends import AbstractModel, Solved, SolveStatus, backend_named

# Seconds of the first time slice of a piece; later ones are longer.
_FIRST_SLICE = 2.0
# Margin of the target that float32 can see, relative to the scores.
_VISIBLE_MARGIN = 1e-4


@dataclass(eq=False)
class _Open:
    """An open piece with its bound and the length of its next time slice."""

    piece_index: int | None
    piece: AbstractPiece | None
    upper: float
    slice: float = _FIRST_SLICE


@dataclass(frozen=True, eq=False)
class _Turn:
    """A piece whose MIP is being solved, for a confidence of at least `least`.

    `cutoff` is the same, except that `least` may be slightly negative for the sake of ties. A piece
    that is `alone` has all the time there is.
    """

    current: _Open
    encoding: Encoding
    model: AbstractModel
    least: float
    cutoff: float
    alone: bool


class TargetSearch:
    """Searches one target and sends what it finds; polls `should_stop` throughout.

    Solvers do not poll it at every moment, so they are told the deadline as well.
    """

    def __init__(
        self,
        reduced: Reduced,
        target: int | None,
        options: MipOptions,
        send: Callable[[Message], None],
        should_stop: Callable[[], bool],
        prepared: Prepared = UNPREPARED,
        deadline: Deadline = NEVER,
    ) -> None:
        self._deadline = deadline
        self._problem = problem = reduced.problem
        self._prepared = prepared
        self._target = target
        self._options = options
        self._send = send
        self._should_stop = should_stop
        self._backend = backend_named(options.solver)
        self._check = RestoredCheck(reduced)
        # The best confidence so far, for any target; smaller ones do not matter.
        self._lower = prepared.lower
        box = Bounds.over(problem.domain)
        trivial = max(largest_confidence(problem.network, box, problem.source), 0.0)
        pieces: list[tuple[int | None, AbstractPiece | None]] = [(None, None)]
        if target is not None:
            pieces = list(enumerate(problem.pieces))
        self._open = [_Open(piece_index, piece, trivial) for piece_index, piece in pieces]
        self._closed_upper = 0.0  # the largest bound of the closed pieces
        self._announced = trivial
        self._counted = 0  # nodes of the MIP that is being solved

    def run(self) -> None:
        """Search until no piece's bound matters any more, or until stopped."""
        while self._open and not self._should_stop():
            current = max(self._open, key=lambda item: (-item.slice, item.upper))
            if self._matters(current.upper):
                self._turn(current)
            else:
                self._close(current)  # keeps its bound

    def _matters(self, upper: float) -> bool:
        return upper - self._lower > self._options.relative_gap * upper

    def _turn(self, current: _Open) -> None:
        """Solve one piece's MIP for a while."""
        encoding = encode(self._problem, current.piece, self._target, self._tightening_of(current))
        model = self._backend(encoding.arrays, encoding.delta)
        lower = encoding.arrays.column_lower.copy()
        upper = encoding.arrays.column_upper
        # Only inputs better than the best witness matter.
        cutoff = min(self._lower, float(upper[encoding.delta]))
        if cutoff > 0:
            lower[encoding.delta] = cutoff
        least = float(lower[encoding.delta])
        turn = _Turn(current, encoding, model, least, cutoff, len(self._open) == 1)
        self._counted = 0
        solved = model.solve(
            lower=lower,
            time_limit=self._seconds(turn),
            seed=self._options.seed,
            start=self._start(encoding),
            proving=cutoff > 0,
            on_bound=lambda bound: self._bounded(current, bound, cutoff),
            on_solution=lambda point: self._found(current, encoding, point),
            on_nodes=self._count,
            should_stop=self._should_stop,
        )
        current.slice *= 2
        self._conclude(turn, solved)

    def _seconds(self, turn: _Turn) -> float:
        """How long a solver may take for a turn."""
        return min(math.inf if turn.alone else turn.current.slice, self._deadline.left)

    def _tightening_of(self, current: _Open) -> PieceFacts:
        """The facts about the problem's piece that this one is, or is a part of."""
        known = self._prepared.of(current.piece_index)
        if (
            current.piece_index is None
            or current.piece is None
            or self._options.formulation != "lambda"
        ):
            return known
        whole = self._problem.pieces[current.piece_index] is current.piece
        if whole and known.hexagons is not None:
            return known
        # A part of a piece has tighter hexagons.
        network, piece = self._problem.network, current.piece
        ranges = known_ranges(network, piece, known.bounds)
        return replace(known, hexagons=hexagons_of(network, piece, ranges, known.relations))

    def _start(self, encoding: Encoding) -> Array | None:
        """The attack's hints as a partial start."""
        hints = self._prepared.hints.get(self._target)
        if hints is None:
            return None
        from vhagar.search.mip.attack_phase import start_of

        return start_of(encoding, hints)

    def _conclude(self, turn: _Turn, solved: Solved) -> None:
        """Draw the conclusions from a solver's answer for its piece."""
        current = turn.current
        if solved.solution is not None:
            self._found(current, turn.encoding, solved.solution)
        if solved.status is SolveStatus.INFEASIBLE:
            solved = self._check_infeasibility(turn)
        elif solved.status is not SolveStatus.FAILED:
            self._bounded(current, solved.bound, turn.cutoff)
            if solved.status is SolveStatus.OPTIMAL:
                if self._matters(current.upper):
                    self._search_beyond_ties(turn)
                self._refine(current)
                return
        # After a failure, or an early end that was not for lack of time, another turn would end
        # alike: the piece keeps its last bound.
        early = solved.status is SolveStatus.STOPPED
        if not early or (turn.alone and not self._should_stop()):
            self._close(current)

    def _check_infeasibility(self, turn: _Turn) -> Solved:
        """The MIP was reported infeasible: find by how much, and use the bound that proves it."""
        check = infeasibility_model(turn.encoding, turn.least)
        model = self._backend(check.arrays, check.v)
        room, row_lower = check.room(model.outward)
        best = math.inf

        def bounded(bound: float) -> None:
            nonlocal best
            best = min(best, bound) if math.isfinite(bound) else best

        solved = model.solve(
            row_lower=(check.target_rows, row_lower),
            time_limit=self._seconds(turn),
            seed=self._options.seed,
            on_bound=bounded,
            should_stop=lambda: best < 0 or self._should_stop(),
        )
        bounded(solved.bound)
        if best < room:
            more = turn.least if best < 0 else float(np.nextafter(turn.least + best, np.inf))
            self._bounded(turn.current, more, turn.cutoff)
        proved = best < 0 and solved.status is SolveStatus.STOPPED
        return Solved(SolveStatus.OPTIMAL, best, None) if proved else solved

    def _search_beyond_ties(self, turn: _Turn) -> None:
        """Solve again with a margin, because the optimum may be a tie that the check rejects.

        This can find a witness; it bounds nothing.
        """
        encoding, current = turn.encoding, turn.current
        lower = encoding.arrays.column_lower.copy()
        lower[encoding.delta] = min(
            self._lower, float(encoding.arrays.column_upper[encoding.delta])
        )
        margins = np.minimum(_VISIBLE_MARGIN * encoding.target_scale, encoding.target_reach)
        solved = turn.model.solve(
            lower=lower,
            row_lower=(encoding.target_rows, margins),
            time_limit=min(current.slice, self._deadline.left),
            seed=self._options.seed,
            on_solution=lambda point: self._found(current, encoding, point),
            should_stop=self._should_stop,
        )
        if solved.solution is not None:
            self._found(current, encoding, solved.solution)

    def _count(self, nodes: int) -> None:
        """Report the increase of a solver's node count."""
        if nodes > self._counted:
            self._send(NodesSearched(nodes - self._counted))
            self._counted = nodes

    def _bounded(self, current: _Open, bound: float, cutoff: float) -> None:
        """Use a solver's bound, which covers only inputs with a confidence above `cutoff`."""
        upper = max(bound, cutoff)
        if math.isfinite(bound) and upper < current.upper:
            current.upper = upper
            self._announce()

    def _announce(self) -> None:
        upper = max([self._closed_upper, *(item.upper for item in self._open)])
        if upper < self._announced:
            self._announced = upper
            self._send(UpperFound(upper))

    def _close(self, current: _Open) -> None:
        self._closed_upper = max(self._closed_upper, current.upper)
        self._open.remove(current)
        self._announce()

    def _refine(self, current: _Open) -> None:
        """After a solved MIP: close the piece, or split it if its rows are not exact."""
        children = current.piece.split() if current.piece is not None else ()
        if self._is_exact(current.piece) or not children or not self._matters(current.upper):
            self._close(current)
            return
        self._open.remove(current)
        self._open += [_Open(current.piece_index, child, current.upper) for child in children]

    def _is_exact(self, piece: AbstractPiece | None) -> bool:
        """Whether the MIP, with this solver, represents the piece exactly."""
        if piece is None or piece.exact_rows:
            return True
        return self._backend.capabilities.products and piece.exact_products

    def _found(self, current: _Open, encoding: Encoding, point: Array) -> None:
        """Polish a solution of the MIP, check it, and send it if it is better."""
        if not (np.isfinite(point).all() and point[encoding.delta] > self._lower):
            return
        parameters = None if encoding.parameters is None else encoding.parameters.value(point)
        polish = Polish(self._problem, current.piece, self._target, self._deadline)
        candidates = polish.candidates(point[encoding.x], parameters)
        best = first_accepted(
            candidates, lambda candidate: self._accepts(current.piece_index, candidate)
        )
        if best is not None:
            self._send(CandidateFound(current.piece_index, best))

    def _accepts(self, piece_index: int | None, candidate: WitnessCandidate) -> bool:
        verdict = self._check(self._target, candidate.x, piece_index, candidate.parameters)
        if not isinstance(verdict, Witness) or verdict.confidence <= self._lower:
            return False
        self._lower = verdict.confidence
        return True
