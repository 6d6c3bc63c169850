"""Rules that turn offers (k, d) into one update (d,): pure, deterministic, float32 in and out.

They work through the offers in blocks of columns that stay in the processor's cache. A NaN in an
offer is a NaN in the update, never hidden; the reducer sets such offers aside before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from workflow.errors import ConfigError, DataError
from workflow.types import Array

BLOCK = 8192  # columns


@dataclass(frozen=True)
class Mean:
    """The mean over offers, summed in their order in float64. One liar can make it anything."""

    def __call__(self, offers: Array) -> Array:
        _check(offers, more_than=0, rule=self)
        return _mean_of_rows(offers)


@dataclass(frozen=True)
class Median:
    """The median of each coordinate (of an even number of offers the mean of the middle two)."""

    def __call__(self, offers: Array) -> Array:
        _check(offers, more_than=0, rule=self)
        k = len(offers)
        return _mean_of_sorted(offers, first=(k - 1) // 2, last=k // 2)


@dataclass(frozen=True, kw_only=True)
class TrimmedMean:
    """The mean of each coordinate without its `trim` lowest and `trim` highest offers.

    (Yin et al. 2018, arXiv 1803.01498.) Needs more than 2 x trim offers, DataError otherwise.
    """

    trim: int

    def __post_init__(self) -> None:
        if self.trim < 0:
            raise ConfigError(f"TrimmedMean: wanted trim of 0 or more, got {self.trim}.")

    def __call__(self, offers: Array) -> Array:
        _check(offers, more_than=2 * self.trim, rule=self)
        return _mean_of_sorted(offers, first=self.trim, last=len(offers) - 1 - self.trim)


def comparators(k: int) -> list[tuple[int, int]]:
    """Batcher's odd-even merge sort as pairs (i, j), i < j: each puts the smaller value at i.

    Knuth, The Art of Computer Programming 3, algorithm 5.2.2M; sorts any k rows.
    """
    pairs = []
    top = 1 << max(0, math.ceil(math.log2(max(k, 1))) - 1)
    p = top
    while p > 0:
        q, r, d = top, 0, p
        while d > 0:
            pairs += [(i, i + d) for i in range(k - d) if i & p == r]
            d, q, r = q - p, q // 2, p
        p //= 2
    return pairs


def _mean_of_sorted(offers: Array, *, first: int, last: int) -> Array:
    """Mean of the sorted rows first..last of each column, columns sorted by a network of minima."""
    pairs = comparators(len(offers))
    update = np.empty(offers.shape[1], dtype=np.float32)
    low = np.empty(BLOCK, dtype=offers.dtype)
    for begin in range(0, offers.shape[1], BLOCK):
        block = np.array(offers[:, begin : begin + BLOCK])
        smaller = low[: block.shape[1]]
        for i, j in pairs:
            np.minimum(block[i], block[j], out=smaller)
            np.maximum(block[i], block[j], out=block[j])
            block[i] = smaller
        update[begin : begin + BLOCK] = _mean_of_rows(block[first : last + 1])
    return update


def _mean_of_rows(rows: Array) -> Array:
    """Mean over rows, added from the first to the last in float64."""
    update = np.empty(rows.shape[1], dtype=np.float32)
    for begin in range(0, rows.shape[1], BLOCK):
        total = rows[0, begin : begin + BLOCK].astype(np.float64)
        for row in rows[1:]:
            total += row[begin : begin + BLOCK]
        update[begin : begin + BLOCK] = total / len(rows)
    return update


def _check(offers: Array, *, more_than: int, rule: object) -> None:
    if offers.ndim != 2 or len(offers) <= more_than:
        raise DataError(
            f"{rule}: wanted more than {more_than} offers as (offers, values), got "
            f"{offers.shape}. Use more learners, or a rule that needs fewer."
        )
