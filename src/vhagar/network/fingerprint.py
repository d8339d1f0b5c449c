"""The fingerprint of a network, which changes whenever a weight does.

It is computed from the layers, not from the file: a model that was merely exported again keeps it.
"""

from __future__ import annotations

import hashlib
from dataclasses import fields

import numpy as np
from scipy import sparse

from vhagar.network.network import Network


def fingerprint(network: Network) -> str:
    """Return the SHA-256 of the input shape, the layers and all their numbers, in hexadecimal."""
    digest = hashlib.sha256()
    digest.update(repr(tuple(int(size) for size in network.input_shape)).encode())
    for layer in network.layers:
        digest.update(type(layer).__name__.encode())
        for field in fields(layer):  # type: ignore[arg-type] # every layer is a dataclass
            digest.update(field.name.encode())
            _add(digest, getattr(layer, field.name))
    return digest.hexdigest()


def _add(digest: hashlib._Hash, value: object) -> None:
    if isinstance(value, np.ndarray):
        digest.update(repr((value.dtype.str, value.shape)).encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    elif sparse.issparse(value):
        matrix = sparse.csr_array(value)
        for part in (matrix.data, matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)):
            _add(digest, part)
    elif isinstance(value, tuple):  # numpy's integers are written unlike Python's
        digest.update(repr(tuple(int(item) for item in value)).encode())
    else:
        digest.update(repr(value).encode())
