"""Yee's field solver on a slab, compiled. Arrays and units as in `producers.kernels`.

Differences along z are taken over `up` planes: 1 in three dimensions; 0 in two, where they vanish.
K. S. Yee, IEEE Trans. Antennas Propag. 14, 302 (1966).
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from __future__ import annotations

import numpy as np
from numba import njit

from producers.layout import GUARD

_1 = np.uintp(1)


@njit(cache=True, error_model="numpy", nogil=True)
def half_step_b(fields, half_step, up):
    """B forward by dt/2 from curl E, everywhere but in the last plane, row and column.

    Guards too: from equal E a guard takes the very steps of the cell that it mirrors, so that B
    needs no exchange.
    """
    ex, ey, ez, bx, by, bz = fields[0], fields[1], fields[2], fields[3], fields[4], fields[5]
    up = np.uintp(up)
    planes, rows, columns = (
        np.uintp(ex.shape[0]) - up, np.uintp(ex.shape[1]) - _1, np.uintp(ex.shape[2]) - _1,
    )  # fmt: skip
    for k in range(planes):
        m = k + up
        for j in range(rows):
            n = j + _1
            for i in range(columns):
                o = i + _1
                dz_x, dz_y = ex[m, j, i] - ex[k, j, i], ey[m, j, i] - ey[k, j, i]
                bx[k, j, i] -= half_step * ((ez[k, n, i] - ez[k, j, i]) - dz_y)
                by[k, j, i] -= half_step * (dz_x - (ez[k, j, o] - ez[k, j, i]))
                bz[k, j, i] -= half_step * (
                    (ey[k, j, o] - ey[k, j, i]) - (ex[k, n, i] - ex[k, j, i])
                )


@njit(cache=True, error_model="numpy", nogil=True)
def step_e(fields, current, step, up):
    """E forward by dt from curl B and the current at mid-step, in the slab's own cells."""
    ex, ey, ez, bx, by, bz = fields[0], fields[1], fields[2], fields[3], fields[4], fields[5]
    jx, jy, jz = current[0], current[1], current[2]
    guard, up = np.uintp(GUARD), np.uintp(up)
    first = guard * up
    planes, rows, columns = (
        np.uintp(ex.shape[0]) - first, np.uintp(ex.shape[1]) - guard, np.uintp(ex.shape[2]) - guard,
    )  # fmt: skip
    for k in range(first, planes):
        m = k - up
        for j in range(guard, rows):
            n = j - _1
            for i in range(guard, columns):
                o = i - _1
                dz_x, dz_y = bx[k, j, i] - bx[m, j, i], by[k, j, i] - by[m, j, i]
                ex[k, j, i] += step * ((bz[k, j, i] - bz[k, n, i]) - dz_y) - jx[k, j, i]
                ey[k, j, i] += step * (dz_x - (bz[k, j, i] - bz[k, j, o])) - jy[k, j, i]
                ez[k, j, i] += (
                    step * ((by[k, j, i] - by[k, j, o]) - (bx[k, j, i] - bx[k, n, i])) - jz[k, j, i]
                )
