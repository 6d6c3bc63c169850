"""Counter-streaming beams: the two-stream and the filamentation instability.

Half of the electrons stream one way and half the other, everywhere; ions are at rest. In 2D the
grid is x, y, so the way of the beams chooses what grows:

    along x    two-stream: bunching along the beams, E_x, at k v0 = 0.612 omega_pe fastest
    along z    filamentation (cold Weibel): currents of one sign pinch, B in the plane; its growth
               rises with k up to beta omega_pe / sqrt(gamma)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from producers import shear
from producers.setup import Setup, in_row
from producers.shear import Perturbation
from workflow.errors import ConfigError
from workflow.types import Array


@dataclass(frozen=True, kw_only=True)
class CounterBeams(Setup):
    """Two equal beams of electrons through each other, and ions at rest."""

    STREAM: ClassVar[str] = "beams"

    grid: tuple[int, ...] = (192, 32)
    along: Literal["x", "y", "z"] = "x"
    particles_per_cell: int = 16
    perturbation: Perturbation | None = None  # u of both along the beams += amplitude cos(k x)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.along not in ("x", "y", "z"):
            raise ConfigError(f"along: wanted 'x', 'y' or 'z', got '{self.along}'.")
        if self.particles_per_cell % 2:
            raise ConfigError(
                f"particles_per_cell: wanted an even number, half for each beam, got "
                f"{self.particles_per_cell}."
            )

    def particles(self, seed: int, row: int) -> tuple[Array, Array, Array, Array]:
        """See Setup. Both beams start in the same places, so that charge and current cancel."""
        cells, inside, rng = in_row(self, seed, row)
        inside[:, 1::2] = inside[:, ::2]
        sign = np.where(np.arange(inside.shape[1]) % 2, -1.0, 1.0)
        electrons = rng.normal(0.0, self.thermal, (3, sign.size))
        beam = electrons["xyz".index(self.along)]
        beam += sign * self.gamma * shear.beta(self.gamma)
        if self.perturbation is not None:
            k = self.perturbation.k(self.grid[0])
            beam += self.perturbation.amplitude * np.cos(k * (cells[0] + inside[0]))
        return cells, inside, electrons, np.zeros_like(electrons)
