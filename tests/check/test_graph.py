"""Networks that branch: the checker's reading of them, layer by layer."""

from __future__ import annotations

import numpy as np
import pytest

from vhagar_check.exact import Exact
from vhagar_check.joined import Joined
from vhagar_check.layers import Conv, Dense, Network
from vhagar_check.model import read_model

from .graphs import GRAPHS, Build, runtime_scores


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


def test_convolutions_beside_carried_values_are_convolutions_still() -> None:
    network = read_model(GRAPHS["residual"]())
    (joined,) = network.stages[1]
    assert isinstance(joined, Joined)
    inner = [term.layer for block in joined.blocks for term in block]
    assert isinstance(inner[0], Conv)
    assert inner[1] is None
