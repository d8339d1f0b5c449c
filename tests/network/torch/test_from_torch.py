"""PyTorch modules as networks, and weights for them from files."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn

import vhagar
from vhagar import InvalidInput, InvalidNetwork, UnsupportedOperator, from_torch
from vhagar.network.torch import conversion
from vhagar.network.torch.aten_values import AtenValue
from vhagar.search.branch_and_bound import Bab
from vhagar_check import check

from .modules import CHAINS, GRAPHS, SHAPE, made, perceptron


def scores(module: nn.Module, x: np.ndarray) -> np.ndarray:
    """What the module says, before a softmax."""
    layers = list(module.children())
    if layers and isinstance(layers[-1], nn.Softmax | nn.LogSoftmax | nn.Sigmoid | nn.Tanh):
        module = nn.Sequential(*layers[:-1])
    kind = next(module.parameters()).dtype
    with torch.no_grad():
        return module.eval()(torch.tensor(x, dtype=kind)).double().numpy()


@pytest.mark.parametrize("kind", [*CHAINS, *GRAPHS])
def test_the_network_says_what_the_module_says(kind: str) -> None:
    module = made({**CHAINS, **GRAPHS}[kind])
    network = from_torch(module, input_shape=SHAPE, name=kind)
    x = np.random.default_rng(5).normal(size=(20, *SHAPE)).astype(np.float32)
    theirs = scores(module, x)
    np.testing.assert_allclose(network.forward(x), theirs, rtol=1e-5, atol=1e-5)
    assert network.name == kind
    session = onnxruntime.InferenceSession(network.model, providers=["CPUExecutionProvider"])
    source = session.get_inputs()[0]
    image = x[:1].astype(np.float64 if "double" in source.type else np.float32)
    (found,) = session.run(None, {source.name: image})
    np.testing.assert_allclose(found, theirs[:1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("last", [nn.Identity(), nn.Sigmoid(), nn.Tanh()])
def test_one_score_becomes_two(last: nn.Module, tmp_path: Path) -> None:
    module = made(
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(128, 4), nn.ReLU(), nn.Linear(4, 1))
    )
    network = from_torch(nn.Sequential(*module, last), input_shape=SHAPE)
    x = np.random.default_rng(5).normal(size=(20, *SHAPE)).astype(np.float32)
    one = scores(module, x)[:, 0]
    np.testing.assert_allclose(network.forward(x), np.stack([0 * one, one], 1), atol=1e-5)
    # The saved model is one of two scores, and says so without help.
    vhagar.save_model(network, tmp_path / "module.onnx")
    again = vhagar.read_onnx(tmp_path / "module.onnx")
    assert again.scores is None
    np.testing.assert_allclose(again.forward(x), network.forward(x), atol=1e-12)


def test_the_mode_of_every_part_stays_as_it_was() -> None:
    module = perceptron(nn.ReLU(), nn.Dropout(0.9)).train()
    module[3].eval()
    before = [part.training for part in module.modules()]
    from_torch(module, input_shape=SHAPE)
    assert [part.training for part in module.modules()] == before


def test_from_module_to_checked_certificate(tmp_path: Path) -> None:
    module = made(CHAINS["perceptron"])
    network = from_torch(module, input_shape=(128,), image_shape=SHAPE, mean=(0.2, 0.4), std=0.5)
    assert network.input_shape == SHAPE
    network = vhagar.save_model(network, tmp_path / "module.onnx")
    proof = tmp_path / "proof.cert"
    options = {"engine": Bab(attack=False), "workers": 1, "certificate": proof}
    problem = vhagar.Problem(network, perturbation="occlusion(2,2,5)", source=0)
    result = vhagar.verify(problem, **options, timeout=20)
    assert result.lower > 0
    verdict = check(proof, model=tmp_path / "module.onnx")
    assert (verdict.lower, verdict.upper) == (result.lower, result.upper)
    again = vhagar.read_onnx(tmp_path / "module.onnx", image_shape=SHAPE, mean=(0.2, 0.4), std=0.5)
    np.testing.assert_array_equal(again.forward(result.witness.x), result.witness.scores[None])


class Strange(nn.Module):
    def __init__(self, body: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.body, self.last = body, nn.Linear(128, 3)

    def forward(self, x: torch.Tensor) -> Any:
        return self.body(self.last(x.flatten(1)))


def test_all_unsupported_operators_are_named_at_once() -> None:
    module = Strange(lambda y: torch.erf(y) + torch.special.i0(y).cumsum(1))
    with pytest.raises(UnsupportedOperator) as caught:
        from_torch(module, input_shape=SHAPE)
    assert [one.operator for one in caught.value.refusals] == ["erf", "special_i0", "cumsum"]
    assert "conv2d" in caught.value.supported


@pytest.mark.parametrize(
    ("layer", "operator", "reason"),
    [
        (nn.Hardswish(), "hardswish", "only piecewise-linear"),
        (nn.GELU(), "gelu", "is smooth"),
        (nn.Softplus(), "softplus", "is smooth"),
        (nn.Hardshrink(), "hardshrink", "jumps"),
        (nn.SiLU(), "silu", "is smooth"),
        (nn.LayerNorm(6), "layer_norm", "deviation of the data"),
        (nn.GroupNorm(2, 6), "group_norm", "deviation of the data"),
    ],
)
def test_what_is_never_piecewise_linear_is_refused_with_its_reason(
    layer: nn.Module, operator: str, reason: str
) -> None:
    with pytest.raises(UnsupportedOperator, match=reason) as caught:
        from_torch(perceptron(layer), input_shape=SHAPE)
    assert caught.value.operator == operator


def test_an_exported_program_is_converted() -> None:
    module = made(GRAPHS["residual"]).eval()
    program = torch.export.export(module, (torch.zeros(1, *SHAPE),))
    network = from_torch(program)
    x = np.random.default_rng(5).normal(size=(20, *SHAPE)).astype(np.float32)
    np.testing.assert_allclose(network.forward(x), scores(module, x), rtol=1e-5, atol=1e-5)
    assert network.name == "program"
    with pytest.raises(InvalidInput, match="not \\(3,\\)"):
        from_torch(program, input_shape=(3,))
    batch = torch.export.export(module, (torch.zeros(2, *SHAPE),))
    with pytest.raises(InvalidInput, match=r"shape 2 x .* batch of 1"):
        from_torch(batch)


def test_a_program_for_any_batch_is_converted() -> None:
    module = made(GRAPHS["residual"]).eval()
    program = torch.export.export(
        module,
        (torch.zeros(3, *SHAPE),),
        dynamic_shapes=({0: torch.export.Dim("batch")},),
    )
    x = np.random.default_rng(5).normal(size=(20, *SHAPE)).astype(np.float32)
    ours = from_torch(program).forward(x)
    np.testing.assert_allclose(ours, scores(module, x), rtol=1e-5, atol=1e-5)


def test_a_program_in_training_mode_is_refused() -> None:
    module = perceptron(nn.ReLU(), nn.Dropout(0.5)).train()
    program = torch.export.export(module, (torch.zeros(1, *SHAPE),))
    with pytest.raises(InvalidNetwork, match="training mode"):
        from_torch(program)


def changed_under_a_view(y: torch.Tensor) -> torch.Tensor:
    """The view sees the change in place, which the exported graph does not say."""
    view = y[:, :2]
    y.relu_()
    return torch.cat([view, y[:, 2:]], 1)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda y: torch.softmax(y, 1) + 1, "last operator"),
        (lambda y: torch.softmax(y, 0), "last operator"),
        (lambda y: torch.sigmoid(y) + y, "only piecewise-linear"),
        (lambda y: (y, y), "2 results"),
        (lambda y: y[:, :, None], r"shape \(1, 3, 1\)"),
        (lambda y: torch.ones(1, 3), "does not depend"),
        (lambda y: y @ y.T @ y, "both depend"),
        (lambda y: y if y.sum() > 0 else -y, "torch.export cannot trace"),
        (lambda y: y.add(y, alpha=2).expand(3, 3), "repeats"),
        (changed_under_a_view, "differs from the module"),
    ],
)
def test_what_is_no_classifier_is_refused(body: Any, message: str) -> None:
    with pytest.raises(InvalidNetwork, match=message):
        from_torch(Strange(body), input_shape=SHAPE)


def test_what_is_no_module_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"torch\.nn\.Module"):
        from_torch(lambda x: x, input_shape=SHAPE)
    with pytest.raises(InvalidInput, match="shape of one input"):
        from_torch(perceptron(nn.ReLU()))
    with pytest.raises(InvalidInput, match="precision"):
        from_torch(perceptron(nn.ReLU()).half(), input_shape=SHAPE)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_torchscript_is_refused_by_name() -> None:
    traced = torch.jit.trace(perceptron(nn.ReLU()), torch.zeros(1, *SHAPE))
    for shape in (SHAPE, None):
        with pytest.raises(InvalidInput, match="that this TorchScript was made from"):
            from_torch(traced, input_shape=shape)


def test_a_wrong_conversion_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(graph: Any, given: Any, shape: Any) -> AtenValue:
        return AtenValue(graph.add("Identity", given["self"].name), shape)

    monkeypatch.setitem(conversion.CONVERTERS, "relu", wrong)
    with pytest.raises(InvalidNetwork, match="differs from the module"):
        from_torch(made(CHAINS["perceptron"]), input_shape=SHAPE)


def test_weights_come_from_a_state_dict(tmp_path: Path) -> None:
    trained = made(CHAINS["convolution"], seed=3)
    torch.save(trained.state_dict(), tmp_path / "weights.pt")
    fresh = vhagar.load_weights(made(CHAINS["convolution"]), tmp_path / "weights.pt")
    x = np.random.default_rng(0).random((4, *SHAPE)).astype(np.float32)
    np.testing.assert_array_equal(scores(fresh, x), scores(trained, x))


def test_weights_come_from_safetensors(tmp_path: Path) -> None:
    pytest.importorskip("safetensors", reason="safetensors is an extra")
    from safetensors.torch import save_file

    trained = made(CHAINS["perceptron"], seed=3)
    save_file(trained.state_dict(), tmp_path / "weights.safetensors")
    fresh = vhagar.load_weights(made(CHAINS["perceptron"]), tmp_path / "weights.safetensors")
    x = np.random.default_rng(0).random((4, *SHAPE)).astype(np.float32)
    np.testing.assert_array_equal(scores(fresh, x), scores(trained, x))
    (tmp_path / "bad.safetensors").write_bytes(b"\xff" * 40)
    with pytest.raises(InvalidInput, match="not a readable"):
        vhagar.load_weights(fresh, tmp_path / "bad.safetensors")


def test_without_safetensors_the_way_to_get_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    (tmp_path / "weights.safetensors").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(vhagar.VhagarError, match=r"pip install .vhagar\[safetensors\]"):
        vhagar.load_weights(perceptron(nn.ReLU()), tmp_path / "weights.safetensors")


class Bomb:
    """Unpickling it leaves a trace."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return Path.touch, (self.trace,)


def test_pickles_are_never_executed(tmp_path: Path) -> None:
    module, trace = perceptron(nn.ReLU()), tmp_path / "trace"
    torch.save({"0.weight": Bomb(trace)}, tmp_path / "bomb.pt")
    (tmp_path / "bomb.pkl").write_bytes(pickle.dumps(Bomb(trace)))
    torch.save(module, tmp_path / "whole.pt")
    for name in ("bomb.pt", "bomb.pkl", "whole.pt"):
        with pytest.raises(InvalidInput, match="never loaded"):
            vhagar.load_weights(module, tmp_path / name)
    assert not trace.exists()


def test_weights_that_do_not_fit_are_named(tmp_path: Path) -> None:
    path = tmp_path / "weights.pt"
    torch.save(made(CHAINS["convolution"]).state_dict(), path)
    module = perceptron(nn.ReLU())
    with pytest.raises(InvalidInput, match="do not fit the module"):
        vhagar.load_weights(module, path)
    torch.save([torch.ones(2)], path)
    with pytest.raises(InvalidInput, match="not a state_dict"):
        vhagar.load_weights(module, path)
    torch.save({"1.weight": 3}, path)
    with pytest.raises(InvalidInput, match="other than named tensors"):
        vhagar.load_weights(module, path)
    with pytest.raises(InvalidInput, match="no weights file"):
        vhagar.load_weights(module, tmp_path / "nothing.pt")
    with pytest.raises(InvalidInput, match="to go into"):
        vhagar.load_weights(None, path)
