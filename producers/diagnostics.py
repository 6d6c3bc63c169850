"""What a run's frames say about its physics: energies, plasma frequency, waves, their growth.

Pure functions of the boxes of one iteration (`frames`) and what holds for all (`series`), in
SI units; they read every stream in openPMD's layout, a simulation's or a recording's.

    field energy     sum over cells of (eps0/2) E^2 dV and (eps0 c^2 / 2) B^2 dV
    kinetic energy   sum over macro-particles of  w (gamma - 1) m c^2
    plasma frequency sqrt(n q^2 / (eps0 m)) of the lightest charged species, n its mean density
    wave             B_z over x and the other axes -> rms over the other axes of 2 |FFT_x| / n_x

A plane simulation is one cell deep, as PIConGPU has it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from producers.units import EPS0, C
from workflow.errors import DataError
from workflow.types import Array, Frame, Series, Unit

FIELDS = ("E/x", "E/y", "E/z", "B/x", "B/y", "B/z")
AXES = "xyz"

# ---------------------------------------------------------------- fields


def cell_volume(series: Series) -> float:
    """[m^3] of one cell; the depth of a plane one is `cell_depth`, or else its last edge."""
    edges = list(series.grid.spacing_m)
    depth = series.attributes.get("cell_depth")
    unit = series.attributes.get("unit_length")
    known = depth is not None and unit is not None
    while len(edges) < 3:
        edges.append(float(depth) * float(unit) if known else edges[-1])  # type: ignore[arg-type]
    return math.prod(edges)


def field_energy(frames: Sequence[Frame], series: Series) -> dict[str, float]:
    """[J] of each component of E and B that the frames have."""
    volume = cell_volume(series)
    found: dict[str, float] = {}
    for path in FIELDS:
        if not all(path in frame.arrays for frame in frames):
            continue
        factor = 0.5 * EPS0 * volume * (C * C if path.startswith("B") else 1.0)
        found[path] = factor * sum(
            _squared(frame.arrays[path]) * _unit(frame, path).si ** 2 for frame in frames
        )
    return found


def _squared(array: Array) -> float:
    flat = np.asarray(array, np.float64).ravel()
    return float(flat @ flat)


def assemble(frames: Sequence[Frame], path: str) -> Array:
    """A mesh component [SI] of all boxes together, float64 (y, x) or (z, y, x).

    Covers what the boxes cover; DataError when they leave a hole.
    """
    first = np.min([frame.box.offset for frame in frames], axis=0)
    last = np.max([np.add(frame.box.offset, frame.box.extent) for frame in frames], axis=0)
    whole = np.full(tuple((last - first)[::-1]), np.nan)
    for frame in frames:
        if path not in frame.arrays:
            raise DataError(f"{path}: not in box {frame.box.index} of {frame.iteration}.")
        start = np.subtract(frame.box.offset, first)
        cut = tuple(slice(a, a + n) for a, n in zip(start, frame.box.extent, strict=True))[::-1]
        whole[cut] = np.asarray(frame.arrays[path], np.float64) * _unit(frame, path).si
    if np.isnan(whole).any():
        raise DataError(
            f"{path}, iteration {frames[0].iteration}: the boxes leave a hole, or hold NaN."
        )
    return whole


def wave_amplitudes(mesh: Array) -> Array:
    """Amplitude of each wave along x, (n_x // 2 + 1,), in the unit of the mesh.

    Index m is the wave with m lengths in the box; rms over the other axes, 2 |FFT| / n_x.
    """
    waves = np.fft.rfft(mesh, axis=-1) * (2.0 / mesh.shape[-1])
    other = tuple(range(mesh.ndim - 1))
    return np.asarray(np.sqrt(np.mean(np.abs(waves) ** 2, axis=other)))


# ---------------------------------------------------------------- particles


def species_of(frames: Sequence[Frame]) -> tuple[str, ...]:
    """Species whose momentum and weighting the frames have."""
    paths = set.intersection(*(set(frame.arrays) for frame in frames))
    moving = (path.split("/")[0] for path in paths if path.endswith("/momentum/x"))
    return tuple(sorted(name for name in moving if f"{name}/weighting" in paths))


def kinetic_energy(frames: Sequence[Frame], series: Series, species: str) -> float:
    """[J] of all particles of a species."""
    return sum(_kinetic(frame, series, species) for frame in frames)


def _kinetic(frame: Frame, series: Series, species: str) -> float:
    u = momentum(frame, series, species)  # (3, n) [m c]
    squared = np.einsum("ij,ij->j", u, u)
    per_mass = squared / (np.sqrt(1.0 + squared) + 1.0)  # gamma - 1 without cancellation
    mass = _constant(frame, series, f"{species}/mass")  # [kg]
    weighting = np.asarray(frame.arrays[f"{species}/weighting"], np.float64)
    return float(C * C * np.sum(weighting * per_mass * mass))


def momentum(frame: Frame, series: Series, species: str) -> Array:
    """u = p / (m c) = gamma beta of real particles, (3, n) float64."""
    weighting = np.asarray(frame.arrays[f"{species}/weighting"], np.float64)
    scale = 1.0 / (_constant(frame, series, f"{species}/mass") * C)
    u = np.empty((3, len(weighting)))
    for row, axis in zip(u, AXES, strict=True):
        path = f"{species}/momentum/{axis}"
        unit = _unit(frame, path)
        row[:] = np.asarray(frame.arrays[path], np.float64) * (unit.si * scale)
        if unit.macro_weighted:
            row /= weighting**unit.weighting_power
    return u


def places(frame: Frame, species: str) -> Array:
    """Where the particles are in the grid [cells], (axes, n) float64."""
    axes = AXES[: len(frame.box.extent)]
    return np.stack([
        np.asarray(frame.arrays[f"{species}/position/{a}"], np.float64)
        + frame.arrays[f"{species}/positionOffset/{a}"]
        for a in axes
    ])  # fmt: skip


def density(frames: Sequence[Frame], series: Series, species: str) -> Array:
    """[1/m^3] in the cells that the boxes cover, (y, x), averaged over z."""
    first = np.min([frame.box.offset for frame in frames], axis=0)
    last = np.max([np.add(frame.box.offset, frame.box.extent) for frame in frames], axis=0)
    extent = last - first
    nx, ny = int(extent[0]), int(extent[1])
    total = np.zeros(nx * ny)
    for frame in frames:
        x, y = np.floor(places(frame, species)[:2]).astype(np.int64)
        cell = np.clip(y - first[1], 0, ny - 1) * nx + np.clip(x - first[0], 0, nx - 1)
        total += np.bincount(cell, weights=frame.arrays[f"{species}/weighting"], minlength=nx * ny)
    depth = math.prod(int(n) for n in extent[2:])
    return total.reshape(ny, nx) / (cell_volume(series) * depth)


def lightest(frames: Sequence[Frame], series: Series) -> str | None:
    """The charged species of the smallest mass whose mass and charge are known."""
    known = {}
    for species in species_of(frames):
        try:
            charge = _scalar(frames, series, f"{species}/charge")
            mass = _scalar(frames, series, f"{species}/mass")
        except DataError:
            continue
        if charge != 0.0:
            known[species] = mass
    return min(known, key=lambda s: known[s], default=None)


def plasma_frequency(frames: Sequence[Frame], series: Series) -> float | None:
    """[rad/s] of the lightest charged species at its mean density; None if there is none."""
    species = lightest(frames, series)
    if species is None:
        return None
    cells = sum(math.prod(frame.box.extent) for frame in frames)
    number = sum(float(np.sum(f.arrays[f"{species}/weighting"], dtype=np.float64)) for f in frames)
    charge = _scalar(frames, series, f"{species}/charge")
    mass = _scalar(frames, series, f"{species}/mass")
    return math.sqrt(number / (cells * cell_volume(series)) * charge**2 / (EPS0 * mass))


def _scalar(frames: Sequence[Frame], series: Series, path: str) -> float:
    """A constant of a species [SI, of a real particle], from the first particle there is."""
    for frame in frames:
        value = _constant(frame, series, path)
        if np.size(value):
            return float(np.ravel(value)[0])
    raise DataError(f"{path}: there are no particles.")


def _constant(frame: Frame, series: Series, path: str) -> Array | float:
    """Mass or charge [SI] of real particles: (n,), or one number for all."""
    value = frame.arrays.get(path)
    if value is None and path not in series.constants:
        raise DataError(f"{path}: neither in the frames nor a constant of the stream.")
    unit = _unit(frame, path)
    if value is None:
        return series.constants[path] * unit.si
    if unit.macro_weighted:
        weighting = frame.arrays[f"{path.split('/')[0]}/weighting"]
        return np.asarray(value, np.float64) * unit.si / weighting**unit.weighting_power
    return np.asarray(value, np.float64) * unit.si


def _unit(frame: Frame, path: str) -> Unit:
    if path not in frame.units:
        raise DataError(f"{path}: the stream gives no unit (unitSI); it cannot be interpreted.")
    return frame.units[path]


# ---------------------------------------------------------------- growth


@dataclass(frozen=True, kw_only=True)
class Growth:
    """How fast a wave grew, in its linear window."""

    mode: int  # wavelengths in the box
    rate: float  # [1 / unit of time], of the amplitude
    window: tuple[int, int]  # first and last row of the fit, both in it
    efoldings: float  # between them, on the fitted line
    residual: float  # rms of ln(amplitude) about the line


STRAIGHT = 0.04  # rms of ln(amplitude) about the line, at most
POINTS = 6  # in a window, at least
EFOLDINGS = 1.5  # in a window, at least
NONLINEAR = 0.3  # of the wave's largest amplitude: beyond it, it saturates
LEADING = 0.1  # of the largest amplitude of all waves: then the linear phase is not over yet


def dominant_mode(amplitudes: Array) -> int:
    """The wave that leads in the linear phase; amplitudes (times, modes), mode 0 is no wave.

    At the last time before all waves together first pass LEADING of their largest amplitude: late
    enough to stand out of the noise, and before the long waves, which the short ones drive and
    which then grow faster than linear theory, can have overtaken them.
    """
    together = np.sqrt(np.sum(amplitudes[:, 1:] ** 2, axis=1))
    return 1 + int(np.argmax(amplitudes[_last_before(together, LEADING), 1:]))


def fit_growth(times: Array, amplitude: Array, mode: int) -> Growth | None:
    """The growth rate of one wave, from times (n,) and its amplitude (n,); None if it never grows.

    The linear window is, of all windows of at least POINTS outputs and EFOLDINGS e-foldings that
    end before the wave reaches NONLINEAR of its largest amplitude, the one with the most
    e-foldings in which ln(amplitude) stays within STRAIGHT (rms) of a straight line. Noise before
    the wave stands out, and saturation after it, bend the line and so are left out. The energy of
    the whole field is no measure: noise and the constant field B_z(k = 0) hide the wave in it.
    """
    stop = _last_before(amplitude, NONLINEAR) + 1
    good = np.isfinite(amplitude[:stop]) & (amplitude[:stop] > 0)
    start = 0 if good.all() else stop - int(np.argmin(good[::-1]))  # after the last zero
    t = np.asarray(times[start:stop], np.float64)
    y = np.log(np.asarray(amplitude[start:stop], np.float64))
    best: Growth | None = None
    for first in range(len(t) - POINTS + 1):
        rate, residual = _lines_from(t[first:], y[first:])
        gained = rate * (t[first:] - t[first])
        fits = (np.arange(len(gained)) >= POINTS - 1) & (residual <= STRAIGHT)
        fits &= gained >= max(EFOLDINGS, best.efoldings if best else 0.0)
        if fits.any():
            last = int(np.argmax(np.where(fits, gained, -np.inf)))
            best = Growth(
                mode=mode,
                rate=float(rate[last]),
                window=(start + first, start + first + last),
                efoldings=float(gained[last]),
                residual=float(residual[last]),
            )
    return best


def _last_before(amplitude: Array, share: float) -> int:
    """The last row before the amplitude first passes this share of its largest."""
    beyond = np.asarray(amplitude) > share * np.max(amplitude)
    return max(0, int(np.argmax(beyond)) - 1)


def _lines_from(t: Array, y: Array) -> tuple[Array, Array]:
    """Slope and rms residual of the straight lines through the first 1, 2, ... points."""
    t, y = t - t[0], y - y[0]
    n = np.arange(1, len(t) + 1)
    mean_t, mean_y = np.cumsum(t) / n, np.cumsum(y) / n
    tt = np.cumsum(t * t) / n - mean_t**2
    ty = np.cumsum(t * y) / n - mean_t * mean_y
    yy = np.cumsum(y * y) / n - mean_y**2
    slope = np.divide(ty, tt, out=np.zeros_like(tt), where=tt > 0)
    return slope, np.sqrt(np.maximum(0.0, yy - slope * ty))
