"""The version, where everything that records it can read it."""

__version__ = "1.0.0"
