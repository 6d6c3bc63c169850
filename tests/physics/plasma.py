"""What the physics tests share: particles on a quiet lattice, and readings of the state."""

import itertools
import math

import numpy as np

from producers import pic


def make(
    *,
    grid,
    step,
    omega_dt,
    per_cell,
    species,
    shape=pic.Shape.TSC,
    dtype="float64",
    ranks=1,
    threads=1,
    pusher=pic.Pusher.BORIS,
    particles=None,
):
    """An empty plasma in private memory."""
    plasma = pic.Plasma(
        grid=grid,
        step=step,
        omega_dt=omega_dt,
        per_cell=per_cell,
        species=species,
        shape=shape,
        dtype=np.dtype(dtype),
        ranks=ranks,
        threads=threads,
        pusher=pusher,
    )
    count = particles or math.prod(grid) * per_cell
    return pic.allocate(plasma, particles=count, zeros=pic.private_zeros)


def lattice(grid, *counts):
    """Cells (d, n) and places in the cell (d, n) of counts[0] x counts[1].. particles in each."""
    d = len(grid)
    at = np.indices((*grid[::-1], *counts[::-1])).reshape(2 * d, -1)[::-1]
    inside, cells = at[:d], at[d:]
    return cells.astype(np.int32), (inside + 0.5) / np.reshape(counts, (d, 1))


def put(slabs, index, cells, inside, u):
    """Deal particles to the slabs that own their rows."""
    for slab in slabs:
        mine = (cells[1] >= slab.rows.start) & (cells[1] < slab.rows.stop)
        pic.place(slab, index, cells[:, mine], inside[:, mine], u[:, mine])


def shifted(cells, inside, dx, grid):
    """The particles moved by dx [cells] along x, around the box."""
    x = cells[0] + inside[0] + dx
    moved = cells.copy()
    moved[0] = np.mod(np.floor(x), grid[0]).astype(np.int32)
    return moved, np.stack([x - np.floor(x), inside[1]])


def field(slabs, component):
    """A component of E, B (0 to 5) on the whole grid, (y, x) or (z, y, x)."""
    return np.concatenate([slab.inside(slab.fields[component]) for slab in slabs], axis=-2)


def current(slabs, component):
    """A component of J on the whole grid, (y, x) or (z, y, x), float64."""
    parts = [slab.inside(slab.current[component]) for slab in slabs]
    return np.concatenate(parts, axis=-2).astype(np.float64)


def particles(slabs, index):
    """Absolute x, y(, z) [cells] in float64 and u, (d + 3, n), of all slabs."""
    parts = []
    for slab in slabs:
        at, inside, u = pic.read(slab, index)
        parts.append(np.concatenate([at + inside.astype(np.float64), u[:3]]))
    return np.concatenate(parts, axis=1)


def charge_density(slabs):
    """rho at whole nodes, (y, x) or (z, y, x), in the solver's unit of charge, float64."""
    plasma = slabs[0].plasma
    rho = np.zeros(plasma.grid[::-1])
    for index, species in enumerate(plasma.species):
        places = particles(slabs, index)[: len(plasma.grid)]
        amount = species.charge * plasma.omega_dt**2 / plasma.per_cell
        near = np.floor(places + 0.5)
        for nodes in itertools.product((-2, -1, 0, 1, 2), repeat=len(plasma.grid)):
            at = near + np.array(nodes)[:, None]
            weights = np.prod(spline(places - at, plasma.shape), axis=0)
            where = [np.int64(a) % n for a, n in zip(at, plasma.grid, strict=True)]
            np.add.at(rho, tuple(where[::-1]), amount * weights)
    return rho


def spline(d, kind):
    """B-spline of a shape at distance d. Numpy, from the definition: not the compiled kernel's."""
    r = np.abs(d)
    if kind is pic.Shape.CIC:
        return np.maximum(0.0, 1.0 - r)
    if kind is pic.Shape.TSC:
        return np.where(r < 0.5, 0.75 - r * r, 0.5 * np.maximum(0.0, 1.5 - r) ** 2)
    return np.where(r < 1, 2 / 3 - r * r + r**3 / 2, np.maximum(0.0, 2.0 - r) ** 3 / 6)


def divergence(step, *components):
    """Backward differences at whole nodes of the components x, y(, z), times step = c dt / cell."""
    return step * sum(f - np.roll(f, 1, axis=-1 - axis) for axis, f in enumerate(components))


def mode(array, m, axis=0):
    """Complex amplitude of wavenumber m along x, y or z (axis 0, 1, 2), for every line."""
    waves = np.fft.fft(array, axis=-1 - axis) / array.shape[-1 - axis]
    return np.take(waves, m, axis=-1 - axis)


def frequency(signal, dt=1.0):
    """Angular frequency of a steady cosine: x[n+1] + x[n-1] = 2 cos(w dt) x[n], least squares."""
    middle, sides = signal[1:-1], signal[2:] + signal[:-2]
    return np.arccos(0.5 * np.dot(middle, sides) / np.dot(middle, middle)) / dt


def energy(slabs):
    """(field, kinetic) energy in the solver's unit: E^2 + B^2 over 2 per cell; gamma - 1."""
    plasma = slabs[0].plasma
    fields = 0.5 * sum(np.sum(field(slabs, c).astype(np.float64) ** 2) for c in range(6))
    kinetic = 0.0
    for index, species in enumerate(plasma.species):
        u = particles(slabs, index)[-3:]
        gamma = np.sqrt(1.0 + np.sum(u * u, axis=0))
        kinetic += species.mass * plasma.omega_dt**2 / plasma.per_cell * np.sum(gamma - 1.0)
    return fields, kinetic
