"""The inner loops of the particle-in-cell solver, compiled.

Units: time in dt, positions in cells, u = gamma beta, E and B in m_e c / (e dt), current in units
of E per dt. Arrays carry GUARD cells on every side; cell indices of particles are those of the
padded arrays, so that they are never negative.

Indices are np.uintp throughout: with signed ones numba inserts wrap-around selects that keep LLVM
from vectorising. Constants are np.float32, exact ones only, so that they do not promote float32
data. Gather and push are one loop, deposition another, block by block: fused, the two run out of
registers; apart over a whole species, they run out of cache.

Shape functions (order 1 CIC, order 2 TSC) are written on the same three nodes around the nearest
one, so that one kernel serves both. Deposition: T. Zh. Esirkepov, Comput. Phys. Commun. 135, 144
(2001). Push: J. P. Boris, Proc. 4th Conf. Num. Sim. Plasmas (1970). Fields: K. Yee (1966).
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from __future__ import annotations

from math import sqrt

import numpy as np
from numba import njit

GUARD = 3  # a deposition after a move of one cell reaches two nodes down and three up
BLOCK = 512  # particles per block: what push leaves for deposition stays in the first-level cache

_1, _2, _3 = np.uintp(1), np.uintp(2), np.uintp(3)
ZERO, ONE, HALF, TWELVE = np.float32(0), np.float32(1), np.float32(0.5), np.float32(12)


@njit(cache=True, error_model="numpy", inline="always")
def shape(d, order):
    """Weights of the nodes -1, 0, 1 for a particle at d in [-1/2, 1/2] from node 0."""
    low, high = HALF - d, HALF + d
    if order == 1:
        return max(-d, ZERO), ONE - abs(d), max(d, ZERO)
    return HALF * low * low, np.float32(0.75) - d * d, HALF * high * high


@njit(cache=True, error_model="numpy", inline="always")
def _nine(f, j, i, a, b, c, u, v, w):
    """Sum over 3 x 3 nodes from row j, column i; (a, b, c) weigh rows, (u, v, w) columns."""
    k, m, o, q = j + _1, j + _2, i + _1, i + _2
    return (
        a * (u * f[j, i] + v * f[j, o] + w * f[j, q])
        + b * (u * f[k, i] + v * f[k, o] + w * f[k, q])
        + c * (u * f[m, i] + v * f[m, o] + w * f[m, q])
    )


@njit(cache=True, error_model="numpy")
def push(first, last, cells, state, moved, fields, half_kick, step, order):
    """Gather E, B at t = n; Boris push u from n - 1/2 to n + 1/2; say where that leads.

    cells (2, capacity): ix, iy. state (5 or more, capacity): x, y in the cell, ux, uy, uz.
    moved (2, BLOCK): receives x, y at n + 1 relative to the old cell. fields (6, rows, columns).
    half_kick: q/m / 2 [e/m_e]. step: c dt [cells]. Each component is gathered at its own place in
    the Yee cell with the shape of the species.
    """
    e0, e1, e2, b0, b1, b2 = fields[0], fields[1], fields[2], fields[3], fields[4], fields[5]
    for p in range(np.uintp(first), np.uintp(last)):
        x, y = state[0, p], state[1, p]
        nx, ny = np.floor(x + HALF), np.floor(y + HALF)
        ax, bx, cx = shape(x - nx, order)  # on whole nodes
        ay, by, cy = shape(y - ny, order)
        ux, vx, wx = shape(x - HALF, order)  # on half nodes: always around this cell's own
        uy, vy, wy = shape(y - HALF, order)
        i, j = np.uintp(cells[0, p]) - _1, np.uintp(cells[1, p]) - _1
        ii, jj = i + np.uintp(nx), j + np.uintp(ny)
        ex = half_kick * _nine(e0, jj, i, ay, by, cy, ux, vx, wx)
        ey = half_kick * _nine(e1, j, ii, uy, vy, wy, ax, bx, cx)
        ez = half_kick * _nine(e2, jj, ii, ay, by, cy, ax, bx, cx)
        mx = _nine(b0, j, ii, uy, vy, wy, ax, bx, cx)
        my = _nine(b1, jj, i, ay, by, cy, ux, vx, wx)
        mz = _nine(b2, j, i, uy, vy, wy, ux, vx, wx)
        px, py, pz = boris(state[2, p], state[3, p], state[4, p], ex, ey, ez, mx, my, mz, half_kick)
        state[2, p], state[3, p], state[4, p] = px, py, pz
        way = step / sqrt(ONE + px * px + py * py + pz * pz)
        b = p - np.uintp(first)
        moved[0, b], moved[1, b] = x + px * way, y + py * way


@njit(cache=True, error_model="numpy", inline="always")
def boris(ux, uy, uz, ex, ey, ez, bx, by, bz, half_kick):
    """u after half a kick (ex, ey, ez), the rotation by B, and the other half kick."""
    ux, uy, uz = ux + ex, uy + ey, uz + ez
    turn = half_kick / sqrt(ONE + ux * ux + uy * uy + uz * uz)
    tx, ty, tz = turn * bx, turn * by, turn * bz
    s = (ONE + ONE) / (ONE + tx * tx + ty * ty + tz * tz)
    vx = ux + (uy * tz - uz * ty)
    vy = uy + (uz * tx - ux * tz)
    vz = uz + (ux * ty - uy * tx)
    return (
        ux + s * (vy * tz - vz * ty) + ex,
        uy + s * (vz * tx - vx * tz) + ey,
        uz + s * (vx * ty - vy * tx) + ez,
    )


@njit(cache=True, error_model="numpy", inline="always")
def _four(a, b, c, up):
    """Three weights on a window of four nodes, one node up or not."""
    if up:
        return ZERO * a, a, b, c
    return a, b, c, ZERO * a


@njit(cache=True, error_model="numpy", inline="always")
def _row(jx, jz, j, i, s, e, k, n, along, amount_z):
    """One row of four nodes: flow along x, and the current out of the plane.

    s: mean shape in x, e: its change; k, n: mean shape of this row in y, and its change / 12.
    """
    f0 = -along * e[0] * k
    f1 = f0 - along * e[1] * k
    jx[j, i] += f0
    jx[j, i + _1] += f1
    jx[j, i + _2] += f1 - along * e[2] * k
    jz[j, i] += amount_z * (s[0] * k + e[0] * n)
    jz[j, i + _1] += amount_z * (s[1] * k + e[1] * n)
    jz[j, i + _2] += amount_z * (s[2] * k + e[2] * n)
    jz[j, i + _3] += amount_z * (s[3] * k + e[3] * n)


@njit(cache=True, error_model="numpy", inline="always")
def _row_inside(jx, jz, j, i, s, e, k, n, along, amount_z):
    """The same for a particle that stays within three nodes."""
    jx[j, i] -= along * e[0] * k
    jx[j, i + _1] += along * e[2] * k
    jz[j, i] += amount_z * (s[0] * k + e[0] * n)
    jz[j, i + _1] += amount_z * (s[1] * k + e[1] * n)
    jz[j, i + _2] += amount_z * (s[2] * k + e[2] * n)


@njit(cache=True, error_model="numpy")
def deposit(first, last, cells, state, moved, current, amount, step, order):
    """Add the current of particles first..last at n + 1/2 from their way since n (Esirkepov).

    current (3, rows, columns). amount: charge of one macro-particle, in the same unit.
    """
    jx, jy, jz = current[0], current[1], current[2]
    along = amount / step  # the current of a charge that moves one cell in dt
    for p in range(np.uintp(first), np.uintp(last)):
        b = p - np.uintp(first)
        x, y, x1, y1 = state[0, p], state[1, p], moved[0, b], moved[1, b]
        nx, ny, mx, my = (
            np.floor(x + HALF), np.floor(y + HALF), np.floor(x1 + HALF), np.floor(y1 + HALF),
        )  # fmt: skip
        a, c = shape(x - nx, order), shape(x1 - mx, order)
        d, f = shape(y - ny, order), shape(y1 - my, order)
        ux, uy, uz = state[2, p], state[3, p], state[4, p]
        out = amount * uz / sqrt(ONE + ux * ux + uy * uy + uz * uz)
        i = np.uintp(cells[0, p] + np.int32(min(nx, mx))) - _1
        j = np.uintp(cells[1, p] + np.int32(min(ny, my))) - _1
        if nx == mx and ny == my:
            e = (c[0] - a[0], c[1] - a[1], c[2] - a[2])
            g = (f[0] - d[0], f[1] - d[1], f[2] - d[2])
            s = (a[0] + HALF * e[0], a[1] + HALF * e[1], a[2] + HALF * e[2])
            _row_inside(jx, jz, j, i, s, e, d[0] + HALF * g[0], g[0] / TWELVE, along, out)
            _row_inside(jx, jz, j + _1, i, s, e, d[1] + HALF * g[1], g[1] / TWELVE, along, out)
            _row_inside(jx, jz, j + _2, i, s, e, d[2] + HALF * g[2], g[2] / TWELVE, along, out)
            low, high = -along * g[0], along * g[2]
            for m in range(3):
                jy[j, i + np.uintp(m)] += low * s[m]
                jy[j + _1, i + np.uintp(m)] += high * s[m]
        else:
            q, r = _four(a[0], a[1], a[2], nx > mx), _four(c[0], c[1], c[2], mx > nx)
            v, w = _four(d[0], d[1], d[2], ny > my), _four(f[0], f[1], f[2], my > ny)
            h = (r[0] - q[0], r[1] - q[1], r[2] - q[2], r[3] - q[3])
            z = (w[0] - v[0], w[1] - v[1], w[2] - v[2], w[3] - v[3])
            t = (q[0] + HALF * h[0], q[1] + HALF * h[1], q[2] + HALF * h[2], q[3] + HALF * h[3])
            _row(jx, jz, j, i, t, h, v[0] + HALF * z[0], z[0] / TWELVE, along, out)
            _row(jx, jz, j + _1, i, t, h, v[1] + HALF * z[1], z[1] / TWELVE, along, out)
            _row(jx, jz, j + _2, i, t, h, v[2] + HALF * z[2], z[2] / TWELVE, along, out)
            _row(jx, jz, j + _3, i, t, h, v[3] + HALF * z[3], z[3] / TWELVE, along, out)
            f0 = -along * z[0]
            f1 = f0 - along * z[1]
            f2 = f1 - along * z[2]
            for m in range(4):
                jy[j, i + np.uintp(m)] += f0 * t[m]
                jy[j + _1, i + np.uintp(m)] += f1 * t[m]
                jy[j + _2, i + np.uintp(m)] += f2 * t[m]


@njit(cache=True, error_model="numpy")
def settle(first, last, cells, state, moved, columns):
    """Give particles first..last their new cell and their place in it; cells wrap in x."""
    for p in range(np.uintp(first), np.uintp(last)):
        b = p - np.uintp(first)
        for axis in range(2):
            z = moved[axis, b]
            cell = np.floor(z)
            z -= cell
            if z >= ONE:  # a tiny step down that rounding took back
                z = ZERO * z
                cell += ONE
            state[axis, p] = z
            cells[axis, p] += np.int32(cell)
        if cells[0, p] < GUARD:
            cells[0, p] += np.int32(columns)
        elif cells[0, p] >= columns + GUARD:
            cells[0, p] -= np.int32(columns)


@njit(cache=True, error_model="numpy")
def advance(count, cells, state, fields, current, half_kick, amount, step, columns, order):
    """Push a species by one step and add its current, block by block."""
    moved = np.empty((2, BLOCK), dtype=state.dtype)
    first = 0
    while first < count:
        last = min(first + BLOCK, count)
        push(first, last, cells, state, moved, fields, half_kick, step, order)
        if amount != ZERO:
            deposit(first, last, cells, state, moved, current, amount, step, order)
        settle(first, last, cells, state, moved, columns)
        first = last


@njit(cache=True, error_model="numpy")
def leave(count, cells, state, rows, rows_below, out_cells, out_state):
    """Take particles that left the slab's rows to the two outboxes and close the gaps.

    out_cells (2, 2, room), out_state (2, columns of state, room): [0] down, [1] up. Returns
    (remaining, gone down, gone up), or remaining -1 when an outbox is too small.
    """
    gone_down, gone_up = 0, 0
    room = out_cells.shape[2]
    quantities = state.shape[0]
    p = 0
    while p < count:
        row = cells[1, p]
        if row >= GUARD and row < rows + GUARD:
            p += 1
            continue
        if row < GUARD:
            side, place, shift = 0, gone_down, rows_below
            gone_down += 1
        else:
            side, place, shift = 1, gone_up, -rows
            gone_up += 1
        if place >= room:
            return -1, gone_down, gone_up
        out_cells[side, 0, place] = cells[0, p]
        out_cells[side, 1, place] = np.int32(row + shift)
        count -= 1
        for q in range(quantities):
            out_state[side, q, place] = state[q, p]
            state[q, p] = state[q, count]
        cells[0, p] = cells[0, count]
        cells[1, p] = cells[1, count]
    return count, gone_down, gone_up


@njit(cache=True, error_model="numpy")
def half_step_b(fields, half_step):
    """B forward by dt/2 from curl E, everywhere but in the last row and column.

    Guards too: from equal E a guard takes the very steps of the cell that it mirrors, so that B
    needs no exchange.
    """
    ex, ey, ez, bx, by, bz = fields[0], fields[1], fields[2], fields[3], fields[4], fields[5]
    rows, columns = np.uintp(ex.shape[0] - 1), np.uintp(ex.shape[1] - 1)
    for j in range(rows):
        k = j + _1
        for i in range(columns):
            o = i + _1
            bx[j, i] -= half_step * (ez[k, i] - ez[j, i])
            by[j, i] += half_step * (ez[j, o] - ez[j, i])
            bz[j, i] -= half_step * ((ey[j, o] - ey[j, i]) - (ex[k, i] - ex[j, i]))


@njit(cache=True, error_model="numpy")
def step_e(fields, current, step):
    """E forward by dt from curl B and the current at mid-step, in the slab's own cells."""
    ex, ey, ez, bx, by, bz = fields[0], fields[1], fields[2], fields[3], fields[4], fields[5]
    jx, jy, jz = current[0], current[1], current[2]
    guard = np.uintp(GUARD)
    rows, columns = np.uintp(ex.shape[0]) - guard, np.uintp(ex.shape[1]) - guard
    for j in range(guard, rows):
        k = j - _1
        for i in range(guard, columns):
            o = i - _1
            ex[j, i] += step * (bz[j, i] - bz[k, i]) - jx[j, i]
            ey[j, i] += step * (bz[j, o] - bz[j, i]) - jy[j, i]
            ez[j, i] += step * ((by[j, i] - by[j, o]) - (bx[j, i] - bx[k, i])) - jz[j, i]


@njit(cache=True, error_model="numpy")
def fold_columns(current, columns):
    """Add what was deposited beyond the x edges to the columns that it belongs to."""
    guard = np.uintp(GUARD)
    n = np.uintp(columns)
    for c in range(current.shape[0]):
        j = current[c]
        for r in range(np.uintp(j.shape[0])):
            for g in range(guard):
                j[r, g + n] += j[r, g]
            for g in range(guard):
                j[r, g + guard] += j[r, g + guard + n]


@njit(cache=True, error_model="numpy")
def pack(count, cells, state, first_row, mass, previous, out_cells, out_floats):
    """Copy a species as openPMD numbers: cells (2, n) int32; x, y, p(, p before) float32.

    Momenta are u m/m_e: of a macro-particle in units of w m_e c. previous: 0 or 1.
    """
    below_one = np.float32(0.99999994)  # the rounding to float32 must not leave the cell
    mass64 = np.float64(mass)
    for p in range(np.uintp(count)):
        out_cells[0, p] = cells[0, p] - np.int32(GUARD)
        out_cells[1, p] = cells[1, p] + np.int32(first_row - GUARD)
        out_floats[0, p] = min(np.float32(state[0, p]), below_one)
        out_floats[1, p] = min(np.float32(state[1, p]), below_one)
        for q in range(2, 5 + 3 * previous):
            out_floats[q, p] = np.float32(state[q, p] * mass64)
