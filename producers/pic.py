"""Electromagnetic particle-in-cell, two or three dimensions in space and three in velocity.

One step, in PIConGPU's order, each line with the time at which it leaves its quantity:

    keep u(n - 1/2)          when the next output shows momentumPrev1
    push                     E(n), B(n) -> u(n + 1/2), x(n + 1)
    deposit                  J(n + 1/2)
    half step of B           B(n + 1/2)
    step of E                E(n + 1)
    half step of B           B(n + 1)

The grid is cut into slabs along y, one per thread of every rank. Work on a slab touches no other,
except that it reads its two neighbours' J guards and boxes of movers (`meet`) and their outermost E
rows (`finish`); before each of these two the neighbours must have come as far. So slabs may be run
by one thread, by threads or by processes over shared memory, and give the same bits.

Units as in `producers.kernels`: c dt, dt, m_e c / (e dt); u = gamma beta.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from producers import cells, fields, kernels
from producers.layout import DOWN, GUARD, LANES, TOO_FAST, UP, WITHIN
from producers.plasma import MIN_ROWS, Plasma, Pusher, Shape, Species
from workflow.errors import DataError
from workflow.types import Array

__all__ = ["MIN_ROWS", "Plasma", "Pusher", "Shape", "Species"]  # as pic.Plasma, to who runs one

Allocate = Callable[[tuple[int, ...], np.dtype[np.generic]], Array]


@dataclass(frozen=True, kw_only=True)
class Particles:
    """The particles of one species in one slab, as in `producers.kernels`.

    Only the boxes of movers are looked at by others; the rest is the memory of whoever runs it.
    """

    capacity: int  # particles at most
    blocks: Array  # (2, size): two stores, of which one is in use
    first: Array  # (2, cells + 1) int64
    used: Array  # (1,) int64: which store
    count: Array  # (cells,) int32
    incoming: Array  # (cells,) int32: movers to each cell, while they are put in
    targets: Array  # (3, room) int32: movers WITHIN, DOWN, UP, by the receiver's cell
    numbers: Array  # (3, room, width)
    gone: Array  # (3,) int64: how many

    @property
    def block(self) -> Array:
        return np.asarray(self.blocks[self.used[0]])

    @property
    def starts(self) -> Array:
        """First block of every cell, and the end."""
        return np.asarray(self.first[self.used[0]])

    def __len__(self) -> int:
        return int(self.count.sum())


@dataclass(frozen=True, kw_only=True)
class Slab:
    """A part of the state: all that one thread works on. May be shared between processes."""

    plasma: Plasma
    index: int
    fields: Array  # (6, z, y, x) with guards: E, B x, y, z
    current: Array  # (3, z, y, x) with guards
    particles: tuple[Particles, ...]  # in the order of plasma.species
    rows: range = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", self.plasma.rows(self.index))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Own cells z, y, x."""
        return self.plasma.planes, len(self.rows), self.plasma.grid[0]

    def inside(self, array: Array) -> Array:
        """The slab's own cells of a padded array: (..., y, x) or (..., z, y, x)."""
        if not self.plasma.up:
            return array[..., 0, GUARD:-GUARD, GUARD:-GUARD]
        return array[..., GUARD:-GUARD, GUARD:-GUARD, GUARD:-GUARD]


def allocate(plasma: Plasma, *, particles: int, zeros: Allocate) -> tuple[Slab, ...]:
    """All slabs, empty. `particles`: of one species in the whole box.

    Room for particles is four times an even share, or the whole box: memory that is never touched
    is never committed.
    """
    nx, ny = plasma.grid[:2]
    slabs = []
    for index in range(plasma.slabs):
        rows = len(plasma.rows(index))
        share = -(-particles * rows // ny)
        padded = (plasma.planes + 2 * GUARD * plasma.up, rows + 2 * GUARD, nx + 2 * GUARD)
        slabs.append(
            Slab(
                plasma=plasma,
                index=index,
                fields=zeros((6, *padded), plasma.dtype),
                current=zeros((3, *padded), plasma.dtype),
                particles=tuple(
                    _room(plasma, plasma.planes * rows * nx, particles, share, zeros)
                    for _ in plasma.species
                ),
            )
        )
    return tuple(slabs)


def _room(plasma: Plasma, grid: int, particles: int, share: int, zeros: Allocate) -> Particles:
    """Room for one species in a slab of `grid` cells."""
    small, number = np.dtype(np.int32), np.dtype(np.int64)
    capacity = min(particles, 4 * share + 1024)
    # cells.roomy, summed over cells: most when all hold the same
    blocks = math.ceil((capacity + 4.0 * math.sqrt(capacity * grid)) / LANES) + 3 * grid
    room = min(particles, 2 * share + 1024) + 1
    mine = Particles(
        capacity=capacity,
        blocks=private_zeros((2, blocks * plasma.width * LANES), plasma.dtype),
        first=private_zeros((2, grid + 1), number),
        used=private_zeros((1,), number),
        count=private_zeros((grid,), small),
        incoming=private_zeros((grid,), small),
        targets=zeros((3, room), small),
        numbers=zeros((3, room, plasma.width), plasma.dtype),
        gone=zeros((3,), number),
    )
    cells.lay_out(
        mine.starts, np.full(grid, min(plasma.per_cell, capacity // grid), np.int32), mine.count
    )
    return mine


def place(slab: Slab, index: int, at: Array, inside: Array, u: Array) -> None:
    """Put particles of species `index` into a slab.

    at (d, n): cells x, y(, z) of the whole grid, all in this slab. inside (d, n): places in the
    cell, [0, 1). u (3, n): half a step before the start (PIConGPU: as at the start).
    """
    plasma = slab.plasma
    x, y = at[0], at[1] - slab.rows.start
    z = at[2] if plasma.up else 0
    targets = ((z * len(slab.rows) + y) * plasma.grid[0] + x).astype(np.int32)
    before = (u,) if plasma.keep_previous else ()
    numbers = np.concatenate([inside[:2], u, inside[2:], *before]).astype(plasma.dtype).T
    _put(slab, index, [(targets, np.ascontiguousarray(numbers), targets.size)])


def _put(slab: Slab, index: int, movers: Sequence[tuple[Array, Array, int]]) -> None:
    """Put movers (cells, numbers, how many) into their cells; makes room where there is none."""
    mine, width = slab.particles[index], slab.plasma.width
    fit = [
        cells.expect(mine.starts, mine.count, mine.incoming, targets, n) for targets, _, n in movers
    ]
    if not all(fit):
        _move_over(slab, index)
    for targets, numbers, n in movers:
        cells.insert(mine.block, mine.starts, mine.count, mine.incoming, width, targets, numbers, n)


def _move_over(slab: Slab, index: int) -> None:
    """Move a species to its other store, laid out for what there is and what comes in."""
    mine, width = slab.particles[index], slab.plasma.width
    other = 1 - int(mine.used[0])
    wanted = cells.lay_out(mine.first[other], mine.count, mine.incoming)
    room = mine.blocks.shape[1] // (width * LANES)
    if wanted > room:
        raise DataError(crowded(slab, index, "room", mine.capacity))
    cells.move_over(
        mine.block, mine.starts, mine.count, width, mine.blocks[other], mine.first[other]
    )
    mine.used[0] = other


def crowded(slab: Slab, index: int, what: str, room: int) -> str:
    """The message for too many particles in one place."""
    return (
        f"{slab.plasma.species[index].name}: the {what} of slab {slab.index} is full: wanted at "
        f"most {room} particles. The plasma piles up there, which a sound run does not do: check "
        "dt_s and cell_m, or use fewer ranks."
    )


def advance(slab: Slab, *, keep: bool = False) -> None:
    """First part of a step: everything that needs no neighbour. `keep`: note u(n - 1/2)."""
    push_particles(slab, keep=keep)
    _fold(slab)
    _half_step_b(slab)


def push_particles(slab: Slab, *, keep: bool = False) -> None:
    """u, x and J of all particles; those that leave their cell wait in the boxes of movers."""
    plasma = slab.plasma
    scalar = plasma.dtype.type
    slab.current.fill(0)
    grid = (*slab.shape, *(len(plasma.rows(r)) for r in plasma.neighbours(slab.index)))
    for index, (species, mine) in enumerate(zip(plasma.species, slab.particles, strict=True)):
        mine.gone[:] = 0
        error = kernels.advance(
            mine.block,
            mine.starts,
            mine.count,
            plasma.width,
            slab.fields,
            slab.current,
            grid,
            mine.targets,
            mine.numbers,
            mine.gone,
            scalar(0.5 * species.charge / species.mass),
            scalar(species.charge * plasma.omega_dt**2 / plasma.per_cell),
            scalar(plasma.step),
            keep and plasma.keep_previous,
            *plasma.order,
            plasma.pusher.code,
        )
        if error == TOO_FAST:
            raise DataError(
                f"{species.name}: a particle of slab {slab.index} wanted to pass more than one "
                "cell in a step, or is not a number any more. The run has become unstable: use a "
                "shorter dt_s, a smaller cell_m or more particles_per_cell."
            )
        if error:
            raise DataError(crowded(slab, index, "box of movers", mine.targets.shape[1]))


def _fold(slab: Slab) -> None:
    """Add what was deposited beyond the edges in x and z to the cells that it belongs to."""
    for axis in slab.plasma.wrapped:
        j = np.moveaxis(slab.current, axis, 0)
        j[-2 * GUARD : -GUARD] += j[:GUARD]
        j[GUARD : 2 * GUARD] += j[-GUARD:]


def meet(slab: Slab, slabs: Sequence[Slab]) -> None:
    """Second part: take over the neighbours' current and movers, then step E."""
    below, above = (slabs[r] for r in slab.plasma.neighbours(slab.index))
    slab.current[..., GUARD : 2 * GUARD, :] += below.current[..., -GUARD:, :]
    slab.current[..., -2 * GUARD : -GUARD, :] += above.current[..., :GUARD, :]
    take_movers(slab, slabs)
    plasma = slab.plasma
    fields.step_e(slab.fields, slab.current, plasma.dtype.type(plasma.step), plasma.up)


def take_movers(slab: Slab, slabs: Sequence[Slab]) -> None:
    """Put the slab's own movers and those of its neighbours into their cells."""
    below, above = (slabs[r] for r in slab.plasma.neighbours(slab.index))
    for index, mine in enumerate(slab.particles):
        sources = (mine, WITHIN), (below.particles[index], UP), (above.particles[index], DOWN)
        _put(slab, index, [(s.targets[w], s.numbers[w], int(s.gone[w])) for s, w in sources])


def finish(slab: Slab, slabs: Sequence[Slab]) -> None:
    """Third part: mirror E into the guards, then the second half step of B."""
    mirror(slab, slabs, 0, 3)
    _half_step_b(slab)


def _half_step_b(slab: Slab) -> None:
    plasma = slab.plasma
    fields.half_step_b(slab.fields, plasma.dtype.type(0.5 * plasma.step), plasma.up)


def mirror(slab: Slab, slabs: Sequence[Slab], first: int, last: int) -> None:
    """Fill the guards of field components first..last from the neighbours and around x and z."""
    below, above = (slabs[r] for r in slab.plasma.neighbours(slab.index))
    mine = slab.fields[first:last]
    mine[..., :GUARD, :] = below.fields[first:last, :, -2 * GUARD : -GUARD]
    mine[..., -GUARD:, :] = above.fields[first:last, :, GUARD : 2 * GUARD]
    for axis in slab.plasma.wrapped:
        f = np.moveaxis(mine, axis, 0)
        f[:GUARD] = f[-2 * GUARD : -GUARD]
        f[-GUARD:] = f[GUARD : 2 * GUARD]


def step(slabs: Sequence[Slab], *, keep: bool = False) -> None:
    """One whole step of all slabs in this thread."""
    for slab in slabs:
        advance(slab, keep=keep)
    for slab in slabs:
        meet(slab, slabs)
    for slab in slabs:
        finish(slab, slabs)


def read(slab: Slab, index: int) -> tuple[Array, Array, Array]:
    """Particles of species `index`, cell by cell.

    Cells x, y(, z) of the whole grid (d, n), places in them (d, n), u (3, n), or (6, n) with u one
    step before.
    """
    mine, plasma = slab.particles[index], slab.plasma
    n, dimensions = len(mine), len(plasma.grid)
    numbers, flat = np.empty((plasma.width, n), plasma.dtype), np.empty(n, np.int64)
    cells.read(mine.block, mine.starts, mine.count, plasma.width, flat, numbers)
    z, y, x = np.unravel_index(flat, slab.shape)
    at = np.stack([x, y + slab.rows.start, z][:dimensions])
    rows = output_rows(plasma)[:, 1]
    return at, numbers[rows[:dimensions]], numbers[rows[dimensions:]]


def output_rows(plasma: Plasma) -> Array:
    """(kind, row of a block) of places x, y(, z), u(, u before), as `cells.pack` wants them."""
    places = [0, 1, 5][: len(plasma.grid)]
    before = range(plasma.width - 3, plasma.width) if plasma.keep_previous else ()
    return np.array([(0, row) for row in places] + [(1, row) for row in (2, 3, 4, *before)])


def tiny(plasma: Plasma) -> Plasma:
    """The smallest plasma that runs through the same kernels."""
    return dataclasses.replace(
        plasma,
        grid=(MIN_ROWS,) * len(plasma.grid),
        per_cell=1,
        species=plasma.species[:1],
        ranks=1,
        threads=1,
    )


def private_zeros(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
    """Plain memory of this process, for runs in one thread."""
    return np.zeros(shape, dtype)
