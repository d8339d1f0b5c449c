"""Tightened hexagons hold every attacked input that is as confident as the incumbent, exactly."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from vhagar.relaxation.layerwise import quick_bounds
from vhagar.search.bab.context import Context
from vhagar.search.bab.simplex import LpAnswer, LpStatus, Simplex
from vhagar.search.bab.tighten import tighten_layer

from ...oracle.cases import KINDS
from ...relaxation.samples import Attacked
from ...relaxation.test_layerwise import require_inside
from .nodes import cases_of, every_kind, exactly, found_in

Group = tuple[Context, list[Attacked], float]


def groups(kind: str) -> list[Group]:
    """For each piece and target: attacked inputs, and a confidence that most of them have."""
    together: dict[int, tuple[Context, list[Attacked]]] = {}
    for found in (found for case in cases_of(kind) for found in found_in(case, 12)):
        together.setdefault(id(found.context), (found.context, []))[1].append(found.attacked)
    result = []
    for context, attacked in together.values():
        ordered = sorted(attacked, key=lambda one: one.confidence)
        threshold = ordered[len(ordered) // 3].confidence
        low = float(np.nextafter(float(threshold), -math.inf))
        result.append((context, ordered[len(ordered) // 3 :], low))
    return result


@every_kind
def test_confident_attacked_inputs_stay_inside(kind: str) -> None:
    """Layer after layer, each on top of the tightened ones before."""
    for context, attacked, confidence in groups(kind):
        bounds = quick_bounds(context.problem.network, context.piece)
        for layer in range(len(bounds.hexagons)):
            current = Context(context.problem, bounds, context.target)
            tightened = tighten_layer(current, layer, confidence, math.inf)
            for one in attacked:
                require_inside(tightened, one.first.entering[layer], one.second.entering[layer])
            bounds.replace(layer, tightened)
        last = Context(context.problem, bounds, context.target)
        upper = last.evaluate((), math.inf).upper
        assert upper == math.inf or exactly(upper) >= attacked[-1].confidence


def test_they_are_tighter() -> None:
    """The tight side: over all cases together, a good part of the widths goes."""
    before, after = 0.0, 0.0
    for kind in KINDS:
        for context, _, confidence in groups(kind):
            for layer, known in enumerate(context.bounds.hexagons):
                width = known.upper - known.lower
                tightened = tighten_layer(context, layer, confidence, math.inf)
                assert (tightened.lower >= known.lower).all()
                assert (tightened.upper <= known.upper).all()
                size = np.where(width > 0, width, 1.0)
                before += float((width / size).sum())
                after += float(((tightened.upper - tightened.lower) / size).sum())
    assert after < 0.9 * before


def test_a_deadline_in_the_past_changes_nothing() -> None:
    (context, _, confidence), *_ = groups("linf")
    known = context.bounds.hexagons[0]
    tightened = tighten_layer(context, 0, confidence, time.monotonic() - 1)
    np.testing.assert_array_equal(tightened.upper, known.tightened().upper)


def test_lies_lose_no_input(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(19)

    def lie(simplex: Simplex, *_: object, **__: object) -> LpAnswer:
        rows = len(simplex._arrays.row_lower)
        duals = 10.0 ** rng.integers(-3, 4, rows) * rng.normal(size=rows)
        return LpAnswer(LpStatus.OPTIMAL, duals, None, 0.0, 1)

    monkeypatch.setattr(Simplex, "solve", lie)
    for kind in KINDS:
        for context, attacked, confidence in groups(kind):
            for layer in range(len(context.bounds.hexagons)):
                tightened = tighten_layer(context, layer, confidence, math.inf)
                for one in attacked:
                    require_inside(tightened, one.first.entering[layer], one.second.entering[layer])
