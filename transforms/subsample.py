"""A fixed number of particles of a species, drawn at random."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from workflow.errors import ConfigError, DataError
from workflow.types import Array, Dropped, Frame


@dataclass(frozen=True, kw_only=True)
class Subsample:
    """Keeps `particles` of a species, uniformly and without replacement.

    Every array of the species is cut by the same indices. `short` says what happens to a box with
    fewer particles: "drop" sets it aside, "repeat" draws with repetition. A box without any is
    always set aside.
    """

    particles: int
    species: str = "e"
    short: Literal["drop", "repeat"] = "drop"

    def __post_init__(self) -> None:
        if self.particles < 1:
            raise ConfigError(f"Subsample.particles: wanted at least 1, got {self.particles}.")
        if not self.species:
            raise ConfigError("Subsample.species: wanted a name such as 'e', got ''.")
        if self.short not in ("drop", "repeat"):
            raise ConfigError(f"Subsample.short: wanted 'drop' or 'repeat', got {self.short!r}.")

    def needs(self) -> tuple[str, ...]:
        return ()

    def makes(self) -> Mapping[str, tuple[int, ...]]:
        return {}

    def fixes(self) -> Mapping[str, int]:
        """Species that leave this stage with a fixed number of particles."""
        return {self.species: self.particles}

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame | Dropped:
        prefix = self.species + "/"
        paths = [path for path in frame.arrays if path.startswith(prefix)]
        if not paths:
            return Dropped(key=frame.key, by="Subsample", reason=f"missing: species {self.species}")
        count = _count(frame.arrays, paths)
        if count == 0:
            return Dropped(key=frame.key, by="Subsample", reason=f"empty species {self.species}")
        if count < self.particles and self.short == "drop":
            reason = f"short box: {count} of {self.particles} particles"
            return Dropped(key=frame.key, by="Subsample", reason=reason)
        chosen = draw(count, self.particles, rng)
        kept = {path: gather(frame.arrays[path], chosen) for path in paths}
        return dataclasses.replace(frame, arrays={**frame.arrays, **kept})


def draw(count: int, wanted: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """`wanted` indices below `count`, ascending; with repetition only if there are too few.

    Without shuffling NumPy needs no permutation of all (Floyd's algorithm for small shares);
    ascending indices make the gathers that follow run through memory in one direction.
    """
    if count < wanted:
        return np.sort(rng.integers(count, size=wanted))
    return np.sort(rng.choice(count, size=wanted, replace=False, shuffle=False))


def gather(array: Array, chosen: NDArray[np.int64]) -> Array:
    """Rows of an array; a constant component (zero stride) stays constant and takes no memory."""
    if array.strides[0] == 0:
        return np.broadcast_to(array[:1], (len(chosen), *array.shape[1:]))
    taken: NDArray[Any] = array[chosen]
    return taken


def _count(arrays: Mapping[str, Array], paths: list[str]) -> int:
    lengths = {path: len(arrays[path]) if arrays[path].ndim else -1 for path in paths}
    if len(set(lengths.values())) != 1 or -1 in lengths.values():
        raise DataError(
            f"records of one species must have one length, got "
            f"{', '.join(f'{path}: {n}' for path, n in lengths.items())}. The frame is corrupt."
        )
    return lengths[paths[0]]
