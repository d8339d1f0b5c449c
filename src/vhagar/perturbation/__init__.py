"""Perturbations: one file each, all with the same small set of abilities (see `base`)."""

from vhagar.perturbation.base import AbstractPiece, Domain, Perturbation, Support
from vhagar.perturbation.brightness import Brightness
from vhagar.perturbation.contrast import Contrast
from vhagar.perturbation.linf import Linf
from vhagar.perturbation.occlusion import Occlusion
from vhagar.perturbation.parse import PERTURBATIONS, parse
from vhagar.perturbation.patch import Patch
from vhagar.perturbation.rotation import Rotation
from vhagar.perturbation.translation import Translation

__all__ = [
    "PERTURBATIONS",
    "AbstractPiece",
    "Brightness",
    "Contrast",
    "Domain",
    "Linf",
    "Occlusion",
    "Patch",
    "Perturbation",
    "Rotation",
    "Support",
    "Translation",
    "parse",
]
