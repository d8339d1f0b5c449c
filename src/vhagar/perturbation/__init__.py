"""Perturbations: one file each, all with the same small interface (see `base`)."""

from vhagar.perturbation.base import Perturbation
from vhagar.perturbation.brightness import Brightness
from vhagar.perturbation.composition import Composition, compose
from vhagar.perturbation.contrast import Contrast
from vhagar.perturbation.domain import Domain
from vhagar.perturbation.domain.linear_rows import LinearRows, linear_rows
from vhagar.perturbation.domain.zonotope import Zonotope
from vhagar.perturbation.features import Features
from vhagar.perturbation.linf import Linf
from vhagar.perturbation.maps import AffineMap, affine_map
from vhagar.perturbation.occlusion import Occlusion
from vhagar.perturbation.parse import PERTURBATIONS, parse
from vhagar.perturbation.parse import parse as parse_perturbation
from vhagar.perturbation.patch import Patch
from vhagar.perturbation.piece import AbstractPiece
from vhagar.perturbation.rotation import Rotation
from vhagar.perturbation.support import Support
from vhagar.perturbation.translation import Translation
from vhagar.perturbation.user import AffinePerturbation, UserPerturbation

__all__ = [
    "PERTURBATIONS",
    "AbstractPiece",
    "AffineMap",
    "AffinePerturbation",
    "Brightness",
    "Composition",
    "Contrast",
    "Domain",
    "Features",
    "LinearRows",
    "Linf",
    "Occlusion",
    "Patch",
    "Perturbation",
    "Rotation",
    "Support",
    "Translation",
    "UserPerturbation",
    "Zonotope",
    "affine_map",
    "compose",
    "linear_rows",
    "parse",
    "parse_perturbation",
]
