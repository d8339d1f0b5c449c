"""An independent checker of VHAGaR's certificates.

It shares no code with the verifier, needs numpy alone, and trusts neither the verifier nor any
solver: a certificate is accepted only if its claims follow from the model file and the numbers in
the certificate by the argument of docs/certificate.md.
"""

from vhagar_check.check import Verdict, check
from vhagar_check.errors import Rejected

__all__ = ["Rejected", "Verdict", "check"]
