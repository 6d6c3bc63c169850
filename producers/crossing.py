"""Particles that leave their cell: their current, and where they go. Compiled.

Units and arrays as in `producers.kernels`; deposition by Esirkepov, as there.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from __future__ import annotations

import numpy as np
from numba import njit

from producers.layout import (
    DOWN,
    N0,
    N1,
    N2,
    N3,
    N4,
    N5,
    N6,
    ROW_Z,
    U_CHANGES,
    U_FLOW,
    U_LANES,
    U_NEW,
    U_OLD,
    U_WAY,
    U_WEIGHTS,
    UP,
    WITHIN,
)
from producers.splines import HALF, ONE, TWO, ZERO, put, reach, whole
from producers.vectors import add_scaled


@njit(error_model="numpy", forceinline=True)
def spread(work, at, x, cell, order):
    """Weights on six whole nodes from -2 of the old cell; the particle is at x of cell -1, 0, 1."""
    for n in range(N6):
        work[at + n] = ZERO
    _, first, _, _ = reach(order)
    put(work, at + np.uintp(2 + first + cell), whole(x, order))


@njit(error_model="numpy", forceinline=True)
def window(cell, order):
    """First and last + 1 of the six nodes that count for a particle that goes to `cell`."""
    nodes, first, _, _ = reach(order)
    return np.uintp(2 + first + min(cell, 0)), np.uintp(2 + first + nodes + max(cell, 0))


@njit(error_model="numpy", forceinline=True, fastmath={"contract"})
def prepare(work, depth):
    """Turn a particle's weights at n, n + 1 into their mean and change; sum up the flow along x."""
    for n in range(U_WEIGHTS, U_WEIGHTS + (N3 if len(depth) else N2) * N6):
        old, new = work[n], work[n + N3 * N6]
        work[n], work[n + N3 * N6] = HALF * (old + new), new - old
    passed = ZERO * work[U_WEIGHTS]
    for n in range(N5):
        passed -= work[U_CHANGES + n]
        work[U_FLOW + n] = passed
    work[U_FLOW + N5] = ZERO


@njit(error_model="numpy", nogil=True, fastmath={"contract"})
def deposit_wide(work, current, k, j, i, my, mz, amount, twelfth, way, order, depth):
    """The current of one particle that leaves its cell: six nodes each way, as far as they count.

    my, mz: cells that it goes. twelfth: 1/12 in the precision of the data. way: along z, which
    in two dimensions is current out of the plane.
    """
    _, height, rows, columns = current.shape
    line = np.uintp(columns)
    layer = np.uintp(rows) * line
    volume = np.uintp(height) * layer
    low, high = window(my, order)
    near, far = N0, N1
    j, i = j - N2, i - N2
    if len(depth):
        near, far = window(mz, order)
        k -= N2
    origin = k * layer + j * line + i
    for c in range(near, far):
        mean_z, change_z = work[U_WEIGHTS + N2 * N6 + c], work[U_CHANGES + N2 * N6 + c]
        passed = ZERO * amount
        for b in range(low, high):
            mean_y, change_y = work[U_WEIGHTS + N6 + b], work[U_CHANGES + N6 + b]
            at = origin + c * layer + b * line
            factor = amount * (mean_y * mean_z + twelfth * change_y * change_z)
            add_scaled(current, at, work, U_FLOW, factor, 6)
            passed -= amount * change_y
            if b + N1 < high:
                add_scaled(current, at + volume, work, U_WEIGHTS, passed * mean_z, 6)
                if len(depth):
                    factor = passed * change_z * twelfth
                    add_scaled(current, at + volume, work, U_CHANGES, factor, 6)
    for b in range(low, high):
        mean_y, change_y = work[U_WEIGHTS + N6 + b], work[U_CHANGES + N6 + b]
        passed = amount * way
        for c in range(near, far - (N1 if len(depth) else N0)):
            at = origin + N2 * volume + c * layer + b * line
            if len(depth):
                passed = (passed if c > near else ZERO * amount) - amount * work[
                    U_CHANGES + N2 * N6 + c
                ]
            add_scaled(current, at, work, U_WEIGHTS, passed * mean_y, 6)
            add_scaled(current, at, work, U_CHANGES, passed * change_y * twelfth, 6)


@njit(error_model="numpy", forceinline=True)
def stays(work, lane, depth):
    """Whether a particle is still in its cell."""
    x, y, z = work[U_NEW + lane], work[U_NEW + lane + U_LANES], work[U_NEW + lane + N2 * U_LANES]
    inside = (x >= ZERO) & (x < ONE) & (y >= ZERO) & (y < ONE)
    return inside & ((len(depth) == 0) | ((z >= ZERO) & (z < ONE)))


@njit(error_model="numpy", forceinline=True)
def place(x):
    """(cells moved, place in the cell) of a coordinate; never 1, to which a tiny step may round."""
    cell = np.floor(x)
    inside = x - cell
    if inside >= ONE:
        return np.int64(cell) + 1, ZERO * inside
    return np.int64(cell), inside


@njit(error_model="numpy", forceinline=True)
def around(n, size):
    """n in a periodic direction."""
    return n + size if n < 0 else (n - size if n >= size else n)


@njit(error_model="numpy", forceinline=True)
def slow_enough(work, lane, depth):
    """Whether a particle has come to a neighbouring cell at most; not so if it is not a number."""
    x, y, z = work[U_NEW + lane], work[U_NEW + lane + U_LANES], work[U_NEW + lane + N2 * U_LANES]
    near = (x >= -ONE) & (x < TWO) & (y >= -ONE) & (y < TWO)
    return near & ((len(depth) == 0) | ((z >= -ONE) & (z < TWO)))


@njit(error_model="numpy", forceinline=True)
def cross(work, lane, current, k, j, i, amount, twelfth, order, depth):
    """Deposit a particle that leaves its cell; leaves its place in the new cell in `work`.

    Returns the cells that it goes along x, y, z.
    """
    at = U_NEW + lane
    mx, x = place(work[at])
    my, y = place(work[at + U_LANES])
    mz, z = 0, work[at + N2 * U_LANES]
    spread(work, U_WEIGHTS, work[U_OLD + lane], 0, order)
    spread(work, U_WEIGHTS + N6, work[U_OLD + lane + U_LANES], 0, order)
    spread(work, U_WEIGHTS + N3 * N6, x, mx, order)
    spread(work, U_WEIGHTS + N4 * N6, y, my, order)
    if len(depth):
        mz, z = place(z)
        spread(work, U_WEIGHTS + N2 * N6, work[U_OLD + lane + ROW_Z], 0, order)
        spread(work, U_WEIGHTS + N5 * N6, z, mz, order)
    prepare(work, depth)
    deposit_wide(work, current, k, j, i, my, mz, amount, twelfth, work[U_WAY + lane], order, depth)
    work[at], work[at + U_LANES], work[at + N2 * U_LANES] = x, y, z
    return mx, my, mz


@njit(error_model="numpy", forceinline=True)
def target(x, y, z, grid):
    """(which box of movers, cell of the receiver) for cell x, y, z of a slab, or one beyond."""
    planes, rows, columns, rows_below, rows_above = grid
    side, height = WITHIN, rows
    if y < 0:
        side, height, y = DOWN, rows_below, rows_below - 1
    elif y >= rows:
        side, height, y = UP, rows_above, 0
    return side, (around(z, planes) * height + y) * columns + around(x, columns)
