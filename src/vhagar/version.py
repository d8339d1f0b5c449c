"""The version, where everything that records it can read it."""

__version__ = "0.1.0"
