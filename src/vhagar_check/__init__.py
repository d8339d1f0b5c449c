"""An independent checker of VHAGaR's certificates.

It shares no code with the verifier, needs numpy alone, and trusts neither the verifier nor any
solver: a certificate is accepted only if its claims follow from the model file and the numbers in
the certificate by the argument of docs/certificate.md.
"""

from typing import TYPE_CHECKING, Any

from vhagar_check.errors import Rejected

if TYPE_CHECKING:
    from vhagar_check.verdict import Verdict, check

__all__ = ["Rejected", "Verdict", "check"]


def __getattr__(name: str) -> Any:
    """Import what needs numpy only when it is used."""
    if name in ("Verdict", "check"):
        from vhagar_check import verdict as room

        return getattr(room, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
