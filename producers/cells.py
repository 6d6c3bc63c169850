"""Where the particles of a slab are kept: by cell, each cell with room to spare. Compiled.

The layout is the one of `producers.kernels`: block, first, count. A cell that would overflow makes
the whole slab move over to its second store with more room (`lay_out`, `move_over`).
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from __future__ import annotations

from math import ceil, sqrt

import numpy as np
from numba import njit

from producers.layout import LANES, U_LANES
from producers.vectors import prefetch

AHEAD = 8  # movers whose memory is asked for before it is needed


@njit(error_model="numpy", forceinline=True)
def lane_of(start, m, size):
    """Where particle m of a cell lies: its blocks, of `size` numbers each, are from `start` on."""
    return start + (m // U_LANES) * size + m % U_LANES


@njit(cache=True, error_model="numpy", nogil=True)
def roomy(n):
    """Blocks for a cell of n particles: four standard deviations of chance and a few more."""
    return (n + ceil(4.0 * sqrt(n)) + 8 + LANES - 1) // LANES


@njit(cache=True, error_model="numpy", nogil=True)
def expect(first, count, incoming, targets, n):
    """Count n movers to each cell as incoming; returns whether there is room for all of them."""
    fits = True
    for m in range(n):
        c = np.uintp(targets[m])
        incoming[c] += np.int32(1)
        fits &= count[c] + incoming[c] <= (first[c + np.uintp(1)] - first[c]) * LANES
    return fits


@njit(cache=True, error_model="numpy", nogil=True)
def lay_out(first, count, incoming):
    """Give every cell a roomy place; returns the blocks that it takes."""
    used = 0
    for c in range(count.size):
        first[c] = used
        used += roomy(count[c] + incoming[c])
    first[count.size] = used
    return used


@njit(cache=True, error_model="numpy", nogil=True)
def move_over(block, first, count, width, new_block, new_first):
    """Copy all particles to another layout."""
    size = np.uintp(width) * U_LANES
    for c in range(count.size):
        blocks = (np.uintp(count[c]) + U_LANES - np.uintp(1)) // U_LANES
        of, to = np.uintp(first[c]) * size, np.uintp(new_first[c]) * size
        for n in range(blocks * size):
            new_block[to + n] = block[of + n]


@njit(error_model="numpy", forceinline=True)
def place(first, count, cell, width):
    """Where the next particle of a cell goes."""
    c = np.uintp(cell)
    size = np.uintp(width) * U_LANES
    return lane_of(np.uintp(first[c]) * size, np.uintp(count[c]), size)


@njit(cache=True, error_model="numpy", nogil=True)
def insert(block, first, count, incoming, width, targets, numbers, n):
    """Put n movers into their cells, which have room."""
    for m in range(n):
        soon = place(first, count, targets[min(m + AHEAD, n - 1)], width)
        for q in range(numbers.shape[1]):
            prefetch(block, soon + np.uintp(q) * U_LANES)
        c = np.uintp(targets[m])
        at = place(first, count, c, width)
        for q in range(numbers.shape[1]):
            block[at + np.uintp(q) * U_LANES] = numbers[m, q]
        count[c] += np.int32(1)
        incoming[c] = np.int32(0)


@njit(cache=True, error_model="numpy", nogil=True)
def read(block, first, count, width, cells, numbers):
    """All particles, cell by cell: cell numbers (n,), rows of their blocks (width, n)."""
    size = np.uintp(width) * U_LANES
    p = 0
    for c in range(count.size):
        for m in range(np.uintp(count[c])):
            at = lane_of(np.uintp(first[c]) * size, m, size)
            cells[p] = c
            for q in range(numbers.shape[0]):
                numbers[q, p] = block[at + np.uintp(q) * U_LANES]
            p += 1


@njit(cache=True, error_model="numpy", nogil=True)
def pack(block, first, count, width, grid, first_row, mass, rows, out_cells, out_floats):
    """Copy a species as openPMD numbers: cells x, y(, z) (d, n) int32, `rows` as float32.

    grid: (planes, rows, columns) of the slab. rows: (kind, row of a block) of each output: kind 0 a
    place in the cell, 1 a momentum, which is u m/m_e: of a macro-particle in units of w m_e c.
    Returns n.
    """
    below_one = np.float32(0.99999994)  # the rounding to float32 must not leave the cell
    height, columns = grid[1], grid[2]
    size = np.uintp(width) * U_LANES
    p = 0
    for c in range(count.size):
        x, y, z = c % columns, (c // columns) % height, c // (columns * height)
        for m in range(np.uintp(count[c])):
            at = lane_of(np.uintp(first[c]) * size, m, size)
            out_cells[0, p], out_cells[1, p] = x, y + first_row
            if out_cells.shape[0] == 3:
                out_cells[2, p] = z
            for q in range(rows.shape[0]):
                number = block[at + np.uintp(rows[q, 1]) * U_LANES]
                if rows[q, 0] == 0:
                    out_floats[q, p] = min(np.float32(number), below_one)
                else:
                    out_floats[q, p] = np.float32(number * mass)
            p += 1
    return p
