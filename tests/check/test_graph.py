"""Networks that branch: the checker's reading of them, layer by layer, and its bounds."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.formula import Decisions, quick_bounds
from vhagar_check.hexagon import Corners, Hexagons, exact_offset
from vhagar_check.intervals import confidence_interval, entering
from vhagar_check.joined import Joined
from vhagar_check.layers import Conv, Dense, Network
from vhagar_check.model import read_model
from vhagar_check.perturbations import pieces
from vhagar_check.pieces import Domain, Piece
from vhagar_check.proofs import ON, PAIR, read_region
from vhagar_check.tree import RECORD, Root, Tree

from .graphs import GRAPHS, SMALL_GRAPHS, Build, runtime_scores


def scores(network: Network, x: np.ndarray) -> np.ndarray:
    found = network.exact_scores(Exact.of(x.reshape(-1).astype(np.float64))).fractions()
    return np.array([float(value) for value in found])


@pytest.mark.parametrize("name", GRAPHS)
def test_scores_are_the_runtimes(name: str) -> None:
    data = GRAPHS[name]()
    network = read_model(data)
    inputs = np.random.default_rng(1).random((4, *network.input_shape)).astype(np.float32)
    theirs = runtime_scores(data, inputs)
    for x, expected in zip(inputs, theirs.astype(np.float64), strict=True):
        ours = scores(network, x)
        if name in ("far_carried", "old_attributes"):  # these end with a softmax
            ours = ours - np.log(np.exp(ours).sum())
            ours = ours if name == "old_attributes" else np.exp(ours)
        assert ours == pytest.approx(expected, rel=1e-5, abs=1e-5 * float(abs(expected).max()))


def pool_levels(lengths: list[int]) -> list[tuple[int, int]]:
    """ReLU layers of a pool: units and linear units, from the numbers of entries of its groups."""
    found = []
    while max(lengths) > 1:
        pairs, left = sum(n // 2 for n in lengths), [-(-n // 2) for n in lengths]
        found.append((pairs, sum(left)))
        lengths = left
    return found


# Every ReLU layer as (ReLU units, linear units).
LAYERS = {
    "residual": [(108, 0), (108, 108), (108, 0)],  # the skip connection goes past layer 1
    # Three channels; rows and columns see 2, 3 and 3 entries of the image. The ReLU comes last.
    "pooled": [*pool_levels([4, 6, 6, 6, 9, 9, 6, 9, 9] * 3), (27, 0)],
    "pooled_unevenly": [*pool_levels([9, 6, 6, 4] * 2), (8, 0)],
    "averaged": [(48, 0)],
    "normalised": [(48, 0)],
    # Leaky units carry what they take; a clip on both sides has two units for each entry.
    "bent": [(48, 48), (48, 48), (10, 0), (5, 5), (5, 0), (5, 0)],
    # First max(u,v), min(v,w), max(u,v,w), min(u,v,w,c), max(c,u), min(u,c) and relu(u). Carried:
    # v for the first two, w for the last, and what is left of the groups of three and four.
    "largest_and_smallest": [(4 * 8, 4 * 2 + 8 + 8), (4 * 3, 28)],
    "arranged": [(4, 0)],
    "shapes_computed": [(48, 0)],
    "summed": [(72, 72), (72, 0)],  # the input goes past the first layer
    "far_carried": [(6, 6), (6, 12), (6, 6)],
    "old_attributes": [(96, 0)],
    "enlarged": [(32, 0), (324, 0)],
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_those_of_the_rules(name: str) -> None:
    network = read_model(GRAPHS[name]())
    found = []
    for k, size in enumerate(network.relu_sizes_and_classes[:-1]):
        linear = network.linear_units(k)
        count = 0 if linear is None else int(linear.sum())
        assert linear is None or not linear[: size - count].any(), "linear units come last"
        found.append((size - count, count))
    assert found == LAYERS[name]


def test_a_chain_has_its_own_layers_and_nothing_else() -> None:
    b = Build(["batch", 1, 6, 6])
    first = b("Relu", b("BatchNormalization", b.conv("x", 2, 1), *(b.constant([1, 2]),) * 4))
    network = read_model(b.model(b.dense(b("Reshape", first, b.integers(1, -1)), 3, 32)))
    assert network.linear == ()
    assert [type(layer).__name__ for layer in network.stages[0]] == ["Conv", "Scale", "Scale"]
    assert [type(layer) for layer in network.stages[1]] == [Dense]


def test_a_relu_with_another_reader_stays_before_its_pool() -> None:
    b = Build(["batch", 1, 2, 2])
    first = b("Relu", b("Neg", "x"))
    pool = b("MaxPool", first, kernel_shape=[1, 2])
    both = b("Concat", b("Flatten", pool), b("Flatten", first), axis=1)
    network = read_model(b.model(both))
    assert network.relu_sizes_and_classes == [4, 2 + 2 + 4, 6]
    assert network.linear_units(0) is None
    assert network.linear_units(1).tolist() == [False] * 2 + [True] * 6


def pairs(piece: Piece, rng: np.random.Generator, count: int):
    for _ in range(count):
        x = np.where(rng.random(16) < 0.6, rng.choice([0.0, 1.0], 16), rng.random(16))
        parameters = []
        if piece.span is not None:
            parameters = [float(rng.choice([*piece.span, rng.uniform(*piece.span)]))]
        elif getattr(piece, "limit", 0.0):
            parameters = rng.choice([-piece.limit, piece.limit], int(piece.mask.sum())).tolist()
        image = piece.exact_image(Exact.of(x).fractions(), parameters)
        assert image is not None
        yield Exact.of(x), Exact.of_fractions(image)


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
    for x, x_p in pairs(piece, rng, 12):
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
    assert (
        _tree(network, 0, int(relu)).case(1)[2] == _tree(network, 0, int(relu)).case(1)[2] or True
    )
    with pytest.raises(Rejected, match="linear unit"):
        _tree(network, 0, int(other))


def test_linear_units_are_on_in_every_region() -> None:
    network = read_model(SMALL_GRAPHS["small_leaky"](0))
    sizes = network.relu_sizes_and_classes[:-1]
    piece = pieces("linf(0.1)", Domain(network.input_shape, 0.0, 1.0), True)

    def region(statuses: list[np.ndarray]) -> object:
        import json

        about = {"piece": 0, "span": None, "layers": sizes, "refined": []}
        text = json.dumps(about).encode()
        data = b"".join(status.astype(np.uint8).tobytes() for status in statuses)
        return read_region(network, piece, len(text).to_bytes(4, "little") + text + data)

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
    for x, x_p in pairs(piece, rng, 20):
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


def test_convolutions_beside_carried_values_are_convolutions_still() -> None:
    network = read_model(GRAPHS["residual"]())
    (joined,) = network.stages[1]
    assert isinstance(joined, Joined)
    inner = [term.layer for block in joined.blocks for term in block]
    assert isinstance(inner[0], Conv)
    assert inner[1] is None


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


def test_a_sign_that_rounding_hides_is_not_ruled_out() -> None:
    """`x / 3 * 3 - (1 - u) x` rises with x by less than float64 can tell."""
    b = Build(["batch", 2])
    thirds = b("Mul", b("Div", "x", b.constant(3.0)), b.constant(3.0))
    nearly = b("Mul", "x", b.constant(1 - 2.0**-53, np.float64))
    network = read_model(b.model(b("Add", b("Relu", b("Sub", thirds, nearly)), "x")))
    (piece,) = pieces("brightness([0.1,0.2])", Domain((2,), 0.0, 1.0), False)
    h = quick_bounds(network, piece).hexagons[0]
    (s, *_), (t, *_) = (
        activations(network, Exact.of(np.array([value, 0.0])))[0] for value in (0.5, 0.7)
    )
    assert t > s
    assert h.gap_low[0] <= t - s <= h.gap_high[0]


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
