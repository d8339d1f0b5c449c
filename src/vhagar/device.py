"""Where batches are computed: on the CPU, or on a GPU where there is one."""

from __future__ import annotations

import importlib
from typing import Any

from vhagar.errors import InvalidInput, VhagarError

# torch is imported late, as it takes a second, and carries no types here: tensors are `Any`.
Tensor = Any


def require_torch() -> Any:
    """The torch module, or an error that says how to get it."""
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise VhagarError(
            "the attack needs PyTorch, which is not installed; "
            "get it with: pip install 'torch>=2.5,<2.14'"
        ) from error


def has_cuda() -> bool:
    """Whether there is a GPU that torch can use."""
    return bool(require_torch().cuda.is_available())


def check_device(name: str) -> None:
    """Complain about a GPU that is asked for and not there."""
    if name == "cuda" and not has_cuda():
        raise InvalidInput(
            "the device cuda was asked for, but PyTorch finds no CUDA GPU here; "
            "use --device cpu, or auto to take a GPU where there is one"
        )


def torch_device(name: str) -> Any:
    """The device of that name; `auto` is a GPU where there is one."""
    check_device(name)
    if name == "auto":
        name = "cuda" if has_cuda() else "cpu"
    return require_torch().device(name)
