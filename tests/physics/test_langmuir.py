"""Cold electrons swing about ions at rest. On the grid, with shape order m (CIC 1, TSC 2, PCS 3):

    sin(w dt/2) = (w_p dt/2) sinc(k dx/2)^(m + 1/2),   sinc z = sin z / z

One power m from the deposition and the gather each, over two because the square of w is what they
multiply; the half because div E and J live half a cell apart. Wrong orders of either show up here.

    ions that swing, too    w_p^2 -> w_p^2 (1 + m_e / m_i)
    warm electrons          w^2 = w_p^2 + 3 k^2 v_th^2 (Bohm, Gross; next: 6 (k v_th)^4 / w_p^2)
"""

from statistics import NormalDist

import numpy as np
import pytest
from plasma import field, frequency, lattice, make, mode, put

from producers import pic

ELECTRONS = pic.Species(name="e", charge=-1.0, mass=1.0)


def swinging(grid, axis, *, shape, dtype="float64", per_cell=(16, 2), omega_dt=0.1, ions=()):
    """A plasma whose electrons move as sin(k x) along one axis, ions against them."""
    slabs = make(
        grid=grid, step=0.5, omega_dt=omega_dt, per_cell=int(np.prod(per_cell)),
        species=(ELECTRONS, *ions), shape=shape, dtype=dtype,
    )  # fmt: skip
    cells, inside = lattice(grid, *per_cell)
    u = np.zeros((3, cells.shape[1]))
    u[axis] = 1e-3 * np.sin(2 * np.pi / grid[axis] * (cells[axis] + inside[axis]))
    for index, species in enumerate(slabs[0].plasma.species):
        put(slabs, index, cells, inside, -species.charge / species.mass * u)
    return slabs


def swing(slabs, axis, steps=400):
    """Angular frequency [1/dt] of the wave's E along its axis."""
    k, signal = 2 * np.pi / slabs[0].plasma.grid[axis], []
    for _ in range(steps):
        pic.step(slabs)
        wave = mode(field(slabs, axis), 1, axis).mean()
        signal.append(np.real(wave * np.exp(-0.5j * k) * 1j))
    return frequency(np.array(signal, dtype=np.float64))


def cold(cells, order, omega_dt=0.1):
    """The formula above, for a wave of so many cells."""
    return 2 * np.arcsin(0.5 * omega_dt * np.sinc(1 / cells) ** (order + 0.5))


@pytest.mark.parametrize("shape", list(pic.Shape))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("cells", [8, 16])
def test_the_plasma_frequency_has_the_factor_of_the_grid(cells, dtype, shape):
    found = swing(swinging((cells, 4), 0, shape=shape, dtype=dtype), 0)
    assert found == pytest.approx(cold(cells, shape.order), rel=1e-3)
    wrong = cold(cells, shape.order - 1)
    assert abs(wrong / cold(cells, shape.order) - 1) > 5e-3  # the tolerance tells the orders apart


@pytest.mark.parametrize("shape", list(pic.Shape))
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_in_three_dimensions_it_has_the_same_factor_along_every_axis(axis, shape):
    grid, per_cell = np.full(3, 4), np.ones(3, int)
    grid[axis], per_cell[axis] = 8, 16
    slabs = swinging(tuple(grid.tolist()), axis, shape=shape, per_cell=tuple(per_cell))
    assert swing(slabs, axis) == pytest.approx(cold(8, shape.order), rel=1e-3)


def test_ions_that_swing_too_make_it_faster():
    ions = pic.Species(name="i", charge=1.0, mass=4.0)
    found = swing(swinging((16, 4), 0, shape=pic.Shape.TSC, ions=(ions,)), 0)
    assert found == pytest.approx(cold(16, 2, omega_dt=0.1 * np.sqrt(1.25)), rel=1e-3)


def test_warm_electrons_make_it_faster_as_bohm_and_gross_say():
    cells, per_cell, omega_dt, step = 16, (8, 1), 0.04, 0.5
    places, inside = lattice((cells, 4), *per_cell)
    speeds = 32  # of equal weight at every place: quiet
    k, kv = 2 * np.pi / cells, 0.1 * omega_dt
    quantiles = [NormalDist().inv_cdf((n + 0.5) / speeds) for n in range(speeds)]
    thermal = kv / (k * step) * np.array(quantiles) / np.std(quantiles)  # [c]
    slabs = make(
        grid=(cells, 4), step=step, omega_dt=omega_dt, per_cell=8 * speeds, species=(ELECTRONS,),
        shape=pic.Shape.TSC,
    )  # fmt: skip
    u = np.zeros((3, places.shape[1] * speeds))
    u[0] = np.tile(thermal, places.shape[1])
    at, inside = (np.repeat(a, speeds, axis=1) for a in (places, inside))
    u[0] += 1e-4 * np.sin(k * (at[0] + inside[0]))
    put(slabs, 0, at, inside, u)
    found, without = swing(slabs, 0, steps=1000), cold(cells, 2, omega_dt)
    assert (found**2 - without**2) / (3 * kv**2) == pytest.approx(1.0, abs=0.03)
