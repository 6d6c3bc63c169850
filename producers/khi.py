"""The Kelvin-Helmholtz producer: PIConGPU's example of that name, run here, in PIConGPU's layout.

Two streams of electrons and protons pass each other in a periodic box; the shear planes roll up.
Defaults are those of PIConGPU's KelvinHelmholtz example, two-dimensional.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np

from producers import pic, shear, units
from producers.course import Run
from producers.radiation import FarField, Radiation
from producers.shear import Perturbation, Start
from workflow.errors import ConfigError
from workflow.types import Grid, Hosting, Series, Unit

TESTED_GAMMA = 1.5  # above, numerical Cherenkov radiation hides the instability


@dataclass(frozen=True, kw_only=True)
class KelvinHelmholtz:
    """A shear flow of electrons and ions: electromagnetic particle-in-cell, 2D3V.

    Fields are written as E/x.., B/x..; species are e and i. Outputs are the iterations
    first_step, first_step + period, ... up to and with last_step.
    """

    last_step: int
    period: int
    first_step: int = 0
    grid: tuple[int, int] = (192, 512)  # cells x, y
    ranks: int = 1  # slabs along y; one box each
    cell_m: float = 93.4635e-9
    dt_s: float = 1.79e-16
    density_m3: float = 1e25
    gamma: float = 1.021  # of the streams
    temperature_ev: float = 0.5  # of the electrons; the ions are cold
    mass_ratio: float = 1836.152672
    particles_per_cell: int = 25  # of each species
    start: Start = Start.LATTICE
    perturbation: Perturbation | None = None
    shape: pic.Shape = pic.Shape.TSC
    dtype: Literal["float32", "float64"] = "float32"  # of the computation; output is float32
    momentum_prev: bool = False  # write momentumPrev1: the momentum before the last push
    fields: bool = True  # write E and B
    radiation: Radiation | None = None  # of the electrons; written for each rank
    pace_s: float = 0.0  # shortest wall time between two outputs; 0: as fast as it goes

    def __post_init__(self) -> None:
        for name, low in (("first_step", 0), ("period", 1), ("particles_per_cell", 1)):
            if getattr(self, name) < low:
                raise ConfigError(f"{name}: wanted {low} or more, got {getattr(self, name)}.")
        if self.last_step < self.first_step:
            raise ConfigError(
                f"last_step: wanted first_step ({self.first_step}) or more, got {self.last_step}."
            )
        for name in ("cell_m", "dt_s", "density_m3", "mass_ratio"):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigError(f"{name}: wanted more than 0, got {getattr(self, name)}.")
        for name in ("temperature_ev", "pace_s"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ConfigError(f"{name}: wanted 0 or more, got {getattr(self, name)}.")
        if not 1 <= self.gamma < math.inf:
            raise ConfigError(f"gamma: wanted 1 or more, got {self.gamma}.")
        if self.gamma > TESTED_GAMMA:
            warnings.warn(
                f"gamma = {self.gamma}: above {TESTED_GAMMA} numerical Cherenkov radiation "
                "outgrows the instability on this grid; do not trust growth rates.",
                stacklevel=3,
            )
        if self.dtype not in ("float32", "float64"):
            raise ConfigError(f"dtype: wanted 'float32' or 'float64', got '{self.dtype}'.")
        self._check_resolution()
        if self.radiation is not None and (self.radiation.start or 0) > self.last_step:
            raise ConfigError(
                f"radiation.start: wanted at most last_step ({self.last_step}), got "
                f"{self.radiation.start}."
            )

    def _check_resolution(self) -> None:
        omega_dt = self.plasma.omega_dt  # building the plasma checks grid, ranks and Courant
        if omega_dt >= 1.0:
            raise ConfigError(
                f"dt_s: wanted less than {self.dt_s / omega_dt:.3g} s, to resolve the plasma "
                f"frequency of density_m3 = {self.density_m3:g}, got {self.dt_s:g}."
            )
        if self.grid[1] % 4:
            raise ConfigError(
                f"grid: wanted a multiple of 4 cells in y, so that the shear planes at 1/4 and 3/4 "
                f"lie between cells, got {self.grid[1]}."
            )

    # ------------------------------------------------------------ the Producer's seam

    def offers(self) -> tuple[str, ...]:
        """Names of the records in every iteration."""
        records = ["position", "positionOffset", "momentum", "weighting", "mass", "charge"]
        if self.momentum_prev:
            records.append("momentumPrev1")
        particles = tuple(f"{name}/{record}" for name in ("e", "i") for record in records)
        return particles + tuple(sorted(self._meshes))

    def series(self) -> Series:
        """What holds for all iterations, in PIConGPU's units and names."""
        system = self.system
        constants: dict[str, float] = {}
        for species in self.plasma.species:
            constants |= system.constants(species.name, charge=species.charge, mass=species.mass)
        return Series(
            grid=Grid(shape=self.grid, spacing_m=(self.cell_m, self.cell_m)),
            dt_s=self.dt_s,
            software="Billow",
            software_version=units.software_version(),
            units=self._units(),
            meshes=self._meshes,
            mesh_position=self._mesh_position(),
            constants=constants,
            attributes={
                **system.attributes(),
                **units.algorithm_attributes(
                    species=("e", "i"), shape_order=self.shape.order, fields=self.fields
                ),
            },
        )

    def boxes(self) -> int:
        """One box per rank."""
        return self.ranks

    def iterations(self, seed: int, *, hosting: Hosting) -> Run:
        """The outputs of one run; nothing is computed and no process is there before the first."""
        return Run(self, seed, hosting)

    def cold_growth_rate(self, k: float) -> float:
        """Of a wave of k [1/m] along x on a sharp step of cold streams [1/s]; see shear.py."""
        omega_pe = units.plasma_frequency(self.density_m3)
        return omega_pe * shear.growth_rate(k * units.C / omega_pe, self.gamma, self.mass_ratio)

    # ------------------------------------------------------------ derived

    @property
    def plasma(self) -> pic.Plasma:
        """The solver's view of this run."""
        return pic.Plasma(
            grid=self.grid,
            step=units.C * self.dt_s / self.cell_m,
            omega_dt=units.plasma_frequency(self.density_m3) * self.dt_s,
            per_cell=self.particles_per_cell,
            species=(
                pic.Species(name="e", charge=-1.0, mass=1.0),
                pic.Species(name="i", charge=1.0, mass=self.mass_ratio),
            ),
            shape=self.shape,
            dtype=np.dtype(self.dtype),
            ranks=self.ranks,
            keep_previous=self.momentum_prev or self.radiation is not None,
        )

    def far_field(self) -> FarField | None:
        """A rank's record of what its electrons radiate; None: nobody looks."""
        if self.radiation is None:
            return None
        return FarField(
            self.radiation,
            omega=self.radiation.omega(self.plasma.omega_dt),
            cell=(1.0 / self.plasma.step,) * 2,
            length=self.grid,
        )

    def radiates(self, step: int) -> bool:
        """Whether the step that leads to iteration `step` counts for the radiation."""
        if self.radiation is None:
            return False
        start = self.radiation.start
        return step >= (self.first_step - self.period + 1 if start is None else start)

    @property
    def system(self) -> units.System:
        """PIConGPU's units for this run."""
        weighting = self.density_m3 * self.cell_m**3 / self.particles_per_cell
        return units.System(cell_m=self.cell_m, dt_s=self.dt_s, weighting=weighting)

    @property
    def _meshes(self) -> frozenset[str]:
        return frozenset(path.split("/")[0] for path in self._mesh_position())

    def _mesh_position(self) -> dict[str, tuple[float, ...]]:
        """Where the components of meshes live in a cell; those of the radiation have none."""
        found = dict(units.YEE_POSITION) if self.fields else {}
        if self.radiation is not None:
            found |= dict.fromkeys(self.system.of_radiation(), (0.0, 0.0, 0.0))
        return found

    def _units(self) -> dict[str, Unit]:
        """Units of everything that is written, by component path."""
        system = self.system
        found = system.of_fields() if self.fields else {}
        found |= system.of_radiation() if self.radiation is not None else {}
        for name in ("e", "i"):
            found |= system.of_species(name)
        if not self.momentum_prev:
            found = {path: unit for path, unit in found.items() if "momentumPrev1" not in path}
        return found

    @property
    def outputs(self) -> range:
        """The iterations that are written."""
        return range(self.first_step, self.last_step + 1, self.period)
