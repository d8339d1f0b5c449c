"""Where batches are computed."""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest
import torch

from vhagar.attack.options import AttackOptions
from vhagar.errors import InvalidInput, VhagarError
from vhagar.options import Options
from vhagar.runtime.deadline import NEVER, Deadline
from vhagar.runtime.devices import (
    check_device,
    cuda_is_likely,
    memory_errors,
    require_torch,
    torch_comes_in_time,
    torch_device,
    torch_is_imported,
)


def test_missing_torch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(VhagarError, match="pip install 'torch"):
        require_torch()


def test_an_import_that_goes_on_is_not_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may have begun it: its module is there, and whoever needs it waits."""
    assert torch_is_imported()
    assert memory_errors() == (MemoryError, torch.OutOfMemoryError)
    half = ModuleType("torch")
    half.__spec__ = ModuleSpec("torch", None)
    monkeypatch.setitem(sys.modules, "torch", half)
    assert torch_is_imported()
    monkeypatch.setattr(half.__spec__, "_initializing", True, raising=False)
    assert not torch_is_imported()
    assert not torch_comes_in_time(Deadline.after(0.5), 1.0)
    assert memory_errors() == (MemoryError,)
    monkeypatch.delitem(sys.modules, "torch")
    assert not torch_is_imported()


def test_the_import_system_marks_what_it_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`torch_is_imported` relies on it."""
    (tmp_path / "marked.py").write_text("during = __spec__._initializing")
    monkeypatch.syspath_prepend(tmp_path)
    marked = importlib.import_module("marked")
    assert marked.during
    assert not marked.__spec__._initializing


def test_a_busy_machine_takes_longer_to_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch")
    assert torch_comes_in_time(Deadline.after(10.0), 1.0)
    assert not torch_comes_in_time(Deadline.after(10.0), 0.1)
    assert torch_comes_in_time(NEVER, 0.1)


@pytest.mark.parametrize("options", [Options, AttackOptions])
def test_unknown_devices_are_refused(options: type[Options | AttackOptions]) -> None:
    with pytest.raises(InvalidInput, match="unknown device 'abacus'; choose one of: auto"):
        options(device="abacus")


@pytest.mark.parametrize(
    ("there", "name", "chosen"),
    [
        (False, "auto", "cpu"),
        (False, "cpu", "cpu"),
        (True, "auto", "cuda"),
        (True, "cpu", "cpu"),
        (True, "cuda", "cuda"),
    ],
)
def test_a_gpu_is_taken_where_there_is_one(
    there: bool, name: str, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    check_device(name)
    assert torch_device(name).type == chosen


def test_a_gpu_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for complain in (check_device, torch_device):
        with pytest.raises(InvalidInput, match="no CUDA GPU; use --device cpu, or auto"):
            complain("cuda")


@pytest.mark.parametrize(("hidden", "expected"), [("", False), ("-1", False), ("0", True)])
def test_hidden_gpus_are_not_there(
    monkeypatch: pytest.MonkeyPatch, hidden: str, expected: bool
) -> None:
    """A process for them would only take time from the others."""
    monkeypatch.setattr(Path, "exists", lambda self: True)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    assert cuda_is_likely() is expected
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert cuda_is_likely()
