"""From the same particles, PIConGPU and this solver go the same way.

The thermal momenta of a real PIConGPU start (32 x 64 cells, 25 electrons per cell on a lattice; see
tests/data/README.md) are put into the solver; 1200 steps later, twelve e-foldings of the
instability, the energy of B_z and its picture must be PIConGPU's. The momenta are stored in 8 bits,
1 % of the thermal spread, which is what the tolerance is for: with the full start the energies
agree to 1e-3 and the fields to 1e-6.
"""

from pathlib import Path

import numpy as np
import pytest
from plasma import field, lattice, put

from producers import pic
from producers.khi import KelvinHelmholtz
from producers.units import EPS0, C

DATA = Path(__file__).parents[1] / "data" / "picongpu_khi2d_32x64.npz"


def test_the_same_particles_grow_the_same_vortices_as_in_picongpu():
    data = dict(np.load(DATA))
    config = KelvinHelmholtz(grid=(32, 64), last_step=0, period=1)
    cells, inside = lattice(config.grid, 5, 5)
    slabs = pic.allocate(config.plasma, particles=cells.shape[1], zeros=pic.private_zeros)
    u = np.zeros((3, cells.shape[1]))
    u[0] = np.where((cells[1] < 16) | (cells[1] >= 48), 1.0, -1.0) * np.sqrt(1.021**2 - 1)
    put(slabs, 1, cells, inside, u)
    u[:2] += data["thermal"].reshape(2, -1) * (9.89e-4 / 24)
    put(slabs, 0, cells, inside, u)

    tesla, cell_m3 = config.system.bfield, config.cell_m**3
    energies = []
    for step in range(1, data["steps"][-1] + 1):
        pic.step(slabs)
        if step in data["steps"]:
            bz = field(slabs, 5).astype(np.float64) * tesla
            energies.append(np.sum(bz**2) * 0.5 * EPS0 * C**2 * cell_m3)
    assert energies == pytest.approx(data["bz_energy"], rel=0.05)
    alike = np.corrcoef(field(slabs, 5).ravel(), data["bz"].astype(np.float64).ravel())[0, 1]
    assert alike > 0.999
