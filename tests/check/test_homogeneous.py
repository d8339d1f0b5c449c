"""Contrast as a linear question: the checker's own derivation of it, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar import Problem, verify
from vhagar.network import read_onnx
from vhagar_check import Rejected, check
from vhagar_check.exact import Exact
from vhagar_check.homogeneous import WithBiasInput, bias_pieces, homogeneous_network
from vhagar_check.layers import Network
from vhagar_check.model import read_model
from vhagar_check.neuron_bounds import quick_bounds
from vhagar_check.perturbations import pieces
from vhagar_check.pieces import Domain

from ..soundness.bases import Blocks, blocks_of, forged, with_head
from .graphs import SMALL_GRAPHS


def networks() -> dict[str, Network]:
    return {name: read_model(make(2)) for name, make in SMALL_GRAPHS.items()}


def scaled(network: Network, text: str = "contrast([0.25,4])") -> list[Any]:
    domain = Domain(network.input_shape, 0.0, 1.0)
    return list(bias_pieces(pieces(text, domain, False), domain))


@pytest.mark.parametrize("name", SMALL_GRAPHS)
@pytest.mark.parametrize("factor", [Fraction(1, 3), Fraction(1), Fraction(7, 4)])
def test_the_image_has_the_scores_of_the_scaled_biases(name: str, factor: Fraction) -> None:
    """In exact numbers: no tolerance."""
    network = networks()[name]
    homogeneous = homogeneous_network(network)
    x = Exact.of(np.random.default_rng(3).random(16)).fractions()
    image = network.exact_scores(Exact.of_fractions([factor * value for value in x]))
    found = homogeneous.exact_scores(Exact.of_fractions([*x, 1 / factor]))
    assert [factor * score for score in found.fractions()] == image.fractions()


@pytest.mark.parametrize("name", SMALL_GRAPHS)
def test_floats_and_exact_numbers_agree_backwards(name: str) -> None:
    rng = np.random.default_rng(4)
    for stage in homogeneous_network(networks()[name]).stages:
        for layer in stage:
            assert isinstance(layer, WithBiasInput)
            z, p = rng.normal(size=(1, layer.in_size)), rng.normal(size=(1, layer.out_size))
            forth = layer.forward(layer.kernel, z)[0]
            back = layer.backward(layer.kernel, p)[0]
            assert forth == pytest.approx(
                np.array(layer.exact_forward(Exact.of(z[0])).fractions(), float)
            )
            assert back == pytest.approx(
                np.array(layer.exact_backward(Exact.of(p[0])).fractions(), float)
            )
            assert (p[0] * forth).sum() == pytest.approx((back * z[0]).sum())


def test_scales_are_rounded_outward() -> None:
    domain = Domain((1, 1, 4), 0.0, 1.0)
    for low, high in ((0.7, 1.3), (0.1, 0.3), (3.0, 7.0)):
        for given in pieces(f"contrast([{low},{high}])", domain, False):
            assert given.span is not None
            (piece,) = bias_pieces([given], domain)
            least, most = piece.image[0][-1], piece.image[1][-1]
            assert Fraction(least) <= 1 / Fraction(given.span[1])
            assert Fraction(most) >= 1 / Fraction(given.span[0])
            assert least >= np.nextafter(np.nextafter(1 / given.span[1], 0), 0)


def test_nothing_exceeds_the_support_and_something_attains_it() -> None:
    rng = np.random.default_rng(5)
    domain = Domain((1, 1, 5), 0.0, 1.0)
    (piece,) = bias_pieces(pieces("contrast([1.5,4])", domain, False), domain)
    a, b = rng.normal(size=(2, 40, 6))
    support, exact = piece.support(a, b), []
    for u, v in zip(a, b, strict=True):
        exact.append(piece.exact_support(Exact.of(u), Exact.of(v)))
    assert all(Fraction(found) >= value for found, value in zip(support, exact, strict=True))
    assert support == pytest.approx(np.array(exact, float))
    reached = []
    for u, v in zip(a, b, strict=True):
        corners = np.array(np.meshgrid(*[[0.0, 1.0]] * 5)).reshape(5, -1).T
        values = [
            corners @ (u + v)[:-1] + u[-1] + v[-1] * h
            for h in (piece.image[0][-1], piece.image[1][-1])
        ]
        reached.append(np.max(values))
    assert reached == pytest.approx(np.array(exact, float))


@pytest.mark.parametrize("name", SMALL_GRAPHS)
def test_hexagons_hold_what_the_copies_compute(name: str) -> None:
    network = networks()[name]
    homogeneous = homogeneous_network(network)
    rng = np.random.default_rng(6)
    for piece in scaled(network):
        bounds = quick_bounds(homogeneous, piece)
        for _ in range(5):
            x = rng.choice([0.0, 1.0, rng.random()], 16)
            h = float(rng.choice([piece.image[0][-1], piece.image[1][-1]]))
            first, second = Exact.of(np.append(x, 1.0)), Exact.of(np.append(x, h))
            for k, stage in enumerate(homogeneous.stages[:-1]):
                for layer in stage:
                    first, second = layer.exact_forward(first), layer.exact_forward(second)
                known = bounds.hexagons[k]
                for n, (s, t) in enumerate(zip(first.fractions(), second.fractions(), strict=True)):
                    assert known.low[n] <= s <= known.high[n]
                    assert known.low_p[n] <= t <= known.high_p[n]
                    assert known.gap_low[n] <= t - s <= known.gap_high[n]
                linear = homogeneous.linear_units(k)
                first, second = first.positive(linear), second.positive(linear)


@pytest.fixture(scope="module")
def proof(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Blocks]:
    """A model, and the blocks of a certificate about a range of factors."""
    folder = tmp_path_factory.mktemp("contrast")
    model, path = folder / "model.onnx", folder / "proof.cert"
    model.write_bytes(SMALL_GRAPHS["small_leaky"](2))
    problem = Problem(read_onnx(model), perturbation="contrast([0.5,1.5])", source=0, clip=False)
    options = {"relative_gap": 0.02, "certificate": path, "workers": 0}
    result = verify(problem, **options, timeout=20)
    assert check(path, model=model).upper == result.upper > 0
    return model, blocks_of(path.read_bytes())


def test_the_certificate_states_the_form(proof: tuple[Path, Blocks]) -> None:
    _, blocks = proof
    assert json.loads(blocks[0][1])["problem"]["form"] == "homogeneous"


def _without_form(head: Any) -> None:
    del head["problem"]["form"]


def _another_form(head: Any) -> None:
    head["problem"]["form"] = "linear"


def _clipped(head: Any) -> None:
    head["problem"]["clip"] = True


def _another_perturbation(head: Any) -> None:
    head["problem"]["perturbation"] = "brightness([-0.5,0.5])"


def _another_range(head: Any) -> None:
    head["problem"]["input_range"] = [0.0, 2.0]


def _more_factors(head: Any) -> None:
    head["problem"]["perturbation"] = "contrast([0.5,3])"


def _less_than_proved(head: Any) -> None:
    for claim in [head["claims"], *head["claims"]["targets"].values()]:
        claim["upper"] *= 0.99


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_without_form, "which part"),
        (_another_form, "not known"),
        (_clipped, "does not clip"),
        (_another_perturbation, "for contrast"),
        (_another_range, "from 0 to 1"),
        (_more_factors, "not proved"),
        (_less_than_proved, "not proved"),
    ],
)
def test_forgeries_are_refused(
    proof: tuple[Path, Blocks], tmp_path: Path, change: Callable[[Any], None], why: str
) -> None:
    model, blocks = proof
    head = json.loads(blocks[0][1])
    for claim in head["claims"]["targets"].values():
        claim["lower"] = 0.0  # so that no witness is looked at
    head["claims"]["lower"] = 0.0
    change(head)
    path = tmp_path / "forged"
    path.write_bytes(forged(with_head(blocks, head)))
    with pytest.raises(Rejected, match=why):
        check(path, model=model)


def test_a_form_that_was_not_searched_proves_nothing(tmp_path: Path) -> None:
    """The proofs are about other neurons than those of the form that is stated."""
    model, path = tmp_path / "model.onnx", tmp_path / "proof.cert"
    model.write_bytes(SMALL_GRAPHS["small_leaky"](2))
    problem = Problem(read_onnx(model), perturbation="contrast([0.5,0.5])", source=0, clip=False)
    verify(problem, certificate=path, workers=0, timeout=20)
    blocks = blocks_of(path.read_bytes())
    head = json.loads(blocks[0][1])
    head["problem"]["form"] = "homogeneous"
    path.write_bytes(forged(with_head(blocks, head)))
    with pytest.raises(Rejected):
        check(path, model=model)
