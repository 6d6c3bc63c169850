"""PIConGPU's system of units, and what it writes about a run into every openPMD iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np

from workflow.types import (
    ACTION,
    CHARGE,
    DIMENSIONLESS,
    ELECTRIC_FIELD,
    LENGTH,
    MAGNETIC_FIELD,
    MASS,
    MOMENTUM,
    PER_TIME,
    Unit,
)

C = 299_792_458.0  # [m/s]
ELECTRON_MASS = 9.1093837139e-31  # [kg] CODATA 2022, as are the next two
ELEMENTARY_CHARGE = 1.602176634e-19  # [C]
EPS0 = 8.8541878188e-12  # [F/m]

AXES = ("x", "y", "z")
# Where a component lives in the cell, in x, y, z order as PIConGPU writes it.
YEE_POSITION: dict[str, tuple[float, ...]] = {
    "E/x": (0.5, 0.0, 0.0),
    "E/y": (0.0, 0.5, 0.0),
    "E/z": (0.0, 0.0, 0.5),
    "B/x": (0.0, 0.5, 0.5),
    "B/y": (0.5, 0.0, 0.5),
    "B/z": (0.5, 0.5, 0.0),
}


def software_version() -> str:
    """Billow's own."""
    try:
        return metadata.version("billow")
    except metadata.PackageNotFoundError:  # run from a bare checkout
        return ""


def plasma_frequency(density_m3: float) -> float:
    """omega_pe [rad/s] of electrons of a density [1/m^3]."""
    return float(np.sqrt(density_m3 / (EPS0 * ELECTRON_MASS))) * ELEMENTARY_CHARGE


@dataclass(frozen=True, kw_only=True)
class System:
    """The units of a run: c dt, dt, mass and charge of a typical macro-particle of electrons."""

    cell_m: float
    dt_s: float
    weighting: float  # real particles per typical macro-particle
    dimensions: int = 2  # of space

    @property
    def length_m(self) -> float:
        return C * self.dt_s

    @property
    def mass_kg(self) -> float:
        return ELECTRON_MASS * self.weighting

    @property
    def charge_c(self) -> float:
        return ELEMENTARY_CHARGE * self.weighting

    @property
    def efield(self) -> float:
        """[V/m] m_e c / (e dt)."""
        return ELECTRON_MASS * C / (ELEMENTARY_CHARGE * self.dt_s)

    @property
    def bfield(self) -> float:
        """[T]"""
        return self.efield / C

    def of_species(self, name: str) -> dict[str, Unit]:
        """Units of a species' components by path."""
        momentum = Unit(
            si=self.mass_kg * C, dimension=MOMENTUM, macro_weighted=True, weighting_power=1.0
        )
        cell = Unit(si=self.cell_m, dimension=LENGTH)
        return {
            **{f"{name}/position/{a}": cell for a in AXES[: self.dimensions]},
            **{f"{name}/positionOffset/{a}": cell for a in AXES[: self.dimensions]},
            **{f"{name}/momentum/{a}": momentum for a in AXES},
            **{f"{name}/momentumPrev1/{a}": momentum for a in AXES},
            f"{name}/weighting": Unit(
                si=1.0, dimension=DIMENSIONLESS, macro_weighted=True, weighting_power=1.0
            ),
            f"{name}/mass": Unit(si=self.mass_kg, dimension=MASS, weighting_power=1.0),
            f"{name}/charge": Unit(si=self.charge_c, dimension=CHARGE, weighting_power=1.0),
        }

    def of_fields(self) -> dict[str, Unit]:
        """Units of E and B by path."""
        electric = Unit(si=self.efield, dimension=ELECTRIC_FIELD)
        magnetic = Unit(si=self.bfield, dimension=MAGNETIC_FIELD)
        return {f"E/{a}": electric for a in AXES} | {f"B/{a}": magnetic for a in AXES}

    def yee_position(self) -> dict[str, tuple[float, ...]]:
        """Where the components of E and B live in the cell."""
        return {path: at[: self.dimensions] for path, at in YEE_POSITION.items()}

    @property
    def radiated(self) -> float:
        """[J s] d2I / (domega dOmega) of |A|^2 = 1: charge^2 / (16 pi^3 eps0 c)."""
        return self.charge_c**2 / (16.0 * np.pi**3 * EPS0 * C)

    def of_radiation(self) -> dict[str, Unit]:
        """Units of the radiation's meshes by path. As in PIConGPU, that of A is for |A|^2."""
        amplitude = Unit(si=self.radiated, dimension=ACTION)
        return {
            **{f"Amplitude_distributed/{a}": amplitude for a in AXES},
            **{f"DetectorDirection/{a}": Unit(si=1.0) for a in AXES},
            "DetectorFrequency/omega": Unit(si=1.0 / self.dt_s, dimension=PER_TIME),
        }

    def constants(self, name: str, *, charge: float, mass: float) -> dict[str, float]:
        """Charge [e] and mass [m_e] of a real particle in these units, float32 as PIConGPU's."""
        return {
            f"{name}/mass": float(np.float32(mass / self.weighting)),
            f"{name}/charge": float(np.float32(charge / self.weighting)),
        }

    def attributes(self) -> Mapping[str, Any]:
        """Attributes of every iteration under PIConGPU's names, with its types."""
        cell = np.float32(self.cell_m / self.length_m)
        eps0 = EPS0 / self.charge_c**2 * self.mass_kg * self.length_m**3 / self.dt_s**2
        return {
            "unit_length": np.float64(self.length_m),
            "unit_time": np.float64(self.dt_s),
            "unit_speed": np.float64(C),
            "unit_mass": np.float64(self.mass_kg),
            "unit_charge": np.float64(self.charge_c),
            "unit_energy": np.float64(self.mass_kg * C**2),
            "unit_efield": np.float64(self.efield),
            "unit_bfield": np.float64(self.bfield),
            "cell_width": cell,
            "cell_height": cell,
            "cell_depth": cell,
            "eps0": np.float32(eps0),
            "mue0": np.float32(1.0 / eps0),
            "sim_slides": np.uint32(0),
        }


def offered(species: Sequence[str], *, momentum_prev: bool) -> tuple[str, ...]:
    """Names of the records of particles in every iteration."""
    records = ["position", "positionOffset", "momentum", "weighting", "mass", "charge"]
    if momentum_prev:
        records.append("momentumPrev1")
    return tuple(f"{name}/{record}" for name in species for record in records)


def boundaries(dimensions: int) -> dict[str, Any]:
    """How the box ends, as every iteration says it."""
    return {
        "particleBoundary": ["periodic"] * (2 * dimensions),
        "particleBoundaryParameters": ["none"] * (2 * dimensions),
    }


def algorithm_attributes(
    *, species: Sequence[str], dimensions: int, shape_order: int, pusher: str, fields: bool
) -> dict[str, Any]:
    """What the ED-PIC extension of openPMD wants to know, by path below the iteration."""
    found = boundaries(dimensions)
    if fields:
        found |= {
            "fields/fieldSolver": "Yee",
            "fields/fieldBoundary": ["periodic"] * (2 * dimensions),
            "fields/fieldBoundaryParameters": ["none"] * (2 * dimensions),
            # PIConGPU says it of the iteration only; ED-PIC's validator looks for it here
            **{f"fields/{name}": value for name, value in boundaries(dimensions).items()},
            "fields/chargeCorrection": "none",
            "fields/currentSmoothing": "none",
        }
    for name in species:
        found |= {
            f"particles/{name}/currentDeposition": "Esirkepov",
            f"particles/{name}/particleInterpolation": "uniform",
            f"particles/{name}/particlePush": pusher,
            f"particles/{name}/particleShape": np.float64(shape_order),
            f"particles/{name}/particleSmoothing": "none",
        }
    return found
