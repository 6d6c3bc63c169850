"""The course of a Kelvin-Helmholtz run: the particles it starts from, its steps, its outputs."""

from __future__ import annotations

import functools
import logging
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from producers import pic, ranks, shear, units
from producers.kernels import GUARD, pack
from producers.radiation import FarField
from producers.ranks import Signal
from producers.shear import Start
from workflow.types import Array, Box, Frame, Hosting, Series

if TYPE_CHECKING:
    from producers.khi import KelvinHelmholtz

log = logging.getLogger(__name__)

STREAM = "khi"
ELECTRON, ION = 0, 1

# ---------------------------------------------------------------- the start


def start_row(config: KelvinHelmholtz, seed: int, row: int) -> tuple[Array, Array, Array]:
    """Cells (2, n) int32, electrons and ions (5, n): x, y in the cell, u [c], of one grid row.

    Every row has a generator of its own, so that the start does not depend on the ranks.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(row,)))
    nx, ny = config.grid
    n = nx * config.particles_per_cell
    cells = np.empty((2, n), np.int32)
    cells[0] = np.repeat(np.arange(nx), config.particles_per_cell)
    cells[1] = row
    electrons = np.zeros((5, n))
    if config.start is Start.RANDOM:
        electrons[:2] = rng.random((2, n), dtype=np.float32)  # never rounds up to the next cell
    else:
        electrons[:2] = np.tile(shear.lattice(config.particles_per_cell), nx)
    y = row + electrons[1]
    electrons[2] = shear.flow_sign(y, ny) * config.gamma * shear.beta(config.gamma)
    ions = electrons.copy()  # neutral everywhere
    thermal = math.sqrt(
        config.temperature_ev * units.ELEMENTARY_CHARGE / (units.ELECTRON_MASS * units.C**2)
    )
    electrons[2:] += rng.normal(0.0, thermal, (3, n))
    electrons[3] += _seeded(config, cells[0] + electrons[0], y)
    return cells, electrons, ions


def _seeded(config: KelvinHelmholtz, x: Array, y: Array) -> Array:
    """The perturbation's u_y at x, y [cells]."""
    if config.perturbation is None:
        return np.zeros_like(x)
    skin = units.C / units.plasma_frequency(config.density_m3) / config.cell_m  # [cells]
    nx, ny = config.grid
    k = 2.0 * math.pi * config.perturbation.mode / nx
    kappa = shear.decay(k * skin, config.gamma, config.mass_ratio) / skin
    envelope = np.exp(-kappa * shear.distance_to_shear(y, ny))
    return np.asarray(config.perturbation.amplitude * np.cos(k * x) * envelope)


def fill(config: KelvinHelmholtz, seed: int, slab: pic.Slab) -> None:
    """Put a rank's particles into its slab."""
    for row in slab.rows:
        cells, electrons, ions = start_row(config, seed, row)
        pic.place(slab, ELECTRON, cells, electrons)
        pic.place(slab, ION, cells, ions)


# ---------------------------------------------------------------- outputs


@dataclass(frozen=True, kw_only=True)
class Slot:
    """One rank's output of one iteration, in shared memory."""

    cells: tuple[Array, ...]  # per species (2, capacity) int32
    floats: tuple[Array, ...]  # per species (5 or 8, capacity) float32: x, y, p(, p before)
    counts: Array  # (species,) int64
    fields: Array  # (6, rows, columns) float32
    amplitude: Array  # (3, directions, frequencies) complex128; (3, 0, 0) without radiation

    @classmethod
    def beside(
        cls, slab: pic.Slab, zeros: pic.Allocate, detectors: tuple[int, int] = (0, 0)
    ) -> Slot:
        """Room for the output of a slab, and of so many directions and frequencies."""
        single, small = np.dtype(np.float32), np.dtype(np.int32)
        return cls(
            cells=tuple(zeros(p.cells.shape, small) for p in slab.particles),
            floats=tuple(zeros(p.state.shape, single) for p in slab.particles),
            counts=zeros((len(slab.particles),), np.dtype(np.int64)),
            fields=zeros(slab.inside(slab.fields).shape, single),
            amplitude=zeros((3, *detectors), np.dtype(np.complex128)),
        )

    def fill(self, slab: pic.Slab) -> None:
        """Copy a slab's present state."""
        for index, (species, particles) in enumerate(
            zip(slab.plasma.species, slab.particles, strict=True)
        ):
            self.counts[index] = particles.count[0]
            pack(
                particles.count[0],
                particles.cells,
                particles.state,
                slab.rows.start,
                species.mass,
                int(slab.plasma.keep_previous),
                self.cells[index],
                self.floats[index],
            )
        self.fields[...] = slab.inside(slab.fields)

    def observe(self, far_field: FarField, charge: float) -> None:
        """Copy what was radiated since the last time, by particles of such a charge."""
        self.amplitude[...] = charge * np.moveaxis(far_field.amplitude(), -1, 0)
        far_field.reset()


# ---------------------------------------------------------------- radiation


def radiate(far_field: FarField, slab: pic.Slab, weighting: float, step: int) -> None:
    """Take in what a slab's electrons radiated in the step that has just led to `step`.

    Needs u before that step: `pic.advance(slab, keep=True)`.
    """
    electrons = slab.particles[ELECTRON]
    alive = slice(int(electrons.count[0]))
    corner = np.array([[0.0], [slab.rows.start]]) - GUARD
    position = electrons.cells[:, alive] + electrons.state[:2, alive] + corner  # (2, n) [cells]
    far_field.add(position, electrons.state[5:8, alive], electrons.state[2:5, alive],
                  weighting, step)  # fmt: skip


# ---------------------------------------------------------------- the run


def program(
    config: KelvinHelmholtz,
    seed: int,
    slabs: tuple[pic.Slab, ...],
    slots: tuple[tuple[Slot, ...], ...],
    rank: int,
) -> Iterator[Signal]:
    """What one rank does; yields where it needs the other ranks."""
    slab, outputs, far_field = slabs[rank], config.outputs, config.far_field()
    weighting = config.system.weighting
    fill(config, seed, slab)
    for step in range(outputs[-1] + 1):
        if step in outputs:
            yield Signal.CLAIM
            slot = slots[rank][outputs.index(step) % ranks.SLOTS]
            slot.fill(slab)
            if far_field is not None:
                slot.observe(far_field, slab.plasma.species[ELECTRON].charge / weighting)
            yield Signal.SHOW
        if step == outputs[-1]:
            return
        radiates = config.radiates(step + 1)
        pic.advance(slab, keep=radiates or step + 1 in outputs)
        yield Signal.MEET
        pic.meet(slab, slabs)
        yield Signal.MEET
        pic.finish(slab, slabs)
        if far_field is not None and radiates:
            radiate(far_field, slab, weighting, step + 1)


def warm_up(dtype: np.dtype[np.generic], far_field: FarField | None = None) -> None:
    """Compile the kernels for float32 or float64 data, or load them from numba's cache."""
    began = time.monotonic()
    plasma = pic.Plasma(
        grid=(pic.MIN_ROWS, pic.MIN_ROWS),
        step=0.5,
        omega_dt=0.1,
        per_cell=1,
        species=(pic.Species(name="e", charge=-1.0, mass=1.0),),
        shape=pic.Shape.TSC,
        dtype=dtype,
        ranks=1,
        keep_previous=True,
    )
    slabs = pic.allocate(plasma, particles=1, zeros=pic.private_zeros)
    pic.place(slabs[0], 0, np.zeros((2, 1), np.int32), np.zeros((5, 1)))
    pic.step(slabs)
    Slot.beside(slabs[0], pic.private_zeros).fill(slabs[0])
    if far_field is not None:
        radiate(far_field, slabs[0], 1.0, 1)
        far_field.amplitude()
    log.info("kernels for %s are ready (%.1f s)", dtype, time.monotonic() - began)


class Run(Iterator[tuple[Frame, ...]]):
    """The outputs of one run, one after the other. `pids`: the ranks' processes, once they run."""

    def __init__(self, config: KelvinHelmholtz, seed: int, hosting: Hosting) -> None:
        self._config, self._seed, self._hosting = config, seed, hosting
        self._series: Series = config.series()
        self._ranks: ranks.Ranks | None = None
        self._slots: tuple[tuple[Slot, ...], ...] = ()
        self._slabs: tuple[pic.Slab, ...] = ()
        self._outputs = iter(config.outputs)
        self._last_s = -math.inf

    @property
    def pids(self) -> tuple[int, ...]:
        return self._ranks.pids if self._ranks is not None else ()

    def __next__(self) -> tuple[Frame, ...]:
        if self._ranks is None:
            self._ranks = self._start()
        slot = self._ranks.next_slot()
        if slot is None:
            raise StopIteration
        self._ranks.rest(self._last_s + self._config.pace_s - time.monotonic())
        self._last_s = time.monotonic()
        iteration = next(self._outputs)
        return tuple(self._frame(slab, iteration, slot) for slab in self._slabs)

    def close(self) -> None:
        """End the run before its end; frames must not be read any more."""
        if self._ranks is not None:
            self._ranks.close()

    def _start(self) -> ranks.Ranks:
        config, plasma = self._config, self._config.plasma
        warm_up(plasma.dtype, config.far_field())  # before ranks fork: none of them compiles
        inline = self._hosting is Hosting.INLINE
        zeros = pic.private_zeros if inline else ranks.shared_zeros
        particles = config.grid[0] * config.grid[1] * config.particles_per_cell
        self._slabs = pic.allocate(plasma, particles=particles, zeros=zeros)
        observed = config.radiation
        shape = (0, 0) if observed is None else (len(observed.directions), observed.frequencies)
        self._slots = tuple(
            tuple(Slot.beside(slab, zeros, shape) for _ in range(ranks.SLOTS))
            for slab in self._slabs
        )
        self._detectors = {} if observed is None else observed.detectors(plasma.omega_dt)
        room = max(cells.shape[1] for (slot, *_) in self._slots for cells in slot.cells)
        self._weighting = np.full(room, config.system.weighting, np.float32)
        return ranks.start(
            functools.partial(program, config, self._seed, self._slabs, self._slots),
            config.ranks,
            hosting=self._hosting,
            name="KelvinHelmholtz",
        )

    def _frame(self, slab: pic.Slab, iteration: int, slot: int) -> Frame:
        config = self._config
        filled = self._slots[slab.rank][slot]
        arrays: dict[str, Array] = {}
        for index, species in enumerate(slab.plasma.species):
            arrays |= self._particle_arrays(species.name, filled, index)
        if config.fields:
            arrays |= dict(zip(units.YEE_POSITION, filled.fields, strict=True))
        if config.radiation is not None:
            parts = zip(units.AXES, filled.amplitude, strict=True)
            arrays |= {f"Amplitude_distributed/{a}": part for a, part in parts} | self._detectors
        return Frame(
            stream=STREAM,
            iteration=iteration,
            time_s=iteration * config.dt_s,
            dt_s=config.dt_s,
            box=Box(
                index=slab.rank,
                offset=(0, slab.rows.start),
                extent=(config.grid[0], len(slab.rows)),
            ),
            arrays=arrays,
            units=self._series.units,
        )

    def _particle_arrays(self, name: str, filled: Slot, index: int) -> dict[str, Array]:
        n = int(filled.counts[index])
        floats, cells = filled.floats[index][:, :n], filled.cells[index][:, :n]
        paths = [f"{name}/position/{a}" for a in "xy"] + [f"{name}/momentum/{a}" for a in "xyz"]
        if self._config.momentum_prev:
            paths += [f"{name}/momentumPrev1/{a}" for a in "xyz"]
        return {
            **dict(zip(paths, floats, strict=False)),  # radiation keeps momentumPrev1, too
            f"{name}/positionOffset/x": cells[0],
            f"{name}/positionOffset/y": cells[1],
            f"{name}/weighting": self._weighting[:n],
        }
