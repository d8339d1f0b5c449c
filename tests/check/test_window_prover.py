"""A bound by windows, part by part, against the formula of `docs/certificate.md`."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from vhagar_check import Rejected
from vhagar_check import window_prover as module
from vhagar_check.exact import Exact
from vhagar_check.layers import Array, Dense, Network
from vhagar_check.pieces import Domain
from vhagar_check.window_boxes import Alike
from vhagar_check.window_proofs import Stated, Window, WindowRegion
from vhagar_check.window_prover import WindowProver

from .test_window_boxes import by_tree
from .window_regions import Written, form_of, network_of, windows_in

Span = tuple[float, float]
# Of pieces that brighten and darken, clipped and not, over all inputs and a part of them.
CASES: tuple[tuple[Span, bool, bool], ...] = (
    ((0.0, 0.25), True, False),
    ((0.125, 0.25), False, True),
    ((-0.5, -0.125), True, True),
    ((-0.25, 0.0), False, False),
)
every_case = pytest.mark.parametrize(("span", "clip", "boxed"), CASES)
LOW, HIGH, PIXELS = -0.5, 2.0, 5
# Three windows; the first two see one pixel each, with the same weights.
SEEN = np.array([[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 1, 1], [0, 0, 1, 1, 1]])


def drawn(rng: np.random.Generator) -> Network:
    weight = SEEN * rng.normal(size=SEEN.shape)
    weight[1, 1] = weight[0, 0]
    bias = rng.normal(size=4)
    bias[1] = bias[0]
    last = rng.normal(size=(3, 4)), rng.normal(size=(3, 3))
    return network_of(Dense(weight, bias), *last)


def region_of(
    span: Span, clip: bool, boxed: bool, seed: int = 1, network: Network | None = None
) -> WindowRegion:
    rng = np.random.default_rng(seed)
    network = network or drawn(rng)
    ends = np.sort(rng.uniform(LOW, HIGH, (2, PIXELS)), axis=0)
    domain = Domain((PIXELS,), LOW, HIGH, (ends[0], ends[1]) if boxed else None)
    written = Written.about_windows(windows_in(SEEN), list(span), rng)
    form = form_of(network, f"brightness([{span[0]},{span[1]}])", domain, clip)
    return written.read(form)


@pytest.mark.parametrize("boxed", [False, True])
def test_images_that_darken_are_negated(boxed: bool) -> None:
    for span, clip, _ in CASES:
        region = region_of(span, clip, boxed)
        low, high = region.piece.domain.inputs
        sign, end = 1.0, HIGH
        shift = [*span]
        if span[0] < 0:
            sign, end, low, high, shift = -1.0, -LOW, -high, -low, [-span[1], -span[0]]
        prover = WindowProver(region)
        assert (prover._sign, prover._shift) == (sign, shift)
        assert prover._end == (end if clip else math.inf)
        assert prover._low.tolist() == low.tolist()
        assert prover._high.tolist() == high.tolist()
        size = np.maximum(abs(low), abs(high)) + shift[1]
        clipped = np.maximum(size, abs(end) + shift[1])
        assert prover._size.tolist() == (clipped if clip else size).tolist()
        assert (prover.piece_number, prover.span) == (0, span)


def test_ranges_that_end_beyond_the_clip_or_far_from_it() -> None:
    """What counts is the largest of the ends and of the clip in absolute value."""
    domain = Domain((PIXELS,), -3.0, 1.0)
    for span, expected in (((0.0, 0.25), 3.25), ((-0.25, 0.0), 3.25)):
        form = form_of(
            drawn(np.random.default_rng(1)), f"brightness([{span[0]},{span[1]}])", domain
        )
        rng = np.random.default_rng(1)
        region = Written.about_windows(windows_in(SEEN), list(span), rng).read(form)
        assert WindowProver(region)._size.tolist() == [expected] * PIXELS


def lead_of(network: Network, source: int, target: int) -> Array:
    rows = np.eye(network.classes)
    for layer in reversed(network.stages[1]):
        rows = rows @ layer.kernel
    return np.asarray(rows[source] - rows[target])


def alone(region: WindowRegion, number: int, lead: Array) -> float:
    """The largest value of a window by its tree, one number after the other."""
    window, stated = region.windows[number], region.stated[number]
    low, high = (side[window.pixels] for side in region.piece.domain.inputs)
    shift, sign, end = region.span, 1.0, HIGH
    if shift[0] < 0:
        low, high, shift = -high, -low, (-shift[1], -shift[0])
        sign, end = -1.0, -LOW
    alike = Alike(
        sign * window.weight,
        window.bias,
        np.append(low, shift[0]),
        np.append(high, shift[1]),
        end if region.piece.clip else math.inf,
        lead[window.units][None],
        stated.on_pixels[None],
        stated.on_images[None],
    )
    (found,) = by_tree(alike, region.trees[stated.tree], np.array([stated.limit]))
    return found


@every_case
def test_values_of_windows(span: Span, clip: bool, boxed: bool) -> None:
    region = region_of(span, clip, boxed)
    lead = lead_of(region.network, 0, 1)
    expected = [alone(region, number, lead) for number in range(3)]
    assert WindowProver(region)._values(lead) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("differing", ["nothing", "tree", "weight", "bias", "low", "high"])
def test_windows_that_differ_are_not_alike(differing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of one pixel each, one of which differs; the others are bounded together."""
    rng = np.random.default_rng(5)
    weight, bias = -1.5 * np.eye(PIXELS), np.full(PIXELS, 0.5)
    ends = np.repeat([[0.25], [0.75]], PIXELS, axis=1)
    trees = np.zeros(PIXELS, dtype=int)
    parts = {"low": ends[0], "high": ends[1], "bias": bias, "weight": weight[3]}
    if differing in parts:
        parts[differing][3] -= 0.125
    elif differing == "tree":
        trees[3] = 1
    network = network_of(Dense(weight, bias), np.vstack([np.ones((1, 5)), np.zeros((2, 5))]))
    domain = Domain((PIXELS,), LOW, HIGH, (ends[0], ends[1]))
    written = Written.about_windows([([k], [k]) for k in range(PIXELS)], [0, 0.25], rng)
    written.tree, written.limits = trees.tolist(), [-1e9] * PIXELS
    region = written.read(form_of(network, "brightness([0,0.25])", domain))
    lead = lead_of(network, 0, 1)
    expected = [alone(region, number, lead) for number in range(PIXELS)]
    asked: list[int] = []
    largest = module.largest

    def noted(alike: Alike, tree: bytes, limits: Array) -> Array:
        asked.append(len(limits))
        return largest(alike, tree, limits)

    monkeypatch.setattr(module, "largest", noted)
    assert WindowProver(region)._values(lead) == pytest.approx(expected, rel=1e-12)
    assert sorted(asked) == ([5] if differing == "nothing" else [1, 4])
    # The tree of five boxes, and for the window that differs its own or the same once more.
    boxes = {"nothing": 5, "tree": 6}.get(differing, 10)
    assert module._MOST_BOXES == 2**22  # as `docs/certificate.md` has it
    monkeypatch.setattr(module, "_MOST_BOXES", boxes)
    WindowProver(region)._values(lead)
    monkeypatch.setattr(module, "_MOST_BOXES", boxes - 1)
    with pytest.raises(Rejected, match="too large trees"):
        WindowProver(region)._values(lead)


def exact_bound(region: WindowRegion, source: int) -> float:
    """The bound as the formula has it, without errors."""
    lead = lead_of(region.network, source, region.target)
    left = np.zeros((2, 1, PIXELS))
    sign = 1.0 if region.span[0] >= 0 else -1.0
    for window, stated in zip(region.windows, region.stated, strict=True):
        for k, own in enumerate((stated.on_pixels, stated.on_images)):
            for pixel, value in zip(window.pixels, own, strict=True):
                left[k, 0, pixel] += sign * value
    rest = float(region.piece.support(left[0], left[1])[0])
    return rest + sum(alone(region, number, lead) for number in range(len(region.windows)))


@every_case
@pytest.mark.parametrize("source", [0, 2])
def test_bounds_are_those_of_the_formula(span: Span, clip: bool, boxed: bool, source: int) -> None:
    for seed in range(3):
        region = region_of(span, clip, boxed, seed)
        expected = exact_bound(region, source)
        assert expected > 1
        upper = WindowProver(region).upper(source, 1)
        assert expected < upper <= expected * (1 + 1e-10)


@every_case
def test_no_pair_exceeds_the_bound(span: Span, clip: bool, boxed: bool) -> None:
    """In rational arithmetic."""
    for seed in range(3):
        region = region_of(span, clip, boxed, seed)
        upper = Fraction(WindowProver(region).upper(0, 1))
        low, high = region.piece.domain.inputs
        rng = np.random.default_rng(seed)
        for _ in range(20):
            part = rng.random(PIXELS)
            part = np.where(rng.random(PIXELS) < 0.5, part.round(), part)
            x = [Fraction(v) for v in np.clip(low + part * (high - low), low, high)]
            x_p = region.piece.exact_image(x, [float(rng.choice(span))])
            s, t = (
                region.network.exact_scores(Exact.of_fractions(values)).fractions()
                for values in (x, x_p)
            )
            assert s[0] - s[1] - t[0] + t[1] <= upper


def test_the_target_is_the_regions() -> None:
    prover = WindowProver(region_of(*CASES[0]))
    for target in (0, 2):
        with pytest.raises(Rejected, match="another target"):
            prover.upper(0 if target else 2, target)


@pytest.mark.parametrize("offset", [-40.0, 40.0])
def test_a_bound_is_never_negative(offset: float, monkeypatch: pytest.MonkeyPatch) -> None:
    region = region_of(*CASES[0])
    prover = WindowProver(region)
    values = prover._values(lead_of(region.network, 0, 1))
    monkeypatch.setattr(WindowProver, "_values", lambda *_: values + offset / 3)
    expected = max(exact_bound(region, 0) + offset, 0.0)
    assert prover.upper(0, 1) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("scale", [1e155, 1e200, 1e308, math.inf])
def test_numbers_that_are_too_large_prove_nothing(scale: float) -> None:
    """Sums of infinities of both signs among them."""
    network = drawn(np.random.default_rng(1))
    (first,), (second, last) = network.stages
    assert isinstance(first, Dense)
    with np.errstate(all="ignore"):
        size = min(scale, 1e300)
        huge = network_of(
            Dense(first.weight * size, first.bias), second.kernel * scale, last.kernel
        )
        assert WindowProver(region_of(*CASES[0], network=huge)).upper(0, 1) == math.inf


@pytest.mark.parametrize("value", [9e307, -9e307, math.inf, -math.inf, math.nan])
def test_sums_that_overflow_prove_nothing(value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WindowProver, "_values", lambda *_: np.array([value]))
    assert WindowProver(region_of(*CASES[0])).upper(0, 1) == math.inf


class Visible:
    """Allowances that are large enough to be seen: each must be where the formula has it."""

    UNDERFLOW = 2.0**-10
    MORE = 1 + 2.0**-40

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.region = region_of((0.125, 0.25), True, True)
        self.prover = WindowProver(self.region)
        monkeypatch.setattr(module, "UNDERFLOW", self.UNDERFLOW)
        monkeypatch.setattr(module, "gamma", self.gamma)

    @staticmethod
    def gamma(terms: int) -> float:
        return terms * 2.0**-14


def test_errors_of_coefficients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all products of absolute values, and of what each product may lose to underflow."""
    visible = Visible(monkeypatch)
    lead, size, lost = visible.prover._lead(2)
    assert lead == pytest.approx(lead_of(visible.region.network, 2, 1))
    first, second = (layer.kernel for layer in visible.region.network.stages[1])
    expected = (abs(second[2]) + abs(second[1])) @ abs(first)
    assert size == pytest.approx(expected)
    underflow = np.full(3, visible.UNDERFLOW * (3 + 1))
    underflow = 1.01 * underflow @ abs(first) + visible.UNDERFLOW * (4 + 1)
    terms = 4 + (3 + 4) + (4 + 4)
    assert lost == pytest.approx(visible.gamma(2 * terms) * expected + 2 * underflow, rel=1e-13)


def error_of(visible: Visible, window: Window, stated: Stated, of: tuple[Array, Array]) -> float:
    """Rounding of a window's value, of the weights before, of the coefficients, and underflow."""
    size, lost = (float_of[window.units] for float_of in of)
    pixels = visible.prover._size[window.pixels]
    on = abs(stated.on_pixels) + abs(stated.on_images)
    terms = 4 * (len(window.units) + len(window.pixels)) + 64
    neurons = [
        sum(row * pixels) * visible.MORE + bias
        for row, bias in zip(window.size, window.bias_size, strict=True)
    ]
    weights = sum(size * neurons)
    error = visible.gamma(terms) * (4 * weights + 2 * sum(on * pixels))
    error += 4 * visible.region.room * weights
    error += 2 * sum(lost * neurons)
    entries = (1 + sum(size) + sum(on)) * (1 + sum(pixels) + len(neurons))
    return float(error * visible.MORE + 4 * terms * visible.UNDERFLOW * entries)


def test_errors_of_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    visible, rng = Visible(monkeypatch), np.random.default_rng(3)
    region = visible.region
    for room in (region.room, 0.5):
        visible.region = visible.prover._region = WindowRegion(**{**vars(region), "room": room})
        size, lost = rng.uniform(1, 2, (2, 4))
        found = visible.prover._error(np.zeros(4), size, lost)
        expected = [
            error_of(visible, window, stated, (size, lost))
            for window, stated in zip(region.windows, region.stated, strict=True)
        ]
        assert found == pytest.approx(expected, rel=2e-14)


def test_errors_of_what_multipliers_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many roundings as a pixel has windows, of all absolute values."""
    weight = np.array([[1.0, 2.0, 0, 0, 0], [1.0, 0, 0, 0, 0], [3.0, 0, 0, 4.0, 0]])
    network = network_of(weight, np.ones((3, 3)))
    rng = np.random.default_rng(2)
    for span in ((0.125, 0.25), (-0.25, -0.125)):
        written = Written.about_windows(windows_in(weight), list(span), rng)
        domain = Domain((PIXELS,), LOW, HIGH)
        text = f"brightness([{span[0]},{span[1]}])"
        region = written.read(form_of(network, text, domain))
        visible = Visible(monkeypatch)
        prover = WindowProver(region)
        (value, error), most = prover._rest()
        assert most == 3
        size, left = 0.0, np.zeros((2, 1, PIXELS))
        for own, window in zip(written.multipliers, region.windows, strict=True):
            size += float(abs(own).astype(float) @ np.tile(prover._size[window.pixels], 2))
            left[:, 0, window.pixels] += own.reshape(2, -1) * (1 if span[0] > 0 else -1)
        assert error == pytest.approx(visible.gamma(2 * 3 + 8) * size, rel=1e-13)
        assert value == pytest.approx(float(region.piece.support(left[0], left[1])[0]))


def test_nothing_is_left_where_there_are_no_windows() -> None:
    network = network_of(np.zeros((2, PIXELS)), np.ones((3, 2)))
    form = form_of(network, "brightness([0,0.25])", Domain((PIXELS,), LOW, HIGH))
    prover = WindowProver(Written([0, 0.25], [], [], [], []).read(form))
    (value, error), most = prover._rest()
    assert (error, most) == (0.0, 0)
    assert 0 <= prover.upper(0, 1) <= 2 * value < 1e-250


def test_a_bound_is_the_sum_of_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    visible = Visible(monkeypatch)
    prover = visible.prover
    values, error, rest = np.array([5.0, -2.0, 4.0]), [0.5, 0.25, 1.0], [-3.0, 0.125]
    monkeypatch.setattr(WindowProver, "_values", lambda *_: values)
    monkeypatch.setattr(WindowProver, "_error", lambda *_: error)
    monkeypatch.setattr(WindowProver, "_rest", lambda *_: (rest, 6))
    expected = 5.875 + visible.gamma(8 + 6) * 15.875
    assert prover.upper(0, 1) == pytest.approx(expected, rel=1e-14)
