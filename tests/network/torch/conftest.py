"""What keeps these tests quick."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _no_traces() -> Iterator[None]:
    """pytest listens to every logger, and torch then writes down every step of an export."""
    logger = logging.getLogger("torch")
    before = logger.manager.disable
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(before)
