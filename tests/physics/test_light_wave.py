"""Light in vacuum on the Yee grid.

    sin^2(w dt/2) = (c dt/dx)^2 [ sin^2(kx dx/2) + sin^2(ky dx/2) + sin^2(kz dx/2) ]

A standing wave of E that starts with B = 0 keeps its form: E(t) = E(0) cos(w t), exactly, if it is
transverse: E . K = 0 with K = (sin(kx dx/2), ..), every component taken at its place in the cell.
So does a wave of B that starts with E = 0.
"""

import numpy as np
import pytest
from plasma import field, make

from producers import pic, units

PLACES = np.array(list(units.YEE_POSITION.values()))  # of the six components, x, y, z [cells]
STEP = 0.57


def standing(grid, modes, direction):
    """E and B (6, (z,) y, x) of a wave in one of the two, and omega."""
    half = np.pi * np.array(modes) / grid  # k dx / 2
    nodes = np.indices(grid[::-1])[::-1].astype(float)  # x, y(, z)
    wave = np.zeros((6, *grid[::-1]))
    for component, amplitude in enumerate(direction):
        places = nodes + PLACES[component, : len(grid)].reshape(-1, *[1] * len(grid))
        wave[component] = amplitude * np.cos(2 * np.tensordot(half, places, axes=1))
    return wave, 2 * np.arcsin(STEP * np.linalg.norm(np.sin(half)))


def across(grid, modes):
    """A direction with no part along K, and along no axis."""
    k = np.sin(np.pi * np.array(modes) / grid)
    return np.cross(k, [0.3, -1.0, 0.5])


CASES = [
    ((24, 18), (1, 0), (0, 0, 1)),
    ((24, 18), (0, 2), (0, 0, 1)),
    ((24, 18), (3, 2), (0, 0, 1)),
    ((8, 15, 10), (0, 0, 1), (1, 0, 0)),
    ((8, 15, 10), (0, 0, 2), (0, 1, 0)),
    ((8, 15, 10), (1, 2, 3), across((8, 15, 10), (1, 2, 3))),
]


@pytest.mark.parametrize("slabs", [1, 3])
@pytest.mark.parametrize(("grid", "modes", "direction"), CASES)
@pytest.mark.parametrize("kind", ["E", "B"])
def test_a_standing_wave_has_the_frequency_of_the_grid(kind, grid, modes, direction, slabs):
    parts = make(grid=grid, step=STEP, omega_dt=0.0, per_cell=1, species=(), ranks=slabs)
    none = (0, 0, 0)
    both = (*direction, *none) if kind == "E" else (*none, *direction)
    wave, omega = standing(grid, modes, both)
    for slab in parts:
        slab.inside(slab.fields)[...] = wave[..., slab.rows.start : slab.rows.stop, :]
    for slab in parts:
        pic.mirror(slab, parts, 0, 6)
    mine = slice(0, 3) if kind == "E" else slice(3, 6)
    for n in range(121):
        now = np.array([field(parts, component) for component in range(6)])[mine]
        np.testing.assert_allclose(now, np.cos(n * omega) * wave[mine], atol=1e-11)
        pic.step(parts)
