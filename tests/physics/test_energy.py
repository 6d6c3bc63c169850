"""A thermal plasma keeps its energy: sum of (gamma - 1) m c^2 and of (E^2 + B^2)/2 per cell.

v_th = 0.1 c, cells of 0.1 c/omega_p, so that a cell is one Debye length; 64 particles per cell.
"""

import numpy as np
import pytest
from plasma import energy, make, put

from producers import pic


@pytest.mark.parametrize("shape", list(pic.Shape))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_thermal_plasma_keeps_its_energy(dtype, shape):
    grid, per_cell = (12, 12), 64
    electrons = pic.Species(name="e", charge=-1.0, mass=1.0)
    slabs = make(
        grid=grid, step=0.5, omega_dt=0.05, per_cell=per_cell, species=(electrons,), shape=shape,
        dtype=dtype,
    )  # fmt: skip
    rng = np.random.default_rng(3)
    n = grid[0] * grid[1] * per_cell
    cells = np.stack([rng.integers(0, size, n) for size in grid]).astype(np.int32)
    put(slabs, 0, cells, rng.random((2, n), np.float32), rng.normal(0, 0.1, (3, n)))
    start = sum(energy(slabs))
    for _ in range(280):
        pic.step(slabs)
    fields, kinetic = energy(slabs)
    assert fields > 1e-4 * start  # the plasma did make fields
    assert fields + kinetic == pytest.approx(start, rel=1e-3)
