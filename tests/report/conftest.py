"""Studies made by hand: reports are about what results say, not about finding them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from vhagar.report.data import (
    Entry,
    Event,
    Group,
    NetworkFacts,
    StudyData,
    SweepRun,
    TargetInterval,
)
from vhagar.result import BoundKind, Moment, Witness
from vhagar.sweep.question import Question

PRINTS = {"one": "1" * 64, "two": "2" * 64}


@pytest.fixture
def make_witness() -> Callable[..., Witness]:
    def make(confidence: float, target: int | None = 1, colour: bool = False) -> Witness:
        shape = (3, 4, 4) if colour else (1, 4, 4)
        x = np.linspace(0, 1, int(np.prod(shape))).reshape(shape)
        scores = np.array([confidence, 0.0, -1.0])
        if target is None:
            return Witness(x, scores, confidence)
        x_p = x.copy()
        x_p[:, :2, :2] = 0.0
        return Witness(x, scores, confidence, target, x_p, -scores, 0.25, False, "a square", {})

    return make


@pytest.fixture
def make_entry(make_witness: Callable[..., Witness]) -> Callable[..., Entry]:
    """An entry; `ends` gives `(lower, upper)` by target."""
    counter = iter(range(1, 10_000))

    def make(
        ends: dict[int | None, tuple[float, float]],
        source: int = 0,
        perturbation: str | None = "linf(0.1)",
        network: str = "one",
        status: str = "timeout",
        certificate: str | None = None,
    ) -> Entry:
        targets = tuple(target for target in ends if target is not None)
        found = tuple(
            TargetInterval(target, lower, upper, BoundKind.TWIN if math.isfinite(upper) else None)
            for target, (lower, upper) in ends.items()
        )
        witnesses = {
            target: make_witness(lower, target) for target, (lower, _) in ends.items() if lower > 0
        }
        upper = max(each.upper for each in found)
        history = (
            (Moment(0.0, 0.0, 60.0), Moment(1.5, max(each.lower for each in found), upper))
            if math.isfinite(upper)
            else ()
        )
        return Entry(
            next(counter),
            Question(PRINTS[network], perturbation, source, targets),
            Group(network, PRINTS[network], perturbation),
            status,
            found,
            history,
            witnesses,
            5.0,
            17,
            "bab",
            "0.1.0",
            ("a note",),
            certificate,
        )

    return make


@pytest.fixture
def make_study() -> Callable[..., StudyData]:
    def make(*entries: Entry) -> StudyData:
        networks = tuple(
            NetworkFacts(name, PRINTS[name], f"{name}.onnx", 3, (1, 4, 4))
            for name in dict.fromkeys(entry.group.network for entry in entries)
        )
        events = tuple(
            Event(entry.number, 1000.0 + k, what, lower, upper)
            for k, entry in enumerate(entries)
            for what, lower, upper in (
                ("started", 0.0, math.inf),
                ("finished", entry.lower, entry.upper),
            )
        )
        run = SweepRun(1000.0, 1000.0 + len(entries), "0.1.0", "Linux", "local, 2 at a time")
        largest = {
            Question(facts.fingerprint, None, source, ()).key: (20.0, 20.5)
            for facts in networks
            for source in range(3)
        }
        return StudyData("by hand", networks, entries, (run,), events, None, largest)

    return make


@pytest.fixture
def study(make_entry: Callable[..., Entry], make_study: Callable[..., StudyData]) -> StudyData:
    """Two networks, two perturbations, a grid, maximal confidences, and something unfinished."""
    entries = [
        make_entry({None: (20.0, 20.5)}, source=0, perturbation=None, status="closed"),
        make_entry({1: (2.0, 3.0)}, certificate="proof-7.json"),
        make_entry({2: (0.0, 0.0)}, status="robust"),
        make_entry({0: (1.5, 9.0)}, source=1),
        make_entry({2: (0.0, math.inf)}, source=1, status="open"),
        make_entry({1: (4.0, 4.001)}, network="two", status="closed"),
        make_entry({2: (0.5, 1.0)}, network="two"),
        make_entry({0: (0.1, 1.0)}, source=1, network="two"),
    ]
    for k, (row, column) in enumerate(((1, 1), (1, 3), (3, 1), (3, 3))):
        square = f"occlusion({row},{column},2)"
        entries.append(make_entry({1: (0.5 * k, 1.0 + k), 2: (0.25, 2.0)}, perturbation=square))
    return make_study(*entries)
