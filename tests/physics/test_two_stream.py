"""Two cold electron beams of half the density each, +v0 and -v0, through ions at rest.

    1/(w - k v0)^2 + 1/(w + k v0)^2 = 2 / W^2,   W^2 = omega_p^2 / gamma^3

grows with at most W/sqrt(8), at k v0 = sqrt(3/8) W; stable for k v0 > W.
"""

import numpy as np
import pytest
from plasma import field, lattice, make, mode, put, shifted

from producers import pic, shear

BEAMS = (
    pic.Species(name="right", charge=-1.0, mass=1.0),
    pic.Species(name="left", charge=-1.0, mass=1.0),
)


def grown(kv, steps):
    """|E_x(k)| over the steps, and omega_p dt, for k v0 = kv omega_p; the box is one wavelength."""
    grid, step, gamma = (64, 4), 0.5, 1.02
    speed = shear.beta(gamma)
    k = 2 * np.pi / grid[0]
    omega_dt = k * speed * step / kv
    slabs = make(grid=grid, step=step, omega_dt=omega_dt, per_cell=8, species=BEAMS)
    cells, inside = lattice(grid, 4, 1)
    displacement = 1e-3 * np.sin(k * (cells[0] + inside[0]))
    for index, sign in enumerate((1.0, -1.0)):
        u = np.zeros((3, cells.shape[1]))
        u[0] = sign * gamma * speed
        put(slabs, index, *shifted(cells, inside, sign * displacement, grid), u)
    amplitude = []
    for _ in range(steps(omega_dt)):
        pic.step(slabs)
        amplitude.append(abs(mode(field(slabs, 0), 1).mean()))
    return np.array(amplitude), omega_dt, shear.growth_rate(kv / speed, gamma)


@pytest.mark.parametrize("kv", [0.612, 0.9])
def test_two_beams_amplify_a_wave_at_the_cold_rate(kv):
    amplitude, omega_dt, theory = grown(kv, lambda w: int(22 / w))
    t = omega_dt * np.arange(len(amplitude))
    window = (t > 12) & (t < 20)
    rate = np.polyfit(t[window], np.log(amplitude[window]), 1)[0]
    assert rate == pytest.approx(theory, rel=0.02)


def test_two_beams_are_stable_beyond_the_cutoff():
    amplitude, _, theory = grown(1.2, lambda w: int(22 / w))
    assert theory == 0.0
    half = len(amplitude) // 2
    assert amplitude[half:].max() < 1.5 * amplitude[:half].max()
