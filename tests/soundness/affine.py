"""Random tiny problems about affine maps and compositions: as `tiny`, with numbers of their own."""

from __future__ import annotations

from pathlib import Path

from ..oracle.affine_cases import AffineCase
from .judge import Finding
from .tiny import Told, judged


def look(number: int, folder: Path, known: Told | None = None) -> Finding:
    """One problem: the truth, then what each engine and the certificate say of it."""
    case = AffineCase(number)
    what = {"kind": case.kind, "scale": f"{case.scale:g}", "flavour": case.flavour}
    return judged("affine", number, what, case.problem(), folder, known)
