"""The course of a load generator's run: where its particles start, their steps, its outputs."""

from __future__ import annotations

import functools
import logging
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from producers import ranks, shear, stuart
from producers.outputs import Outputs
from producers.ranks import Signal
from workflow.types import Array, Box, Frame, Hosting

if TYPE_CHECKING:
    from producers.flow import VortexFlow

log = logging.getLogger(__name__)

STREAM = "flow"

Allocate = Callable[[tuple[int, ...], np.dtype[np.generic]], Array]  # zeros of a shape and type

# ---------------------------------------------------------------- what a rank does


@dataclass(frozen=True, kw_only=True)
class Slot:
    """One rank's output of one iteration, and where the next one starts from; in shared memory."""

    cells: tuple[Array, ...]  # per species (2, n) int32
    state: tuple[Array, ...]  # per species (4 or 6, n) float32: x, y, p(, p before) in x and y

    @classmethod
    def of(cls, config: VortexFlow, rank: int, zeros: Allocate) -> Slot:
        """Room for the output of a rank."""
        n = len(config.rows_of(rank)) * config.per_row
        quantities = 6 if config.momentum_prev else 4
        single, small = np.dtype(np.float32), np.dtype(np.int32)
        return cls(
            cells=tuple(zeros((2, n), small) for _ in config.species),
            state=tuple(zeros((quantities, n), single) for _ in config.species),
        )


def scatter(config: VortexFlow, seed: int, rank: int, slot: Slot) -> None:
    """Put the particles of a rank at random places; each row has a generator of its own."""
    for index in range(len(config.species)):
        for part, row in _parts(config, rank):
            rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(index, row)))
            columns = np.repeat(np.arange(config.grid[0]), config.particles_per_cell)
            lines = np.arange(row * config.height, (row + 1) * config.height)
            slot.cells[index][0, part] = np.tile(columns, config.height)
            slot.cells[index][1, part] = np.repeat(lines, len(columns))
            slot.state[index][:2, part] = rng.random((2, config.per_row), dtype=np.float32)


def _parts(config: VortexFlow, rank: int) -> Iterator[tuple[slice, int]]:
    """(where its particles are in the rank's arrays, row) of each of a rank's rows."""
    for place, row in enumerate(config.rows_of(rank)):
        yield slice(place * config.per_row, (place + 1) * config.per_row), row


def advance(
    config: VortexFlow, rank: int, old: Slot, new: Slot, *, times: range, step: float
) -> None:
    """Particles from `old` to `new`, one step from each of `times`; `step`: c dt [cells] or 0."""
    single = np.float32
    wave = config.waves / config.grid[0]  # [1/cell]
    heights = single(2.0 * math.pi * wave / math.log(2.0))
    before = np.array(times, dtype=float)
    eps = np.stack([config.eps(before + 0.5), config.eps(before + 1.0)], axis=1)
    for index, name in enumerate(config.species):
        for part, row in _parts(config, rank):
            speed = shear.beta(config.gamma) * (1 if row % 2 == 0 else -1)
            stuart.advance(
                part.start,
                part.stop,
                old.cells[index],
                old.state[index],
                new.cells[index],
                new.state[index],
                (single(config.grid[0]), single(row * config.height), single(config.height)),
                (single(wave), heights, single(speed)),
                eps.astype(single),
                single(step),
                single(config.mass(name)),
            )


def begin(config: VortexFlow, seed: int, rank: int, slots: tuple[Slot, ...]) -> None:
    """Bring a rank's first output into its first slot, by way of the other."""
    far = config.first_step > 0
    before, start = (slots[0], slots[1]) if far else (slots[1], slots[0])
    scatter(config, seed, rank, before)
    advance(config, rank, before, start, times=range(-1, 0), step=0.0)  # momenta at step 0
    if config.momentum_prev:
        for state in start.state:
            state[4:] = state[2:4]
    if far:
        advance(config, rank, start, slots[0], times=range(config.first_step), step=config.step)


def program(
    config: VortexFlow, seed: int, slots: tuple[tuple[Slot, ...], ...], rank: int
) -> Iterator[Signal]:
    """What one rank does. It never meets the others."""
    own = slots[rank]
    for index, iteration in enumerate(config.outputs):
        yield Signal.CLAIM
        old, new = own[(index - 1) % ranks.SLOTS], own[index % ranks.SLOTS]
        if index == 0:
            begin(config, seed, rank, own)
        elif config.moves:
            times = range(iteration - config.period, iteration)
            advance(config, rank, old, new, times=times, step=config.step)
        elif index < ranks.SLOTS:
            for source, target in zip(old.cells + old.state, new.cells + new.state, strict=True):
                target[...] = source
        yield Signal.SHOW


def warm_up() -> None:
    """Compile the kernel, or load it from numba's cache."""
    began = time.monotonic()
    one = np.float32(1)
    cells, state = np.zeros((2, 1), np.int32), np.zeros((4, 1), np.float32)
    eps = np.full((1, 2), 0.5, np.float32)
    stuart.advance(
        0, 1, cells, state, cells.copy(), state.copy(), (one,) * 3, (one / 2,) * 3, eps, one, one
    )
    log.info("the kernel of the load generator is ready (%.1f s)", time.monotonic() - began)


# ---------------------------------------------------------------- the run


class Run(Outputs):
    """The outputs of one run."""

    def __init__(self, config: VortexFlow, seed: int, hosting: Hosting) -> None:
        super().__init__(count=config.ranks, outputs=config.outputs, pace_s=config.pace_s)
        self._config, self._seed, self._hosting = config, seed, hosting
        self._units = config.series().units
        self._slots: tuple[tuple[Slot, ...], ...] = ()

    def _start(self) -> ranks.Ranks:
        config = self._config
        warm_up()  # before ranks fork: none of them compiles
        zeros = np.zeros if self._hosting is Hosting.INLINE else ranks.shared_zeros
        self._slots = tuple(
            tuple(Slot.of(config, rank, zeros) for _ in range(ranks.SLOTS))
            for rank in range(config.ranks)
        )
        room = max(slots[0].cells[0].shape[1] for slots in self._slots)
        self._weighting = np.full(room, config.system.weighting, np.float32)
        self._nothing = np.full(room, 0.0, np.float32)  # touched: real memory as all the rest
        return ranks.start(
            functools.partial(program, config, self._seed, self._slots),
            config.ranks,
            hosting=self._hosting,
            name="VortexFlow",
        )

    def _frame(self, rank: int, iteration: int, slot: int) -> Frame:
        config, rows = self._config, self._config.rows_of(rank)
        arrays: dict[str, Array] = {}
        for index, name in enumerate(config.species):
            arrays |= self._particle_arrays(name, self._slots[rank][slot], index)
        return Frame(
            stream=STREAM,
            iteration=iteration,
            time_s=iteration * config.dt_s,
            dt_s=config.dt_s,
            box=Box(
                index=rank,
                offset=(0, rows.start * config.height),
                extent=(config.grid[0], len(rows) * config.height),
            ),
            arrays=arrays,
            units=self._units,
        )

    def _particle_arrays(self, name: str, slot: Slot, index: int) -> dict[str, Array]:
        cells, state = slot.cells[index], slot.state[index]
        n = cells.shape[1]
        paths = ["position", "momentum"] + ["momentumPrev1"] * self._config.momentum_prev
        arrays = {
            f"{name}/{path}/{axis}": state[2 * i + j]
            for i, path in enumerate(paths)
            for j, axis in enumerate("xy")
        }
        arrays |= {f"{name}/{path}/z": self._nothing[:n] for path in paths[1:]}
        arrays |= {f"{name}/positionOffset/{axis}": cells[j] for j, axis in enumerate("xy")}
        return arrays | {f"{name}/weighting": self._weighting[:n]}
