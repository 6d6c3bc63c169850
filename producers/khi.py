"""The Kelvin-Helmholtz producer: PIConGPU's example of that name, run here, in PIConGPU's layout.

Two streams of electrons and protons pass each other in a periodic box; the shear planes roll up.
Defaults are those of PIConGPU's KelvinHelmholtz example, two-dimensional; it has 12 cells in z.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from producers import pic, shear, units
from producers.setup import Setup, in_row
from producers.shear import Perturbation
from workflow.errors import ConfigError
from workflow.types import Array

# Up to here a seeded wave grows at its rate (tests/physics/test_fast_flow.py).
TESTED_GAMMA = {pic.Shape.CIC: 1.5, pic.Shape.TSC: 1.3, pic.Shape.PCS: 1.2}


@dataclass(frozen=True, kw_only=True)
class KelvinHelmholtz(Setup):
    """A shear flow of electrons and ions along x, +v0 outside and -v0 in the middle half of y."""

    STREAM: ClassVar[str] = "khi"

    grid: tuple[int, ...] = (192, 512)
    shear_width_m: float = 0.0  # of a tanh profile of the speed; 0: a step, as PIConGPU's
    perturbation: Perturbation | None = None  # without, noise seeds the instability

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.shear_width_m < math.inf:
            raise ConfigError(f"shear_width_m: wanted 0 or more, got {self.shear_width_m}.")
        tested = TESTED_GAMMA[self.shape]
        if self.gamma > tested:
            warnings.warn(
                f"gamma = {self.gamma}: above {tested} with shape {self.shape.value}, what the "
                "grid makes up outgrows the instability: cold beams outrun the slowest light waves "
                "of the Yee grid and radiate (numerical Cherenkov radiation), and wide shapes blur "
                "the shear plane. Do not trust growth rates.",
                stacklevel=4,
            )
        if self.grid[1] % 4:
            raise ConfigError(
                f"grid: wanted a multiple of 4 cells in y, so that the shear planes at 1/4 and 3/4 "
                f"lie between cells, got {self.grid[1]}."
            )

    def particles(self, seed: int, row: int) -> tuple[Array, Array, Array, Array]:
        """See Setup; ions drift with the electrons and start where they do: neutral everywhere."""
        cells, inside, rng = in_row(self, seed, row)
        y = row + inside[1]
        ions = np.zeros((3, y.size))
        width = self.shear_width_m / self.cell_m
        speed = shear.beta(self.gamma) * shear.profile(y, self.grid[1], width)  # [c]
        ions[0] = speed / np.sqrt(1.0 - speed * speed)
        electrons = ions + rng.normal(0.0, self.thermal, ions.shape)
        electrons[1] += self._seeded(cells[0] + inside[0], y)
        return cells, inside, electrons, ions

    def cold_growth_rate(self, k: float) -> float:
        """Of a wave of k [1/m] along x on a sharp step of cold streams [1/s]; see shear.py."""
        omega_pe = units.plasma_frequency(self.density_m3)
        return omega_pe * shear.growth_rate(k * units.C / omega_pe, self.gamma, self.mass_ratio)

    def _seeded(self, x: Array, y: Array) -> Array:
        """The perturbation's u_y at x, y [cells]."""
        if self.perturbation is None:
            return np.zeros_like(x)
        skin = units.C / units.plasma_frequency(self.density_m3) / self.cell_m  # [cells]
        k = self.perturbation.k(self.grid[0])
        kappa = shear.decay(k * skin, self.gamma, self.mass_ratio) / skin
        envelope = np.exp(-kappa * shear.distance_to_shear(y, self.grid[1]))
        return np.asarray(self.perturbation.amplitude * np.cos(k * x) * envelope)
