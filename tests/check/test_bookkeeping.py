"""Numbers that rounding errors and limits are computed from, stated once more."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from vhagar_check.affine import BoxAffine
from vhagar_check.clipping import behind_clip, clipped_pixels, require_clipped
from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.joined import Pick
from vhagar_check.layers import HALF_ULP, Conv, Dense, Network, Scale, Transposed, gamma
from vhagar_check.model import read_model
from vhagar_check.perturbations import pieces
from vhagar_check.pieces import Domain
from vhagar_check.sparse import Sparse

from .graphs import Build


def _most_products(kernel: np.ndarray, layer: object) -> int:
    """The most products that are summed into one entry, forwards or backwards."""
    ones = np.ones_like(kernel)
    forward = layer.forward(ones, np.ones((1, layer.in_size)))  # type: ignore[attr-defined]
    backward = layer.backward(ones, np.ones((1, layer.out_size)))  # type: ignore[attr-defined]
    return int(max(forward.max(), backward.max()))


@pytest.mark.parametrize("number", range(8))
def test_no_sum_has_more_terms_than_a_layer_states(number: int) -> None:
    rng = np.random.default_rng(1)
    shape = (4, 6, 5)
    layers = [
        Dense(rng.normal(size=(3, 7)), np.zeros(3)),
        Dense(rng.normal(size=(7, 3)), np.zeros(7)),
        Scale(rng.normal(size=5), np.ones(5), np.zeros(5)),
        Pick.of(np.array([[0, 1, 2], [2, -1, -1], [2, 3, -1]]), 5),
        Pick.of(np.array([[0], [0], [0], [1]]), 2),
        *(
            Conv(rng.normal(size=(filters, 4 // groups, 3, 2)), np.zeros(filters), shape, *rest)
            for filters, groups, rest in (
                (6, 1, ((1, 1), (0, 0, 0, 0), (1, 1), 1)),
                (2, 2, ((2, 1), (1, 0, 2, 1), (2, 1), 2)),
            )
        ),
    ]
    layers.append(Transposed(layers[5], np.zeros(layers[5].in_size)))
    layer = layers[number]
    assert layer.terms >= _most_products(layer.kernel, layer)
    assert layer.terms <= 4 * _most_products(layer.kernel, layer) + 3


def test_the_share_of_rounding() -> None:
    """`n u / (1 - n u)` for sums of up to a billion terms."""
    assert HALF_ULP == 2.0**-53
    for terms in (1, 7, 1000, 10**9):
        n = Fraction(terms)
        u = Fraction(1, 2**53)
        assert n * u / (1 - n * u) < Fraction(gamma(terms)) < 8 * (n + 4) * u


@pytest.mark.parametrize("ends", [(0.0, 4.0), (-8.0, 1.0), (0.0, 0.25)])
def test_irrational_weights_are_paid_for(ends: tuple[float, float]) -> None:
    """What a weight may be wrong by costs as much as the pixel that it multiplies is large."""
    (piece,) = pieces("rotation(30)+brightness([0,0.1])", Domain((1, 4, 4), *ends), True)
    assert isinstance(piece, BoxAffine)
    assert piece.error == 2.0**-50
    size = max(map(abs, ends))
    mixed = piece.matrix.counts > 0
    assert (piece._room >= piece.error * size * piece.matrix.counts)[mixed].all()
    plain = BoxAffine(
        piece.domain, piece.matrix, piece.directions, piece.offset, piece.lower, piece.upper
    )
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(2, 3, 16))
    more = piece.support(a, b) - plain.support(a, b)
    wrong = abs(b) @ (piece.error * size * piece.matrix.counts)
    assert (more >= 0.5 * wrong).all()


ROOM = 2e-9


@pytest.mark.parametrize(
    ("beyond", "stays"), [(0.5, True), (0.99, True), (1.5, False), (9.0, False)]
)
@pytest.mark.parametrize("side", ["below", "above"])
def test_what_rounding_moves_out_of_the_range_stays(side: str, beyond: float, stays: bool) -> None:
    domain = Domain((2,), -1.0, 3.0)
    amount = beyond * ROOM * 4.0
    sign = -1.0 if side == "below" else 1.0
    moves = Sparse.of(np.array([[1.0], [0.0]]))
    ends = sorted((0.0, sign * amount))
    piece = BoxAffine(
        domain,
        Sparse.of(np.eye(2)),
        moves,
        np.zeros(2),
        np.array([ends[0]]),
        np.array([ends[1]]),
    )
    if stays:
        assert not require_clipped([piece], None, domain)
        return
    with pytest.raises(Rejected, match="leaves the input range"):
        require_clipped([piece], None, domain)
    only, other = np.array([True, False]), np.zeros(2, dtype=bool)
    masks = (only, other) if side == "below" else (other, only)
    assert require_clipped([piece], masks, domain)
    with pytest.raises(Rejected, match="leaves the input range"):
        require_clipped([piece], masks[::-1], domain)
    with pytest.raises(Rejected, match="leaves the input range"):
        require_clipped([piece], tuple(mask[::-1] for mask in masks), domain)


def test_a_map_that_only_seems_to_leave_the_range_stays() -> None:
    """Its computed image does, by the room for rounding; weights that sum to 1 never do."""
    domain = Domain((2,), 0.0, 1.0)
    half = Sparse.of(np.array([[0.5, 0.5], [0.25, 0.75]]))
    none = Sparse.of(np.zeros((2, 0)))
    nothing = np.zeros(0)
    piece = BoxAffine(domain, half, none, np.zeros(2), nothing, nothing)
    assert (piece.image[1] > 1).all()
    assert require_clipped([piece], None, domain)
    more = BoxAffine(domain, half, none, np.array([2.0**-60, 0.0]), nothing, nothing)
    assert not require_clipped([more], None, domain)
    less = BoxAffine(domain, half, none, np.array([0.0, -(2.0**-60)]), nothing, nothing)
    assert not require_clipped([less], None, domain)
    assert not require_clipped([piece, less], None, domain)
    above = np.zeros(2, dtype=bool), np.ones(2, dtype=bool)
    assert require_clipped([more], above, domain)
    assert not require_clipped([less], above, domain)
    box = np.zeros(2), np.full(2, 0.5)
    inside = BoxAffine(
        Domain((2,), 0.0, 1.0, box), half, none, np.array([0.5, 0.5]), nothing, nothing
    )
    assert require_clipped([inside], None, domain)
    inexact = BoxAffine(domain, half, none, np.zeros(2), nothing, nothing, 2.0**-50)
    assert not require_clipped([inexact], None, domain)


@pytest.mark.parametrize("side", ["below", "above"])
def test_too_many_pixels_to_decide_exactly_may_leave_the_range(
    side: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    domain = Domain((2,), 0.0, 1.0)
    third = Sparse.of(np.array([[0.25, 0.25], [0.25, 0.5]]))
    none, nothing = Sparse.of(np.zeros((2, 0))), np.zeros(0)
    # Only one end of each pixel's range is reached, up to rounding.
    offset = np.array([0.0, 0.0]) if side == "below" else np.array([0.5, 0.25])
    piece = BoxAffine(domain, third, none, offset, nothing, nothing)
    monkeypatch.setattr("vhagar_check.clipping._MOST_EXACT", 2)
    assert require_clipped([piece], None, domain)
    monkeypatch.setattr("vhagar_check.clipping._MOST_EXACT", 1)
    assert not require_clipped([piece], None, domain)


@pytest.mark.parametrize("ends", [(-3.0, -1.0), (0.0, 1.0), (-1.0, 3.0), (2.0, 2.5)])
def test_a_clip_before_the_network_changes_nothing_else(ends: tuple[float, float]) -> None:
    """Pixels that are not clipped pass, also where others are, and whatever the range is."""
    low, high = ends
    domain = Domain((3,), low, high)
    plain = Network(((Dense(np.eye(3), np.zeros(3)),),), (3,))
    width = high - low
    for below, above in (([0], [1]), ([0, 1], []), ([], [2]), ([0, 1, 2], [0, 1, 2])):
        masks = tuple(np.isin(np.arange(3), part) for part in (below, above))
        clipped = behind_clip(plain, masks, domain)
        for share in (-0.5, 0.0, 0.3, 1.0, 1.5):
            x = [low + share * width] * 3
            if share < 0:
                x = [v if k in below else low for k, v in enumerate(x)]
            if share > 1:
                x = [v if k in above else high for k, v in enumerate(x)]
            found = clipped.exact_scores(Exact.of(np.array(x))).fractions()
            assert found == [max(Fraction(low), min(Fraction(high), Fraction(v))) for v in x]


def test_the_pixels_that_are_clipped() -> None:
    domain = Domain((3,), 0.0, 1.0)
    assert clipped_pixels(None, domain, True) is None
    every = clipped_pixels([[0, 1, 2], [2, 1, 0]], domain, True)
    assert every is not None
    assert all(mask.all() for mask in every)
    masks = clipped_pixels([[0, 2], []], domain, True)
    assert masks is not None
    assert [mask.tolist() for mask in masks] == [[True, False, True], [False] * 3]
    for given, clip in (
        ([[0], [1]], False),
        ([[], []], True),
        ([[3], []], True),
        ([[-1], []], True),
        ([[True], []], True),
        ([[0.0], []], True),
        ([[0, 1, 2, 0], []], True),
        (["01", []], True),
    ):
        with pytest.raises(Rejected):
            clipped_pixels(given, domain, clip)


def test_the_layers_of_a_clip() -> None:
    """One ReLU layer for each side that is clipped, each with a unit for every pixel."""
    network = Network(((Dense(np.ones((2, 3)), np.zeros(2)),),), (3,))
    domain = Domain((3,), -1.0, 1.0)
    none, some = np.zeros(3, dtype=bool), np.array([True, False, False])
    for masks, layers in (((some, none), 1), ((none, some), 1), ((some, some), 2)):
        assert behind_clip(network, masks, domain).relu_sizes_and_classes == [3] * layers + [2]


def _gemm(alpha: float, weights: list[float]) -> bytes:
    b = Build([1, 2])
    constant = b.constant(np.array([weights] * 2), np.float64)
    return b.model(b("Gemm", "x", constant, alpha=alpha))


def test_constants_that_would_have_to_be_rounded_are_refused() -> None:
    from onnx import TensorProto, load_model_from_string

    for weights, alpha, exact in (
        ([0.5, 0.25], 0.1, True),
        ([0.5, 0.1], 1.0, True),
        ([0.5, 0.1], 0.1, False),
        ([0.1, 0.1], 0.5, False),
    ):
        model = load_model_from_string(_gemm(alpha, weights))
        model.graph.input[0].type.tensor_type.elem_type = TensorProto.DOUBLE
        model.graph.output[0].type.tensor_type.elem_type = TensorProto.DOUBLE
        data = model.SerializeToString()
        if exact:
            read_model(data)
        else:
            with pytest.raises(Rejected, match="double precision"):
                read_model(data)


@pytest.mark.parametrize("name", ["strides", "dilations"])
def test_steps_of_0_are_refused(name: str) -> None:
    for kind in ("Conv", "ConvTranspose", "MaxPool"):
        b = Build([1, 1, 4, 4])
        weights = () if kind == "MaxPool" else (b.drawn(1, 1, 2, 2),)
        value = b(kind, "x", *weights, kernel_shape=[2, 2], **{name: [0, 1]})
        with pytest.raises(Rejected):
            read_model(b.model(b("Flatten", value)))


def test_windows_that_do_not_fit_are_refused() -> None:
    for size in (4, 5, 6, 9):
        b = Build([1, 1, 4, 4])
        data = b.model(b("Flatten", b("Conv", "x", b.drawn(2, 1, size, size))))
        if size == 4:
            assert read_model(data).classes == 2
        else:
            with pytest.raises(Rejected):
                read_model(data)
