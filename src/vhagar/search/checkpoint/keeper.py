"""Keeps a search on disk while it goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from vhagar.errors import VhagarError
from vhagar.result import Run
from vhagar.runtime.deadline import OutOfTime
from vhagar.search.checkpoint.checkpoint import (
    Checkpoint,
    SearchState,
    checkpoint_of,
    roots_of,
    save_checkpoint,
)
from vhagar.search.checkpoint.question import question_of
from vhagar.search.cover import covers
from vhagar.search.proofs.tree import ProofTree
from vhagar.search.proofs.tree_state import SearchKind


@dataclass(frozen=True)
class Pauses:
    """Seconds before the first checkpoint, and between two of them.

    The pause is the usual one or, if a checkpoint takes long to write, `times` as long as that; but
    never longer than what the documentation promises.
    """

    first: float = 1.0
    usual: float = 10.0
    times: float = 20.0
    longest: float = 25.0

    def after(self, seconds: float) -> float:
        """The pause after a checkpoint that took `seconds` to write."""
        return min(max(self.usual, self.times * seconds), self.longest)


PAUSES = Pauses()

Searches = Callable[[], dict[SearchKind, SearchState]]


class CheckpointKeeper:
    """Writes the checkpoint of a run when it is due; without a file to write, does nothing.

    `searches` gives the state of all searches at a moment when it is whole.
    """

    def __init__(self, run: Run, searches: Searches) -> None:
        self._run, self._searches = run, searches
        self._path: Path | None = run.options.checkpoint
        self._due = time.monotonic() + PAUSES.first
        self._question = {} if self._path is None else question_of(run)
        earlier = run.resumed if isinstance(run.resumed, Checkpoint) else None
        self._before = 0.0 if earlier is None else earlier.seconds

    def save_when_due(self) -> None:
        """Write the checkpoint if the last one is too old."""
        if self._path is not None and time.monotonic() >= self._due:
            self._save()

    @contextmanager
    def to_the_end(self) -> Iterator[None]:
        """Write the checkpoint once more when the search ends, also on Ctrl-C."""
        try:
            yield
        except (KeyboardInterrupt, OutOfTime):
            # Ctrl-C may have come at any moment, also while nodes changed hands.
            self._save(only_if_whole=True)
            raise
        self._save()

    def _save(self, only_if_whole: bool = False) -> None:
        if self._path is None:
            return
        if isinstance(self._run.proof, ProofTree) and self._run.proof.failed:
            return  # the earlier checkpoint has all of its proofs
        begun = time.monotonic()
        searches = self._searches()
        if only_if_whole and not self._is_whole(searches):
            return
        seconds = self._before + self._run.seconds
        try:
            kept = checkpoint_of(self._run, searches, seconds, self._question)
            save_checkpoint(self._path, self._run, kept)
        except (OSError, VhagarError) as error:  # a full disk must not cost the search
            self._run.note(f"a checkpoint could not be written: {error}")
        now = time.monotonic()
        self._due = now + PAUSES.after(now - begun)

    def _is_whole(self, searches: dict[SearchKind, SearchState]) -> bool:
        return all(
            covers(roots_of(self._run, kind), chain(state.open, state.closed))
            for kind, state in searches.items()
        )
