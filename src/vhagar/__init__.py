"""VHAGaR: an anytime verifier of neural networks' global robustness.

import vhagar

network = vhagar.read_onnx("model.onnx")
problem = vhagar.Problem(network, perturbation="occlusion(14,14,3)", source=2, targets=3)
result = vhagar.verify(problem, timeout=60)
print(result.lower, result.upper, result.status)
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from vhagar.version import __version__ as __version__

if TYPE_CHECKING:
    from vhagar.attack.engine import Attack
    from vhagar.errors import InvalidInput, InvalidNetwork, UnsupportedOperator, VhagarError
    from vhagar.network import Network, read_onnx, save_model, write_onnx
    from vhagar.network.torch.module import from_torch
    from vhagar.network.torch.weights import load_weights
    from vhagar.perturbation import (
        AffineMap,
        AffinePerturbation,
        Brightness,
        Contrast,
        Linf,
        Occlusion,
        Patch,
        Rotation,
        Translation,
        UserPerturbation,
        affine_map,
        compose,
    )
    from vhagar.perturbation import parse as parse_perturbation
    from vhagar.problem import Problem
    from vhagar.result import Interval, Progress, Result, Status, Witness
    from vhagar.search.bounders.first_order import FirstOrder
    from vhagar.search.branch_and_bound import Bab
    from vhagar.search.mip.engine import Mip
    from vhagar.verify import max_confidence, verify

# The public names and where they live; those that a newcomer needs come first. They are imported
# when first asked for, so that `import vhagar` and `vhagar --help` stay instant.
_HOMES = {
    "read_onnx": "vhagar.network",
    "Problem": "vhagar.problem",
    "verify": "vhagar.verify",
    "max_confidence": "vhagar.verify",
    "Bab": "vhagar.search.branch_and_bound",
    "Mip": "vhagar.search.mip.engine",
    "FirstOrder": "vhagar.search.bounders.first_order",
    "Attack": "vhagar.attack.engine",
    "AffineMap": "vhagar.perturbation",
    "AffinePerturbation": "vhagar.perturbation",
    "Brightness": "vhagar.perturbation",
    "Contrast": "vhagar.perturbation",
    "Interval": "vhagar.result",
    "InvalidInput": "vhagar.errors",
    "InvalidNetwork": "vhagar.errors",
    "Linf": "vhagar.perturbation",
    "Network": "vhagar.network",
    "Occlusion": "vhagar.perturbation",
    "Patch": "vhagar.perturbation",
    "Progress": "vhagar.result",
    "Result": "vhagar.result",
    "Rotation": "vhagar.perturbation",
    "Status": "vhagar.result",
    "Translation": "vhagar.perturbation",
    "UnsupportedOperator": "vhagar.errors",
    "UserPerturbation": "vhagar.perturbation",
    "VhagarError": "vhagar.errors",
    "Witness": "vhagar.result",
    "affine_map": "vhagar.perturbation",
    "compose": "vhagar.perturbation",
    "from_torch": "vhagar.network.torch.module",
    "load_weights": "vhagar.network.torch.weights",
    "parse_perturbation": "vhagar.perturbation:parse",
    "save_model": "vhagar.network",
    "write_onnx": "vhagar.network",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'vhagar' has no attribute {name!r}")
    module, _, original = home.partition(":")
    return getattr(import_module(module), original or name)


def __dir__() -> list[str]:
    return [*_HOMES, "__version__"]


class _Package(ModuleType):
    """Keeps public functions apart from modules of the same name, such as `vhagar.verify`.

    Importing a module makes it an attribute of its package, where it would hide the function.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
