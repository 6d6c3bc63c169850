"""Electromagnetic particle-in-cell, two dimensions in space and three in velocity.

One step, in PIConGPU's order, each line with the time at which it leaves its quantity:

    keep u(n - 1/2)          when the next output shows momentumPrev1
    push                     E(n), B(n) -> u(n + 1/2), x(n + 1)
    deposit                  J(n + 1/2)
    half step of B           B(n + 1/2)
    step of E                E(n + 1)
    half step of B           B(n + 1)

The grid is cut into slabs along y, one per rank. A rank touches only its own slab, except that it
reads its two neighbours' J guards and outboxes (`meet`) and their outermost E rows (`finish`);
before each of these two the neighbours must have come as far. So the ranks may run in one thread or
each in its own process over shared memory, and give the same bits.

Units as in `producers.kernels`: c dt, dt, m_e c / (e dt); u = gamma beta.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from producers import kernels
from producers.kernels import GUARD
from workflow.errors import ConfigError, DataError
from workflow.types import Array

MIN_ROWS = 4  # of a slab: its guards reach into the next slab, and no further
Allocate = Callable[[tuple[int, ...], np.dtype[np.generic]], Array]


class Shape(enum.Enum):
    """The particle shape: cloud-in-cell, or triangular-shaped cloud (PIConGPU's default)."""

    CIC = "cic"
    TSC = "tsc"

    @property
    def order(self) -> int:
        return {Shape.CIC: 1, Shape.TSC: 2}[self]


@dataclass(frozen=True, kw_only=True)
class Species:
    """A kind of particle."""

    name: str
    charge: float  # [e] per real particle
    mass: float  # [m_e] per real particle


@dataclass(frozen=True, kw_only=True)
class Plasma:
    """What a run is made of; fixes all coefficients of the step."""

    grid: tuple[int, int]  # cells x, y; periodic
    step: float  # c dt [cells]
    omega_dt: float  # omega_p dt of electrons at the density that `per_cell` particles make
    per_cell: int  # macro-particles per cell at that density
    species: tuple[Species, ...]
    shape: Shape
    dtype: np.dtype[np.generic]
    ranks: int
    keep_previous: bool = False

    def __post_init__(self) -> None:
        nx, ny = self.grid
        if nx < MIN_ROWS:
            raise ConfigError(f"grid: wanted at least {MIN_ROWS} cells in x, got {nx}.")
        if not 1 <= self.ranks <= ny // MIN_ROWS:
            raise ConfigError(
                f"ranks: wanted 1 to {ny // MIN_ROWS} for {ny} cells in y, got {self.ranks}. "
                f"Each rank needs {MIN_ROWS} rows: use fewer ranks or a taller grid."
            )
        if not 0 < self.step < 0.5**0.5:
            raise ConfigError(
                f"c dt / cell: wanted more than 0 and less than {0.5**0.5:.3f} (Courant limit in "
                f"two dimensions), got {self.step:.3f}. Use a shorter dt_s or a larger cell_m."
            )

    def rows(self, rank: int) -> range:
        """The rows of the grid that a rank owns."""
        ny = self.grid[1]
        return range(rank * ny // self.ranks, (rank + 1) * ny // self.ranks)

    def neighbours(self, rank: int) -> tuple[int, int]:
        """The ranks below (smaller y) and above."""
        return (rank - 1) % self.ranks, (rank + 1) % self.ranks


@dataclass(frozen=True, kw_only=True)
class Particles:
    """The particles of one species in one slab; the first `count[0]` entries are alive."""

    cells: Array  # (2, capacity) int32: column, row of the padded arrays
    state: Array  # (5 or 8, capacity): x, y in the cell, u(, u one step before)
    count: Array  # (1,) int64
    out_cells: Array  # (2, 2, room) int32: on their way down, up; cells are the receiver's
    out_state: Array  # (2, 5 or 8, room)
    gone: Array  # (2,) int64: how many are on their way down, up


@dataclass(frozen=True, kw_only=True)
class Slab:
    """One rank's part of the state. Arrays may be shared between processes."""

    plasma: Plasma
    rank: int
    fields: Array  # (6, rows + 2 GUARD, columns + 2 GUARD): E, B x, y, z
    current: Array  # (3, ..., ...)
    particles: tuple[Particles, ...]  # in the order of plasma.species
    rows: range = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", self.plasma.rows(self.rank))

    def inside(self, array: Array) -> Array:
        """The slab's own cells of a padded array, (..., rows, columns)."""
        return array[..., GUARD:-GUARD, GUARD:-GUARD]


def allocate(plasma: Plasma, *, particles: int, zeros: Allocate) -> tuple[Slab, ...]:
    """All slabs, empty. `particles`: of one species in the whole box.

    Room for particles is four times an even share, or the whole box: memory that is never touched
    is never committed.
    """
    nx = plasma.grid[0]
    quantities = 8 if plasma.keep_previous else 5
    small, number = np.dtype(np.int32), np.dtype(np.int64)
    slabs = []
    for rank in range(plasma.ranks):
        rows = len(plasma.rows(rank))
        share = -(-particles * rows // plasma.grid[1])
        capacity = min(particles, 4 * share + 1024) + 1
        room = min(particles, 2 * share + 1024) + 1
        padded = (rows + 2 * GUARD, nx + 2 * GUARD)
        slabs.append(
            Slab(
                plasma=plasma,
                rank=rank,
                fields=zeros((6, *padded), plasma.dtype),
                current=zeros((3, *padded), plasma.dtype),
                particles=tuple(
                    Particles(
                        cells=zeros((2, capacity), small),
                        state=zeros((quantities, capacity), plasma.dtype),
                        count=zeros((1,), number),
                        out_cells=zeros((2, 2, room), small),
                        out_state=zeros((2, quantities, room), plasma.dtype),
                        gone=zeros((2,), number),
                    )
                    for _ in plasma.species
                ),
            )
        )
    return tuple(slabs)


def place(slab: Slab, index: int, cells: Array, state: Array) -> None:
    """Put particles of species `index` into a slab.

    cells (2, n): column and row of the whole grid, all in this slab. state (5, n): x, y in the
    cell [0, 1), ux, uy, uz at half a step before the start (PIConGPU: as at the start).
    """
    particles = slab.particles[index]
    n, before = cells.shape[1], int(particles.count[0])
    if before + n > particles.cells.shape[1]:
        raise DataError(
            f"{slab.plasma.species[index].name}: rank {slab.rank} has room for "
            f"{particles.cells.shape[1]} particles, got {before + n}."
        )
    new = slice(before, before + n)
    particles.cells[0, new] = cells[0] + GUARD
    particles.cells[1, new] = cells[1] - slab.rows.start + GUARD
    particles.state[:5, new] = state
    particles.state[5:, new] = state[2:5] if slab.plasma.keep_previous else 0
    particles.count[0] = before + n


def advance(slab: Slab, *, keep: bool = False) -> None:
    """First part of a step: everything that needs no neighbour. `keep`: note u(n - 1/2)."""
    plasma = slab.plasma
    scalar = plasma.dtype.type
    step = scalar(plasma.step)
    slab.current.fill(0)
    below, _ = plasma.neighbours(slab.rank)
    for species, mine in zip(plasma.species, slab.particles, strict=True):
        if keep and plasma.keep_previous:
            n = int(mine.count[0])
            mine.state[5:8, :n] = mine.state[2:5, :n]
        kernels.advance(
            mine.count[0],
            mine.cells,
            mine.state,
            slab.fields,
            slab.current,
            scalar(0.5 * species.charge / species.mass),
            scalar(species.charge * plasma.omega_dt**2 / plasma.per_cell),
            step,
            plasma.grid[0],
            plasma.shape.order,
        )
        remaining, *gone = kernels.leave(
            mine.count[0],
            mine.cells,
            mine.state,
            len(slab.rows),
            len(plasma.rows(below)),
            mine.out_cells,
            mine.out_state,
        )
        if remaining < 0:
            raise DataError(_crowded(slab, species, "outbox", mine.out_cells.shape[2]))
        mine.count[0] = remaining
        mine.gone[:] = gone
    kernels.fold_columns(slab.current, plasma.grid[0])
    kernels.half_step_b(slab.fields, scalar(0.5 * plasma.step))


def meet(slab: Slab, slabs: Sequence[Slab]) -> None:
    """Second part: take over the neighbours' current and particles, then step E."""
    below, above = (slabs[r] for r in slab.plasma.neighbours(slab.rank))
    columns = slice(GUARD, -GUARD)
    slab.current[:, GUARD : 2 * GUARD, columns] += below.current[:, -GUARD:, columns]
    slab.current[:, -2 * GUARD : -GUARD, columns] += above.current[:, :GUARD, columns]
    for index, mine in enumerate(slab.particles):
        for other, side in ((below.particles[index], 1), (above.particles[index], 0)):
            _take(slab, index, mine, other, side)
    kernels.step_e(slab.fields, slab.current, slab.plasma.dtype.type(slab.plasma.step))


def _take(slab: Slab, index: int, mine: Particles, other: Particles, side: int) -> None:
    """Empty a neighbour's outbox into the slab."""
    n, before = int(other.gone[side]), int(mine.count[0])
    if before + n > mine.cells.shape[1]:
        species = slab.plasma.species[index]
        raise DataError(_crowded(slab, species, "slab", mine.cells.shape[1]))
    mine.cells[:, before : before + n] = other.out_cells[side, :, :n]
    mine.state[:, before : before + n] = other.out_state[side, :, :n]
    mine.count[0] = before + n


def _crowded(slab: Slab, species: Species, what: str, room: int) -> str:
    return (
        f"{species.name}: the {what} of rank {slab.rank} is full: wanted at most {room} particles. "
        "The plasma piles up there, which a sound run does not do: check dt_s and cell_m, or use "
        "fewer ranks."
    )


def finish(slab: Slab, slabs: Sequence[Slab]) -> None:
    """Third part: mirror E into the guards, then the second half step of B."""
    mirror(slab, slabs, 0, 3)
    kernels.half_step_b(slab.fields, slab.plasma.dtype.type(0.5 * slab.plasma.step))


def mirror(slab: Slab, slabs: Sequence[Slab], first: int, last: int) -> None:
    """Fill the guards of field components first..last from the neighbours and around x."""
    below, above = (slabs[r] for r in slab.plasma.neighbours(slab.rank))
    columns = slice(GUARD, -GUARD)
    mine = slab.fields[first:last]
    mine[:, :GUARD, columns] = below.fields[first:last, -2 * GUARD : -GUARD, columns]
    mine[:, -GUARD:, columns] = above.fields[first:last, GUARD : 2 * GUARD, columns]
    mine[:, :, :GUARD] = mine[:, :, -2 * GUARD : -GUARD]
    mine[:, :, -GUARD:] = mine[:, :, GUARD : 2 * GUARD]


def step(slabs: Sequence[Slab], *, keep: bool = False) -> None:
    """One whole step of all slabs in this thread."""
    for slab in slabs:
        advance(slab, keep=keep)
    for slab in slabs:
        meet(slab, slabs)
    for slab in slabs:
        finish(slab, slabs)


def private_zeros(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
    """Plain memory of this process, for runs in one thread."""
    return np.zeros(shape, dtype)
