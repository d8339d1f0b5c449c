"""The checker's reader and the verifier's, on every operator in every form and operator set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vhagar import Problem, verify
from vhagar.network import Relu, read_onnx
from vhagar.search.branch_and_bound import Bab
from vhagar_check import check
from vhagar_check.exact import Exact
from vhagar_check.model import read_model

from ..marks import mostly_slow
from ..network.conftest import ModelBuilder, float32_scores
from ..network.corpus import MODELS
from ..network.corpus.table import INCREASING
from ..network.test_lowering import SIZE, RandomGraph
from .graphs import GRAPHS

# Models whose last node is ignored.
WITHOUT_THE_LAST = {
    *("softmax", "logarithmic_softmax", "logarithm_of_a_softmax", "logarithm_of_a_sigmoid"),
    *(f"{kind.lower()}_last" for kind in INCREASING),
}


@pytest.mark.parametrize("name", MODELS)
def test_both_readers_see_the_same_layers_of_the_corpus(name: str, tmp_path: Path) -> None:
    for opset in MODELS[name].opsets:
        _agree(MODELS[name].built(ModelBuilder, opset).model().SerializeToString(), tmp_path, opset)


@pytest.mark.parametrize("name", GRAPHS)
def test_both_readers_see_the_same_layers(name: str, tmp_path: Path) -> None:
    _agree(GRAPHS[name](), tmp_path)


def random_graph(seed: int) -> bytes:
    """A dozen random operations; the scores see several of the values."""
    rng = np.random.default_rng(seed)
    graph = RandomGraph(ModelBuilder((SIZE,), 13), rng, rng.normal(size=(1, SIZE)))
    for _ in range(int(rng.integers(3, 12))):
        graph.step()
    names = list(dict.fromkeys(graph.pick() for _ in range(4)))
    graph.builder.follow(names[0]).add("Concat", *names[1:], axis=1)
    graph.keep(graph.builder.last, np.concatenate([graph.values[name] for name in names], axis=1))
    last = list(graph.values)[-1]
    return graph.builder.follow(last).add("Identity").model().SerializeToString()


@pytest.mark.parametrize("seed", range(40))
def test_both_readers_see_the_same_layers_of_random_graphs(seed: int, tmp_path: Path) -> None:
    _agree(random_graph(seed), tmp_path)


# In 105 every sum of a layer cancels: float64 leaves open what such neurons are.
@pytest.mark.parametrize("seed", mostly_slow(range(100, 112), 4))
def test_certificates_of_random_graphs_are_accepted(seed: int, tmp_path: Path) -> None:
    model, path = tmp_path / "model.onnx", tmp_path / "proof.cert"
    model.write_bytes(random_graph(seed))
    options = {"engine": Bab(attack=False), "workers": 1, "relative_gap": 0.05, "certificate": path}
    result = verify(
        Problem(read_onnx(model), perturbation="linf(0.1)", source=0), **options, timeout=2
    )
    verdict = check(path, model=model)
    assert (verdict.lower, verdict.upper) == (result.lower, result.upper)


def _agree(data: bytes, folder: Path, seed: int = 0) -> None:
    """Sizes and linear units of every ReLU layer, and what enters each of its units."""
    path = folder / "model.onnx"
    path.write_bytes(data)
    theirs, ours = read_onnx(path), read_model(data)
    x = np.random.default_rng(seed).random((1, theirs.input_size))
    value, entering, masks = x, [], []
    for layer in theirs.layers:
        if isinstance(layer, Relu):
            entering.append(value[0])
            masks.append(layer.linear)
        value = layer.forward(value)
    assert len(masks) == len(ours.stages) - 1
    exact = Exact.of(x[0])
    for k, stage in enumerate(ours.stages):
        exact = exact.positive(ours.linear_units(k - 1)) if k else exact
        for step in stage:
            exact = step.exact_forward(exact)
        expected = value[0] if k == len(masks) else entering[k]
        found = [float(number) for number in exact.fractions()]
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-8)
        if k < len(masks):
            linear = ours.linear_units(k)
            assert (linear is None) == (masks[k] is None)
            assert linear is None or (linear == masks[k]).all()


@pytest.mark.parametrize("name", [name for name in MODELS if name not in WITHOUT_THE_LAST])
def test_scores_of_the_corpus_are_the_runtimes(name: str) -> None:
    entry = MODELS[name]
    for opset in {entry.opsets[0], entry.opsets[-1]}:
        data = entry.built(ModelBuilder, opset).model().SerializeToString()
        network = read_model(data)
        inputs = np.random.default_rng(opset).random((2, *network.input_shape)).astype(np.float32)
        for x, expected in zip(inputs, float32_scores(data, inputs), strict=True):
            scores = network.exact_scores(Exact.of(x.reshape(-1).astype(np.float64))).fractions()
            found = [float(score) for score in scores]
            room = 1e-5 * float(abs(expected).max())
            assert found == pytest.approx(expected, rel=1e-5, abs=room)
