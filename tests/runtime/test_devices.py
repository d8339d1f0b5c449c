"""Where batches are computed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from vhagar.attack.options import AttackOptions
from vhagar.errors import InvalidInput, VhagarError
from vhagar.options import Options
from vhagar.runtime.devices import check_device, cuda_is_likely, require_torch, torch_device


def test_missing_torch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(VhagarError, match="pip install 'torch"):
        require_torch()


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
