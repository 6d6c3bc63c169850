"""A load generator: particles on the paths of an analytic vortex flow, as fast as memory goes.

This is not physics and not to be learnt from: no field acts on a particle and no particle on a
field. It is for benchmarks of streams and for large tests, and says so in its output. What it
writes has the layout, units and names of the Kelvin-Helmholtz producer, without meshes, and looks
like it: rows of vortices that grow from shear layers at the fastest rate of the instability,

    eps(t) = eps_end / (1 + (eps_end / eps_start - 1) exp(-Gamma t)),
    Gamma = omega_pe / (sqrt(8) gamma^1.5).

The grid is cut along y into `rows` of equal height, each with one row of Stuart vortices of its
own (`stuart.py`) that turns the other way round than its neighbours. A row is periodic in y, too:
psi and v_y are the same on both of its edges, so paths go on smoothly, and only v_x changes its
sign there, as at a vortex sheet. So no particle ever leaves its row, a rank owns whole rows, its
box is true, and no rank needs another one. For a seed the numbers do not depend on the ranks.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from producers import checks, shear, units
from producers.flow_course import Run
from workflow.errors import ConfigError
from workflow.types import Array, Grid, Hosting, Series, Unit

SOFTWARE = "Billow load generator"
COMMENT = "Particles advected in an analytic vortex flow: a load for streams, not physics."
CHARGE = {"e": -1.0, "i": 1.0}


class Motion(enum.Enum):
    """What happens between two outputs."""

    VORTEX = "vortex"
    FROZEN = "frozen"  # nothing: each output repeats the first, for the ceiling of a transport


@dataclass(frozen=True, kw_only=True)
class VortexFlow:
    """A load generator, not physics: particles advected in growing Stuart vortices, 2-D.

    Cold, no meshes, momentum z is 0. Outputs are the iterations first_step, first_step + period,
    ... up to and with last_step; about 32 bytes a particle, of which 24 are new each time.
    """

    last_step: int
    period: int = 1
    first_step: int = 0
    grid: tuple[int, int] = (192, 512)  # cells x, y
    rows: int = 2  # rows of vortices
    ranks: int = 1  # each owns whole rows; one box each
    waves: int = 5  # vortices in a row
    cell_m: float = 93.4635e-9
    dt_s: float = 1.79e-16
    density_m3: float = 1e25
    gamma: float = 1.021  # of the streams
    mass_ratio: float = 1836.152672
    particles_per_cell: int = 25  # of each species
    species: tuple[Literal["e", "i"], ...] = ("e",)
    eps_start: float = 0.01  # 0: a tanh shear layer
    eps_end: float = 0.9  # towards 1: point vortices
    momentum_prev: bool = False  # write momentumPrev1: the momentum one step before
    motion: Motion = Motion.VORTEX
    pace_s: float = 0.0  # shortest wall time between two outputs; 0: as fast as it goes

    def __post_init__(self) -> None:
        least = {"first_step": 0, "period": 1, "particles_per_cell": 1, "rows": 1, "waves": 1}
        checks.at_least(self, least)
        checks.window(self)
        checks.positive(self, "cell_m", "dt_s", "density_m3", "mass_ratio")
        checks.not_negative(self, "pace_s")
        if not 1 < self.gamma < math.inf:
            raise ConfigError(f"gamma: wanted more than 1, got {self.gamma}.")
        if not self.species or len(set(self.species)) < len(self.species):
            raise ConfigError(f"species: wanted e, i or both, got {list(self.species)}.")
        self._check_grid()
        self._check_flow()

    def _check_grid(self) -> None:
        nx, ny = self.grid
        if nx < 1 or ny < self.rows or ny % self.rows:
            raise ConfigError(
                f"grid: wanted 1 cell or more in x and a multiple of rows ({self.rows}) in y, got "
                f"{nx} x {ny}."
            )
        if not 1 <= self.ranks <= self.rows:
            raise ConfigError(
                f"ranks: wanted 1 to {self.rows}, got {self.ranks}. A rank owns whole rows of "
                "vortices: use fewer ranks or more rows."
            )

    def _check_flow(self) -> None:
        if not 0 < self.eps_end < 1.0 / self.gamma:
            raise ConfigError(
                f"eps_end: wanted more than 0 and less than 1/gamma ({1.0 / self.gamma:.4g}), got "
                f"{self.eps_end}. Above it the flow is faster than light somewhere."
            )
        if not 0 < self.eps_start <= self.eps_end:
            raise ConfigError(
                f"eps_start: wanted more than 0 and at most eps_end ({self.eps_end}), got "
                f"{self.eps_start}."
            )
        cells = shear.beta(self.gamma) / math.sqrt(1.0 - self.eps_end**2) * self.step
        if cells > 1.0:
            raise ConfigError(
                f"dt_s: wanted at most {self.dt_s / cells:.3g} s, so that nothing moves more than "
                f"one cell in a step, got {self.dt_s:g}."
            )

    # ------------------------------------------------------------ the Producer's seam

    def offers(self) -> tuple[str, ...]:
        """Names of the records in every iteration."""
        return units.offered(self.species, momentum_prev=self.momentum_prev)

    def series(self) -> Series:
        """What holds for all iterations: the units and names of PIConGPU, but not its software."""
        system, constants = self.system, dict[str, float]()
        attributes = {"comment": COMMENT, **system.attributes(), **units.boundaries(2)}
        for name in self.species:
            constants |= system.constants(name, charge=CHARGE[name], mass=self.mass(name))
            attributes |= {
                f"particles/{name}/currentDeposition": "none",
                f"particles/{name}/particleInterpolation": "other",
                f"particles/{name}/particlePush": "other",
                f"particles/{name}/particleShape": np.float64(0.0),
                f"particles/{name}/particleSmoothing": "none",
            }
        return Series(
            grid=Grid(shape=self.grid, spacing_m=(self.cell_m, self.cell_m)),
            dt_s=self.dt_s,
            software=SOFTWARE,
            software_version=units.software_version(),
            units=self._units(),
            constants=constants,
            attributes=attributes,
        )

    def boxes(self) -> int:
        """One box per rank."""
        return self.ranks

    def iterations(self, seed: int, *, hosting: Hosting) -> Run:
        """The outputs of one run; nothing is computed and no process is there before the first."""
        return Run(self, seed, hosting)

    # ------------------------------------------------------------ derived

    @property
    def system(self) -> units.System:
        """PIConGPU's units for this run."""
        weighting = self.density_m3 * self.cell_m**3 / self.particles_per_cell
        return units.System(cell_m=self.cell_m, dt_s=self.dt_s, weighting=weighting)

    @property
    def step(self) -> float:
        """c dt [cells]."""
        return units.C * self.dt_s / self.cell_m

    @property
    def moves(self) -> bool:
        """Whether one output differs from the next."""
        return self.motion is Motion.VORTEX

    @property
    def outputs(self) -> range:
        """The iterations that are written."""
        return range(self.first_step, self.last_step + 1, self.period)

    def eps(self, step: Array) -> Array:
        """The vortices' strength at a time in steps."""
        rate = units.plasma_frequency(self.density_m3) * self.dt_s / (8.0**0.5 * self.gamma**1.5)
        behind = (self.eps_end / self.eps_start - 1.0) * np.exp(-rate * step)
        return np.asarray(self.eps_end / (1.0 + behind))

    def rows_of(self, rank: int) -> range:
        """The rows of vortices that a rank owns."""
        return range(rank * self.rows // self.ranks, (rank + 1) * self.rows // self.ranks)

    @property
    def height(self) -> int:
        """Cells in y of one row of vortices."""
        return self.grid[1] // self.rows

    @property
    def per_row(self) -> int:
        """Particles of a species in one row of vortices, for ever."""
        return self.grid[0] * self.height * self.particles_per_cell

    def mass(self, species: str) -> float:
        """Of a real particle [m_e]."""
        return 1.0 if species == "e" else self.mass_ratio

    def _units(self) -> dict[str, Unit]:
        found: dict[str, Unit] = {}
        for name in self.species:
            found |= self.system.of_species(name)
        if not self.momentum_prev:
            found = {path: unit for path, unit in found.items() if "momentumPrev1" not in path}
        return found
