"""The electron-scale Kelvin-Helmholtz instability: theory, and how it is seeded.

Two streams +v0 and -v0 along x, cold, of electrons and ions that move together, meet at a step
in y. With W^2 = (omega_pe^2 / gamma0^3) (1 + m_e/m_i) a surface wave of wavenumber k obeys

    1/(w - k v0)^2 + 1/(w + k v0)^2 = 2 / W^2

and so grows with  Gamma^2 = (W/2) sqrt(W^2 + 8 k^2 v0^2) - k^2 v0^2 - W^2/2  for 0 < k v0 < W, at
most with W/sqrt(8), at k v0 = sqrt(3/8) W. It decays as exp(-kappa |y|) from the step. (Cold half
spaces, matched; the same algebra as the symmetric two-stream instability.)

Units here: 1/omega_pe, c/omega_pe.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from workflow.errors import ConfigError
from workflow.types import Array


@dataclass(frozen=True, kw_only=True)
class Perturbation:
    """A seed for one mode: u_y += amplitude cos(k x) exp(-kappa |y - y_shear|) of the electrons."""

    mode: int  # wavelengths in the box
    amplitude: float = 1e-4  # [c] float32 rounding drowns 1e-6

    def __post_init__(self) -> None:
        if self.mode < 1:
            raise ConfigError(f"perturbation.mode: wanted 1 or more, got {self.mode}.")

    def k(self, columns: int) -> float:
        """Wavenumber [1/cell] in a box of so many cells along x."""
        return 2.0 * math.pi * self.mode / columns


def beta(gamma: float) -> float:
    """Speed of the streams in units of c."""
    return math.sqrt(1.0 - gamma**-2)


def natural_rate(gamma: float, mass_ratio: float) -> float:
    """W [omega_pe]."""
    return math.sqrt((1.0 + 1.0 / mass_ratio) / gamma**3)


def growth_rate(k: float, gamma: float, mass_ratio: float = math.inf) -> float:
    """Gamma [omega_pe] of a cold step at wavenumber k [omega_pe/c]; 0 where it is stable."""
    w, kv = natural_rate(gamma, mass_ratio), k * beta(gamma)
    squared = 0.5 * w * math.sqrt(w * w + 8.0 * kv * kv) - kv * kv - 0.5 * w * w
    return math.sqrt(max(0.0, squared))


def decay(k: float, gamma: float, mass_ratio: float = math.inf) -> float:
    """kappa [omega_pe/c] of the growing surface wave."""
    return math.sqrt(k * k + 1.0 / gamma + growth_rate(k, gamma, mass_ratio) ** 2)


def flow_sign(y: Array, height: float) -> Array:
    """Direction of the flow: +1 for y < 1/4 and y >= 3/4 of the height, -1 between."""
    return np.where((y < 0.25 * height) | (y >= 0.75 * height), 1.0, -1.0)


def profile(y: Array, height: float, width: float) -> Array:
    """Speed over that far from the planes: a step, or tanh(distance / width)."""
    sign = flow_sign(y, height)
    return sign * np.tanh(distance_to_shear(y, height) / width) if width else sign


def distance_to_shear(y: Array, height: float) -> Array:
    """Distance to the nearer of the two steps, around the periodic box."""
    return np.abs(np.abs(np.mod(y, 0.5 * height) - 0.25 * height))
