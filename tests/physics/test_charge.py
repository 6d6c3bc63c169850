"""Charge is conserved to rounding, step by step (Esirkepov) and so Gauss' law keeps itself:

    d rho/dt + div J = 0,     d/dt (div E - rho) = 0

in both precisions, both shapes, with particles that cross cells and ranks.
"""

import numpy as np
import pytest
from plasma import charge_density, divergence, field, make, put

from producers import pic

SPECIES = (
    pic.Species(name="e", charge=-1.0, mass=1.0),
    pic.Species(name="i", charge=1.0, mass=3.0),
)
LIMIT = {"float32": 1e-5, "float64": 1e-12}
GRID, STEP, OMEGA_DT, PER_CELL = (12, 14), 0.69, 0.1, 6


def hot(dtype, shape, ranks):
    """A plasma so hot that most particles cross a cell per step: positions drawn in float32."""
    slabs = make(
        grid=GRID, step=STEP, omega_dt=OMEGA_DT, per_cell=PER_CELL, species=SPECIES, shape=shape,
        dtype=dtype, ranks=ranks,
    )  # fmt: skip
    rng = np.random.default_rng(5)
    n = GRID[0] * GRID[1] * PER_CELL
    for index in range(2):
        cells = np.stack([rng.integers(0, size, n) for size in GRID]).astype(np.int32)
        put(slabs, index, cells, rng.random((2, n), np.float32), rng.normal(0, 3.0, (3, n)))
    return slabs


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("shape", list(pic.Shape))
@pytest.mark.parametrize("dtype", list(LIMIT))
def test_every_step_conserves_charge_in_every_cell(dtype, shape, ranks):
    slabs = hot(dtype, shape, ranks)
    for _ in range(3):
        before = charge_density(slabs)
        pic.step(slabs)
        after = charge_density(slabs)
        jx, jy = (
            np.concatenate([slab.inside(slab.current[c]) for slab in slabs]).astype(np.float64)
            for c in (0, 1)
        )
        assert np.abs(after - before).max() > 0.1 * OMEGA_DT**2  # something did happen
        missing = after - before + divergence(jx, jy, STEP)
        assert np.abs(missing).max() < LIMIT[dtype] * OMEGA_DT**2


@pytest.mark.parametrize("shape", list(pic.Shape))
@pytest.mark.parametrize("dtype", list(LIMIT))
def test_gauss_law_does_not_drift_in_300_steps(dtype, shape):
    slabs = hot(dtype, shape, 2)

    def excess():
        ex, ey = field(slabs, 0).astype(np.float64), field(slabs, 1).astype(np.float64)
        return divergence(ex, ey, STEP) - charge_density(slabs)

    start = excess()
    for _ in range(300):
        pic.step(slabs)
    assert np.abs(excess() - start).max() < 10 * LIMIT[dtype] * OMEGA_DT**2


@pytest.mark.parametrize("dtype", list(LIMIT))
def test_the_mean_current_is_the_charge_times_the_mean_velocity(dtype):
    slabs = hot(dtype, pic.Shape.TSC, 1)
    pic.step(slabs)
    mean = np.zeros(3)
    for index, species in enumerate(SPECIES):
        mine = slabs[0].particles[index]
        u = mine.state[2:5, : mine.count[0]].astype(np.float64)
        velocity = u / np.sqrt(1 + np.sum(u * u, axis=0))
        mean += species.charge * OMEGA_DT**2 / PER_CELL * velocity.sum(axis=1)
    current = slabs[0].inside(slabs[0].current).astype(np.float64).sum(axis=(1, 2))
    np.testing.assert_allclose(current, mean, atol=10 * LIMIT[dtype] * OMEGA_DT**2)
