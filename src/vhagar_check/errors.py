"""The one way a check fails."""


class Rejected(Exception):
    """A certificate was refused; the message says why."""
