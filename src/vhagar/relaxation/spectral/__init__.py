"""Bounds on the difference of the copies by spectral norms, for networks of any width."""

from vhagar.relaxation.spectral.bound import SpectralBounder, SpectralProof

__all__ = ["SpectralBounder", "SpectralProof"]
