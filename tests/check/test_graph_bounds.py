"""Bounds of networks that branch: sound in every unit, linear or not, and for every price."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.formula import Decisions
from vhagar_check.hexagon import Corners, Hexagons, exact_offset
from vhagar_check.intervals import confidence_interval, entering
from vhagar_check.layers import Dense, Network
from vhagar_check.model import read_model
from vhagar_check.neuron_bounds import quick_bounds
from vhagar_check.perturbations import pieces
from vhagar_check.pieces import Domain
from vhagar_check.regions import ON, PAIR, Form, Regions
from vhagar_check.tree import RECORD, Root, Tree

from .graphs import SMALL_GRAPHS, Build
from .test_formula import pairs


def activations(network: Network, x: Exact) -> list[list[Fraction]]:
    """What enters each ReLU layer, and the scores."""
    found, value = [], x
    for k, stage in enumerate(network.stages):
        value = value.positive(network.linear_units(k - 1)) if k else value
        for layer in stage:
            value = layer.exact_forward(value)
        found.append(value.fractions())
    return found


TEXTS = ("linf(0.25)", "occlusion(2,2,2)", "brightness([0,0.25])", "contrast([1.25,2])")


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", SMALL_GRAPHS)
def test_hexagons_and_any_multipliers_hold(name: str, text: str) -> None:
    rng = np.random.default_rng(21)
    network = read_model(SMALL_GRAPHS[name](2))
    sizes = network.relu_sizes_and_classes
    domain = Domain(network.input_shape, 0.0, 1.0)
    (piece,) = pieces(text, domain, True)
    bounds = quick_bounds(network, piece)
    a, b = rng.normal(size=(2, 3, sizes[-1]))
    tables = [rng.normal(size=(2, 3, size)) for size in sizes[:-1]]
    given, width = bounds.upper(len(sizes) - 1, a, b, lambda layer, *_: tuple(tables[layer]))
    quick, _ = bounds.upper(len(sizes) - 1, a, b, bounds.quick)
    assert (width < 1e-8).all()
    low, high = np.zeros(domain.size), np.ones(domain.size)
    least, most = confidence_interval(network, low, high, 1)
    sample = list(pairs(piece, rng, 12))
    assert len(sample) == 12
    for x, x_p in sample:
        first, second = activations(network, x), activations(network, x_p)
        for h, s_values, t_values in zip(bounds.hexagons, first, second, strict=False):
            for n, (s, t) in enumerate(zip(s_values, t_values, strict=True)):
                assert h.low[n] <= s <= h.high[n]
                assert h.low_p[n] <= t <= h.high_p[n]
                assert h.gap_low[n] <= t - Fraction(h.ratio) * s <= h.gap_high[n]
        for k in range(3):
            value = sum(Fraction(float(c)) * v for c, v in zip(a[k], first[-1], strict=True))
            value += sum(Fraction(float(c)) * v for c, v in zip(b[k], second[-1], strict=True))
            assert value <= min(Fraction(float(given[k])), Fraction(float(quick[k])))
        margin = first[-1][1] - max(first[-1][0], first[-1][2])
        assert least <= margin <= most


@pytest.mark.parametrize("name", SMALL_GRAPHS)
def test_the_formula_in_floats_is_the_exact_one(name: str) -> None:
    """Layer by layer, backwards, with linear units between: the same numbers up to rounding."""
    network = read_model(SMALL_GRAPHS[name](3))
    rng = np.random.default_rng(22)
    for stage in network.stages:
        for layer in stage:
            z, p = rng.normal(size=layer.in_size), rng.normal(size=layer.out_size)
            forward = layer.forward(layer.kernel, z[None])[0] + layer.bias
            exact = layer.exact_forward(Exact.of(z)).fractions()
            assert [float(v) for v in exact] == pytest.approx(forward, rel=1e-12, abs=1e-12)
            backward = layer.backward(layer.kernel, p[None])[0]
            exact = layer.exact_backward(Exact.of(p)).fractions()
            assert [float(v) for v in exact] == pytest.approx(backward, rel=1e-12, abs=1e-12)
            assert p @ (forward - layer.bias) == pytest.approx(backward @ z, abs=1e-10)


def test_what_cancels_in_a_stage_has_no_width() -> None:
    b = Build(["batch", 2])
    once = b.dense("x", 4, 2)
    nothing = b("Sub", once, b("Neg", b("Neg", once)))
    network = read_model(b.model(b.dense(b("Relu", nothing), 3, 4)))
    ((low, high),) = entering(network, 0, [(np.zeros(2), np.ones(2))])
    assert (low <= 0).all()
    assert (high >= 0).all()
    assert (high - low < 1e-12).all()


def _tree(network: Network, layer: int, neuron: int) -> Tree:
    records = np.zeros(2, RECORD)
    records["layer"], records["neuron"], records["positive"] = layer, neuron, [0, 1]
    domain = Domain(network.input_shape, 0.0, 1.0)
    return Tree([Root(None, None)], records, network, pieces("linf(0.1)", domain, True))


def test_linear_units_have_no_sign_to_decide() -> None:
    network = read_model(SMALL_GRAPHS["small_leaky"](0))
    linear = network.linear_units(0)
    assert linear is not None
    relu, other = np.flatnonzero(~linear)[0], np.flatnonzero(linear)[0]
    _tree(network, 0, int(relu))
    with pytest.raises(Rejected, match="linear unit"):
        _tree(network, 0, int(other))


def test_linear_units_are_on_in_every_region() -> None:
    network = read_model(SMALL_GRAPHS["small_leaky"](0))
    sizes = network.relu_sizes_and_classes[:-1]
    domain = Domain(network.input_shape, 0.0, 1.0)
    form = Form(network, pieces("linf(0.1)", domain, True), network, domain)

    def region(statuses: list[np.ndarray]) -> object:
        import json

        about = {"piece": 0, "span": None, "layers": sizes, "refined": []}
        text = json.dumps(about).encode()
        data = b"".join(status.astype(np.uint8).tobytes() for status in statuses)
        return Regions(form).read(len(text).to_bytes(4, "little") + text + data)

    honest = [np.where(network.linear_units(k), ON, PAIR) for k in range(len(sizes))]
    region(honest)
    for status in (0, 2, 3):
        wrong = [part.copy() for part in honest]
        wrong[0][np.flatnonzero(network.linear_units(0))[0]] = status
        with pytest.raises(Rejected, match="linear unit"):
            region(wrong)


def test_decisions_leave_linear_units_alone() -> None:
    """A decided ReLU beside linear units: its sign's half of the hexagon, theirs whole."""
    network = read_model(SMALL_GRAPHS["small_leaky"](4))
    (piece,) = pieces("linf(0.25)", Domain(network.input_shape, 0.0, 1.0), True)
    bounds, rng = quick_bounds(network, piece), np.random.default_rng(5)
    last = len(network.stages) - 1
    a, b = rng.normal(size=(2, 1, network.classes))
    loose = np.flatnonzero(~bounds.hexagons[0].on & ~bounds.hexagons[0].off)
    assert len(loose)
    free = bounds.upper(last, a, b, bounds.quick)[0][0]
    sample = list(pairs(piece, rng, 20))
    assert len(sample) == 20
    for x, x_p in sample:
        first, second = activations(network, x), activations(network, x_p)
        signs = {
            (0, int(n)): {0: 1 if first[0][n] >= 0 else -1, 1: 1 if second[0][n] >= 0 else -1}
            for n in loose
        }
        upper = bounds.upper(last, a, b, bounds.quick, [Decisions(signs)])[0][0]
        value = sum(Fraction(float(c)) * v for c, v in zip(a[0], first[-1], strict=True))
        value += sum(Fraction(float(c)) * v for c, v in zip(b[0], second[-1], strict=True))
        assert value <= Fraction(float(upper))
        assert upper <= free + 1e-9


def _hexagons(rng: np.random.Generator, count: int) -> Hexagons:
    """Around a point each, every second one a linear unit."""
    s, width = rng.normal(size=count), rng.choice([0.1, 0.5, 2.0], (6, count))
    t = s + rng.choice([0.0, 0.3], count)
    sides = (s - width[0], s + width[1], t - width[2], t + width[3])
    gaps = t - s - width[4], t - s + width[5]
    return Hexagons(*sides, *gaps, 1.0, np.arange(count) % 2 == 1).tightened()


def test_the_price_of_a_linear_unit() -> None:
    """In floats and exactly, and never less than at any point of the hexagon."""
    rng = np.random.default_rng(23)
    h = _hexagons(rng, 60)
    a, b, p, q = rng.normal(size=(4, 1, 60))
    corners = Corners.of(h)
    found = corners.offset(a, b, p, q)[0]
    for n in range(60):
        numbers = tuple(Fraction(float(part[0, n])) for part in (a, b, p, q))
        assert float(exact_offset(h, n, {}, numbers)) == pytest.approx(found[n], abs=1e-12)
    for _ in range(300):
        s = rng.uniform(h.low, h.high)
        t = np.clip(rng.uniform(h.low_p, h.high_p), s + h.gap_low, s + h.gap_high)
        inside = (t >= h.low_p) & (t <= h.high_p)
        left, right = (np.where(h.linear, part, np.maximum(part, 0)) for part in (s, t))
        value = (a * left + b * right - p * s - q * t)[0]
        assert (value[inside] <= found[inside] + 1e-12).all()
    passed = corners.offset(a, b, a, b)[0]
    assert abs(passed[h.linear]).max() < 1e-12


def test_a_linear_unit_is_on_whatever_its_sign() -> None:
    h = _hexagons(np.random.default_rng(24), 60)
    low = replace(h, low=h.low - 9, high=h.high - 9, low_p=h.low_p - 9, high_p=h.high_p - 9)
    assert (low.on == h.linear).all()
    assert (low.off == ~h.linear).all()


def test_a_change_below_zero_goes_past_a_layer() -> None:
    """The negative of the input is carried; it falls where the input rises, and shows it."""
    b = Build(["batch", 2])
    negative = b("Sub", b("Neg", "x"), b.constant([1.0, 1.0]))
    bent = b("LeakyRelu", negative, alpha=0.5)
    network = read_model(b.model(b("Add", b("Relu", b("Neg", bent)), b.constant([0.0, 1.0]))))
    (piece,) = pieces("brightness([0.1,0.2])", Domain((2,), 0.0, 1.0), False)
    first, second = quick_bounds(network, piece).hexagons
    assert first.linear is not None
    assert (first.gap_high[first.linear] <= 0).all()
    assert (first.gap_low[first.linear] < 0).all()
    # 0.5 * (x + 1): between 0.05 and 0.1 higher.
    assert (second.gap_high >= 0.1).all()
    assert second.gap_high == pytest.approx([0.1, 0.1])
    assert second.gap_low == pytest.approx([0.05, 0.05])


def test_carried_values_are_in_the_order_of_their_making() -> None:
    """The input first; then what was made of it, whatever needs it first."""
    b = Build(["batch", 2])
    late = b("Sub", "x", b.constant([3.0, 3.0]))
    first = b("Relu", b("Neg", b("Neg", "x")))
    again = b("Relu", b("Sub", first, b.constant([5.0, 5.0])))
    network = read_model(b.model(b("Sum", again, first, late, "x")))
    x = Exact.of(np.array([0.25, 0.5]))
    one, two = activations(network, x)[:2]
    assert [float(v) for v in one] == [0.25, 0.5, 0.25, 0.5, -2.75, -2.5]
    assert [float(v) for v in two] == [-4.75, -4.5, 0.25, 0.5, -2.75, -2.5, 0.25, 0.5]


def require_gap(network: Network) -> None:
    """The first neuron rises from one brightness to another, and its bounds allow that."""
    (piece,) = pieces("brightness([0.1,0.2])", Domain((2,), 0.0, 1.0), False)
    h = quick_bounds(network, piece).hexagons[0]
    (s, *_), (t, *_) = (
        activations(network, Exact.of(np.array([value, 0.0])))[0] for value in (0.5, 0.7)
    )
    assert t > s
    assert h.gap_low[0] <= t - s <= h.gap_high[0]


def test_a_sign_that_rounding_hides_is_not_ruled_out() -> None:
    """`x / 3 * 3 - (1 - u) x` rises with x by less than float64 can tell."""
    b = Build(["batch", 2])
    thirds = b("Mul", b("Div", "x", b.constant(3.0)), b.constant(3.0))
    nearly = b("Mul", "x", b.constant(1 - 2.0**-53, np.float64))
    network = read_model(b.model(b("Add", b("Relu", b("Sub", thirds, nearly)), "x")))
    require_gap(network)


def test_a_linear_unit_that_is_not_passed_on_is_paid_for() -> None:
    b = Build(["batch", 2])
    unlikely = b("Relu", b("Sub", "x", b.constant([9.0, 9.0])))
    network = read_model(b.model(b("Add", unlikely, "x")))
    (piece,) = pieces("linf(0.25)", Domain((2,), 0.0, 1.0), True)
    bounds, ones = quick_bounds(network, piece), np.ones((1, 2))
    nothing = bounds.upper(1, ones, 0 * ones, lambda layer, a, b: (0 * a, 0 * b))[0][0]
    passed = bounds.upper(1, ones, 0 * ones, bounds.quick)[0][0]
    assert nothing >= 2
    assert passed >= 2
    assert nothing == pytest.approx(2)
    assert passed == pytest.approx(2)


def test_a_unit_without_a_coefficient_is_paid_for_too() -> None:
    """Whoever gives it a multiplier changes what is left to bound."""
    first = Dense(np.eye(2), np.array([0.0, -2.0]))
    network = Network(((first,), (Dense(np.array([[1.0, 0.0], [0.0, 0.0]]), np.zeros(2)),)), (2,))
    (piece,) = pieces("linf(0.25)", Domain((2,), 0.0, 1.0), True)
    bounds, on_first = quick_bounds(network, piece), np.array([[1.0, 0.0]])
    ones = np.ones((1, 2))
    upper = bounds.upper(1, on_first, 0 * on_first, lambda layer, a, b: (ones, 0 * ones))[0][0]
    assert upper >= 1  # which the first pixel reaches


def test_rounding_inside_a_stage_is_counted() -> None:
    """`z / 49 * 49 - z` is 0, whatever float64 makes of it."""
    b = Build(["batch", 40])
    z = b("MatMul", "x", b.drawn(40, 30))
    again = b("Mul", b("Div", z, b.constant(49.0)), b.constant(49.0))
    network = read_model(b.model(b("Relu", b("Sub", again, z))))
    rng = np.random.default_rng(25)
    for _ in range(20):
        x = rng.random(40)
        ((low, high),) = entering(network, 0, [(x, x)])
        assert (low <= 0).all()
        assert (high >= 0).all()


def test_a_weight_that_rounding_makes_0_is_not_ruled_out() -> None:
    """`(1 + e)(1 + e) x - (1 + 2e) x` is `e * e * x`."""
    b = Build(["batch", 2])
    factor = b.constant(1 + 2.0**-30, np.float64)
    square = b("Mul", b("Mul", "x", factor), factor)
    less = b("Mul", "x", b.constant(1 + 2.0**-29, np.float64))
    network = read_model(b.model(b("Add", b("Relu", b("Sub", square, less)), "x")))
    require_gap(network)
