"""Looks at every iteration of a run and remembers what `billow simulate` tells at its end.

It takes what the stream has: without E and B there are no field energies, without mass no kinetic
ones, and so on; what could not be measured, and why, is said in `findings`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from producers import diagnostics
from producers.diagnostics import Growth
from producers.units import C
from workflow.errors import DataError
from workflow.types import Array, Frame, Series

WAVES = 16  # wavelengths in the box at most of the waves in the table
Rate = Callable[[float], float]  # k [1/m] -> growth rate [1/s]


@dataclass(frozen=True, kw_only=True)
class Picture:
    """The plasma at one iteration, of all boxes together."""

    iteration: int
    time_s: float
    density: Array | None  # (y, x) float32 [1/m^3] of the lightest species
    bz: Array | None  # (y, x) float32 [T]


class Album:
    """At most `room` pictures, evenly over a run of unknown length, and the newest."""

    def __init__(self, room: int) -> None:
        self.room = room
        self._kept: list[Picture] = []
        self._newest: Picture | None = None
        self._seen, self._stride = 0, 1

    def add(self, picture: Picture) -> None:
        """Take a picture; when the album is full, every other one goes."""
        if self._seen % self._stride == 0:
            self._kept.append(picture)
        if len(self._kept) > self.room:
            self._kept = self._kept[::2]
            self._stride *= 2
        self._newest = picture
        self._seen += 1

    @property
    def pictures(self) -> list[Picture]:
        """In order of time."""
        if self._newest is None or self._newest is self._kept[-1]:
            return list(self._kept)
        return [*self._kept, self._newest]


class Observer:
    """What a run's iterations say.

    rows:     one mapping per iteration, of columns in `columns`; `iteration` and `time_s`, energies
              [J] ("Bz_J", "e_kinetic_J"), amplitudes of B_z's waves along x [T] ("Bz_wave_2_T").
    omega_pe: [rad/s] of the first iteration, or None.
    """

    def __init__(self, series: Series, *, theory: Rate | None, pictures: int) -> None:
        self._series, self._theory = series, theory
        self.album = Album(pictures)
        self.rows: list[dict[str, float]] = []
        self.omega_pe: float | None = None
        self._missing: dict[str, str] = {}  # what could not be measured: why
        self._fields: tuple[str, ...] = ()
        self._species: tuple[str, ...] = ()
        self._plasma: str | None = None  # the species that omega_pe is of

    @property
    def columns(self) -> tuple[str, ...]:
        """Of the first row: the table has these to its end."""
        return tuple(self.rows[0]) if self.rows else ()

    def look(self, frames: Sequence[Frame]) -> dict[str, float]:
        """Measure one iteration; returns its row."""
        first = not self.rows
        row: dict[str, float] = {"iteration": frames[0].iteration, "time_s": frames[0].time_s}
        energies = {
            f"{path.replace('/', '')}_J": value
            for path, value in diagnostics.field_energy(frames, self._series).items()
        }
        if len(energies) < len(diagnostics.FIELDS):
            self._missing.setdefault("field energy", "the stream has not all of E and B")
        self._fields = self._fields or tuple(energies)
        for species in diagnostics.species_of(frames):
            try:
                value = diagnostics.kinetic_energy(frames, self._series, species)
            except DataError as e:
                self._missing.setdefault(f"kinetic energy of {species}", str(e))
                continue
            energies[f"{species}_kinetic_J"] = value
        if first:
            self._species = tuple(n for n in energies if n.endswith("_kinetic_J"))
            self._plasma = diagnostics.lightest(frames, self._series)
            self.omega_pe = diagnostics.plasma_frequency(frames, self._series)
            if not self._species:
                self._missing.setdefault("kinetic energy", "no momentum, weighting and mass")
        row |= energies
        bz = self._bz(frames)
        row |= self._waves(bz)
        if self.album.room:
            self.album.add(self._picture(frames, bz))
        self.rows.append(row)
        return row

    def _bz(self, frames: Sequence[Frame]) -> Array | None:
        if not all("B/z" in frame.arrays for frame in frames):
            self._missing.setdefault("growth", "the stream has no B")
            return None
        try:
            return diagnostics.assemble(frames, "B/z")
        except DataError as e:
            self._missing.setdefault("growth", str(e))
            return None

    def _waves(self, bz: Array | None) -> dict[str, float]:
        if bz is None:
            return {}
        if bz.shape[-1] != self._series.grid.shape[0]:
            self._missing.setdefault("growth", "the boxes do not cover the grid along x")
            return {}
        waves = diagnostics.wave_amplitudes(bz)
        return {f"Bz_wave_{m}_T": float(a) for m, a in enumerate(waves[: WAVES + 1])}

    def _picture(self, frames: Sequence[Frame], bz: Array | None) -> Picture:
        species = diagnostics.lightest(frames, self._series)
        density = None
        if species is not None and all(f"{species}/position/x" in f.arrays for f in frames):
            density = diagnostics.density(frames, self._series, species).astype(np.float32)
        plane = None if bz is None else bz.reshape(-1, *bz.shape[-2:])[0].astype(np.float32)
        return Picture(
            iteration=frames[0].iteration, time_s=frames[0].time_s, density=density, bz=plane
        )

    # ------------------------------------------------------------ what came of it

    def column(self, name: str) -> Array:
        """A column of the table, NaN where a row has it not."""
        return np.array([row.get(name, math.nan) for row in self.rows])

    def energies(self) -> dict[str, Array]:
        """Name -> energy [J] over the iterations: components, all fields, each species."""
        found = {name.removesuffix("_J"): self.column(name) for name in self._fields}
        if found:
            found["all fields"] = np.sum(list(found.values()), axis=0)
        for name in self._species:
            found[f"{name.removesuffix('_kinetic_J')} kinetic"] = self.column(name)
        return found

    def waves(self) -> Array | None:
        """Amplitudes (iterations, waves) [T] of B_z along x; None if it was not measured."""
        names = [name for name in self.columns if name.startswith("Bz_wave_")]
        return np.stack([self.column(name) for name in names], axis=1) if names else None

    def growth(self) -> Growth | None:
        """Of the dominant wave of B_z, rate in 1/s; None without B or without a linear window."""
        waves = self.waves()
        if waves is None or len(waves) < diagnostics.POINTS or waves.shape[1] < 2:
            return None
        mode = diagnostics.dominant_mode(waves)
        return diagnostics.fit_growth(self.column("time_s"), waves[:, mode], mode)

    def findings(self) -> list[tuple[str, str]]:
        """(what, in words), for the screen."""
        if not self.rows:
            return []
        said = []
        if self.omega_pe:
            words = f"{self.omega_pe:.4g} rad/s, of {self._plasma} at its mean density here"
            said.append(("omega_pe", words))
        said.append(("energy drift", self._drift()))
        said.append(("growth of B_z", self._growth_words()))
        gone = ((what, why) for what, why in self._missing.items() if what != "growth")
        return said + [(what, f"not available: {why}") for what, why in gone]

    def _drift(self) -> str:
        energies = self.energies()
        kinetic = [name for name in energies if name.endswith(" kinetic")]
        if "field energy" in self._missing or not kinetic:
            return "not available: it needs E, B and the particles' momentum and mass"
        if len(self.rows) < 2:
            return "not available: one iteration only"
        total = energies["all fields"] + np.sum([energies[name] for name in kinetic], axis=0)
        change = total[-1] - total[0]
        parts = [f"{change / total[0]:+.2e} of the whole (fields, {', '.join(kinetic)})"]
        parts += [f"{change / energies[name][0]:+.2e} of {name}" for name in kinetic]
        return "; ".join(parts) + f"; from iteration {self.rows[0]['iteration']}"

    def _growth_words(self) -> str:
        if "growth" in self._missing:
            return f"not available: {self._missing['growth']}"
        growth = self.growth()
        if growth is None:
            return (
                f"not measured: no wave of B_z grew by {diagnostics.EFOLDINGS:g} e-foldings along "
                f"a straight line of {diagnostics.POINTS} outputs. Run longer, or write more often."
            )
        k = self.wavenumber(growth.mode)
        omega_pe = self.omega_pe
        unit = (omega_pe, "omega_pe") if omega_pe else (1.0, "1/s")
        k_words = f", k = {k * C / omega_pe:.3f} omega_pe/c" if omega_pe else ""
        first, last = (int(self.rows[i]["iteration"]) for i in growth.window)
        words = (
            f"{growth.rate / unit[0]:.4g} {unit[1]}: wave {growth.mode} along x{k_words}, "
            f"iterations {first} to {last}, {growth.efoldings:.1f} e-foldings"
        )
        if self._theory is None:
            return words + "; the producer gives no theory"
        theory = self._theory(k)
        if theory == 0.0:
            return words + "; cold theory: stable"
        ratio = growth.rate / theory
        return words + f"; cold theory {theory / unit[0]:.4g} {unit[1]}, ratio {ratio:.3f}"

    def wavenumber(self, mode: int) -> float:
        """k [1/m] of a wave along x."""
        grid = self._series.grid
        return 2.0 * math.pi * mode / (grid.shape[0] * grid.spacing_m[0])

    # ------------------------------------------------------------ pictures

    def draw(self, path: Path, title: str) -> None:
        """A PNG of the vortices over time, energies and waves. Needs matplotlib."""
        from producers import pictures

        pictures.draw(self, path, title)

    def film(self, path: Path, title: str) -> None:
        """A GIF of the vortices. Needs matplotlib and its pillow."""
        from producers import pictures

        pictures.film(self, path, title)
