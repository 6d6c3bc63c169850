"""Two ways to sum up V exp(i w tau) over particles and steps: term by term, and on bins.

Units here: dt = 1, c dt = 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from producers import radiation_kernels as kernels
from workflow.errors import DataError
from workflow.types import Array

Float64 = NDArray[np.float64]
Complex128 = NDArray[np.complex128]

ROOM = 64.0  # [dt] for which the bins last beyond the first step that they take


@dataclass(frozen=True, kw_only=True)
class View:
    """What a sum is of: directions, frequencies, which of them pass, and the time of a kick."""

    normals: Float64  # (directions, 3) unit vectors
    paths: Float64  # (directions, d) n_i cell_i: way along n per unit of position [c dt]
    omega: Float64  # (frequencies,) [1/dt], rising
    limits: Float64  # (frequencies,) a frequency passes where 1 - n.beta is less
    table: NDArray[np.uintp]  # see kernels.passing
    total: bool  # V is the change of n x (n x beta) / (1 - n.beta)
    age: float  # [dt] by which tau is taken before the position is,
    mix: float  # the particle having moved since with (1 - mix) beta(now) + mix beta(before)

    @classmethod
    def of(
        cls, *, normals: Float64, omega: Float64, cell: Float64, lag: float,
        nyquist: float | None, total: bool,
    ) -> Self:  # fmt: skip
        """cell (d,): lengths of the unit of position [c dt]; lag [dt]: how much u is older."""
        with np.errstate(divide="ignore"):
            limits = (math.inf if nyquist is None else nyquist) * (math.pi - 0.01) / omega
        s = np.arange(kernels.PARTS + 1) * (2.0 / kernels.PARTS)
        return cls(
            normals=normals,
            paths=np.ascontiguousarray(normals[:, : len(cell)] * cell),
            omega=omega,
            limits=limits,
            table=np.searchsorted(-limits, -s).astype(np.uintp),
            total=total,
            age=lag + 0.5 if total else 0.0,  # the middle of the push, or now
            mix=0.25 - 0.5 * lag if total else 0.0,
        )


class Sum(Protocol):
    """Sums up."""

    def add(
        self, position: Float64, before: Array, now: Array, share: Float64, step: float
    ) -> None:
        """Add one step of at least one particle. share (n,): a factor of each particle."""
        ...

    def take(self) -> Complex128:
        """The sum (directions, frequencies, 3) since the last time."""
        ...


class Direct:
    """The reference: term by term."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._amplitude = np.zeros((len(view.normals), len(view.omega), 3), np.complex128)

    def add(
        self, position: Float64, before: Array, now: Array, share: Float64, step: float
    ) -> None:
        """See Sum."""
        v = self._view
        kernels.add_direct(
            position, before, now, share, v.normals, v.paths, float(step), v.age, v.mix, v.total,
            v.omega, v.limits, v.table, self._amplitude,
        )  # fmt: skip

    def take(self) -> Complex128:
        """See Sum."""
        taken = self._amplitude
        self._amplitude = np.zeros_like(taken)
        return taken


class Binned:
    """The fast way: V is spread over bins of retarded time, and transformed only when taken.

    A step costs the same for any number of frequencies. A cubic B-spline over bins of width dtau
    turns exp(i w tau) into sinc^4(x) exp(i w tau), x = w dtau / 2, which is divided out, and into
    echoes at w + 2 pi j / dtau, which stay: see `error`. Particles whose cuts differ go to
    different bins, so that the cut is that of the direct sum. Memory: 24 bytes x directions x bins
    (the retarded times that the box spans) x distinct cuts (rounded up to a power of two).
    """

    def __init__(self, view: View, *, oversampling: int) -> None:
        self._view = view
        directions, frequencies = len(view.normals), len(view.omega)
        self._per_step = float(oversampling * view.omega[-1] / math.pi) or 1.0  # bins per dt
        self._slots = np.full(frequencies + 1, -1, np.intp)  # of each count of passing frequencies
        self._first = np.zeros(directions, np.int64)  # number of the first bin
        self._used = np.zeros(directions, np.int64)  # bins that may be filled
        self._touched = np.zeros((directions, 1), np.bool_)  # slots that may hold anything
        self._bins: Float64 = np.zeros((1, directions, 0, 3))  # (slots, directions, bins, x y z)
        self._amplitude = np.zeros((directions, frequencies, 3), np.complex128)

    @property
    def error(self) -> Float64:
        """Bound (frequencies,) on |binned - direct| / sum |V|: what the echoes can add up to.

        sum over j != 0 of (x / (x + pi j))^4 = x^4 (csc^4 x - 2/3 csc^2 x) - 1; at the highest
        frequency 1.5e-2, 6.1e-4, 3.4e-5 for an oversampling of 2, 4, 8.
        """
        x = np.maximum(0.5 * self._view.omega / self._per_step, 1e-3)
        inverse = np.square(1.0 / np.sin(x))
        return np.asarray(x**4 * (inverse * inverse - inverse / 1.5) - 1.0)

    def add(
        self, position: Float64, before: Array, now: Array, share: Float64, step: float
    ) -> None:
        """See Sum. Raises DataError on positions or momenta that are no numbers."""
        v = self._view
        self._reserve(position, step)
        block = direction = 0
        while block * kernels.BLOCK < position.shape[1]:
            block, direction, missing = kernels.add_binned(
                block, direction, position, before, now, share, v.normals, v.paths, float(step),
                v.age, v.mix, v.total, self._per_step, v.limits, v.table, self._slots,
                self._touched, self._first, self._bins,
            )  # fmt: skip
            if missing < 0:
                raise DataError(f"radiation, step {step}: a momentum is not a number.")
            if missing > 0:
                self._make_slot(missing)

    def _reserve(self, position: Float64, step: float) -> None:
        """See to bins for all retarded times of a step."""
        v = self._view
        low, high = v.paths * position.min(axis=1), v.paths * position.max(axis=1)
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
            self._bins = np.zeros((*self._bins.shape[:2], room, 3))

    def _make_slot(self, count: int) -> None:
        """Bins for particles of which so many frequencies pass; room doubles."""
        slot = int(self._slots.max()) + 1
        if slot == len(self._bins):
            self._bins = np.concatenate([self._bins, np.zeros_like(self._bins)])
            self._touched = np.hstack([self._touched, np.zeros_like(self._touched)])
        self._slots[count] = slot

    def _empty(self) -> None:
        """Transform the bins."""
        if not self._used.any():
            return
        v = self._view
        counts = np.flatnonzero(self._slots >= 0)[::-1].copy()
        kernels.transform(
            self._bins, self._touched, self._slots[counts], counts, self._first, self._used,
            self._per_step, v.omega, self._amplitude,
        )  # fmt: skip
        self._used[:] = 0

    def take(self) -> Complex128:
        """See Sum."""
        self._empty()
        x = 0.5 * self._view.omega / self._per_step
        taken: Complex128 = self._amplitude / np.sinc(x / math.pi)[:, None] ** 4
        self._amplitude[...] = 0
        return taken
