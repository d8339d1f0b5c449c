"""Engines for tests that do a part of a search, and write its certificate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from vhagar.engine import AbstractEngine
from vhagar.result import Run
from vhagar.search.proofs.recording import recording


class CertifiedEngine(AbstractEngine):
    """Records what is proven; a subclass searches."""

    uses = frozenset({"certificate"})

    @contextmanager
    def certifying(self, run: Run) -> Iterator[None]:
        with recording(run) as run.proof:
            yield
