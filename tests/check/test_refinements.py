"""Refinements of a region: multipliers that tighten the bounds of some neurons."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vhagar_check import regions as module
from vhagar_check.errors import Rejected
from vhagar_check.formula import Bounds, directions, from_sides
from vhagar_check.layers import Conv, Dense, Network
from vhagar_check.neuron_bounds import quick_bounds
from vhagar_check.perturbations import pieces
from vhagar_check.pieces import Domain, Piece
from vhagar_check.regions import (
    EQUAL,
    OFF,
    ON,
    PAIR,
    Form,
    Numbers,
    Regions,
    ascending,
    from_tables,
    undecided_among,
)

from .asking import with_json
from .test_regions import PLAIN, block, form, one_copy, sides_of


def refinement(seed: int, neurons: list[int], seen: list[int], sides: int) -> tuple[Any, bytes]:
    """Multipliers of the layer below, for each side and neuron."""
    rng = np.random.default_rng(seed)
    tables = rng.normal(size=(2, sides * len(neurons), len(seen))).astype("<f4")
    return tables, tables.tobytes()


def loose_bounds(network: Network, piece: Piece, kind: type[Bounds] = Bounds) -> Bounds:
    """Next to nothing is known about layer 1, so that any multipliers tighten it."""
    found = quick_bounds(network, piece, kind)
    size = network.relu_sizes_and_classes[1]
    found.replace(1, from_sides([np.full(size, 1000.0)] * 6, 1.0))
    return found


@pytest.fixture(autouse=True)
def loose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "quick_bounds", loose_bounds)


@pytest.mark.parametrize("neurons", [[0], [1, 3], [0, 1, 2, 3]])
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("apart", [False, True])
def test_multipliers_refine_the_neurons_they_are_for(
    neurons: list[int], named: bool, apart: bool
) -> None:
    """Each side by its own, in the region's block or in one behind it."""
    whole = form()
    seen = [2, 4] if named else [0, 2, 4]
    tables, data = refinement(5, neurons, seen, 6)
    entry: dict[str, Any] = {"layer": 1, "neurons": neurons}
    if named:
        entry["seen"] = [seen]
    if apart:
        found = Regions(whole).read(block(), [with_json(entry, data)])
    else:
        found = Regions(whole).read(block(data=data, refined=[entry]))
    quick = loose_bounds(whole.network, whole.pieces[0])
    sides = [np.full(4, np.inf) for _ in range(6)]
    for k, (on_s, on_t) in enumerate(directions(1.0)):
        for row, neuron in enumerate(neurons):
            p, q = (table[k * len(neurons) + row].astype(float) for table in tables)

            def choose(layer: int, a: np.ndarray, b: np.ndarray, p=p, q=q) -> Any:
                on = np.array(PLAIN[:5]) == ON
                first, second = np.where(on, a, 0.0), np.where(on, b, 0.0)
                first[:, seen], second[:, seen] = p, q
                return first, second

            unit = np.eye(4)[[neuron]]
            sides[k][neuron] = quick.upper(1, on_s * unit, on_t * unit, choose)[0][0]
    quick.replace(1, quick.hexagons[1].meet(from_sides(sides, 1.0)).tightened())
    np.testing.assert_allclose(sides_of(found.bounds, 1), sides_of(quick, 1), rtol=1e-12)
    assert sides_of(found.bounds, 0) == sides_of(quick, 0)
    assert (found.bounds.hexagons[1].high[neurons] < 1000).all()
    assert (found.bounds.hexagons[1].low[neurons] > -1000).all()
    assert found.bounds.corners[1].magnitude == pytest.approx(quick.corners[1].magnitude)


def test_one_copy_has_two_sides() -> None:
    given = one_copy()
    given.bounds.replace(1, from_sides([np.full(4, 1000.0)] * 6, 1.0))
    status = [np.array(PLAIN[:5], dtype=np.uint8), np.array(PLAIN[5:], dtype=np.uint8)]
    tables, data = refinement(6, [2], [0, 2, 4], 2)
    reader = Numbers(data)
    module._refine(given.bounds, status, {"layer": 1, "neurons": [2]}, reader)
    reader.finish()
    quick = one_copy().bounds
    unit = np.eye(4)[[2]]
    choose = from_tables(status, [tuple(table[[1]].astype(float) for table in tables)])
    high = quick.upper(1, unit, 0 * unit, choose)[0][0]
    assert given.bounds.hexagons[1].high[2] == high < 1000
    assert given.bounds.hexagons[1].high_p[2] > 1000 - 1e-9


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"layer": 0, "neurons": [0]}, "a layer that there is not"),
        ({"layer": 2, "neurons": [0]}, "a layer that there is not"),
        ({"layer": True, "neurons": [0]}, "a layer that there is not"),
        ({"layer": 1, "neurons": []}, "no neurons"),
        ({"layer": 1, "neurons": [4]}, "neurons that there are not"),
        ({"layer": 1, "neurons": [0], "seen": []}, "of every layer"),
        ({"layer": 1, "neurons": [0], "seen": [[0], [0]]}, "of every layer"),
        ({"layer": 1, "neurons": [0], "seen": [[1]]}, "not undecided"),
    ],
)
def test_refinements_that_are_none(entry: dict[str, Any], words: str) -> None:
    with pytest.raises(Rejected, match=words):
        Regions(form()).read(block(data=bytes(6 * 3 * 2 * 4), refined=[entry]))


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("place", [0, 17, 18, 35])
def test_refinements_by_no_numbers(value: float, place: int) -> None:
    numbers = np.zeros(36, "<f4")
    numbers[place] = value
    entry = {"layer": 1, "neurons": [0]}
    for raw, more in (
        (block(data=numbers.tobytes(), refined=[entry]), []),
        (block(), [with_json(entry, numbers.tobytes())]),
    ):
        with pytest.raises(Rejected, match="not finite"):
            Regions(form()).read(raw, more)


def test_every_block_of_refinements_ends_with_its_numbers() -> None:
    entry = {"layer": 1, "neurons": [0]}
    exact = with_json(entry, bytes(36 * 4))
    Regions(form()).read(block(), [exact, exact])
    for length, words in ((37 * 4, "too many"), (35 * 4, "too few")):
        with pytest.raises(Rejected, match=words):
            Regions(form()).read(block(), [exact, with_json(entry, bytes(length))])


def test_convolutions_are_refined_inside_windows() -> None:
    """The same bounds as those of the whole layers; units outside the windows do not matter."""
    rng = np.random.default_rng(8)
    first = Conv(
        rng.normal(size=(2, 1, 2, 2)), rng.normal(size=2), (1, 4, 4), (1, 1), (0,) * 4, (1, 1), 1
    )
    second = Conv(
        rng.normal(size=(1, 2, 2, 2)), rng.normal(size=1), (2, 3, 3), (1, 1), (0,) * 4, (1, 1), 1
    )
    last = Dense(rng.normal(size=(2, 4)), rng.normal(size=2))
    own = Network(((first,), (second,), (last,)), (1, 4, 4))
    domain = Domain((1, 4, 4), 0.0, 1.0)
    whole = Form(own, pieces("linf(0.25)", domain, True), own, domain)
    status = [PAIR] * 18 + [PAIR] * 4
    seen = [1, 4, 7, 10, 13, 17]
    tables, data = refinement(9, [1, 3], seen, 6)
    entry = {"layer": 1, "neurons": [1, 3], "seen": [seen]}
    raw = with_json(
        {"piece": 0, "span": None, "layers": [18, 4], "refined": [entry]}, bytes(status) + data
    )
    found = Regions(whole).read(raw)
    quick = loose_bounds(own, whole.pieces[0])
    sides = [np.full(4, np.inf) for _ in range(6)]
    for k, (on_s, on_t) in enumerate(directions(1.0)):
        mine = tuple(table[2 * k : 2 * k + 2].astype(float) for table in tables)

        def choose(layer: int, a: np.ndarray, b: np.ndarray, mine=mine) -> Any:
            # Units that no neuron of the part sees have no coefficients, and 0 costs nothing.
            p, q = np.zeros_like(a), np.zeros_like(b)
            p[:, seen], q[:, seen] = mine
            outside = np.arange(18) % 3 == 0
            p[:, outside], q[:, outside] = 0.0, 0.0
            return p, q

        units = np.eye(4)[[1, 3]]
        sides[k][[1, 3]] = quick.upper(1, on_s * units, on_t * units, choose)[0]
    expected = quick.hexagons[1].meet(from_sides(sides, 1.0)).tightened()
    np.testing.assert_allclose(found.bounds.hexagons[1].high, expected.high, rtol=1e-12)
    np.testing.assert_allclose(found.bounds.hexagons[1].gap_low, expected.gap_low, rtol=1e-12)


@pytest.mark.parametrize(
    "numbers", ["01", None, {0: 1}, [0.0], [True], [0, 0], [1, 0], [-1], [3], [0, 3], [0, "1"]]
)
def test_neurons_that_are_not_ascending(numbers: Any) -> None:
    with pytest.raises(Rejected, match="a region names neurons"):
        ascending(numbers, 3)


def test_ascending_neurons() -> None:
    for numbers in ([], [0], [2], [0, 1, 2]):
        assert ascending(numbers, 3).tolist() == numbers


def test_undecided_neurons() -> None:
    status = [np.array([PAIR, ON, EQUAL, OFF]), np.array([OFF, PAIR])]
    assert [part.tolist() for part in undecided_among(status, None)] == [[0, 2], [1]]
    assert [part.tolist() for part in undecided_among(status, [[2], []])] == [[2], []]
    for seen in ([[2]], [[2], [], []], "ab", {"0": [], "1": []}):
        with pytest.raises(Rejected, match="of every layer"):
            undecided_among(status, seen)
    for seen in ([[1], []], [[3], []], [[0, 1], [1]], [[0], [0]]):
        with pytest.raises(Rejected, match="not undecided"):
            undecided_among(status, seen)


def test_multipliers_from_tables() -> None:
    """A neuron that is on passes its coefficients on; one that is off, or not named, has none."""
    status = [np.array([PAIR, ON, EQUAL, OFF, PAIR])]
    a, b = np.arange(1.0, 6.0)[None], np.arange(10.0, 60.0, 10.0)[None]
    table = np.array([[7.0, 8.0, 9.0]]), np.array([[-7.0, -8.0, -9.0]])
    p, q = from_tables(status, [table])(0, a, b)
    assert p.tolist() == [[7.0, 2.0, 8.0, 0.0, 9.0]]
    assert q.tolist() == [[-7.0, 20.0, -8.0, 0.0, -9.0]]
    some = np.array([[8.0, 9.0]]), np.array([[-8.0, -9.0]])
    p, q = from_tables(status, [some], [np.array([2, 4])])(0, a, b)
    assert p.tolist() == [[0.0, 2.0, 8.0, 0.0, 9.0]]
    assert q.tolist() == [[0.0, 20.0, -8.0, 0.0, -9.0]]


@pytest.mark.parametrize(
    ("units", "expected"),
    [
        ([0, 1, 2, 3, 4], [7.0, 2.0, 8.0, 0.0, 9.0]),
        ([1, 2], [2.0, 8.0]),
        ([0, 3], [7.0, 0.0]),
        ([1, 3], [2.0, 0.0]),
        ([3, 4], [0.0, 9.0]),
    ],
)
def test_multipliers_of_some_units(units: list[int], expected: list[float]) -> None:
    """Only the units of a part of the network; those of others are ignored."""
    status = [np.array([PAIR, ON, EQUAL, OFF, PAIR])]
    a = np.arange(1.0, 6.0)[None][:, units]
    table = np.array([[7.0, 8.0, 9.0]]), np.array([[-7.0, -8.0, -9.0]])
    undecided = [np.array([0, 2, 4])]
    p, q = from_tables(status, [table], undecided, [np.array(units)])(0, a, -a)
    assert p.tolist() == [expected]
    assert q.tolist() == [[-value for value in expected]]
