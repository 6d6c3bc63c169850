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
    U_LANES,
    U_NEW,
    U_OLD,
    U_WAY,
    U_WEIGHTS,
    UP,
    WITHIN,
)
from producers.splines import HALF, ONE, TWO, ZERO, put, reach, whole


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


@njit(error_model="numpy", forceinline=True)
def weight(work, axis, node):
    """(mean, change) of a particle's weight of a node of its six."""
    at = U_WEIGHTS + axis * N6 + node
    old, new = work[at], work[at + N3 * N6]
    return HALF * (old + new), new - old


@njit(error_model="numpy", nogil=True)
def deposit_wide(work, current, k, j, i, mx, my, mz, amount, twelfth, way, order, depth):
    """The current of one particle that leaves its cell: six nodes each way, as far as they count.

    mx, my, mz: cells that it goes. twelfth: 1/12 in the precision of the data. way: along z, which
    in two dimensions is current out of the plane.
    """
    left, right = window(mx, order)
    low, high = window(my, order)
    near, far = N0, N1
    j, i = j - N2, i - N2
    if len(depth):
        near, far = window(mz, order)
        k -= N2
    for c in range(near, far):
        sz, dz = weight(work, N2, c)
        for b in range(low, high):
            sy, dy = weight(work, N1, b)
            factor = amount * (sy * sz + twelfth * dy * dz)
            passed = ZERO * factor
            for a in range(left, right - N1):
                passed -= factor * weight(work, N0, a)[1]
                current[N0, k + c, j + b, i + a] += passed
        for a in range(left, right):
            sx, dx = weight(work, N0, a)
            factor = amount * (sx * sz + twelfth * dx * dz)
            passed = ZERO * factor
            for b in range(low, high - N1):
                passed -= factor * weight(work, N1, b)[1]
                current[N1, k + c, j + b, i + a] += passed
    for b in range(low, high):
        sy, dy = weight(work, N1, b)
        for a in range(left, right):
            sx, dx = weight(work, N0, a)
            factor = amount * (sx * sy + twelfth * dx * dy)
            if len(depth):
                passed = ZERO * factor
                for c in range(near, far - N1):
                    passed -= factor * weight(work, N2, c)[1]
                    current[N2, k + c, j + b, i + a] += passed
            else:
                current[N2, k, j + b, i + a] += factor * way


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


@njit(error_model="numpy", nogil=True)
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
        spread(work, U_WEIGHTS + N2 * N6, work[U_OLD + lane + N2 * U_LANES], 0, order)
        spread(work, U_WEIGHTS + N5 * N6, z, mz, order)
    deposit_wide(
        work, current, k, j, i, mx, my, mz, amount, twelfth, work[U_WAY + lane], order, depth
    )
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
