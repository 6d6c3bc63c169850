"""Cold electrons swing about ions at rest. On the grid, with shape order m (CIC 1, TSC 2):

    sin(w dt/2) = (omega_p dt/2) sinc(k dx/2)^(m + 1/2),   sinc z = sin z / z

One power m from the deposition and the gather each, over two because the square of w is what they
multiply; the half because div E and J live half a cell apart. Wrong orders of either show up here.
"""

import numpy as np
import pytest
from plasma import field, frequency, lattice, make, mode, put

from producers import pic

ELECTRONS = pic.Species(name="e", charge=-1.0, mass=1.0)


@pytest.mark.parametrize("shape", list(pic.Shape))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("cells", [8, 16])
def test_the_plasma_frequency_has_the_factor_of_the_grid(cells, dtype, shape):
    grid, omega_dt = (cells, 4), 0.1
    slabs = make(
        grid=grid, step=0.5, omega_dt=omega_dt, per_cell=32, species=(ELECTRONS,), shape=shape,
        dtype=dtype,
    )  # fmt: skip
    places, inside = lattice(grid, 16, 2)
    k = 2 * np.pi / cells
    u = np.zeros((3, places.shape[1]))
    u[0] = 1e-3 * np.sin(k * (places[0] + inside[0]))
    put(slabs, 0, places, inside, u)
    signal = []
    for _ in range(400):
        pic.step(slabs)
        signal.append(np.real(mode(field(slabs, 0), 1).mean() * np.exp(-0.5j * k) * 1j))
    m = shape.order
    theory = 2 * np.arcsin(0.5 * omega_dt * np.sinc(k / 2 / np.pi) ** (m + 0.5))
    assert frequency(np.array(signal, dtype=np.float64)) == pytest.approx(theory, rel=1e-3)
    wrong = 2 * np.arcsin(0.5 * omega_dt * np.sinc(k / 2 / np.pi) ** (m - 0.5))
    assert abs(wrong / theory - 1) > 5e-3  # the tolerance tells the orders apart
