"""Lengths of offers and angles between them, in float64, so that no finite offer overflows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from workflow.types import Array

BLOCK = 65536  # values at a time: they stay in the processor's cache


def norm_of(values: Array) -> float:
    """Euclidean length of a vector (d,)."""
    return float(np.sqrt(sum(float(part @ part) for (part,) in _blocks(values))))


def cosines_to(update: Array, offers: Mapping[str, Array]) -> dict[str, float]:
    """Cosine of the angle between each offer (d,) and the update (d,); 0 for a null vector."""
    length = norm_of(update)
    cosines = {}
    for name, values in offers.items():
        dot = sum(float(a @ b) for a, b in _blocks(values, update))
        lengths = length * norm_of(values)
        cosines[name] = dot / lengths if lengths > 0 else 0.0
    return cosines


def agreement(offers: Mapping[str, Array]) -> dict[str, float]:
    """Cosine of the angle between each offer and the sum of the others' directions.

    Directions are offers of length 1: so a long lie weighs no more than an honest offer, and no
    offer is compared with itself, as it would be in the update. 0 for a null vector.
    """
    names = list(offers)
    scale = [1.0 / length if (length := norm_of(offers[name])) > 0 else 0.0 for name in names]
    to_sum = np.zeros(len(names))  # of each direction: its product with the sum of all
    sum_squared = 0.0
    for parts in _blocks(*offers.values()):
        directions = [s * part for s, part in zip(scale, parts, strict=True)]
        total = np.sum(directions, axis=0)
        sum_squared += float(total @ total)
        to_sum += [float(direction @ total) for direction in directions]
    agreed = {}
    for name, dot, s in zip(names, to_sum, scale, strict=True):
        own = 1.0 if s > 0 else 0.0
        others_squared = sum_squared - 2 * dot + own
        alone = others_squared < 1e-12  # the others cancel, or there are none
        agreed[name] = 0.0 if alone else float((dot - own) / np.sqrt(others_squared))
    return agreed


def _blocks(*vectors: Array) -> Iterator[list[Array]]:
    for begin in range(0, len(vectors[0]) if vectors else 0, BLOCK):
        yield [v[begin : begin + BLOCK].astype(np.float64) for v in vectors]
