"""Weights for a module from a file. Nothing in a file is ever executed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from vhagar.errors import InvalidInput, VhagarError
from vhagar.runtime.devices import require_torch

Module = TypeVar("Module")


def load_weights(module: Module, path: str | Path) -> Module:
    """Fill a `torch.nn.Module` with the weights of a .safetensors or `state_dict` file.

    The module says what the weights mean. Files that hold anything other than named tensors are
    refused, because loading them would run code. Returns the module.
    """
    path = Path(path)
    torch: Any = require_torch()
    if not isinstance(module, torch.nn.Module):
        raise InvalidInput(f"weights need a torch.nn.Module to go into, not {module!r}")
    if not path.is_file():
        raise InvalidInput(f"no weights file at {path}; check the path")
    tensors = _safetensors(path) if path.suffix == ".safetensors" else _state_dict(path, torch)
    names = {name for name in tensors if not isinstance(name, str)}
    if names or not all(torch.is_tensor(value) for value in tensors.values()):
        raise InvalidInput(f"{path} holds something other than named tensors; save a state_dict")
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        raise InvalidInput(f"the weights in {path} do not fit the module: {error}") from error
    return module


def _safetensors(path: Path) -> Mapping[str, Any]:
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ImportError:
        raise VhagarError(
            "reading .safetensors needs a package that is not installed: "
            'pip install "vhagar[safetensors]"'
        ) from None
    try:
        tensors: Mapping[str, Any] = load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise InvalidInput(f"{path} is not a readable .safetensors file: {error}") from error
    return tensors


def _state_dict(path: Path, torch: Any) -> Mapping[str, Any]:
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # from pickle, zipfile or torch
        raise InvalidInput(
            f"{path} is damaged, or holds more than weights, such as a whole module, which is "
            "never loaded because that can run code: save module.state_dict() instead, or export "
            "the model to ONNX"
        ) from error
    if not isinstance(found, Mapping):
        raise InvalidInput(f"{path} holds a {type(found).__name__}, not a state_dict")
    return found
