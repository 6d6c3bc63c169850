"""The far field that moving charges radiate: amplitudes by direction and frequency.

    d2I / (domega dOmega) = q^2 / (16 pi^3 eps0 c) |A|^2

    A(n, w) = sum over steps and particles  F V exp(i w tau),    tau = t - n.r / c
    V = dt n x [(n - beta) x dbeta/dt] / (1 - n.beta)^2          (Jackson, eq. 14.67)

Discrete as in PIConGPU's radiation plugin: after each step V is formed of u now and u one step
before, with the position and the time of now. It keeps only w < nyquist (pi - 0.01) / (dt (1 -
n.beta)) of each particle. F is the form factor of a macro-particle that stands for N particles,
F^2 = N + (N^2 - N) C(n, w): N^2 where they radiate in phase, N where they do not.

Positions are those in the periodic box: a particle that wraps around jumps in phase, as it does
in PIConGPU. In two dimensions z = 0.

Units here: dt = 1, c dt = 1; A is without dimension, for particles of unit charge.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

import numpy as np

from producers.radiation_sums import Binned, Complex128, Direct, Float64, Particles, Sum, View
from workflow.errors import ConfigError, DataError
from workflow.types import Array


class FormFactor(enum.Enum):
    """The shape of a macro-particle, as its radiation sees it."""

    GAUSS_SPHERICAL = "gauss_spherical"  # width c dt; PIConGPU's KelvinHelmholtz example
    CIC = "cic"
    TSC = "tsc"
    PCS = "pcs"
    GAUSS_CELL = "gauss_cell"  # as wide as a cell
    INCOHERENT = "incoherent"  # the particles of a macro-particle never interfere
    COHERENT = "coherent"  # a macro-particle is a point


class Window(enum.Enum):
    """Weight of particles over the box, against edges in the spectrum."""

    NONE = "none"
    TRIANGLE = "triangle"  # 1 in the middle, 0 at the ends, on each axis


class Acceleration(enum.Enum):
    """How a step's change of beta becomes an amplitude."""

    BACKWARD = "backward"  # as PIConGPU; falls short for kicks that are large within a step
    TOTAL = "total"  # change of n x (n x beta) / (1 - n.beta), at mid-step; exact for any kick


class Method(enum.Enum):
    """How the sum is formed."""

    DIRECT = "direct"  # term by term
    BINNED = "binned"  # on bins of retarded time: the same numbers within Binned.error


@dataclass(frozen=True, kw_only=True)
class Radiation:
    """What is observed. The defaults are the Artificial Scientist's (Kelling et al. 2025)."""

    directions: tuple[tuple[float, float, float], ...] = (
        (1.0, 0.0, 0.0),
        (-1.0, 0.0, 0.0),
        (0.0, 1.0, 0.0),
        (0.0, 0.0, 1.0),
    )  # any length
    frequencies: int = 512  # logarithmic from lowest to highest, both included
    lowest: float = 0.1  # [omega_pe]
    highest: float = 200.0  # [omega_pe]
    form_factor: FormFactor = FormFactor.GAUSS_SPHERICAL
    window: Window = Window.NONE
    nyquist: float | None = 0.5  # share of the sampling limit that is kept; None: all is kept
    acceleration: Acceleration = Acceleration.BACKWARD
    method: Method = Method.BINNED
    oversampling: int = 4  # bins per half period of the highest frequency
    start: int | None = None  # first step that counts; None: one period before the first output

    def __post_init__(self) -> None:
        for i, direction in enumerate(self.directions):
            if len(direction) != 3 or not 0 < math.hypot(*direction) < math.inf:
                raise ConfigError(
                    f"directions.{i}: wanted a vector x, y, z that is not zero, got {direction}."
                )
        if not self.directions:
            raise ConfigError("directions: wanted at least one vector x, y, z, got none.")
        if self.frequencies < 1:
            raise ConfigError(f"frequencies: wanted 1 or more, got {self.frequencies}.")
        if not 0 < self.lowest <= self.highest < math.inf:
            raise ConfigError(
                f"lowest, highest: wanted 0 < lowest <= highest [omega_pe], got {self.lowest} and "
                f"{self.highest}."
            )
        if self.nyquist is not None and not 0 < self.nyquist <= 1:
            raise ConfigError(
                f"nyquist: wanted more than 0 and at most 1, or nothing for no cut, got "
                f"{self.nyquist}."
            )
        if self.oversampling < 2:
            raise ConfigError(
                f"oversampling: wanted 2 or more bins per half period of the highest frequency, "
                f"got {self.oversampling}."
            )
        if self.start is not None and self.start < 1:
            raise ConfigError(f"start: wanted 1 (the first step) or more, got {self.start}.")

    @property
    def normals(self) -> Float64:
        """Unit vectors of the directions, (directions, 3)."""
        vectors = np.array(self.directions, dtype=np.float64)
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))

    def omega(self, omega_dt: float) -> Float64:
        """Frequencies [1/dt], rising, at a plasma frequency omega_dt [1/dt]."""
        logs = np.linspace(math.log(self.lowest), math.log(self.highest), self.frequencies)
        return np.exp(logs) * omega_dt

    def detectors(self, omega_dt: float) -> dict[str, Float64]:
        """What says where and at which frequencies A is, under PIConGPU's names.

        DetectorDirection/x, y, z (directions, 1, 1), DetectorFrequency/omega (1, frequencies, 1)
        [1/dt].
        """
        named = {
            f"DetectorDirection/{a}": n[:, None, None]
            for a, n in zip("xyz", self.normals.T, strict=True)
        }
        return named | {"DetectorFrequency/omega": self.omega(omega_dt)[None, :, None]}


def coherence(kind: FormFactor, omega: Float64, normals: Float64, cell: Float64) -> Float64:
    """C (directions, frequencies): how much the particles of a macro-particle are in phase.

    omega (frequencies,) [1/dt]; normals (directions, 3); cell (d,): its lengths [c dt].
    """
    shape = (len(normals), len(omega))
    if kind is FormFactor.INCOHERENT:
        return np.zeros(shape)
    if kind is FormFactor.COHERENT:
        return np.ones(shape)
    if kind is FormFactor.GAUSS_SPHERICAL:
        return np.broadcast_to(np.exp(-0.25 * omega * omega), shape)
    half = (
        0.5 * (normals[:, : len(cell)] * cell)[:, None, :] * omega[:, None]
    )  # phase of half a cell
    if kind is FormFactor.GAUSS_CELL:
        return np.asarray(np.exp(-np.square(half).sum(axis=2)))
    order = {FormFactor.CIC: 1, FormFactor.TSC: 2, FormFactor.PCS: 3}[kind]
    return np.asarray(np.sinc(half / math.pi).prod(axis=2) ** (2 * order))


def form_factor(coherent: Float64, weighting: float) -> Float64:
    """F of a macro-particle that stands for `weighting` particles."""
    return np.sqrt(weighting + (weighting * weighting - weighting) * coherent)


def slopes_of(kind: Window, length: tuple[float, ...]) -> Float64:
    """(3,): a particle at x in a box from 0 to length counts for the product of 1 - |slope x - 1|.

    0 where an axis does not count.
    """
    slopes = np.zeros(3)
    if kind is Window.TRIANGLE:
        slopes[: len(length)] = 2.0 / np.array(length)
    return slopes


class FarField:
    """The amplitude that one rank's particles of one species have radiated since `reset()`.

    omega (frequencies,) [1/dt], rising. cell (d,): lengths of the unit of position [c dt].
    length (d,): of the whole box, in units of position. lag: by how much u is older than the
    position [dt]; 1/2 for a leapfrog.
    """

    def __init__(
        self,
        radiation: Radiation,
        *,
        omega: Float64,
        cell: tuple[float, ...],
        length: tuple[float, ...],
        lag: float = 0.5,
    ) -> None:
        if not np.all(np.diff(omega) > 0) or not omega[0] >= 0:
            raise ConfigError(f"omega: wanted rising frequencies from 0 up, got {omega}.")
        if not 1 <= len(cell) == len(length) <= 3:
            raise ConfigError(f"cell, length: wanted 1 to 3 axes each, got {cell} and {length}.")
        self._axes = len(length)
        normals = radiation.normals
        self._coherence = coherence(radiation.form_factor, omega, normals, np.array(cell))
        view = View.of(
            normals=normals, omega=omega, cell=np.array(cell), lag=lag, nyquist=radiation.nyquist,
            total=radiation.acceleration is Acceleration.TOTAL,
            slopes=slopes_of(radiation.window, length),
        )  # fmt: skip
        self._sum: Sum = Direct(view)
        if radiation.method is Method.BINNED:
            self._sum = Binned(view, oversampling=radiation.oversampling)
        self._weighting = 1.0  # of all particles in _sum
        self._factor = form_factor(self._coherence, self._weighting)
        self._amplitude: Complex128 = np.zeros((len(normals), len(omega), 3), np.complex128)

    def add(
        self, position: Float64, before: Array, now: Array, weighting: float | Array, step: float
    ) -> None:
        """Take in the radiation of one step.

        position (d, n) float64 at time `step` [dt]; before, now (3, n): u = gamma beta before and
        after the last push; weighting: real particles per macro-particle, one number or (n,).
        Each further weighting costs a transform where the method is binned.
        """
        n = position.shape[1]
        if len(position) != self._axes or not now.shape == before.shape == (3, n):
            raise DataError(
                f"radiation: wanted position ({self._axes}, n) and two u (3, n), got "
                f"{position.shape}, {before.shape}, {now.shape}."
            )
        if np.ndim(weighting) == 0:
            self.add_particles(Particles.of(position, before, now), float(weighting), step)
            return
        for value in np.unique(weighting):
            of = np.asarray(weighting) == value
            parts = Particles.of(position[:, of], before[:, of], now[:, of])
            self.add_particles(parts, float(value), step)

    def add_particles(self, particles: Particles, weighting: float, step: float) -> None:
        """Take in the radiation of one step, of particles where they lie, all of one weighting."""
        if weighting != self._weighting:
            self._settle()
            self._weighting = weighting
            self._factor = form_factor(self._coherence, weighting)
        self._sum.add(particles, step)

    def _settle(self) -> None:
        """Multiply what was summed by its form factor."""
        self._amplitude += self._factor[:, :, None] * self._sum.take()

    def amplitude(self) -> Complex128:
        """A (directions, frequencies, 3), for particles of unit charge."""
        self._settle()
        return self._amplitude.copy()

    def reset(self) -> None:
        """Begin anew."""
        self._sum.take()
        self._amplitude[...] = 0
