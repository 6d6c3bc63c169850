"""Lengths of offers and angles between them, all from the products of each with each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workflow.types import Array

BLOCK = 65536  # values at a time: they stay in the processor's cache
NOTHING = 1e-12  # a sum of directions that is shorter, squared, has no direction


def products(vectors: Sequence[Array]) -> Array:
    """Scalar products (k, k) of k vectors (d,); in float64, where no float32 overflows."""
    gram = np.zeros((len(vectors), len(vectors)))
    for begin in range(0, len(vectors[0]) if vectors else 0, BLOCK):
        block = np.stack([v[begin : begin + BLOCK] for v in vectors]).astype(np.float64)
        gram += block @ block.T
    return gram


def lengths(gram: Array) -> Array:
    """Euclidean lengths (k,) of the vectors whose products are `gram`."""
    return np.asarray(np.sqrt(np.diag(gram)))


def cosines(gram: Array) -> Array:
    """Cosines (k, k) of the angles between them; 0 for a null vector."""
    size = np.outer(lengths(gram), lengths(gram))
    return np.asarray(np.divide(gram, size, out=np.zeros_like(gram), where=size > 0))


def agreement(gram: Array) -> Array:
    """Cosine (k,) of the angle between each vector and the sum of the others' directions.

    Directions have length 1: so a long lie weighs no more than an honest offer, and no offer is
    compared with itself, as it is in an update. 0 for a null vector, and where the others cancel.
    """
    cosine = cosines(gram)
    agreed = np.zeros(len(gram))
    for i in range(len(gram)):
        others = np.arange(len(gram)) != i
        squared = cosine[np.ix_(others, others)].sum()
        if squared > NOTHING:
            agreed[i] = cosine[i, others].sum() / np.sqrt(squared)
    return agreed
