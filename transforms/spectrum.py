"""The radiation that a box emits, as a logarithmic spectrum."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workflow.errors import ConfigError, DataError
from workflow.types import Array, Box, Frame

Float64 = NDArray[np.float64]

PAIR = ("_Re", "_Im")  # endings of the real and imaginary part of one component


@dataclass(frozen=True, kw_only=True)
class LogSpectrum:
    """Makes `name` (frequencies,) float32 = ln(scale * sum over components |A|^2 + floor).

    `record` is one of
    * complex components "<record>/x", y, z, each (ranks, directions, frequencies), the rank being
      the box, or that box's part of it (PIConGPU's Amplitude_distributed);
    * pairs "<record>/x_Re", "x_Im", ..., each (directions, frequencies, 1) (PIConGPU's Amplitude);
    * a real array, which counts as |A|^2 already, down to (frequencies,).

    The sum is scaled in float64 before the logarithm: amplitudes span decades that float32 lacks.
    With scale 1 and floor 1e-9 this is the published transform (Kelling et al., IPDPS 2025); the
    floor is where the spectrum goes flat, ln 1e-9 = -20.7.
    """

    frequencies: int
    record: str = "Amplitude_distributed"
    direction: int = 0
    scale: float = 1.0
    floor: float = 1e-9
    name: str = "spectrum"

    def __post_init__(self) -> None:
        if self.frequencies < 1:
            raise ConfigError(f"LogSpectrum.frequencies: wanted >= 1, got {self.frequencies}.")
        if self.direction < 0:
            raise ConfigError(f"LogSpectrum.direction: wanted >= 0, got {self.direction}.")
        for name, value in (("scale", self.scale), ("floor", self.floor)):
            if not 0 < value < np.inf:
                raise ConfigError(f"LogSpectrum.{name}: wanted a positive number, got {value}.")
        if not self.record or not self.name:
            raise ConfigError(
                f"LogSpectrum: wanted a record and a name, got {self.record!r}, {self.name!r}."
            )

    def needs(self) -> tuple[str, ...]:
        return (self.record,)

    def makes(self) -> Mapping[str, tuple[int, ...]]:
        return {self.name: (self.frequencies,)}

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame:
        total: Float64 = np.zeros(self.frequencies)  # (frequencies,)
        for path in parts(frame.arrays, self.record):
            line = self._line(path, frame.arrays[path], frame.box)
            total += squared(line, amplitude=path.endswith(PAIR))
        spectrum = np.log(self.scale * total + self.floor).astype(np.float32)
        return dataclasses.replace(frame, arrays={**frame.arrays, self.name: spectrum})

    def _line(self, path: str, array: Array, box: Box) -> Array:
        line = of_direction(path, of_box(path, array, box, self.frequencies), self.direction)
        if line.shape != (self.frequencies,):
            raise DataError(
                f"{path}: wanted {self.frequencies} frequencies, got shape {array.shape}. "
                "Set LogSpectrum.frequencies to what the simulation writes."
            )
        return line


def parts(arrays: Mapping[str, Array], record: str) -> list[str]:
    """Paths of the arrays whose squares sum to |A|^2."""
    paths = sorted(p for p in arrays if p == record or p.startswith(record + "/"))
    if not paths:
        raise DataError(f"{record}: not in the frame. Have the simulation write it.")
    for stem in {p[:-3] for p in paths if p.endswith(PAIR)}:
        if stem + "_Re" not in arrays or stem + "_Im" not in arrays:
            raise DataError(f"{stem}: wanted both {stem}_Re and {stem}_Im, got one of them.")
    return paths


def of_box(path: str, array: Array, box: Box, frequencies: int) -> Array:
    """One box's part: an array without rank axis is that box's already."""
    if array.ndim != 3:
        return array
    if array.shape[1:] == (frequencies, 1):  # (directions, frequencies, 1)
        only: Array = array[..., 0]
        return only
    row = 0 if len(array) == 1 else box.index
    if row >= len(array):
        raise DataError(
            f"{path}: wanted one row per box, got {len(array)} rows and box {box.index}. "
            "Ranks and boxes do not match: write one patch per rank."
        )
    part: Array = array[row]
    return part


def of_direction(path: str, array: Array, direction: int) -> Array:
    """The spectrum in one direction, (frequencies,)."""
    if array.ndim != 2:
        return array
    if direction >= len(array):
        raise DataError(
            f"{path}: wanted direction {direction}, got {len(array)} directions. "
            "Set LogSpectrum.direction to one of them."
        )
    line: Array = array[direction]
    return line


def squared(values: Array, *, amplitude: bool) -> Float64:
    """|A|^2 in float64 of complex values or of real `amplitude` parts; others are squares."""
    if np.iscomplexobj(values):
        wide = values.astype(np.complex128)
        return np.square(wide.real) + np.square(wide.imag)
    real: Float64 = values.astype(np.float64)
    return np.square(real) if amplitude else real
