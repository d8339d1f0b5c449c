"""Decides a local question: attack, CROWN, optimised slopes, branch and bound.

Interval arithmetic bounds every piece first. The pieces that it leaves open are attacked and then
searched, always the one with the worst bound next. After each step of the search, the versions
that attain its bounds are tried as counterexamples.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from vhagar.array_types import Array
from vhagar.local.attack import attack
from vhagar.local.device import CPU, Device
from vhagar.local.known import Known, LocalProgress, OnProgress, PieceCase
from vhagar.local.piece_search import PieceSearch
from vhagar.local.versions import FixedMap

# Seconds until the attack tries other starts during the search; the pause then doubles.
_NEXT_ATTACK = 2.0


@dataclass(eq=False)
class Clock:
    """When a run began, and when it must end."""

    deadline: float
    started: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    @property
    def left(self) -> float:
        return self.deadline - time.monotonic()

    def is_over(self) -> bool:
        return self.left <= 0


@dataclass(eq=False)
class _Piece:
    """A piece with its cases, which share its versions."""

    number: int
    cases: list[PieceCase]
    fixed: FixedMap
    search: PieceSearch | None = None

    @property
    def upper(self) -> float:
        return max(case.upper for case in self.cases)

    @property
    def is_open(self) -> bool:
        """Whether a search may still close it."""
        given_up = self.search is not None and self.search.is_done
        return self.upper >= 0 and len(self.fixed.lower) > 0 and not given_up


class Decider:
    """Decides a question; `run` ends with a verdict, out of time, or with nothing left to try."""

    def __init__(
        self,
        known: Known,
        clock: Clock,
        seed: int,
        on_progress: OnProgress,
        record: bool = False,
        device: Device = CPU,
    ) -> None:
        """With `record`, keep the proofs of all bounds for a certificate."""
        self._record, self._device = record, device
        self.known, self._clock, self._on_progress = known, clock, on_progress
        self._rng = np.random.default_rng(seed)
        self._problem = known.problem.everywhere
        self.pieces: list[_Piece] = []
        self._next_attack = _NEXT_ATTACK

    def run(self) -> None:
        for number, piece in enumerate(self._problem.pieces):
            cases = [case for case in self.known.cases if case.piece == number]
            self.pieces.append(_Piece(number, cases, self.known.fixed(piece)))
            self.known.look(cases, self.pieces[-1].fixed)
            if self._is_over():
                return
        for each in sorted(self._waiting, key=lambda waiting: -waiting.upper):
            self._attack(each)
            if self._is_over():
                return
        while self._waiting and not self._is_over():
            self._step(max(self._waiting, key=lambda waiting: waiting.upper))
            self._on_progress(self.progress())

    @property
    def _waiting(self) -> list[_Piece]:
        return [piece for piece in self.pieces if piece.is_open]

    def progress(self) -> LocalProgress:
        searches = [piece.search for piece in self.pieces if piece.search is not None]
        return LocalProgress(
            self._clock.seconds,
            self.known.lower,
            self.known.upper,
            sum(search.nodes for search in searches),
            sum(search.open_count for search in searches),
        )

    def _is_over(self) -> bool:
        return self.known.is_decided or self._clock.is_over()

    def _attack(self, piece: _Piece) -> None:
        problem, beat_all = self._problem, not self._problem.all_others
        asked = problem.network, piece.fixed, problem.source, problem.targets
        self._offer(piece, attack(*asked, self._rng, self._clock.is_over, beat_all))

    def _offer(self, piece: _Piece, parameters: Array) -> None:
        own = self._problem.pieces[piece.number]
        self.known.offer(piece.cases, piece.fixed.choice(parameters, own))

    def _step(self, piece: _Piece) -> None:
        if piece.search is None:
            piece.search = self._search(piece)
        versions = piece.search.step()
        for case, upper in zip(piece.cases, piece.search.uppers, strict=True):
            case.offer_upper(float(upper))
        self._try(piece, versions)
        if self._clock.seconds > self._next_attack and not self.known.is_decided:
            self._next_attack = 2 * self._clock.seconds
            self._attack(piece)

    def _search(self, piece: _Piece) -> PieceSearch:
        rivals = (self._problem.source,) * len(self._problem.targets)
        return PieceSearch(
            self._problem.network,
            piece.fixed,
            self._problem.targets,
            rivals if self._problem.all_others else None,
            self._clock.is_over,
            self._record,
            self._device,
            lambda: self._clock.left,
        )

    def proved(self) -> list[PieceSearch]:
        """End and return the searches of all pieces; one closed by intervals is searched now."""
        for piece in self.pieces:
            if piece.search is None:
                piece.search = self._search(piece)
                if self.known.witness is None and piece.upper < 0:
                    while not piece.search.is_done and not self._clock.is_over():
                        piece.search.step()
            piece.search.finish()
        return [piece.search for piece in self.pieces if piece.search is not None]

    def _try(self, piece: _Piece, versions: Array) -> None:
        """Evaluate versions that a search came across; the best may be a counterexample."""
        parameters = piece.fixed.parameters_of(versions)
        if parameters is None or not len(parameters):
            return
        scores = self._problem.network.forward(piece.fixed.image(parameters))
        source = self._problem.source
        leads = scores[:, list(self._problem.targets)].max(axis=1) - scores[:, source]
        best = int(leads.argmax())
        if leads[best] > -max(case.lower for case in piece.cases) or leads[best] >= 0:
            self._offer(piece, parameters[best])
