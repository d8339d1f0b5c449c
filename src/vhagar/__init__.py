"""VHAGaR: an anytime verifier of neural networks' global robustness.

import vhagar

network = vhagar.read_onnx("model.onnx")
problem = vhagar.Problem(network, "occlusion(14,14,3)", source=2, targets=3)
result = vhagar.verify(problem, timeout=60)
print(result.lower, result.upper, result.status)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vhagar.errors import InvalidInput, InvalidNetwork, UnsupportedOperator, VhagarError
    from vhagar.interchange.torch_module import from_torch
    from vhagar.interchange.weights import load_weights
    from vhagar.network import Network, read_onnx, save_model, write_onnx
    from vhagar.options import Options
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
    from vhagar.pipeline import max_confidence, verify
    from vhagar.problem import Problem
    from vhagar.result import Interval, Progress, Result, Status, Witness

__version__ = "0.1.0"

# Where each public name lives. They are imported when first asked for, so that `import vhagar` and
# `vhagar --help` stay instant.
_HOMES = {
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
    "Options": "vhagar.options",
    "Patch": "vhagar.perturbation",
    "Problem": "vhagar.problem",
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
    "from_torch": "vhagar.interchange.torch_module",
    "load_weights": "vhagar.interchange.weights",
    "max_confidence": "vhagar.pipeline",
    "parse_perturbation": "vhagar.perturbation:parse",
    "read_onnx": "vhagar.network",
    "save_model": "vhagar.network",
    "verify": "vhagar.pipeline",
    "write_onnx": "vhagar.network",
}

__all__ = [  # noqa: RUF022 (what a newcomer needs comes first)
    "read_onnx",
    "Problem",
    "verify",
    "max_confidence",
    "AffineMap",
    "AffinePerturbation",
    "Brightness",
    "Contrast",
    "Interval",
    "InvalidInput",
    "InvalidNetwork",
    "Linf",
    "Network",
    "Occlusion",
    "Options",
    "Patch",
    "Progress",
    "Result",
    "Rotation",
    "Status",
    "Translation",
    "UnsupportedOperator",
    "UserPerturbation",
    "VhagarError",
    "Witness",
    "affine_map",
    "compose",
    "from_torch",
    "load_weights",
    "parse_perturbation",
    "save_model",
    "write_onnx",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'vhagar' has no attribute {name!r}")
    module, _, original = home.partition(":")
    return getattr(import_module(module), original or name)
