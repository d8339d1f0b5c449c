"""Claims that float64 misses by its own rounding are decided in rational arithmetic."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar import Bab, Network, Problem, verify
from vhagar.network import Affine, Convolution, Relu, onnx_bytes, read_onnx
from vhagar_check import Rejected, check
from vhagar_check.exact import Exact
from vhagar_check.layers import Network as TheirNetwork
from vhagar_check.model import read_model
from vhagar_check.neuron_bounds import quick_bounds
from vhagar_check.perturbations import pieces
from vhagar_check.pieces import Domain
from vhagar_check.rational import ExactBounds, exact_ceiling, exact_work
from vhagar_check.verdict import _missed_by_rounding

from .graphs import SMALL_GRAPHS
from .test_graph_verdict import blocks_of, forged

SHAPE = (1, 3, 3)


def _float32(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float32).astype(np.float64)


def _written(folder: Path, *weights: np.ndarray, biases: tuple[float, ...] = ()) -> Path:
    layers: list[Any] = []
    shape: tuple[int, ...] = SHAPE
    for weight, bias in zip(weights, biases or (0.0,) * len(weights), strict=True):
        out = (len(weight),)
        layers += [Affine(_float32(weight), np.full(out, bias), shape, out), Relu(out)]
        shape = out
    path = folder / "model.onnx"
    path.write_bytes(onnx_bytes(Network(tuple(layers[:-1]), SHAPE)))
    return path


def _silent(folder: Path) -> Path:
    """A network whose last neurons are always 0, and so are all of its scores."""
    first = abs(np.random.default_rng(1).normal(size=(2, 9)))
    last = np.array([[0.2, 0.0], [0.0, -1.5], [0.0, 0.0]])
    return _written(
        folder, first, np.array([[0.0, 0.0], [0.0, -1.3]]), last, biases=(0.5, 0.0, 0.0)
    )


def _certified(model: Path, text: str | None) -> Path:
    path = model.with_suffix(".cert")
    problem = Problem(read_onnx(model), perturbation=text, source=0)
    verify(problem, engine=Bab(attack=False), workers=0, certificate=path, timeout=3)
    return path


def _with_claims(path: Path, upper: float) -> Path:
    blocks = blocks_of(path)
    head = json.loads(blocks[0][1])
    for claim in (head["claims"], *head["claims"]["targets"].values()):
        claim["upper"] = upper
        claim["lower"] = 0.0
    return forged(path, [("HEAD", json.dumps(head).encode()), *blocks[1:]])


@pytest.mark.parametrize("text", ["patch([0,0.05],2,1,1)", "linf(0.05)", "translation(1,0)", None])
def test_what_is_exactly_zero_is_proved_to_be(text: str | None, tmp_path: Path) -> None:
    """All scores are the same: the search states nearly 0, and rounding must not come between."""
    model = _silent(tmp_path)
    path = _certified(model, text)
    assert check(path, model=model).upper < 1e-200


@pytest.mark.parametrize("text", ["brightness([-0.4,-0.1])", "occlusion(1,1,1)"])
def test_a_source_that_never_wins_is_proved_not_to(text: str, tmp_path: Path) -> None:
    """Its score is 0 and the other one's is never negative: the ceiling is rounding alone."""
    weight = abs(np.random.default_rng(2).normal(size=(2, 9)))
    layers = (Affine(_float32(np.diag([-1.0, 1.0]) @ weight), np.zeros(2), SHAPE, (2,)), Relu((2,)))
    model = tmp_path / "model.onnx"
    model.write_bytes(onnx_bytes(Network(layers, SHAPE)))
    path = _with_claims(_certified(model, text), 0.0)
    assert check(path, model=model).upper == 0.0


@pytest.mark.parametrize("influence", [0.0, 1e-6])
def test_a_pixel_without_influence_attacks_nothing(influence: float, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    first = rng.normal(size=(4, 9))
    first[:, 3] = influence
    model = _written(
        tmp_path, first, rng.normal(size=(3, 4)), rng.normal(size=(3, 3)), biases=(0.5, -0.25, 0.5)
    )
    path = _with_claims(_certified(model, "patch([0,0.05],2,1,1)"), 0.0)
    if influence:
        with pytest.raises(Rejected, match="not proved"):
            check(path, model=model)
    else:
        assert check(path, model=model).upper == 0


def test_no_more_work_is_done_than_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = _silent(tmp_path)
    path = _certified(model, "linf(0.05)")
    check(path, model=model)
    monkeypatch.setattr("vhagar_check.verdict._MOST_EXACT_PRODUCTS", 0)
    with pytest.raises(Rejected, match="not proved"):
        check(path, model=model)


def test_what_is_missed_by_more_than_rounding_is_not_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    model = _written(tmp_path, rng.normal(size=(4, 9)), rng.normal(size=(3, 4)))
    path = _with_claims(_certified(model, "linf(0.05)"), 1e-3)
    monkeypatch.setattr("vhagar_check.rational.exact_upper", None)
    with pytest.raises(Rejected, match="not proved"):
        check(path, model=model)


def _networks() -> list[bytes]:
    rng = np.random.default_rng(5)
    draw = lambda *size: _float32(rng.normal(size=size))  # noqa: E731
    shape = (1, 4, 4)
    conv = Convolution(draw(2, 1, 2, 2), draw(2), shape)
    more = Convolution(draw(1, 2, 2, 2), draw(1), conv.out_shape)
    layers = (
        conv,
        Relu(conv.out_shape),
        more,
        Relu(more.out_shape),
        Affine(draw(3, more.out_size), draw(3), more.out_shape, (3,)),
    )
    return [onnx_bytes(Network(layers, shape)), *(make(1) for make in SMALL_GRAPHS.values())]


def _pre_activations(network: TheirNetwork, x: Exact) -> list[list[Fraction]]:
    found, value = [], x
    for k, stage in enumerate(network.stages):
        value = value.positive(network.linear_units(k - 1)) if k else value
        for layer in stage:
            value = layer.exact_forward(value)
        found.append(value.fractions())
    return found


PARAMETERS = {"linf(0.1)": "each", "occlusion(2,2,2)": "none", "contrast([1.1,1.5])": "one"}


@pytest.mark.parametrize("text", PARAMETERS)
@pytest.mark.parametrize("number", range(6))
def test_exact_hexagons_are_the_tightest_that_hold(number: int, text: str) -> None:
    """They lie within those of float64, are hardly smaller, and contain what occurs."""
    network = read_model(_networks()[number])
    domain = Domain(network.input_shape, 0.0, 1.0)
    (piece,) = pieces(text, domain, True)
    plain, exact = quick_bounds(network, piece), quick_bounds(network, piece, ExactBounds)
    for ours, theirs in zip(exact.hexagons, plain.hexagons, strict=True):
        for low, high in (("low", "high"), ("low_p", "high_p"), ("gap_low", "gap_high")):
            assert (getattr(ours, low) >= getattr(theirs, low)).all()
            assert (getattr(ours, high) <= getattr(theirs, high)).all()
            assert getattr(ours, low) == pytest.approx(getattr(theirs, low), abs=1e-10)
            assert getattr(ours, high) == pytest.approx(getattr(theirs, high), abs=1e-10)
    rng = np.random.default_rng(number)
    ceiling = exact_ceiling(network, (np.zeros(domain.size), np.ones(domain.size)), 0)
    for _ in range(8):
        x = rng.random(domain.size).round(int(rng.integers(0, 4)))
        free = {"each": rng.uniform(-0.1, 0.1, domain.size), "none": [], "one": [1.25]}
        image = piece.exact_image(Exact.of(x).fractions(), list(free[PARAMETERS[text]]))
        assert image is not None
        pairs = zip(
            _pre_activations(network, Exact.of(x)),
            _pre_activations(network, Exact.of_fractions(image)),
            strict=True,
        )
        *inner, (scores, _) = pairs
        assert scores[0] - max(scores[1:]) <= ceiling
        for h, (s, t) in zip(exact.hexagons, inner, strict=True):
            for n, (u, v) in enumerate(zip(s, t, strict=True)):
                assert h.low[n] <= u <= h.high[n]
                assert h.low_p[n] <= v <= h.high_p[n]
                assert h.gap_low[n] <= v - Fraction(h.ratio) * u <= h.gap_high[n]


@pytest.mark.parametrize(
    ("uppers", "claims", "ceiling", "rounding"),
    [
        ({1: 1.0}, {1: 1.0}, 4.0, False),
        ({1: 0.5, 2: 1.0}, {1: 1.0, 2: 1.0}, 4.0, False),
        ({1: 1.0 + 1e-9}, {1: 1.0}, 4.0, True),
        ({1: 1.0 + 5e-9}, {1: 1.0}, 4.0, False),
        ({1: 1.0 + 1e-9}, {1: 1.0}, 0.5, False),
        ({1: 1.0 + 1e-9, 2: 2.0}, {1: 1.0, 2: 1.0}, 4.0, False),
        ({1: 1.0 + 1e-9, 2: 0.0}, {1: 1.0, 2: 1.0}, 4.0, True),
        ({1: 2.0**-800}, {1: 0.0}, 0.0, True),
        ({1: 2.0**-799}, {1: 0.0}, 0.0, False),
        ({1: 2.0**-800}, {1: 0.0}, float("inf"), True),
        ({1: 1e-9}, {1: 0.0}, float("inf"), False),
        ({1: float("inf")}, {1: 0.0}, float("inf"), False),
        ({1: float("nan")}, {1: 0.0}, 1.0, False),
    ],
)
def test_what_rounding_alone_can_miss(
    uppers: dict[int | None, float],
    claims: dict[int | None, float],
    ceiling: float,
    rounding: bool,
) -> None:
    assert _missed_by_rounding(uppers, claims, ceiling) is rounding


def test_exactly_as_much_work_as_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = _silent(tmp_path)
    path = _certified(model, "linf(0.05)")
    asked: list[int] = []
    monkeypatch.setattr("vhagar_check.verdict.exact_work", lambda *given: asked.append(7) or 7)
    monkeypatch.setattr("vhagar_check.verdict._MOST_EXACT_PRODUCTS", 7)
    check(path, model=model)
    assert asked
    monkeypatch.setattr("vhagar_check.verdict._MOST_EXACT_PRODUCTS", 6)
    with pytest.raises(Rejected, match="not proved"):
        check(path, model=model)


def test_the_work_of_exact_arithmetic() -> None:
    network = read_model(_networks()[0])
    base = exact_work(network, 0, 0)
    assert base > 0
    assert exact_work(network, 3, 0) == 4 * base
    weights = exact_work(network, 0, 1) - base
    # Two convolutions and a matrix: products of one pass backwards, at least.
    products = [layer.weight.size for stage in network.stages for layer in stage]
    assert weights >= sum(products)
    sizes = network.relu_sizes_and_classes
    assert base >= 6 * sum(sizes) * products[0]


def test_scores_behind_neurons_that_are_off_tie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are 0 without any rounding, so it takes no rational arithmetic, however large it is."""
    weight = np.random.default_rng(3).normal(size=(3, 4))
    model = _written(tmp_path, -np.ones((4, 9)), weight, biases=(-1.0, 0.0))
    monkeypatch.setattr("vhagar_check.verdict._MOST_EXACT_PRODUCTS", 0)
    for text in ("linf(0.1)", "brightness([0,0.1])"):
        assert check(_certified(model, text), model=model).upper == 0


def test_classes_that_differ_where_neurons_are_off_tie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their scores are not 0, and round, but their difference is."""
    first = np.concatenate([np.ones((1, 9)), -np.ones((2, 9))])
    last = np.array([[0.01, -0.01, 0.0], [0.0, 0.01, -0.02], [0.01, 0.0, 0.03]])
    model = _written(tmp_path, first, last, biases=(-0.5, 0.0))
    problem = Problem(read_onnx(model), perturbation="brightness(-0.1)", source=0, targets=2)
    path = tmp_path / "proof.cert"
    assert verify(problem, workers=0, certificate=path, timeout=3).upper == 0
    assert check(path, model=model).upper == 0
    monkeypatch.setattr("vhagar_check.verdict._MOST_EXACT_PRODUCTS", 0)
    assert check(path, model=model).upper == 0


def test_what_is_missed_by_rounding_is_measured_by_the_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scores may be large where their difference is next to nothing."""
    first = np.concatenate([np.ones((1, 9)), -np.ones((2, 9))])
    last = np.array([[0.01, -0.01, 0.0], [0.0, 0.01, -0.02], [0.01, 0.0, 0.03]])
    model = _written(tmp_path, first, last, biases=(-0.5, 0.0))
    problem = Problem(read_onnx(model), perturbation="brightness(-0.1)", source=0, targets=2)
    path = tmp_path / "proof.cert"
    verify(problem, workers=0, certificate=path, timeout=3)
    monkeypatch.setattr(
        "vhagar_check.intervals.Pulled._is_nothing", lambda *_: np.zeros(2, dtype=bool)
    )
    assert check(path, model=model).upper == 0
