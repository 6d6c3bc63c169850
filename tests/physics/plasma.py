"""What the physics tests share: particles on a quiet lattice, and readings of the state."""

import numpy as np

from producers import pic
from producers.kernels import GUARD


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
    )
    count = particles or grid[0] * grid[1] * per_cell
    return pic.allocate(plasma, particles=count, zeros=pic.private_zeros)


def lattice(grid, along, across):
    """Cells (2, n) and places in the cell (2, n) of `along` x `across` particles in every cell."""
    nx, ny = grid
    j, i, b, a = np.meshgrid(
        np.arange(ny), np.arange(nx), np.arange(across), np.arange(along), indexing="ij"
    )
    cells = np.stack([i.ravel(), j.ravel()]).astype(np.int32)
    inside = np.stack([(a.ravel() + 0.5) / along, (b.ravel() + 0.5) / across])
    return cells, inside


def put(slabs, index, cells, inside, u):
    """Deal particles to the slabs that own their rows."""
    state = np.concatenate([inside, u])
    for slab in slabs:
        mine = (cells[1] >= slab.rows.start) & (cells[1] < slab.rows.stop)
        pic.place(slab, index, cells[:, mine], state[:, mine])


def shifted(cells, inside, dx, grid):
    """The particles moved by dx [cells] along x, around the box."""
    x = cells[0] + inside[0] + dx
    moved = cells.copy()
    moved[0] = np.mod(np.floor(x), grid[0]).astype(np.int32)
    return moved, np.stack([x - np.floor(x), inside[1]])


def field(slabs, component):
    """A component of E, B (0 to 5) on the whole grid, (y, x)."""
    return np.concatenate([slab.inside(slab.fields[component]) for slab in slabs])


def particles(slabs, index):
    """Absolute x, y [cells] in float64 and u, (5, n), of all ranks."""
    parts = []
    for slab in slabs:
        mine = slab.particles[index]
        n = mine.count[0]
        whole = mine.state[:5, :n].astype(np.float64)
        whole[0] += mine.cells[0, :n] - GUARD
        whole[1] += mine.cells[1, :n] - GUARD + slab.rows.start
        parts.append(whole)
    return np.concatenate(parts, axis=1)


def charge_density(slabs):
    """rho at whole nodes, (y, x), in the solver's unit of charge, float64; by plain loops' sums."""
    plasma = slabs[0].plasma
    nx, ny = plasma.grid
    rho = np.zeros((ny, nx))
    for index, species in enumerate(plasma.species):
        x, y, *_ = particles(slabs, index)
        amount = species.charge * plasma.omega_dt**2 / plasma.per_cell
        i, j = np.floor(x + 0.5), np.floor(y + 0.5)
        wx, wy = _weights(x - i, plasma.shape), _weights(y - j, plasma.shape)
        for a in range(3):
            for b in range(3):
                rows, columns = np.int64(j + b - 1) % ny, np.int64(i + a - 1) % nx
                np.add.at(rho, (rows, columns), amount * wx[a] * wy[b])
    return rho


def _weights(d, kind):
    """Independent of the compiled kernel on purpose: numpy, from the definition of the splines."""
    nodes = [np.abs(d + 1.0), np.abs(d), np.abs(d - 1.0)]
    if kind is pic.Shape.CIC:
        return [np.maximum(0.0, 1.0 - r) for r in nodes]
    return [np.where(r < 0.5, 0.75 - r * r, 0.5 * np.maximum(0.0, 1.5 - r) ** 2) for r in nodes]


def divergence(fx, fy, step):
    """Backward differences at whole nodes, times step = c dt / cell."""
    return step * (fx - np.roll(fx, 1, axis=1) + fy - np.roll(fy, 1, axis=0))


def mode(array, m):
    """Complex amplitude of wavenumber m along x, for every row."""
    return np.fft.fft(array, axis=1)[:, m] / array.shape[1]


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
        u = particles(slabs, index)[2:]
        gamma = np.sqrt(1.0 + np.sum(u * u, axis=0))
        kinetic += species.mass * plasma.omega_dt**2 / plasma.per_cell * np.sum(gamma - 1.0)
    return fields, kinetic
