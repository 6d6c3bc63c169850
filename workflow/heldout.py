"""The held-out window: samples that no learner ever trains on, and the loss on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workflow.graph import Host
from workflow.protocols import Normaliser
from workflow.types import Array, Sample

LIVE_ROWS = 32  # rows of a live measurement: enough to see a curve, cheap enough to do often


class HeldOutWindow:
    """Collects samples, at most `keep`, spread evenly over the run."""

    def __init__(self, *, keep: int, normaliser: Normaliser | None) -> None:
        self._keep, self._normaliser = keep, normaliser
        self._samples: list[Sample] = []
        self._stride, self._offered = 1, 0

    def __len__(self) -> int:
        return len(self._samples)

    def add(self, samples: Sequence[Sample]) -> None:
        """Take samples in; when full, every other one makes room and half as many come in."""
        for sample in sorted(samples, key=lambda s: s.key):
            if self._offered % self._stride == 0:
                self._samples.append(sample)
            self._offered += 1
            if len(self._samples) > self._keep:
                self._samples = self._samples[::2]
                self._stride *= 2

    def arrays(self, moments: Mapping[str, Array], *, rows: int | None = None) -> dict[str, Array]:
        """The window as normalised, stacked arrays; with `rows`, that many spread over it."""
        samples = self._samples
        if rows is not None and len(samples) > rows:
            picked = np.linspace(0, len(samples) - 1, rows).round().astype(int)
            samples = [samples[i] for i in picked]
        stacked = {}
        for name in samples[0].arrays:
            rows_of = np.stack([sample.arrays[name] for sample in samples])
            if self._normaliser is not None:
                rows_of = self._normaliser.normalise(name, rows_of, moments)
            stacked[name] = rows_of
        return stacked

    def collect(self, host: Host, iterations: list[list[Any]]) -> None:
        """Bring the held-out samples of new iterations to the driver."""
        while iterations:
            packs = [host.fetch(payload) for payload in iterations.pop(0)]
            self.add([sample for pack in packs for sample in pack])
