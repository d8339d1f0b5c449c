"""The error with which every failed check ends."""


class Rejected(Exception):
    """A certificate was refused; the message says why.

    It may quote what a stranger wrote, so characters that a terminal would obey are escaped.
    """

    def __init__(self, message: str) -> None:
        super().__init__("".join(c if c.isprintable() else ascii(c)[1:-1] for c in message))


class Unproved(Rejected):
    """A claim does not follow from its proofs; `uppers` holds what does, for each target."""

    def __init__(self, message: str, uppers: dict[int | None, float]) -> None:
        super().__init__(message)
        self.uppers = uppers
