"""The one way a check fails."""


class Rejected(Exception):
    """The certificate proves nothing; the message says why."""
