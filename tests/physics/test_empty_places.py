"""What lies in a cell's room beyond its particles has no effect, and does not drift away."""

import numpy as np
import pytest
from plasma import field, lattice, make, particles, put

from producers import pic
from producers.layout import LANES

SPECIES = (pic.Species(name="e", charge=-1.0, mass=1.0),)


def started(grid, shape, dtype):
    slabs = make(
        grid=grid, step=0.5, omega_dt=0.1, per_cell=3, species=SPECIES, shape=shape, dtype=dtype
    )
    cells, inside = lattice(grid[:2], 3, 1)
    if len(grid) == 3:
        cells = np.concatenate([cells, np.full((1, cells.shape[1]), 2, np.int32)])
        inside = np.concatenate([inside, np.full((1, inside.shape[1]), 0.4)])
    rng = np.random.default_rng(2)
    put(slabs, 0, cells, inside, rng.normal(0.0, 0.3, (3, cells.shape[1])))
    return slabs


def fill_the_rest(slab, value):
    """Put a value into all places that hold no particle."""
    mine, width = slab.particles[0], slab.plasma.width
    blocks = mine.block.reshape(-1, width, LANES)
    for cell, n in enumerate(mine.count):
        room = blocks[mine.starts[cell] : mine.starts[cell + 1]]
        lane = np.arange(room.shape[0] * LANES).reshape(-1, LANES)
        room.transpose(0, 2, 1)[lane >= n] = value


@pytest.mark.parametrize("value", [1e3, -1e3])
@pytest.mark.parametrize(
    ("grid", "shape", "dtype"),
    [((8, 8), pic.Shape.TSC, "float32"), ((6, 8, 5), pic.Shape.PCS, "float64")],
)
def test_numbers_in_empty_places_change_no_bit(grid, shape, dtype, value):
    clean, dirty = started(grid, shape, dtype), started(grid, shape, dtype)
    for _ in range(4):
        fill_the_rest(dirty[0], value)
        pic.step(clean)
        pic.step(dirty)
    assert np.abs(field(clean, 0)).max() > 0
    for component in range(6):
        np.testing.assert_array_equal(field(dirty, component), field(clean, component))
    np.testing.assert_array_equal(particles(dirty, 0), particles(clean, 0))


def test_an_empty_place_of_a_block_is_zero_after_a_step():
    slabs = started((8, 8), pic.Shape.TSC, "float32")
    fill_the_rest(slabs[0], 1e3)
    pic.step(slabs)
    mine = slabs[0].particles[0]
    blocks = mine.block.reshape(-1, slabs[0].plasma.width, LANES)
    still = [cell for cell, n in enumerate(mine.count) if n]
    assert all((blocks[mine.starts[c], :, LANES - 1] == 0).all() for c in still)
