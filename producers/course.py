"""The course of a particle-in-cell run: its ranks' steps, and its outputs."""

from __future__ import annotations

import functools
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from producers import cells, gathering, hosts, pic, ranks, units
from producers.outputs import Outputs
from producers.radiation import FarField
from producers.radiation_sums import Particles
from producers.ranks import Signal
from workflow.errors import DataError
from workflow.types import Array, Box, Frame, Hosting, Series

if TYPE_CHECKING:
    from producers.setup import Setup

log = logging.getLogger(__name__)

ELECTRON, ION = 0, 1
Slabs = Sequence[pic.Slab]


def fill(setup: Setup, seed: int, slab: pic.Slab) -> None:
    """Put a slab's particles into it."""
    for row in slab.rows:
        at, inside, electrons, ions = setup.particles(seed, row)
        pic.place(slab, ELECTRON, at, inside, electrons)
        pic.place(slab, ION, at, inside, ions)


# ---------------------------------------------------------------- outputs


@dataclass(frozen=True, kw_only=True)
class Slot:
    """One rank's output of one iteration, in shared memory."""

    cells: tuple[Array, ...]  # per species (d, capacity) int32
    floats: tuple[Array, ...]  # per species (rows, capacity) float32: places, p(, p before)
    counts: Array  # (species,) int64
    fields: Array  # (6(, z), y, x) float32
    amplitude: Array  # (3, directions, frequencies) complex128; (3, 0, 0) without radiation

    @classmethod
    def of(cls, slabs: Slabs, zeros: pic.Allocate, detectors: tuple[int, int] = (0, 0)) -> Slot:
        """Room for the output of a rank's slabs, and of so many directions and frequencies."""
        plasma = slabs[0].plasma
        dimensions, single = len(plasma.grid), np.dtype(np.float32)
        room = [
            sum(slab.particles[index].capacity for slab in slabs)
            for index in range(len(plasma.species))
        ]
        rows = sum(len(slab.rows) for slab in slabs)
        return cls(
            cells=tuple(zeros((dimensions, n), np.dtype(np.int32)) for n in room),
            floats=tuple(zeros((plasma.width, n), single) for n in room),
            counts=zeros((len(plasma.species),), np.dtype(np.int64)),
            fields=zeros((6, *plasma.grid[2:], rows, plasma.grid[0]), single),
            amplitude=zeros((3, *detectors), np.dtype(np.complex128)),
        )

    def fill(self, slabs: Slabs) -> None:
        """Copy the present state of a rank's slabs."""
        self.counts[:] = 0
        for index in range(self.counts.size):
            for slab in slabs:
                self.counts[index] += self._pack(slab, index, int(self.counts[index]))
        start = slabs[0].rows.start
        for slab in slabs:
            rows = slice(slab.rows.start - start, slab.rows.stop - start)
            self.fields[..., rows, :] = slab.inside(slab.fields)

    def _pack(self, slab: pic.Slab, index: int, first: int) -> int:
        """Copy one species of a slab to place `first` and on; returns how many particles."""
        mine, species = slab.particles[index], slab.plasma.species[index]
        if len(mine) > mine.capacity:
            raise DataError(pic.crowded(slab, index, "output", mine.capacity))
        n: int = cells.pack(
            mine.block,
            mine.starts,
            mine.count,
            slab.plasma.width,
            slab.shape,
            slab.rows.start,
            species.mass,
            pic.output_rows(slab.plasma),
            self.cells[index][:, first:],
            self.floats[index][:, first:],
        )
        return n

    def observe(self, far_fields: Sequence[FarField], charge: float) -> None:
        """Copy what was radiated since the last time, by particles of such a charge."""
        self.amplitude[...] = 0
        for far_field in far_fields:
            self.amplitude[...] += charge * np.moveaxis(far_field.amplitude(), -1, 0)
            far_field.reset()


def electrons(slab: pic.Slab, chosen: Array | None = None) -> Particles:
    """A slab's electrons where they lie, as the radiation takes them; chosen: of which cells."""
    mine = slab.particles[ELECTRON]
    return Particles(
        block=mine.block,
        first=mine.starts,
        count=mine.count,
        width=slab.plasma.width,
        grid=slab.shape,
        corner=np.array([0.0, slab.rows.start, 0.0]),
        cells=chosen,
    )


def radiate(
    slab: pic.Slab, far_fields: Mapping[int, FarField], weighting: float, step: int
) -> None:
    """Take in what a slab's electrons radiated in the step that has just led to `step`.

    far_fields: of each slab, by its index, so that slabs may be in threads of their own. Needs u
    before that step: `pic.advance(slab, keep=True)`.
    """
    far_fields[slab.index].add_particles(electrons(slab), weighting, step)


# ---------------------------------------------------------------- the run


def program(
    setup: Setup, seed: int, slabs: Slabs, slots: Sequence[Sequence[Slot]], rank: int
) -> Iterator[Signal]:
    """What one rank does; yields where it needs the other ranks."""
    outputs, weighting = setup.outputs, setup.system.weighting
    mine = slabs[rank * setup.threads : (rank + 1) * setup.threads]
    far_fields = {slab.index: far for slab in mine if (far := setup.far_field()) is not None}
    with Crew(mine) as each:
        each(functools.partial(fill, setup, seed))
        for step in range(outputs[-1] + 1):
            if step in outputs:
                yield Signal.CLAIM
                slot = slots[rank][outputs.index(step) % ranks.SLOTS]
                slot.fill(mine)
                if far_fields:
                    charge = slabs[0].plasma.species[ELECTRON].charge / weighting
                    slot.observe(tuple(far_fields.values()), charge)
                yield Signal.SHOW
            if step == outputs[-1]:
                return
            radiates = setup.radiates(step + 1)
            each(functools.partial(pic.advance, keep=radiates or step + 1 in outputs))
            yield Signal.MEET
            each(functools.partial(pic.meet, slabs=slabs))
            yield Signal.MEET
            each(functools.partial(pic.finish, slabs=slabs))
            if radiates:
                each(
                    functools.partial(
                        radiate, far_fields=far_fields, weighting=weighting, step=step + 1
                    )
                )


class Crew:
    """Calls something for each slab of a rank, each in a thread of its own where there are more."""

    def __init__(self, slabs: Slabs) -> None:
        self._slabs = slabs
        self._threads = ThreadPoolExecutor(len(slabs)) if len(slabs) > 1 else None

    def __enter__(self) -> Crew:
        return self

    def __call__(self, work: Callable[[pic.Slab], None]) -> None:
        calls = (
            map(work, self._slabs)
            if self._threads is None
            else self._threads.map(work, self._slabs)
        )
        for _ in calls:
            pass

    def __exit__(self, *_: object) -> None:
        if self._threads is not None:
            self._threads.shutdown()


def warm_up(plasma: pic.Plasma, far_field: FarField | None = None) -> None:
    """Compile the kernels that such a plasma needs, or load them from numba's cache."""
    began = time.monotonic()
    tiny = pic.tiny(plasma)
    (slab,) = pic.allocate(tiny, particles=1, zeros=pic.private_zeros)
    one = np.zeros((len(tiny.grid), 1))
    pic.place(slab, ELECTRON, one.astype(np.int32), one, np.zeros((3, 1)))
    pic.step((slab,), keep=True)
    Slot.of((slab,), pic.private_zeros).fill((slab,))
    if far_field is not None:
        radiate(slab, {slab.index: far_field}, 1.0, 1)
        far_field.amplitude()
    log.info("kernels for %s are ready (%.1f s)", plasma.dtype, time.monotonic() - began)


def lay_out(setup: Setup, zeros: pic.Allocate) -> tuple[Slabs, tuple[tuple[Slot, ...], ...]]:
    """All slabs, empty, and the output slots of every rank."""
    particles = math.prod(setup.grid) * setup.particles_per_cell
    slabs = pic.allocate(setup.plasma, particles=particles, zeros=zeros)
    seen = setup.radiation
    detectors = (0, 0) if seen is None else (len(seen.directions), seen.frequencies)
    slots = tuple(
        tuple(
            Slot.of(slabs[rank * setup.threads :][: setup.threads], zeros, detectors)
            for _ in range(ranks.SLOTS)
        )
        for rank in range(setup.ranks)
    )
    return slabs, slots


class Run(Outputs):
    """The outputs of one run."""

    def __init__(self, setup: Setup, seed: int, hosting: Hosting) -> None:
        super().__init__(count=setup.ranks, outputs=setup.outputs, pace_s=setup.pace_s)
        self._setup, self._seed, self._hosting = setup, seed, hosting
        self._series: Series = setup.series()
        self._species = tuple(species.name for species in setup.plasma.species)
        self._slots: tuple[tuple[Slot, ...], ...] = ()

    def _start(self) -> ranks.Ranks:
        setup, plasma = self._setup, self._setup.plasma
        inline = self._hosting is Hosting.INLINE
        far = setup.hosts > 1 and not inline
        team = gathering.gather(setup, self._seed) if far else None  # first: all compile at once
        warm_up(plasma, setup.far_field())  # before ranks fork: none of them compiles
        slabs, self._slots = lay_out(setup, pic.private_zeros if inline else ranks.shared_zeros)
        observed = setup.radiation
        self._detectors = {} if observed is None else observed.detectors(plasma.omega_dt)
        room = max(cells.shape[1] for (slot, *_) in self._slots for cells in slot.cells)
        self._weighting = np.full(room, setup.system.weighting, np.float32)
        life = functools.partial(program, setup, self._seed, slabs, self._slots)
        if team is not None:
            return hosts.FarRanks(life, setup, team, slabs, self._slots)
        return ranks.start(life, setup.ranks, hosting=self._hosting, name=type(setup).__name__)

    def _frame(self, rank: int, iteration: int, slot: int) -> Frame:
        setup, filled = self._setup, self._slots[rank][slot]
        arrays: dict[str, Array] = {}
        for index, name in enumerate(self._species):
            arrays |= self._particle_arrays(name, filled, index)
        if setup.fields:
            arrays |= dict(zip(units.YEE_POSITION, filled.fields, strict=True))
        if setup.radiation is not None:
            parts = zip(units.AXES, filled.amplitude, strict=True)
            arrays |= {f"Amplitude_distributed/{a}": part for a, part in parts} | self._detectors
        rows = range(*(r * setup.grid[1] // setup.ranks for r in (rank, rank + 1)))
        return Frame(
            stream=setup.STREAM,
            iteration=iteration,
            time_s=iteration * setup.dt_s,
            dt_s=setup.dt_s,
            box=Box(
                index=rank,
                offset=(0, rows.start, 0)[: len(setup.grid)],
                extent=(setup.grid[0], len(rows), *setup.grid[2:]),
            ),
            arrays=arrays,
            units=self._series.units,
        )

    def _particle_arrays(self, name: str, filled: Slot, index: int) -> dict[str, Array]:
        n = int(filled.counts[index])
        floats, cells = filled.floats[index][:, :n], filled.cells[index][:, :n]
        axes = units.AXES[: len(self._setup.grid)]
        paths = [f"{name}/position/{a}" for a in axes]
        paths += [f"{name}/momentum/{a}" for a in units.AXES]
        if self._setup.momentum_prev:
            paths += [f"{name}/momentumPrev1/{a}" for a in units.AXES]
        return {
            **dict(zip(paths, floats, strict=False)),  # radiation keeps momentumPrev1, too
            **{f"{name}/positionOffset/{a}": c for a, c in zip(axes, cells, strict=True)},
            f"{name}/weighting": self._weighting[:n],
        }
