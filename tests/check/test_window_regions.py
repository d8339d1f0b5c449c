"""What is read of a proof by windows, and which windows a network has."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from vhagar_check import Rejected
from vhagar_check import window_proofs as module
from vhagar_check.exact import Exact
from vhagar_check.first_stage import First
from vhagar_check.layers import UNDERFLOW, Array, Conv, Dense, Network, gamma
from vhagar_check.pieces import Domain
from vhagar_check.pixelwise import brightness_piece
from vhagar_check.regions import Form

from .window_regions import Written, dense, form_of, network_of, shown, windows_in

# Units 1 and 4 see the same pixels as others do; unit 3 sees nothing.
WEIGHT = np.array(
    [
        [0, 2, 0, -3, 0],
        [1, 0, 0, 0, 0],
        [0, -1, 0, 4, 0],
        [0, 0, 0, 0, 0],
        [-5, 0, 0, 0, 0],
        [1, 2, 3, 0, 4],
    ],
    dtype=float,
)
LAST = np.arange(18.0).reshape(3, 6)
DOMAIN = Domain((5,), 0.0, 1.0)
FORM = form_of(network_of(WEIGHT, LAST), "brightness([0,0.25])", DOMAIN)


def written(**changes: Any) -> Written:
    rng = np.random.default_rng(1)
    return replace(Written.about_windows(windows_in(WEIGHT), [0, 0.25], rng), **changes)


def test_what_is_read_is_what_was_written() -> None:
    own = written()
    region = own.read(FORM)
    assert (region.piece_number, region.target) == (0, 1)
    assert region.span == region.piece.span == (0.0, 0.25)
    assert region.network is FORM.network
    expected = [([1, 3], [0, 2]), ([0], [1, 4]), ([0, 1, 2, 4], [5])]
    assert [shown(window) for window in region.windows] == expected
    assert [stated.tree for stated in region.stated] == own.tree == [0, 1, 0]
    assert [stated.limit for stated in region.stated] == own.limits
    for stated, of in zip(region.stated, own.multipliers, strict=True):
        assert np.concatenate([stated.on_pixels, stated.on_images]).tolist() == of.tolist()
        assert len(stated.on_pixels) == len(stated.on_images)
    assert region.trees == [bytes(tree) for tree in own.trees]
    assert region.room == gamma(6)


def test_any_class_may_be_the_target() -> None:
    for target in range(3):
        assert written(about={"target": target}).read(FORM).target == target


def test_a_part_of_the_range_and_another_piece() -> None:
    assert written(span=[0.125, 0.25]).read(FORM).piece.span == (0.125, 0.25)
    both = form_of(FORM.network, "brightness([-0.5,0.25])", DOMAIN)
    spans = [piece.span for piece in both.pieces]
    assert len(spans) == 2
    for number, span in enumerate(spans):
        region = written(span=span, about={"piece": number}).read(both)
        assert (region.piece_number, region.span) == (number, span)


def test_the_weights_of_windows() -> None:
    bias = np.arange(6.0)
    windows, _ = module._windows(network_of(Dense(WEIGHT, bias), LAST))
    for window in windows:
        expected = WEIGHT[np.ix_(window.units, window.pixels)]
        assert window.weight.tolist() == expected.tolist()
        assert window.size.tolist() == abs(expected).tolist()
        assert window.bias.tolist() == bias[window.units].tolist()


class Uncertain(Dense):
    """Weights that are the differences of larger ones, some of which cancel altogether.

    It notes how many inputs it is asked for at once.
    """

    def __init__(self, weight: Array, more: Array, truly: Array | None = None) -> None:
        super().__init__(weight, np.zeros(len(weight)))
        self._more, self.asked = more, list[int]()
        self._truly = weight if truly is None else truly

    @property
    def size(self) -> Array:  # type: ignore[override]
        return abs(self.weight) + self._more

    @property
    def exact_kernel(self) -> Exact:  # type: ignore[override]
        return Exact.of(self._truly)

    def forward(self, kernel: Array, z: Array) -> Array:
        self.asked.append(len(z))
        return super().forward(kernel, z)


def test_weights_that_cancel_are_seen() -> None:
    """Where they do only nearly: what they are the difference of counts."""
    more, truly = np.zeros_like(WEIGHT), WEIGHT.copy()
    more[3, 2] = more[1, 0] = 7.0
    truly[3, 2] = 1e-17
    windows, _ = module._windows(network_of(Uncertain(WEIGHT, more, truly), LAST))
    assert [shown(window) for window in windows] == windows_in(abs(WEIGHT) + more)
    sizes = {shown(window)[1][0]: window.size.tolist() for window in windows}
    weights = {shown(window)[1][0]: window.weight.tolist() for window in windows}
    assert (sizes[3], weights[3]) == ([[7.0]], [[0.0]])
    assert (sizes[1], weights[1]) == ([[8.0], [5.0]], [[1.0], [-5.0]])


def test_where_weights_cancel_exactly() -> None:
    """0.1 + 0.2 - 0.3 does not, whether float64 says 0 or not; products that underflow do not."""
    ones, nothing = np.ones((1, 1)), np.zeros(1)

    def sum_of(*weights: float) -> list[bool]:
        terms = Dense(np.array(weights)[:, None], np.full(len(weights), 0.7))
        first = First((terms, Dense(np.ones((1, len(weights))), np.full(1, 0.1))))
        return first.cancels(0).tolist()

    assert sum_of(0.1, 0.2, -0.3) == [False]
    assert sum_of(0.1, -0.1) == sum_of(0.0) == [True]
    assert sum_of(1e300, 1.0, -1e300) == [False]
    tiny = Dense(2.0**-600 * ones, nothing)
    assert First((tiny, tiny)).cancels(0).tolist() == [False]
    first = First(
        (Dense(np.array([[1.0, 2.0], [0.0, 3.0]]), np.ones(2)), Dense(np.eye(2), np.ones(2)))
    )
    assert [first.cancels(pixel).tolist() for pixel in (0, 1)] == [[False, True], [False, False]]
    assert first.products == 2 * 2 + 2 * 2


def test_weights_that_cancel_exactly_are_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to so many products; those that do only nearly are seen all the same."""
    more, truly = np.zeros_like(WEIGHT), WEIGHT.copy()
    more[3, 2] = more[3, 4] = more[0, 0] = more[2, 2] = more[1, 0] = 7.0
    truly[2, 2] = 1e-17
    seen = abs(WEIGHT)
    seen[2, 2] = 7.0
    network = network_of(Uncertain(WEIGHT, more, truly), LAST)
    assert module._MOST_PRODUCTS == 2**24  # as `docs/certificate.md` has it
    pixels, products = 3, 6 * 6
    monkeypatch.setattr(module, "_MOST_PRODUCTS", pixels * products)
    windows, _ = module._windows(network)
    assert [shown(window) for window in windows] == windows_in(seen)
    monkeypatch.setattr(module, "_MOST_PRODUCTS", pixels * products - 1)
    windows, _ = module._windows(network)
    assert [shown(window) for window in windows] == windows_in(seen + more)


@pytest.mark.parametrize(
    ("entries", "asked"),
    [(2**20, [5]), (18, [3, 2]), (12, [2, 2, 1]), (6, [1] * 5), (1, [1] * 5)],
)
def test_inputs_that_are_asked_for_at_once(
    entries: int, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice, for weights and their sizes; as many as a batch of columns may have."""
    monkeypatch.setattr(module, "_BATCH_ENTRIES", entries)
    layer = Uncertain(WEIGHT, 0 * WEIGHT)
    windows, _ = module._windows(network_of(layer, LAST))
    assert [shown(window) for window in windows] == windows_in(WEIGHT)
    assert layer.asked == [many for many in asked for _ in range(2)]
    # Where there are more inputs than outputs, too.
    monkeypatch.setattr(module, "_BATCH_ENTRIES", 10)
    layer = Uncertain(WEIGHT[:2], 0 * WEIGHT[:2])
    module._windows(network_of(layer, LAST[:, :2]))
    assert layer.asked == [2] * 4 + [1] * 2


@pytest.mark.parametrize("seen", [{0: [0]}, {1: [0]}, {1: [1], 0: [0]}, {2: [0, 1]}, {}])
def test_any_units_may_see_something(seen: dict[int, list[int]]) -> None:
    """The first and the last ones, or none at all."""
    for units in (1 + max(seen, default=0), 4):
        weight = np.zeros((units, 3))
        for unit, pixels in seen.items():
            weight[unit, pixels] = 1.0
        windows, _ = module._windows(network_of(weight, np.zeros((3, units))))
        assert [shown(window) for window in windows] == windows_in(weight)


def test_convolutions_have_windows() -> None:
    kernels = np.arange(1.0, 9.0).reshape(2, 1, 2, 2)
    conv = Conv(kernels, np.array([0.5, -0.5]), (1, 2, 3), (1, 1), (0,) * 4, (1, 1), 1)
    windows, room = module._windows(network_of(conv, np.zeros((3, 4))))
    assert [shown(window) for window in windows] == [([0, 1, 3, 4], [0, 2]), ([1, 2, 4, 5], [1, 3])]
    for window in windows:
        assert window.weight.tolist() == kernels.reshape(2, 4).tolist()
        assert window.bias.tolist() == [0.5, -0.5]
    assert room == gamma(conv.terms)


def _seeing(pixels: int) -> Network:
    weight = np.zeros((2, 6))
    weight[0, :pixels] = 1.0
    return network_of(weight, np.zeros((3, 2)))


def test_windows_have_at_most_four_pixels() -> None:
    assert [shown(window) for window in module._windows(_seeing(4))[0]] == [([0, 1, 2, 3], [0])]
    with pytest.raises(Rejected, match="see too many pixels"):
        module._windows(_seeing(5))


def test_weights_are_limited_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """In all batches together, and not more work than one of them beyond that."""
    monkeypatch.setattr(module, "_BATCH_ENTRIES", 1)
    count = np.count_nonzero(WEIGHT)
    monkeypatch.setattr(module, "_MOST_ENTRIES", count)
    assert module._windows(FORM.network)
    monkeypatch.setattr(module, "_MOST_ENTRIES", count - 1)
    with pytest.raises(Rejected, match="see too many pixels"):
        module._windows(FORM.network)
    monkeypatch.setattr(module, "_MOST_ENTRIES", 1)
    layer = Uncertain(WEIGHT, 0 * WEIGHT)
    with pytest.raises(Rejected, match="see too many pixels"):
        module._windows(network_of(layer, LAST))
    assert layer.asked == [1, 1]


def test_weights_that_may_underflow_are_refused() -> None:
    least = 2.0**-962
    assert least == 2.0**60 * UNDERFLOW
    assert module._windows(network_of(np.full((1, 1), least), np.zeros((3, 1))))
    for weight in (float(np.nextafter(least, 0)), np.inf):
        with pytest.raises(Rejected, match="may underflow"):
            module._windows(network_of(np.full((1, 1), weight), np.zeros((3, 1))))
    # Behind a second layer, whose product and sum may underflow, it is three times as much.
    for share, accepted in ((3.0, True), (2.5, False)):
        weight = np.full((1, 1), share * least)
        both = (dense(np.eye(1)), dense(weight)), (dense(np.zeros((3, 1))),)
        if accepted:
            assert module._windows(Network(both, (1,)))
            continue
        with pytest.raises(Rejected, match="may underflow"):
            module._windows(Network(both, (1,)))


@pytest.mark.parametrize(
    ("network", "why"),
    [
        (Network(((dense(WEIGHT),),), (5,)), "other layers than two"),
        (Network(((dense(WEIGHT),), (dense(LAST),), (dense(LAST),)), (5,)), "other layers"),
        (Network(((), (dense(LAST),)), (6,)), "other layers than two"),
        (
            Network(((dense(WEIGHT),), (dense(LAST),)), (5,), (np.arange(6) == 1,)),
            "linear units",
        ),
    ],
)
def test_other_networks_have_no_windows(network: Network, why: str) -> None:
    with pytest.raises(Rejected, match=why):
        module._windows(network)


def test_a_stage_behind_may_have_more_layers() -> None:
    assert len(module._windows(network_of(WEIGHT, LAST, np.eye(3)))[0]) == 3


@dataclass(frozen=True)
class Changed:
    """A block that is refused, and why."""

    why: str
    about: dict[str, Any]
    entries: dict[str, Any]


def refused(why: str, entries: dict[str, Any] | None = None, **about: Any) -> Changed:
    return Changed(why, about, entries or {})


def _multipliers(place: int, value: float) -> dict[str, Any]:
    own = [part.copy() for part in written().multipliers]
    own[1][place] = value
    return {"multipliers": own}


REFUSED = (
    refused("not understood", more=1),
    refused("no piece", piece=None),
    refused("a piece that the perturbation does not have", piece=1),
    refused("no target", target=-1),
    refused("no target", target=3),
    refused("no target", target=True),
    refused("no target", target=1.0),
    refused("which part of a range", span=None),
    refused("outside its range", span=[0, 0.5]),
    refused("other windows", windows=2),
    refused("other windows", windows=4),
    refused("how long", boxes=6),
    refused("how long", boxes=[5, 1.0]),
    refused("how long", boxes=[5, True]),
    refused("how long", boxes={"5": 1}),
    refused("too many boxes", boxes=[5, 2**20 - 4]),
    refused("too many boxes", boxes=[-7, 6]),
    refused("too few numbers", boxes=[-1, 7]),
    refused("too few numbers", boxes=[5, 2]),
    refused("too many numbers", boxes=[4, 1]),
    refused("no tree", {"tree": [0, 1, 2]}),
    refused("no tree", {"trees": []}),
    refused("a limit that is no number", {"limits": [0.0, np.inf, 0.0]}),
    refused("a limit that is no number", {"limits": [0.0, 0.0, np.nan]}),
    refused("a multiplier that is no number", _multipliers(0, np.inf)),
    refused("a multiplier that is no number", _multipliers(1, np.nan)),
)


@pytest.mark.parametrize("change", REFUSED, ids=str)
def test_blocks_that_are_refused(change: Changed) -> None:
    with pytest.raises(Rejected, match=change.why):
        written(**change.entries, about=change.about).read(FORM)


def test_one_infinite_multiplier_among_others_is_refused() -> None:
    for place in range(8):
        own = written()
        own.multipliers[2][place] = np.inf
        with pytest.raises(Rejected, match="a multiplier that is no number"):
            own.read(FORM)


@pytest.mark.parametrize(
    ("text", "span", "why"),
    [
        ("linf(0.1)", [0, 0.1], "which part of a range"),
        ("linf(0.1)", None, "which part of a range"),
        ("contrast([1,1.5])", [1, 1.5], "other than brightness"),
        ("rotation([0,5])", [0, 5], "other than brightness"),
    ],
)
def test_other_perturbations_have_no_windows(text: str, span: Any, why: str) -> None:
    domain = Domain((1, 1, 5), 0.0, 1.0)
    with pytest.raises(Rejected, match=why):
        written(span=span).read(form_of(FORM.network, text, domain))


@pytest.mark.parametrize("span", [(0.0, 0.25), (-0.25, 0.0), (-0.25, -0.125)])
def test_images_become_brighter_or_darker(span: tuple[float, float]) -> None:
    assert module._shift(brightness_piece(DOMAIN, span, True), span)[1] == span


def test_images_do_not_become_both() -> None:
    with pytest.raises(Rejected, match="brighter and darker"):
        module._shift(brightness_piece(DOMAIN, (-0.25, 0.25), True), (-0.25, 0.25))


def test_the_most_boxes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_BOXES", 6)
    assert written().read(FORM)
    monkeypatch.setattr(module, "_MOST_BOXES", 5)
    with pytest.raises(Rejected, match="too many boxes"):
        written().read(FORM)


def test_a_network_without_windows_needs_no_tree() -> None:
    nothing = network_of(np.zeros((6, 5)), LAST)
    own = Written([0, 0.25], [], [], [], [])
    form = Form(nothing, FORM.pieces, nothing, DOMAIN)
    assert own.read(form).windows == []
    with pytest.raises(Rejected, match="too many numbers"):
        replace(own, multipliers=[np.zeros(1)]).read(form)
