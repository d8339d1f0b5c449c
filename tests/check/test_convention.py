"""The input convention that a certificate states, as layers and in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vhagar_check.convention import Permute, with_convention
from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.layers import Dense, Network

PLAIN: dict[str, Any] = {"layout": "chw", "model_shape": [2, 3, 4], "mean": [], "std": []}
IMAGE = (2, 3, 4)
MIXING = np.random.default_rng(4).normal(size=(3, 24))
BIAS = np.array([1.0, 2.0, 3.0])


def network(*shape: int) -> Network:
    more = (Dense(np.eye(3), np.ones(3)),)
    return Network(
        ((Dense(MIXING, 99 + BIAS),), more, (Dense(np.eye(3), np.full(3, -100.0)),)), shape
    )


def given(**changes: Any) -> dict[str, Any]:
    return {**PLAIN, **changes}


def scores(of: Network, x: np.ndarray) -> np.ndarray:
    found = of.exact_scores(Exact.of(x.reshape(-1))).fractions()
    return np.array([float(value) for value in found])


X = np.random.default_rng(5).random(IMAGE)


def test_without_a_convention_nothing_changes() -> None:
    own = network(*IMAGE)
    assert with_convention(own, None, (24,)) == (own, "")


@pytest.mark.parametrize(
    ("stated", "model", "taken", "words"),
    [
        (given(), IMAGE, X, "as 2x3x4 values"),
        (given(mean=[0.5]), IMAGE, X - 0.5, "minus 0.5, as 2x3x4 values"),
        (
            given(mean=[0.25, 0.1], std=[2, 0.3]),
            IMAGE,
            (X - np.array([0.25, 0.1])[:, None, None]) / np.array([2, 0.3])[:, None, None],
            "minus [0.25,0.1], divided by [2.0,0.3], as 2x3x4 values",
        ),
        (
            given(layout="hwc", model_shape=[3, 4, 2], std=[4]),
            (3, 4, 2),
            X.transpose(1, 2, 0) / 4,
            "divided by 4.0, with its channels last, as 3x4x2 values",
        ),
        (given(model_shape=[24]), (24,), X, "as 24 values"),
        (given(model_shape=[1, 24]), (1, 24), X, "as 1x24 values"),
        (given(model_shape=[24], layout="hwc"), (24,), X.transpose(1, 2, 0), None),
        (given(model_shape=[1, 2, 3, 4]), (1, *IMAGE), X, "as 1x2x3x4 values"),
    ],
)
def test_layers_and_words(
    stated: dict[str, Any], model: tuple[int, ...], taken: np.ndarray, words: str | None
) -> None:
    found, said = with_convention(network(*model), stated, IMAGE)
    assert found.input_shape == IMAGE
    assert scores(found, X) == pytest.approx(MIXING @ taken.reshape(-1) + BIAS)
    assert words is None or said == words


@pytest.mark.parametrize("shape", [(6, 4), (24,)])
def test_vectors_and_planes(shape: tuple[int, ...]) -> None:
    """Without channels, one number is for all; a vector may have one for each entry."""
    stated = given(model_shape=list(shape), mean=[0.5], layout="hwc" if len(shape) == 2 else "chw")
    if len(shape) == 2:
        with pytest.raises(Rejected, match="unknown layout"):
            with_convention(network(*shape), stated, shape)
        stated["layout"] = "chw"
        for wrong in ([0.5] * 6, [0.5] * 2):
            with pytest.raises(Rejected, match="numbers that do not fit"):
                with_convention(network(*shape), {**stated, "mean": wrong}, shape)
        with pytest.raises(Rejected, match="image input as one of another shape"):
            with_convention(network(*shape), stated, shape[::-1])
    else:
        each = np.linspace(0.0, 1.0, 24).tolist()
        found, _ = with_convention(network(*shape), {**stated, "mean": each}, shape)
        assert scores(found, X) == pytest.approx(MIXING @ (X.reshape(-1) - each) + BIAS)
    found, _ = with_convention(network(*shape), stated, shape)
    assert scores(found, X) == pytest.approx(MIXING @ (X.reshape(-1) - 0.5) + BIAS)


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ([], "not understood"),
        (sorted(PLAIN), "not understood"),
        ({"layout": "chw"}, "not understood"),
        (given(more=1), "not understood"),
        (given(model_shape=[2, 3, 5]), "another shape"),
        (given(model_shape=[24]), "another shape"),
        (given(layout="whc"), "unknown layout"),
        (given(layout="hwc"), "an image input as one of another shape|image input as one"),
        (given(std=[0.0]), "not above 0"),
        (given(std=[-1.0]), "not above 0"),
        (given(std=[1.0, 0.0]), "not above 0"),
        (given(mean=[np.nan]), "do not fit"),
        (given(mean=[0.5, np.inf]), "do not fit"),
        (given(mean=[0.5, 0.5, 0.5]), "do not fit"),
    ],
)
def test_what_is_refused(stated: Any, words: str) -> None:
    with pytest.raises(Rejected, match=words):
        with_convention(network(*IMAGE), stated, IMAGE)


@pytest.mark.parametrize(
    ("shape", "words"), [((3, 2, 4), "image input as one"), ((25,), "inputs of another shape")]
)
def test_an_input_of_another_shape(shape: tuple[int, ...], words: str) -> None:
    with pytest.raises(Rejected, match=words):
        with_convention(network(*IMAGE), PLAIN, shape)


def test_a_permutation() -> None:
    layer = Permute(np.array([2, 0, 1]))
    assert (layer.in_size, layer.out_size, layer.terms) == (3, 3, 1)
    assert layer.bias.tolist() == [0.0] * 3
    z, p = np.array([[1.0, 2.0, 3.0]]), np.array([[5.0, 6.0, 7.0]])
    assert layer.forward(layer.kernel, z).tolist() == [[3.0, 1.0, 2.0]]
    assert layer.backward(layer.kernel, p).tolist() == [[6.0, 7.0, 5.0]]
    assert layer.forward(0.5 * layer.kernel, z).tolist() == [[1.5, 0.5, 1.0]]
    assert layer.backward(0.5 * layer.kernel, p).tolist() == [[3.0, 3.5, 2.5]]
    exact = layer.exact_forward(Exact.of(z[0])).fractions()
    assert exact == [3, 1, 2]
