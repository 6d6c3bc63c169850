"""Two ways to sum up V exp(i w tau) over particles and steps: term by term, and on bins.

Units here: dt = 1, c dt = 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from producers import radiation_bins
from producers import radiation_kernels as kernels
from producers.layout import LANES
from workflow.errors import DataError
from workflow.types import Array

Float64 = NDArray[np.float64]
Complex128 = NDArray[np.complex128]

FINE = 16.0  # bins per half period of a low frequency, or more: echoes of 2e-6
MOST_LEVELS = 12
ROOM = 64.0  # [dt] for which the bins last beyond the first step that they take


@dataclass(frozen=True, kw_only=True)
class Particles:
    """Particles where they lie: by cell, in blocks. See `producers.kernels`."""

    block: Array  # (size,): rows x, y, ux, uy, uz(, z), u one step before
    first: Array  # (cells + 1,) int64
    count: Array  # (cells,) int32
    width: int  # rows of a block: 8 in two dimensions, 9 in three
    grid: tuple[int, int, int]  # cells z, y, x
    corner: Float64  # (3,) place of the first cell x, y, z
    span: Float64 = field(default_factory=lambda: np.ones(3))  # (3,) how far a cell reaches
    cells: Array | None = None  # (n,) int64: which cells; None: all

    @classmethod
    def of(cls, position: Float64, before: Array, now: Array) -> Self:
        """Of arrays, as one cell: position (d, n), u before and after the push (3, n)."""
        axes, n = position.shape
        blocks = -(-n // LANES)
        numbers = np.zeros((9, blocks * LANES))
        corner = np.zeros(3)
        corner[:axes] = np.floor(position.min(axis=1)) if n else 0.0
        numbers[[0, 1, 5][:axes], :n] = position - corner[:axes, None]
        numbers[2:5, :n], numbers[6:9, :n] = now, before
        return cls(
            block=numbers.reshape(9, blocks, LANES).transpose(1, 0, 2).ravel(),
            first=np.array([0, blocks]),
            count=np.array([n], np.int32),
            width=9,
            grid=(1, 1, 1),
            corner=corner,
            span=numbers[[0, 1, 5]].max(axis=1, initial=0.0),
        )

    @property
    def which(self) -> Array:
        """The cells (n,)."""
        return np.arange(self.count.size) if self.cells is None else self.cells

    @property
    def bounds(self) -> tuple[Float64, Float64]:
        """Where the particles are at most: lowest and highest places (3,)."""
        return self.corner, self.corner + np.array(self.grid[::-1]) - 1.0 + self.span


@dataclass(frozen=True, kw_only=True)
class View:
    """What a sum is of: directions, frequencies, which of them pass, and the time of a kick."""

    normals: Float64  # (directions, 3) unit vectors
    across: Float64  # (directions, 2, 3) unit vectors, across these and each other
    paths: Float64  # (directions, 3) n_i cell_i: way along n per unit of position [c dt]
    drifts: Float64  # (directions, 3) n along the axes of the box: z counts only where there is z
    slopes: Float64  # (3,) of the window: 2 / length, or 0 where there is none
    omega: Float64  # (frequencies,) [1/dt], rising
    limits: Float64  # (frequencies,) a frequency passes where 1 - n.beta is less
    table: NDArray[np.uintp]  # see kernels.passing
    total: bool  # V is the change of n x (n x beta) / (1 - n.beta)
    age: float  # [dt] by which tau is taken before the position is,
    mix: float  # the particle having moved since with (1 - mix) beta(now) + mix beta(before)

    @classmethod
    def of(
        cls, *, normals: Float64, omega: Float64, cell: Float64, lag: float,
        nyquist: float | None, total: bool, slopes: Float64 | None = None,
    ) -> Self:  # fmt: skip
        """cell (d,): lengths of the unit of position [c dt]; lag [dt]: how much u is older."""
        aside = np.cross(normals, np.eye(3)[np.abs(normals).argmin(axis=1)])
        aside /= np.linalg.norm(aside, axis=1, keepdims=True)
        with np.errstate(divide="ignore"):
            limits = (math.inf if nyquist is None else nyquist) * (math.pi - 0.01) / omega
        s = np.arange(kernels.PARTS + 1) * (2.0 / kernels.PARTS)
        return cls(
            normals=normals,
            across=np.stack([aside, np.cross(normals, aside)], axis=1),
            paths=normals * np.append(cell, (0.0, 0.0))[:3],
            drifts=normals * (np.arange(3) < len(cell)),
            slopes=np.zeros(3) if slopes is None else slopes,
            omega=omega,
            limits=limits,
            table=np.searchsorted(-limits, -s).astype(np.uintp),
            total=total,
            age=lag + 0.5 if total else 0.0,  # the middle of the push, or now
            mix=0.25 - 0.5 * lag if total else 0.0,
        )


class Sum(Protocol):
    """Sums up."""

    def add(self, particles: Particles, step: float) -> None:
        """Add one step."""
        ...

    def take(self) -> Complex128:
        """The sum (directions, frequencies, 3) since the last time."""
        ...


class Direct:
    """The reference: term by term."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._amplitude = np.zeros((len(view.normals), len(view.omega), 3), np.complex128)

    def add(self, particles: Particles, step: float) -> None:
        """See Sum."""
        v, p = self._view, particles
        kernels.add_direct(
            p.which, p.block, p.first, p.count, p.width, p.grid, p.corner, v.slopes, v.normals,
            v.drifts, v.paths, float(step), v.age, v.mix, v.total, v.omega, v.limits, v.table,
            self._amplitude,
        )  # fmt: skip

    def take(self) -> Complex128:
        """See Sum."""
        taken = self._amplitude
        self._amplitude = np.zeros_like(taken)
        return taken


class Binned:
    """The fast way: V is spread over bins of retarded time, and transformed only when taken.

    A step costs the same for any number of frequencies. A cubic B-spline over bins of width dtau
    (twice, four times ... as wide for low frequencies, see `kernels.transform`)
    turns exp(i w tau) into sinc^4(x) exp(i w tau), x = w dtau / 2, which is divided out, and into
    echoes at w + 2 pi j / dtau, which stay: see `error`. Particles whose cuts differ go to
    different bins, so that the cut is that of the direct sum. V is across the direction, so two
    numbers per bin do. Memory: 16 bytes x directions x bins (the retarded times that the box spans)
    x distinct cuts (rounded up to a power of two).

    Particles in float32 are treated in float32; see `producers.radiation_bins` for why they may be.
    """

    def __init__(self, view: View, *, oversampling: int) -> None:
        self._view = view
        directions, frequencies = len(view.normals), len(view.omega)
        self._per_step = float(oversampling * view.omega[-1] / math.pi) or 1.0  # bins per dt
        over = oversampling * view.omega[-1] / np.maximum(view.omega, 1e-300)
        levels = np.floor(np.log2(over / max(FINE, oversampling))).clip(0, MOST_LEVELS)
        self._levels = levels.astype(np.int64)  # (frequencies,): bins are 2^level as wide
        self._slots = np.full(frequencies + 1, -1, np.intp)  # of each count of passing frequencies
        self._quick = np.full(kernels.PARTS + 1, -1, np.int32)  # the same by part of s
        self._first = np.zeros(directions, np.int64)  # number of the first bin
        self._used = np.zeros(directions, np.int64)  # bins that may be filled
        self._bins: Float64 = np.zeros((1, directions, 0, 2))  # (slots, directions, bins, across)
        self._amplitude = np.zeros((directions, frequencies, 2), np.complex128)
        smooth = np.sinc(self._half_phase / math.pi) ** 4 * radiation_bins.TAPS
        self._sharpen = 1.0 / smooth[:, None]  # (frequencies, 1)
        self._across = view.across.astype(np.complex128)  # a product of one dtype is BLAS's

    @property
    def error(self) -> Float64:
        """Bound (frequencies,) on |binned - direct| / sum |V|: what the echoes can add up to.

        sum over j != 0 of (x / (x + pi j))^4 = x^4 (csc^4 x - 2/3 csc^2 x) - 1; at the highest
        frequency 1.5e-2, 6.1e-4, 3.4e-5 for an oversampling of 2, 4, 8, and 2e-6 or less from an
        octave or three below it on down.
        """
        x = np.maximum(self._half_phase, 1e-3)
        inverse = np.square(1.0 / np.sin(x))
        return np.asarray(x**4 * (inverse * inverse - inverse / 1.5) - 1.0)

    @property
    def _half_phase(self) -> Float64:
        """w dtau / 2 (frequencies,)."""
        return np.asarray(0.5 * self._view.omega / self._per_step * 2.0**self._levels)

    def add(self, particles: Particles, step: float) -> None:
        """See Sum. Raises DataError on positions or momenta that are no numbers."""
        v, p = self._view, particles
        self._reserve(*p.bounds, step)
        paths, age = v.paths * self._per_step, v.age * self._per_step
        aims = np.hstack([v.normals, v.across.reshape(-1, 6), v.drifts, paths])
        aims = aims.astype(p.block.dtype)
        reach = np.maximum(paths * p.span, 0.0).sum(axis=1) + age
        state = np.zeros(3, np.int64)
        while missing := radiation_bins.add_binned(
            state, p.which, p.block, p.first, p.count, p.width, p.grid, p.corner, v.slopes, aims,
            paths, step * self._per_step - age - self._first, reach, age, v.mix, v.total,
            v.limits, v.table, self._slots, self._quick, self._bins,
        ):  # fmt: skip
            if missing == radiation_bins.LOST:
                raise DataError(f"radiation, step {step}: a momentum is not a number.")
            self._make_slot(missing)

    def _reserve(self, lowest: Float64, highest: Float64, step: float) -> None:
        """See to bins for all retarded times of a step of particles between two places (3,)."""
        v = self._view
        low, high = v.paths * lowest, v.paths * highest
        way = np.minimum(low, high).sum(axis=1), np.maximum(low, high).sum(axis=1)
        if not np.isfinite(way).all():
            raise DataError(f"radiation, step {step}: a position is not a number.")
        # a push moves a particle by less than its age; two bins more for the spline and rounding
        first = np.floor((step - 2.0 * v.age - way[1]) * self._per_step).astype(np.int64) - 2
        last = np.floor((step - way[0]) * self._per_step).astype(np.int64) + 4
        end = self._first + self._bins.shape[2]
        if self._used.any() and np.all(first >= self._first) and np.all(last <= end):
            self._used = np.maximum(self._used, last - self._first)
            return
        self._empty()
        self._first, self._used = first, last - first
        if self._used.max() > self._bins.shape[2]:
            room = int(self._used.max() + ROOM * self._per_step)
            self._bins = np.zeros((*self._bins.shape[:2], room, 2))

    def _make_slot(self, count: int) -> None:
        """Bins for particles of which so many frequencies pass; room doubles."""
        slot = int(self._slots.max()) + 1
        if slot == len(self._bins):
            self._bins = np.concatenate([self._bins, np.zeros_like(self._bins)])
        self._slots[count] = slot
        table = self._view.table
        self._quick[np.flatnonzero((table[:-1] == count) & (table[1:] == count))] = slot

    def _empty(self) -> None:
        """Transform the bins."""
        if not self._used.any():
            return
        v = self._view
        counts = np.flatnonzero(self._slots >= 0)[::-1].copy()
        kernels.transform(
            self._bins, self._slots[counts], counts, self._first, self._used,
            self._per_step, v.omega, self._levels, self._amplitude,
        )  # fmt: skip
        self._used[:] = 0

    def take(self) -> Complex128:
        """See Sum."""
        self._empty()
        taken: Complex128 = (self._amplitude * self._sharpen) @ self._across
        self._amplitude[...] = 0
        return taken
