"""Digests that prove that two sets of arrays are equal bit for bit."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from workflow.types import Array

DIGEST_BYTES = 16


def digest_of(arrays: Mapping[str, Array], *, label: str = "") -> str:
    """blake2b over a label and the name, dtype, shape and bytes of each array, sorted by name."""
    hashed = hashlib.blake2b(label.encode(), digest_size=DIGEST_BYTES)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name]).reshape(np.shape(arrays[name]))
        hashed.update(f"\0{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        hashed.update(array.reshape(-1).view(np.uint8).data)
    return hashed.hexdigest()
