"""The error with which every failed check ends."""


class Rejected(Exception):
    """A certificate was refused; the message says why."""
