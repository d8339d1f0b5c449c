"""What Ray says about itself does not reach the output; it needs no cluster to see that."""

from __future__ import annotations

import logging
import sys
import warnings
from types import ModuleType
from typing import Any

import pytest

from vhagar.runtime.ray_pool import RayPool


class Talkative(ModuleType):
    """Stands in for Ray: it warns and logs while it starts."""

    def __init__(self) -> None:
        super().__init__("ray")
        self.settings: dict[str, Any] = {}

    def is_initialized(self) -> bool:
        return False

    def init(self, **settings: Any) -> None:
        self.settings = settings
        warnings.warn("in future versions ...", FutureWarning, stacklevel=2)
        logging.getLogger("ray").warning("the object store is using /tmp")
        logging.getLogger("ray._private.worker").info("started a local Ray instance")

    def remote(self, **settings: Any) -> Any:
        return lambda actor: actor

    def shutdown(self) -> None:
        pass


def test_a_cluster_starts_in_silence(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Warnings are errors in tests."""
    ray = Talkative()
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setattr(logging.getLogger("ray"), "level", logging.NOTSET)
    monkeypatch.delenv("RAY_BACKEND_LOG_LEVEL", raising=False)
    with caplog.at_level(logging.INFO), RayPool():
        pass
    assert caplog.records == []
    assert ray.settings["log_to_driver"] is False
    assert ray.settings["include_dashboard"] is False
