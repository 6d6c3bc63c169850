"""What every particle-in-cell run has in common: its settings, its units, what it writes."""

from __future__ import annotations

import abc
import enum
import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from producers import checks, pic, units
from producers.course import Run
from producers.radiation import FarField, Radiation
from workflow import wire
from workflow.errors import ConfigError
from workflow.types import Array, Grid, Hosting, Series, Unit


class Start(enum.Enum):
    """Where the particles of a cell start."""

    LATTICE = "lattice"  # quiet: the same regular places in every cell
    RANDOM = "random"


@dataclass(frozen=True, kw_only=True)
class Setup(abc.ABC):
    """An electromagnetic plasma in a periodic box, 2D3V or 3D3V, of electrons and ions.

    Fields are written as E/x.., B/x..; species are e and i. Outputs are the iterations
    first_step, first_step + period, ... up to and with last_step. A concrete set-up says where the
    particles start.
    """

    STREAM: ClassVar[str]  # the name of its frames' stream

    last_step: int
    period: int
    first_step: int = 0
    grid: tuple[int, ...]  # cells x, y(, z)
    ranks: int = 1  # slabs along y; a process and a box each
    threads: int = 1  # of each rank
    hosts: int = 1  # share the ranks; all but the first come by `billow join`; inline: all are here
    listen: str = "127.0.0.1:0"  # where the first one waits for them; port 0: any
    join_s: float = 60.0  # for how long it waits
    cell_m: float = 93.4635e-9
    dt_s: float = 1.79e-16
    density_m3: float = 1e25  # of electrons and of ions
    gamma: float = 1.021  # of the streams
    temperature_ev: float = 0.5  # of the electrons; the ions are cold
    mass_ratio: float = 1836.152672
    particles_per_cell: int = 25  # of each species
    start: Start = Start.LATTICE
    shape: pic.Shape = pic.Shape.TSC
    pusher: pic.Pusher = pic.Pusher.BORIS
    dtype: Literal["float32", "float64"] = "float32"  # of the computation; output is float32
    momentum_prev: bool = False  # write momentumPrev1: the momentum before the last push
    fields: bool = True  # write E and B
    radiation: Radiation | None = None  # of the electrons; written for each rank
    pace_s: float = 0.0  # shortest wall time between two outputs; 0: as fast as it goes

    def __post_init__(self) -> None:
        counts = {"first_step": 0} | dict.fromkeys(
            ("period", "particles_per_cell", "threads", "hosts"), 1
        )
        checks.at_least(self, counts)
        checks.window(self)
        checks.positive(self, "cell_m", "dt_s", "density_m3", "mass_ratio", "join_s")
        checks.not_negative(self, "temperature_ev", "pace_s")
        if not 1 <= self.gamma < math.inf:
            raise ConfigError(f"gamma: wanted 1 or more, got {self.gamma}.")
        if self.dtype not in ("float32", "float64"):
            raise ConfigError(f"dtype: wanted 'float32' or 'float64', got '{self.dtype}'.")
        try:
            wire.parse(self.listen)
        except ConfigError as e:
            raise ConfigError(f"listen: {e}") from e
        omega_dt = self.plasma.omega_dt  # building the plasma checks grid, ranks and Courant
        if self.hosts > self.ranks:
            raise ConfigError(
                f"hosts: wanted at most one for each of {self.ranks} ranks, got {self.hosts}."
            )
        if omega_dt >= 1.0:
            raise ConfigError(
                f"dt_s: wanted less than {self.dt_s / omega_dt:.3g} s, to resolve the plasma "
                f"frequency of density_m3 = {self.density_m3:g}, got {self.dt_s:g}."
            )
        if self.radiation is not None and (self.radiation.start or 0) > self.last_step:
            raise ConfigError(
                f"radiation.start: wanted at most last_step ({self.last_step}), got "
                f"{self.radiation.start}."
            )

    # ------------------------------------------------------------ what a set-up says

    @abc.abstractmethod
    def particles(self, seed: int, row: int) -> tuple[Array, Array, Array, Array]:
        """Where the particles of one grid row start, electrons and ions in the same places.

        Cells x, y(, z) (d, n) int32, places in the cell (d, n), u of electrons and of ions (3, n).
        Every row draws from a generator of its own, so that the start does not depend on the ranks.
        """

    # ------------------------------------------------------------ the Producer's seam

    def offers(self) -> tuple[str, ...]:
        """Names of the records in every iteration."""
        particles = units.offered(("e", "i"), momentum_prev=self.momentum_prev)
        return particles + tuple(sorted(self._meshes))

    def series(self) -> Series:
        """What holds for all iterations, in PIConGPU's units and names."""
        system = self.system
        constants: dict[str, float] = {}
        for species in self.plasma.species:
            constants |= system.constants(species.name, charge=species.charge, mass=species.mass)
        return Series(
            grid=Grid(shape=self.grid, spacing_m=(self.cell_m,) * len(self.grid)),
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
                    species=("e", "i"),
                    dimensions=len(self.grid),
                    shape_order=self.shape.order,
                    pusher=self.pusher.label,
                    fields=self.fields,
                ),
            },
        )

    def boxes(self) -> int:
        """One box per rank."""
        return self.ranks

    def iterations(self, seed: int, *, hosting: Hosting) -> Run:
        """The outputs of one run; nothing is computed and no process is there before the first."""
        return Run(self, seed, hosting)

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
            pusher=self.pusher,
            dtype=np.dtype(self.dtype),
            ranks=self.ranks,
            threads=self.threads,
            keep_previous=self.momentum_prev or self.radiation is not None,
        )

    @property
    def thermal(self) -> float:
        """Spread of each component of the electrons' u (non-relativistic)."""
        energy = units.ELECTRON_MASS * units.C**2
        return math.sqrt(self.temperature_ev * units.ELEMENTARY_CHARGE / energy)

    def far_field(self) -> FarField | None:
        """A rank's record of what its electrons radiate; None: nobody looks."""
        if self.radiation is None:
            return None
        return FarField(
            self.radiation,
            omega=self.radiation.omega(self.plasma.omega_dt),
            cell=(1.0 / self.plasma.step,) * len(self.grid),
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
        return units.System(
            cell_m=self.cell_m, dt_s=self.dt_s, weighting=weighting, dimensions=len(self.grid)
        )

    @property
    def _meshes(self) -> frozenset[str]:
        return frozenset(path.split("/")[0] for path in self._mesh_position())

    def _mesh_position(self) -> dict[str, tuple[float, ...]]:
        """Where the components of meshes live in a cell; those of the radiation have none."""
        found = self.system.yee_position() if self.fields else {}
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


# ---------------------------------------------------------------- where particles start


def in_row(setup: Setup, seed: int, row: int) -> tuple[Array, Array, np.random.Generator]:
    """Cells (d, n) int32 and places in them (d, n) of one species in a grid row.

    And the row's own generator, to draw the rest from.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(row,)))
    nx, nz = setup.grid[0], math.prod(setup.grid[2:])
    per_cell, dimensions = setup.particles_per_cell, len(setup.grid)
    n = nx * nz * per_cell
    cells = np.empty((dimensions, n), np.int32)
    cells[0] = np.tile(np.repeat(np.arange(nx), per_cell), nz)
    cells[1] = row
    if dimensions == 3:
        cells[2] = np.repeat(np.arange(nz), nx * per_cell)
    if setup.start is Start.RANDOM:  # float32 never rounds up to the next cell
        return cells, rng.random((dimensions, n), dtype=np.float32).astype(np.float64), rng
    return cells, np.tile(lattice(per_cell, dimensions), nx * nz), rng


def lattice(per_cell: int, dimensions: int = 2) -> Array:
    """Places in a cell (d, per_cell): the most nearly square lattice in x, y, at z = 1/2."""
    across = next(n for n in range(math.isqrt(per_cell), 0, -1) if per_cell % n == 0)
    along = per_cell // across
    x, y = np.meshgrid((np.arange(along) + 0.5) / along, (np.arange(across) + 0.5) / across)
    return np.stack([x.ravel(), y.ravel(), np.full(per_cell, 0.5)][:dimensions])
