"""Charge is conserved to rounding, step by step (Esirkepov) and so Gauss' law keeps itself:

    d rho/dt + div J = 0,     d/dt (div E - rho) = 0

in both precisions, all shapes, two and three dimensions, with particles that cross cells, slabs and
the edges of the box. rho is summed here by the definition of the splines, not by the kernels.
"""

import math

import numpy as np
import pytest
from plasma import charge_density, current, divergence, field, make, particles, put

from producers import pic

SPECIES = (
    pic.Species(name="e", charge=-1.0, mass=1.0),
    pic.Species(name="i", charge=1.0, mass=3.0),
)
LIMIT = {"float32": 1e-5, "float64": 1e-12}
GRIDS = {"2D": (12, 14), "3D": (6, 12, 5)}
OMEGA_DT, PER_CELL = 0.1, 6


def hot(grid, dtype, shape, slabs):
    """A plasma so hot that most particles cross a cell per step: positions drawn in float32."""
    made = make(
        grid=GRIDS[grid], step=0.98 * len(GRIDS[grid]) ** -0.5, omega_dt=OMEGA_DT,
        per_cell=PER_CELL, species=SPECIES, shape=shape, dtype=dtype, ranks=slabs,
    )  # fmt: skip
    rng = np.random.default_rng(5)
    n = math.prod(GRIDS[grid]) * PER_CELL
    for index in range(2):
        cells = np.stack([rng.integers(0, size, n) for size in GRIDS[grid]]).astype(np.int32)
        put(made, index, cells, rng.random(cells.shape, np.float32), rng.normal(0, 3.0, (3, n)))
    return made


def gauss(slabs):
    """div E - rho."""
    parts = (field(slabs, c).astype(np.float64) for c in range(len(slabs[0].plasma.grid)))
    return divergence(slabs[0].plasma.step, *parts) - charge_density(slabs)


@pytest.mark.parametrize("slabs", [1, 3])
@pytest.mark.parametrize("shape", list(pic.Shape))
@pytest.mark.parametrize("dtype", list(LIMIT))
@pytest.mark.parametrize("grid", list(GRIDS))
def test_every_step_conserves_charge_in_every_cell(grid, dtype, shape, slabs):
    slabs = hot(grid, dtype, shape, slabs)
    for _ in range(2):
        before = charge_density(slabs)
        pic.step(slabs)
        after = charge_density(slabs)
        j = [current(slabs, c) for c in range(len(GRIDS[grid]))]
        assert np.abs(after - before).max() > 0.1 * OMEGA_DT**2  # something did happen
        missing = after - before + divergence(slabs[0].plasma.step, *j)
        assert np.abs(missing).max() < LIMIT[dtype] * OMEGA_DT**2


@pytest.mark.parametrize("shape", list(pic.Shape))
@pytest.mark.parametrize("dtype", list(LIMIT))
@pytest.mark.parametrize("grid", list(GRIDS))
def test_gauss_law_does_not_drift_in_300_steps(grid, dtype, shape):
    slabs = hot(grid, dtype, shape, 2)
    start = gauss(slabs)
    for _ in range(300):
        pic.step(slabs)
    assert np.abs(gauss(slabs) - start).max() < 10 * LIMIT[dtype] * OMEGA_DT**2


@pytest.mark.parametrize("dtype", list(LIMIT))
@pytest.mark.parametrize("grid", list(GRIDS))
def test_the_mean_current_is_the_charge_times_the_mean_velocity(grid, dtype):
    slabs = hot(grid, dtype, pic.Shape.TSC, 1)
    pic.step(slabs)
    mean = np.zeros(3)
    for index, species in enumerate(SPECIES):
        u = particles(slabs, index)[-3:].astype(np.float64)
        velocity = u / np.sqrt(1 + np.sum(u * u, axis=0))
        mean += species.charge * OMEGA_DT**2 / PER_CELL * velocity.sum(axis=1)
    total = [current(slabs, c).sum() for c in range(3)]
    np.testing.assert_allclose(total, mean, atol=10 * LIMIT[dtype] * OMEGA_DT**2)
