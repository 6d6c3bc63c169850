"""Light in vacuum on the Yee grid.

    sin^2(w dt/2) = (c dt/dx)^2 [ sin^2(kx dx/2) + sin^2(ky dx/2) ]

A standing wave that starts with B = 0 keeps its form: E(t) = E(0) cos(w t), exactly.
"""

import numpy as np
import pytest
from plasma import field, frequency, make

from producers import pic

E_Z, B_Z = 2, 5


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize(("mx", "my"), [(1, 0), (0, 2), (3, 2)])
@pytest.mark.parametrize("component", [E_Z, B_Z])
def test_a_standing_wave_has_the_frequency_of_the_grid(component, mx, my, ranks):
    nx, ny, step = 24, 18, 0.57
    slabs = make(grid=(nx, ny), step=step, omega_dt=0.0, per_cell=1, species=(), ranks=ranks)
    kx, ky = 2 * np.pi * mx / nx, 2 * np.pi * my / ny
    y, x = np.meshgrid(np.arange(ny), np.arange(nx), indexing="ij")
    wave = np.cos(kx * x + ky * y)
    for slab in slabs:
        slab.inside(slab.fields[component])[...] = wave[slab.rows.start : slab.rows.stop]
    for slab in slabs:
        pic.mirror(slab, slabs, 0, 6)
    signal = []
    for _ in range(120):
        now = field(slabs, component)
        signal.append(np.sum(now * wave) / np.sum(wave * wave))
        np.testing.assert_allclose(now, signal[-1] * wave, atol=1e-11)
        pic.step(slabs)
    theory = 2 * np.arcsin(step * np.hypot(np.sin(kx / 2), np.sin(ky / 2)))
    assert frequency(np.array(signal)) == pytest.approx(
        theory, rel=1e-10 if component == E_Z else 1e-3
    )
