"""Bound and coverage while a network is trained, with and without the tools around it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import vhagar
from vhagar import InvalidInput, Network, Status
from vhagar.network import Affine, Relu
from vhagar.training import (
    RobustnessMonitor,
    lightning_callback,
    log_to_mlflow,
    log_to_wandb,
)

QUESTION: dict[str, Any] = {"perturbation": "linf(0.125)", "source": 0, "targets": 1}


def _trained(size: float) -> Network:
    """The network of the first fixtures, with a slope that grows from epoch to epoch."""
    return Network(
        (
            Affine(size * np.array([[1.0, -1.0]]), np.zeros(1), (1, 1, 2), (1,)),
            Relu((1,)),
            Affine(np.array([[1.0], [0.0]]), np.array([0.0, 0.25]), (1,), (2,)),
        ),
        (1, 1, 2),
    )


def test_a_plain_loop(tmp_path: Path) -> None:
    inputs = np.array([[1.0, 0.0], [0.75, 0.25], [0.0, 1.0]])
    np.savez(tmp_path / "data.npz", x=inputs.reshape(-1, 1, 1, 2))
    seen: list[tuple[Mapping[str, float], int]] = []
    monitor = RobustnessMonitor(
        **QUESTION,
        dataset=tmp_path / "data.npz",
        seconds=5.0,
        every=2,
        log=lambda metrics, step: seen.append((metrics, step)),
    )
    found = [monitor.check(_trained(1 + 0.01 * step), step) for step in range(4)]
    assert [each is not None for each in found] == [True, False, True, False]
    assert [step for _, step in seen] == [0, 2]
    metrics = seen[0][0]
    assert metrics["robustness/lower"] <= 0.25 <= metrics["robustness/upper"]
    assert metrics["robustness/coverage"] == 0.5  # of two inputs of the class, 0.75 is above
    assert 0 < metrics["robustness/upper_percent"] <= 100
    assert [check.step for check in monitor.history] == [0, 2]


def test_a_check_starts_from_the_last_witness(monkeypatch: pytest.MonkeyPatch) -> None:
    monitor = RobustnessMonitor(**QUESTION, seconds=5.0)
    first = monitor.check(_trained(1.0), 0)
    assert first is not None
    assert first.result.witness is not None
    from vhagar import training

    starts: list[Any] = []
    plain = training.run_engine
    monkeypatch.setattr(
        training, "run_engine", lambda *a, **k: starts.append(k["warm_start"]) or plain(*a, **k)
    )
    second = monitor.check(_trained(1.0), 1)
    (suggestion,) = starts[0].suggestions
    assert (suggestion.x == first.result.witness.x).all()
    assert second is not None
    assert second.result.status is Status.CLOSED
    assert second.result.lower >= first.result.lower


def test_an_old_witness_is_checked_against_the_new_weights() -> None:
    """What was attackable before is nothing to a network that cannot be attacked at all."""
    monitor = RobustnessMonitor(**QUESTION, seconds=5.0)
    monitor.check(_trained(1.0), 0)
    found = monitor.check(_trained(0.1), 1)
    assert found is not None
    assert found.result.lower == 0
    assert found.result.witness is None


def test_a_module_stays_in_training() -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(2, 2)).train()
    monitor = RobustnessMonitor(
        perturbation="linf(0.1)", source=0, input_shape=(1, 1, 2), seconds=5.0
    )
    assert monitor.check(module, 0) is not None
    assert module.training


@pytest.mark.parametrize(("field", "value"), [("every", 0), ("seconds", 0.0)])
def test_a_monitor_that_cannot_be(field: str, value: float) -> None:
    with pytest.raises(InvalidInput, match=field):
        RobustnessMonitor(**QUESTION, **{field: value})


@pytest.mark.parametrize("name", ["lightning.pytorch", "pytorch_lightning"])
def test_lightning(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The callback asks for nothing but what Lightning's documents state."""
    fake = ModuleType(name)
    fake.Callback = type("Callback", (), {})  # type: ignore[attr-defined]
    for other in ("lightning", "lightning.pytorch", "pytorch_lightning"):
        monkeypatch.setitem(sys.modules, other, None)
    if "." in name:
        monkeypatch.setitem(sys.modules, "lightning", ModuleType("lightning"))
    monkeypatch.setitem(sys.modules, name, fake)
    callback = lightning_callback(RobustnessMonitor(**QUESTION, seconds=5.0, every=2))
    assert isinstance(callback, fake.Callback)  # type: ignore[attr-defined]
    logged: list[Mapping[str, float]] = []

    class Trained(Network):
        def log_dict(self, metrics: Mapping[str, float]) -> None:
            logged.append(metrics)

    plain = _trained(1.0)
    module = Trained(plain.layers, plain.input_shape)
    for epoch, sanity in ((0, True), (0, False), (1, False)):
        trainer = SimpleNamespace(current_epoch=epoch, sanity_checking=sanity)
        callback.on_validation_epoch_end(trainer, module)
    assert len(logged) == 1
    assert logged[0]["robustness/upper"] >= 0.25


def test_mlflow_and_wandb_get_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = []
    mlflow, wandb = ModuleType("mlflow"), ModuleType("wandb")
    mlflow.log_metrics = lambda metrics, step: said.append((metrics, step))  # type: ignore[attr-defined]
    wandb.log = said.append  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    log_to_mlflow()({"a": 1.0}, 3)
    log_to_wandb()({"a": 1.0}, 3)
    assert said == [({"a": 1.0}, 3), {"a": 1.0, "epoch": 3}]


@pytest.mark.parametrize("name", ["mlflow", "wandb", "lightning"])
def test_what_is_not_installed_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("mlflow", "wandb", "lightning", "lightning.pytorch", "pytorch_lightning"):
        monkeypatch.setitem(sys.modules, module, None)
    start = {
        "mlflow": log_to_mlflow,
        "wandb": log_to_wandb,
        "lightning": lambda: lightning_callback(RobustnessMonitor(**QUESTION)),
    }
    with pytest.raises(InvalidInput, match=f"pip install {name}"):
        start[name]()


def test_nothing_of_it_is_imported_by_itself() -> None:
    assert vhagar.__name__ == "vhagar"
    assert not {"mlflow", "wandb", "lightning"} & set(sys.modules)
