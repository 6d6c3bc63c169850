"""Particles as points in phase space: u = gamma beta, its change in a step, and their place."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from workflow.errors import ConfigError, DataError
from workflow.types import Array, Frame, Unit

SPEED_OF_LIGHT = 299_792_458.0  # [m/s] exact: SI Brochure, 9th edition (2019), section 2.2

Float64 = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class PhaseSpace:
    """Makes `name` (n, 3 to 9) float32, one row per particle of a species; the columns are

    * u = p / (m c) x, y, z [1], which is gamma beta, of a real particle;
    * with change "always", its change x, y, z in the last simulation step, u - u_prev (not
      divided by dt). It is formed in float64 from the stored numbers, before any normalising;
    * the place along the axes in `position`, as a fraction 0..1 of the box.

    Units come from the stream: value * unitSI, divided by weighting ** weightingPower where the
    number is for the whole macro-particle (openPMD ED-PIC, macroWeighted).
    """

    species: str = "e"
    change: Literal["always", "never"] = "always"
    position: tuple[Literal["x", "y", "z"], ...] = ()
    name: str = "particles"

    def __post_init__(self) -> None:
        if self.change not in ("always", "never"):
            raise ConfigError(
                f"PhaseSpace.change: wanted 'always' (needs momentumPrev1 in the stream) or "
                f"'never', got {self.change!r}."
            )
        if not self.species or not self.name:
            raise ConfigError(
                f"PhaseSpace: wanted a species and a name, got {self.species!r}, {self.name!r}."
            )
        if not set(self.position) <= set("xyz") or len(set(self.position)) < len(self.position):
            raise ConfigError(
                f"PhaseSpace.position: wanted axes out of x, y, z, each once, "
                f"got {list(self.position)}."
            )

    def needs(self) -> tuple[str, ...]:
        records = ["momentum", "weighting", "mass"]
        if self.change == "always":
            records.append("momentumPrev1")
        if self.position:
            records += ["position", "positionOffset"]
        return tuple(f"{self.species}/{record}" for record in records)

    def makes(self) -> Mapping[str, tuple[int, ...]]:
        columns = 3 + 3 * (self.change == "always") + len(self.position)
        return {self.name: (-1, columns)}

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame:
        u = normalised_momentum(frame, self.species, "momentum")  # (n, 3) [m c]
        parts = [u]
        if self.change == "always":
            parts.append(u - normalised_momentum(frame, self.species, "momentumPrev1"))
        parts += [place_in_box(frame, self.species, axis)[:, None] for axis in self.position]
        particles = np.concatenate(parts, axis=1).astype(np.float32)  # (n, 3 to 9)
        return dataclasses.replace(frame, arrays={**frame.arrays, self.name: particles})


def normalised_momentum(frame: Frame, species: str, record: str) -> Float64:
    """u = p / (m c) = gamma beta of real particles, (n, 3)."""
    weighting = _array(frame, f"{species}/weighting").astype(np.float64)
    mass = real_particle_si(frame, f"{species}/mass", weighting)  # (n,) [kg]
    p = [  # 3 x (n,) [kg m/s]
        real_particle_si(frame, f"{species}/{record}/{axis}", weighting) for axis in "xyz"
    ]
    return np.stack(p, axis=1) / (mass * SPEED_OF_LIGHT)[:, None]


def real_particle_si(frame: Frame, path: str, weighting: Float64) -> Float64:
    """A component in SI units for one real particle, (n,)."""
    unit = _unit(frame, path)
    values = _array(frame, path).astype(np.float64) * unit.si
    return values / weighting**unit.weighting_power if unit.macro_weighted else values


def place_in_box(frame: Frame, species: str, axis: str) -> Float64:
    """Where in its box a particle is, as a fraction 0..1 of the box's extent, (n,)."""
    inside, whole = f"{species}/position/{axis}", f"{species}/positionOffset/{axis}"
    if _unit(frame, inside).si != _unit(frame, whole).si:
        raise DataError(
            f"{inside} and {whole}: wanted both in cells, got unitSI {_unit(frame, inside).si:g} "
            f"and {_unit(frame, whole).si:g}. Leave {axis} out of 'position'."
        )
    i = "xyz".index(axis)
    if i >= len(frame.box.offset):
        raise DataError(
            f"position {axis}: the box has {len(frame.box.offset)} axes. Leave {axis} out of "
            "'position'."
        )
    cells = _array(frame, inside).astype(np.float64) + _array(frame, whole)
    return (cells - frame.box.offset[i]) / frame.box.extent[i]


def _array(frame: Frame, path: str) -> Array:
    if path not in frame.arrays:
        raise DataError(f"{path}: not in the frame. Have the simulation write it.")
    return frame.arrays[path]


def _unit(frame: Frame, path: str) -> Unit:
    if path not in frame.units:
        raise DataError(f"{path}: the stream gives no unit (unitSI); it cannot be interpreted.")
    return frame.units[path]
