"""Imports scipy's sparse matrices without the parts of numpy that nobody here uses.

scipy's compatibility layer copies all names of numpy (`__all__` and `dir`), and so loads also those
that numpy imports on demand: a generator of Fortran wrappers, test tools and more, which take
longer than the rest of scipy. While it is imported, numpy lists only what is loaded already.
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
    exported, listing = known["__all__"], known.get("__dir__")
    known["__all__"] = [name for name in exported if name in known]
    known["__dir__"] = lambda: loaded
    try:
        import scipy.sparse  # noqa: F401
    finally:
        known["__all__"], known["__dir__"] = exported, listing
        if listing is None:
            del known["__dir__"]
