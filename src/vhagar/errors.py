"""The errors a user can meet. Each message names what is wrong and what to do about it."""


class VhagarError(Exception):
    """Root of every error that vhagar raises on purpose."""


class InvalidInput(VhagarError):
    """A value the user gave is out of its limits or does not fit the network."""


class InvalidNetwork(VhagarError):
    """The model file is damaged, incomplete, or not a classifier that can be read."""


class UnsupportedOperator(InvalidNetwork):
    """The model uses an operator, or a use of one, that the reader does not translate."""

    def __init__(self, operator: str, node: str, reason: str, supported: tuple[str, ...]) -> None:
        self.operator = operator
        self.node = node
        self.supported = supported
        super().__init__(
            f"operator {operator} at node {node!r}: {reason}. "
            f"Supported operators: {', '.join(supported)}."
        )


class SolverFailure(VhagarError):
    """A solver refused a call. Never turned into a number: its bound is lost."""


class SolverUnavailable(VhagarError):
    """The chosen solver is not installed, or its licence does not allow the model."""
