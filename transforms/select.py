"""Selection of boxes: which parts of the simulation are learnt from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from workflow.errors import ConfigError, DataError
from workflow.types import Box, Dropped, Frame


@dataclass(frozen=True, kw_only=True)
class Boxes:
    """Keeps boxes by place, by number, or both (then a box must satisfy both).

    region:  one (start, stop) per axis x, y(, z), stop excluded. A box is in it when its centre
             is: then two regions that touch never both have the same box.
    unit:    of region: "cells", or "fraction" of the grid's extent (needs `grid`).
    grid:    cells of the whole simulation, x, y(, z).
    indices: box indices.
    """

    region: tuple[tuple[float, float], ...] | None = None
    unit: Literal["cells", "fraction"] = "cells"
    grid: tuple[int, ...] | None = None
    indices: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.region is None and self.indices is None:
            raise ConfigError("Boxes: wanted 'region' or 'indices', got neither.")
        if self.unit not in ("cells", "fraction"):
            raise ConfigError(f"Boxes.unit: wanted 'cells' or 'fraction', got {self.unit!r}.")
        for start, stop in self.region or ():
            if not start < stop:
                raise ConfigError(f"Boxes.region: wanted start < stop, got ({start}, {stop}).")
        if self.indices is not None and (not self.indices or min(self.indices) < 0):
            raise ConfigError(
                f"Boxes.indices: wanted box indices from 0 up, got {list(self.indices)}."
            )
        self._check_grid()

    def _check_grid(self) -> None:
        if self.region is None or self.unit == "cells":
            return
        if self.grid is None or len(self.grid) != len(self.region) or min(self.grid) < 1:
            raise ConfigError(
                f"Boxes.grid: wanted the cells of the simulation on {len(self.region)} axes, "
                f"to know what a fraction is, got {self.grid}. Or give the region in cells."
            )

    def needs(self) -> tuple[str, ...]:
        return ()

    def makes(self) -> Mapping[str, tuple[int, ...]]:
        return {}

    def selects(self, box: Box) -> bool:
        """Whether the box is wanted; readers ask before its data is moved."""
        if self.indices is not None and box.index not in self.indices:
            return False
        return self.region is None or self._holds(self.region, box)

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame | Dropped:
        if self.selects(frame.box):
            return frame
        return Dropped(key=frame.key, by="Boxes", reason="not selected")

    def _holds(self, region: tuple[tuple[float, float], ...], box: Box) -> bool:
        if len(box.offset) != len(region):
            raise DataError(
                f"Boxes.region has {len(region)} axes, box {box.index} has {len(box.offset)}. "
                "Give one (start, stop) per axis of the simulation."
            )
        cells = self.grid if self.unit == "fraction" and self.grid else (1,) * len(region)
        centres = (o + e / 2 for o, e in zip(box.offset, box.extent, strict=True))
        return all(
            start * n <= centre < stop * n
            for (start, stop), n, centre in zip(region, cells, centres, strict=True)
        )
