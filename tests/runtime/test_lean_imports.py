"""scipy's sparse matrices come without numpy's parts that load on demand, which still can."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
import sys
import numpy as np
before = sorted(np.__all__), sorted(dir(np))
from vhagar.runtime.lean_imports import import_sparse
import_sparse()
assert "scipy.sparse" in sys.modules
assert "numpy.f2py" not in sys.modules
assert (sorted(np.__all__), sorted(dir(np))) == before
from scipy import sparse
product = sparse.csr_array(np.eye(3)) @ np.arange(3.0)
np.testing.assert_array_equal(product, np.arange(3.0))
import scipy.linalg, scipy.optimize, scipy.sparse.csgraph, scipy.sparse.linalg
assert scipy.linalg.cholesky(np.eye(2)).shape == (2, 2)
import_sparse()
"""


@pytest.mark.subprocess
def test_nothing_is_missing_later() -> None:
    subprocess.run([sys.executable, "-c", _PROGRAM], check=True, timeout=120)


@pytest.mark.subprocess
def test_a_program_without_scipy_keeps_its_names() -> None:
    """Whatever fails, numpy's names are as they were."""
    program = """
import sys
import numpy as np
sys.modules["scipy"] = None
before = sorted(np.__all__), sorted(dir(np))
from vhagar.runtime.lean_imports import import_sparse
try:
    import_sparse()
except ImportError:
    assert (sorted(np.__all__), sorted(dir(np))) == before
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
