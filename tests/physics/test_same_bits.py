"""What a run depends on: the state it starts from and the seed; not the order of its particles.

The same particles in the same order give the same bits. In another order sums of floating point
numbers differ by rounding, epsilon times the root of the number of terms, and that is all. Two runs
of one seed are equal bit for bit; runs of two seeds are different plasmas.
"""

import math

import numpy as np
import pytest
from plasma import field, make, put

from producers import pic
from producers.khi import KelvinHelmholtz
from producers.setup import Start
from workflow.types import Hosting

SPECIES = (
    pic.Species(name="e", charge=-1.0, mass=1.0),
    pic.Species(name="i", charge=1.0, mass=3.0),
)
GRIDS = {"2D": (10, 12), "3D": (6, 8, 5)}
ROUNDING = {"float32": 1e-5, "float64": 1e-14}  # of the strongest field


def fields_after(grid, dtype, order, steps=20):
    """E and B of a hot random plasma whose particles are put in in this order."""
    per_cell = 9
    slabs = make(
        grid=grid, step=0.55, omega_dt=0.1, per_cell=per_cell, species=SPECIES, dtype=dtype
    )
    rng = np.random.default_rng(2)
    n = math.prod(grid) * per_cell
    for index in range(2):
        cells = np.stack([rng.integers(0, size, n) for size in grid]).astype(np.int32)
        inside, u = rng.random((len(grid), n), np.float32), rng.normal(0, 0.5, (3, n))
        chosen = order(n)
        put(slabs, index, cells[:, chosen], inside[:, chosen], u[:, chosen])
    for _ in range(steps):
        pic.step(slabs)
    return np.array([field(slabs, component) for component in range(6)])


@pytest.mark.parametrize("dtype", list(ROUNDING))
@pytest.mark.parametrize("dimensions", list(GRIDS))
def test_the_order_of_the_particles_matters_to_rounding_only(dimensions, dtype):
    grid = GRIDS[dimensions]
    first = fields_after(grid, dtype, np.arange)
    np.testing.assert_array_equal(fields_after(grid, dtype, np.arange), first)
    mixed = np.random.default_rng(3).permutation
    other = fields_after(grid, dtype, mixed)
    worst = np.abs(other - first).max() / np.abs(first).max()
    assert 0 < worst < ROUNDING[dtype]


def outputs(seed):
    """All arrays of a run that starts at random, 40 steps."""
    config = KelvinHelmholtz(
        grid=(16, 24), particles_per_cell=4, start=Start.RANDOM, last_step=40, period=20
    )
    return [
        {path: array.copy() for path, array in frame.arrays.items()}
        for (frame,) in config.iterations(seed, hosting=Hosting.INLINE)
    ]


def test_a_seed_fixes_every_bit_and_another_seed_none():
    first, again, other = outputs(5), outputs(5), outputs(6)
    for one, two in zip(first, again, strict=True):
        assert one.keys() == two.keys()
        for path in one:
            np.testing.assert_array_equal(one[path], two[path], err_msg=path)
    for path in ("E/x", "B/z"):
        one, three = first[-1][path], other[-1][path]
        assert not np.any(one == three)
        assert np.abs(np.corrcoef(one.ravel(), three.ravel())[0, 1]) < 0.5
