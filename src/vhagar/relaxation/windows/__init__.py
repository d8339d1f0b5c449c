"""Bounds on the difference of the copies, window by window, where neurons see a few pixels each."""

from vhagar.relaxation.windows.bound import WindowBounder, WindowProof

__all__ = ["WindowBounder", "WindowProof"]
