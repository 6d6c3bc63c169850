"""What a plasma is made of: its grid, species, shapes and pusher, and its cut into slabs."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

import numpy as np

from workflow.errors import ConfigError

MIN_ROWS = 4  # of a slab: its guards reach into the next slab, and no further


class Shape(enum.Enum):
    """The particle shape: cloud-in-cell, triangular (PIConGPU's default), piecewise cubic."""

    CIC = "cic"
    TSC = "tsc"
    PCS = "pcs"

    @property
    def order(self) -> int:
        return {Shape.CIC: 1, Shape.TSC: 2, Shape.PCS: 3}[self]


class Pusher(enum.Enum):
    """How u turns around B: Boris (PIConGPU's default), or Higuera-Cary, exact for E x B drifts."""

    BORIS = "boris"
    HIGUERA_CARY = "higuera-cary"

    @property
    def code(self) -> tuple[int, ...]:
        """As `producers.kernels` wants it."""
        return {Pusher.BORIS: (), Pusher.HIGUERA_CARY: (0,)}[self]

    @property
    def label(self) -> str:
        """As the ED-PIC extension of openPMD names it; "other" where it has no name."""
        return {Pusher.BORIS: "Boris", Pusher.HIGUERA_CARY: "other"}[self]


@dataclass(frozen=True, kw_only=True)
class Species:
    """A kind of particle."""

    name: str
    charge: float  # [e] per real particle
    mass: float  # [m_e] per real particle


@dataclass(frozen=True, kw_only=True)
class Plasma:
    """What a run is made of; fixes all coefficients of the step."""

    grid: tuple[int, ...]  # cells x, y(, z); periodic
    step: float  # c dt [cells]
    omega_dt: float  # omega_p dt of electrons at the density that `per_cell` particles make
    per_cell: int  # macro-particles per cell at that density
    species: tuple[Species, ...]
    shape: Shape
    dtype: np.dtype[np.generic]
    ranks: int
    threads: int = 1  # of each rank
    pusher: Pusher = Pusher.BORIS
    keep_previous: bool = False

    def __post_init__(self) -> None:
        if len(self.grid) not in (2, 3):
            raise ConfigError(f"grid: wanted cells x, y or x, y, z, got {len(self.grid)} numbers.")
        for axis, n in zip("xz", (self.grid[0], *self.grid[2:]), strict=False):
            if n < MIN_ROWS:
                raise ConfigError(f"grid: wanted at least {MIN_ROWS} cells in {axis}, got {n}.")
        most = self.grid[1] // MIN_ROWS
        if not 1 <= self.ranks <= most:
            raise ConfigError(
                f"ranks: wanted 1 to {most} for {self.grid[1]} cells in y, got {self.ranks}. "
                f"Each rank needs {MIN_ROWS} rows: use fewer ranks or a taller grid."
            )
        if not 1 <= self.threads <= most // self.ranks:
            raise ConfigError(
                f"threads: wanted 1 to {most // self.ranks} for {self.ranks} ranks and "
                f"{self.grid[1]} cells in y, got {self.threads}. Each thread needs {MIN_ROWS} rows."
            )
        limit = len(self.grid) ** -0.5
        if not 0 < self.step < limit:
            raise ConfigError(
                f"c dt / cell: wanted more than 0 and less than {limit:.3f} (Courant limit in "
                f"{len(self.grid)} dimensions), got {self.step:.3f}. Use a shorter dt_s or a "
                "larger cell_m."
            )

    @property
    def planes(self) -> int:
        """Cells in z; 1 in two dimensions."""
        return math.prod(self.grid[2:])

    @property
    def up(self) -> int:
        """Planes that a difference along z spans: 1, or 0 where there is no z."""
        return len(self.grid) - 2

    @property
    def wrapped(self) -> tuple[int, ...]:
        """Axes of padded arrays whose two ends meet within a slab: x and, where there is one, z."""
        return (-1, -3)[: 1 + self.up]

    @property
    def width(self) -> int:
        """Numbers per particle: places, u, and u one step before where it is kept."""
        return len(self.grid) + 3 + 3 * self.keep_previous

    @property
    def order(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shape along x and y, and along z, as `producers.kernels` wants it."""
        order = (0,) * self.shape.order
        return order, order if self.up else ()

    @property
    def slabs(self) -> int:
        return self.ranks * self.threads

    def rows(self, slab: int) -> range:
        """The rows of the grid that a slab owns."""
        ny = self.grid[1]
        return range(slab * ny // self.slabs, (slab + 1) * ny // self.slabs)

    def neighbours(self, slab: int) -> tuple[int, int]:
        """The slabs below (smaller y) and above."""
        return (slab - 1) % self.slabs, (slab + 1) % self.slabs
