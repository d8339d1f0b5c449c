"""Imports scipy's sparse matrices without what scipy drags in and nobody here uses.

scipy asks for all names of numpy, and so also for those that numpy loads only when asked: a
generator of Fortran wrappers, test tools and more, which take longer than the rest of scipy.
"""

from __future__ import annotations

import sys


def import_sparse() -> None:
    """Import `scipy.sparse`; numpy's parts that load on demand stay unloaded.

    For processes of this program only: while the import lasts, other threads that ask for all names
    of numpy would miss those parts, too.
    """
    if "scipy.sparse" in sys.modules:
        return
    import numpy as np

    known = vars(np)
    loaded = [name for name in known if not name.startswith("_")]
    every, names = known["__all__"], known.get("__dir__")
    known["__all__"], known["__dir__"] = [name for name in every if name in known], lambda: loaded
    try:
        import scipy.sparse  # noqa: F401
    finally:
        known["__all__"], known["__dir__"] = every, names
        if names is None:
            del known["__dir__"]
