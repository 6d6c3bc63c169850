"""The scheme has no arrow of time: all but rounding comes back.

After N steps the state is x(N), u(N - 1/2), E(N), B(N). Time turned round is E -> E, B -> -B, and
u -> -u at the half step from which the way back starts: -u(N + 1/2), which one more push of the way
there finds, at x(N), with E(N), B(N). From x(N), -u(N + 1/2), E(N), -B(N), step by step,

    push      is symmetric (both pushers): u(n + 1/2) -> u(n - 1/2) at x(n), so x goes back, too
    deposit   of the way back (Esirkepov: odd in old and new) is -J(n - 1/2)
    fields    B(n) -> B(n - 1/2) by half a step of E(n), E(n) -> E(n - 1), B -> B(n - 1)

and N steps end at x(0), -u(-1/2), E(0), -B(0). To turn u(N - 1/2) instead, half a step early, does
not lead back. Only float64 is tried: the plasma is hot, and multiplies rounding.
"""

import math

import numpy as np
import pytest
from plasma import field, make, particles, put

from producers import pic

SPECIES = (
    pic.Species(name="e", charge=-1.0, mass=1.0),
    pic.Species(name="i", charge=1.0, mass=3.0),
)
GRIDS = {"2D": (10, 12), "3D": (6, 8, 5)}
PER_CELL, STEPS, STEP = 6, 50, 0.55


def empty(grid, pusher):
    return make(
        grid=grid, step=STEP, omega_dt=0.1, per_cell=PER_CELL, species=SPECIES, ranks=2,
        pusher=pusher,
    )  # fmt: skip


def fill(slabs, states):
    """Put particles (d + 3, n) at absolute places [cells] into slabs, one table per species."""
    grid = slabs[0].plasma.grid
    for index, state in enumerate(states):
        x = np.mod(state[:-3], np.reshape(grid, (-1, 1)))
        cells = np.floor(x).astype(np.int32)
        put(slabs, index, cells, x - cells, state[-3:])


def fields(slabs):
    return np.array([field(slabs, component) for component in range(6)])


def set_fields(slabs, values):
    for slab in slabs:
        slab.inside(slab.fields)[...] = values[..., slab.rows.start : slab.rows.stop, :]
    for slab in slabs:
        pic.mirror(slab, slabs, 0, 6)


def states(slabs):
    return [particles(slabs, index) for index in range(len(SPECIES))]


def drifted_back(state):
    """x one step before, from x and the u that led there."""
    u = state[-3:]
    way = STEP * u / np.sqrt(1.0 + np.sum(u * u, axis=0))
    return np.concatenate([state[:-3] - way[: len(state) - 3], u])


def turned(state):
    return np.concatenate([state[:-3], -state[-3:]])


def by_place(state, grid):
    """In the order of x, with every place in the box."""
    x = np.mod(state[:-3], np.reshape(grid, (-1, 1)))
    return np.concatenate([x, state[-3:]])[:, np.argsort(x[0])]


def worst_after_the_way_back(start, turn, at_turn, pusher):
    """Greatest distance from the start in cells and u, and in fields, of a run turned round."""
    grid = at_turn.shape[:0:-1]
    slabs = empty(grid, pusher)
    fill(slabs, [turned(state) for state in turn])
    signs = np.reshape([1, 1, 1, -1, -1, -1], (6, *[1] * len(grid)))
    set_fields(slabs, at_turn * signs)
    for _ in range(STEPS):
        pic.step(slabs)
    pairs = zip(states(slabs), start, strict=True)
    moved = [np.abs(by_place(turned(now), grid) - by_place(then, grid)) for now, then in pairs]
    return max(part.max() for part in moved), np.abs(fields(slabs)).max()


@pytest.mark.parametrize("pusher", list(pic.Pusher))
@pytest.mark.parametrize("dimensions", list(GRIDS))
def test_a_run_that_is_turned_round_comes_back_to_its_start(dimensions, pusher):
    grid = GRIDS[dimensions]
    rng = np.random.default_rng(8)
    n = math.prod(grid) * PER_CELL
    start = [
        np.concatenate([rng.random((len(grid), n)) * np.reshape(grid, (-1, 1)), u])
        for u in rng.normal(0, 0.5, (2, 3, n))
    ]
    there = empty(grid, pusher)
    fill(there, start)
    for _ in range(STEPS):
        pic.step(there)
    at_turn, early = fields(there), states(there)
    pic.step(there)
    late = [drifted_back(state) for state in states(there)]
    assert np.abs(at_turn).max() > 5e-3  # fields that turn particles by as much in a step
    assert max(worst_after_the_way_back(start, late, at_turn, pusher)) < 1e-12
    _, early_fields = worst_after_the_way_back(start, early, at_turn, pusher)
    assert early_fields > 1e-5
