"""The fast sum's inner loop, compiled: what particles radiate, spread over bins of retarded time.

Particles are read where the solver keeps them (layout: `producers.kernels`), a block of LANES at a
time, in all directions. Units: dt = 1, c dt = 1. With n a direction, e a unit vector across it, b
and a beta after and before the push, d = b - a, s = 1 - n.b:

    V.e = -[d.e + (r.e) (n.d) / (1 - n.r)] / s,    r = b (backward) or a (total)

is what `radiation_kernels.emit_backward` and `emit_total` say, in a form that loses no digits where
d is small. Neither does d = (du - a dgamma) / gamma(b), dgamma = du.(u(b) + u(a)) / (gamma(b) +
gamma(a)). The retarded time is that of the cell, in float64, and the place in the cell. So all that
is done per particle may be done in the data's own precision, float32 included.

Loops over lanes are written to be vectorised (see `producers.kernels`); bins are added to one by
one, for a longer vector that overlaps what was just written would wait for it. Constants are exact
np.float32 numbers, so that they do not promote float32 data.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from __future__ import annotations

from math import floor, sqrt

import numpy as np
from numba import njit

from producers.layout import LANES, N1, N2, N3, N6, ROW_UX, ROW_UY, ROW_UZ, ROW_Y, ROW_Z, U_LANES
from producers.radiation_kernels import PARTS, passing
from producers.vectors import add_scaled

ZERO, ONE, TWO, THREE, FOUR, SIX = (np.float32(n) for n in (0, 1, 2, 3, 4, 6))
LOST = -1  # a particle fell out of the bins: it is where no number is
AIM = 15  # numbers per direction: n, two unit vectors across it, n along axes of the box, way along
# n per unit of position
TAPS = 6.0  # the bins are too large by this factor
# Rows of the scratch array, of LANES numbers each: place, d, r, b, way since the kick; s, V in two
# components, weights of four bins
X, D, R, B, M, S, V, WEIGHTS, SCRATCH = (
    np.uintp(n * LANES) for n in (0, 3, 6, 9, 12, 15, 16, 18, 22)
)
PARTS_PER_S = np.float32(PARTS // 2)
U_AIM, ROW_2 = np.uintp(AIM), N2 * U_LANES
N9 = np.uintp(9)


@njit(error_model="numpy", nogil=True, fastmath={"contract"})
def motion(block, base, before, work, slope, height, total, age, mix):
    """Where a block's particles are and how they move: rows X to M of the scratch array.

    before: index of u one step before. slope, height (3,): the window along an axis is 1 - |slope
    x + height|. age: times bins per dt.
    """
    sx, sy, sz, hx, hy, hz = slope[0], slope[1], slope[2], height[0], height[1], height[2]
    for lane in range(U_LANES):
        p, q = base + lane, before + lane
        x, y, z = block[p], block[p + ROW_Y], block[p + ROW_Z]
        ux, uy, uz = block[p + ROW_UX], block[p + ROW_UY], block[p + ROW_UZ]
        px, py, pz = block[q], block[q + U_LANES], block[q + ROW_2]
        new = sqrt(ONE + ux * ux + uy * uy + uz * uz)
        old = sqrt(ONE + px * px + py * py + pz * pz)
        inew, iold = ONE / new, ONE / old
        cx, cy, cz = ux - px, uy - py, uz - pz
        rise = (cx * (ux + px) + cy * (uy + py) + cz * (uz + pz)) / (new + old)
        ax, ay, az = px * iold, py * iold, pz * iold
        bx, by, bz = ux * inew, uy * inew, uz * inew
        wx, wy, wz = ONE - abs(sx * x + hx), ONE - abs(sy * y + hy), ONE - abs(sz * z + hz)
        share = max(wx, ZERO) * max(wy, ZERO) * max(wz, ZERO) * inew
        work[X + lane] = x
        work[X + lane + U_LANES] = y
        work[X + lane + ROW_2] = z
        work[D + lane] = share * (cx - ax * rise)
        work[D + lane + U_LANES] = share * (cy - ay * rise)
        work[D + lane + ROW_2] = share * (cz - az * rise)
        work[R + lane] = ax if total else bx
        work[R + lane + U_LANES] = ay if total else by
        work[R + lane + ROW_2] = az if total else bz
        work[B + lane] = bx
        work[B + lane + U_LANES] = by
        work[B + lane + ROW_2] = bz
        work[M + lane] = age * (bx + mix * (ax - bx))
        work[M + lane + U_LANES] = age * (by + mix * (ay - by))
        work[M + lane + ROW_2] = age * (bz + mix * (az - bz))


@njit(error_model="numpy", nogil=True, fastmath={"contract"})
def emit(work, lows, parts, aims, aim, place):
    """What a block radiates into one direction, and when it arrives: rows S to WEIGHTS.

    place: of the cell [bins], such that no particle's is negative. The weights are those of the
    cubic B-spline, times TAPS. lows (LANES,): the bins below; parts (LANES,): of s in the table of
    passing frequencies.
    """
    nx, ny, nz = aims[aim], aims[aim + N1], aims[aim + N2]
    ex, ey, ez = aims[aim + N3], aims[aim + N3 + N1], aims[aim + N3 + N2]
    fx, fy, fz = aims[aim + U_AIM - N9], aims[aim + U_AIM - N9 + N1], aims[aim + U_AIM - N9 + N2]
    tx, ty, tz = aims[aim + U_AIM - N6], aims[aim + U_AIM - N6 + N1], aims[aim + U_AIM - N6 + N2]
    px, py, pz = aims[aim + U_AIM - N3], aims[aim + U_AIM - N2], aims[aim + U_AIM - N1]
    for lane in range(U_LANES):
        x, y, z = work[X + lane], work[X + lane + U_LANES], work[X + lane + ROW_2]
        dx, dy, dz = work[D + lane], work[D + lane + U_LANES], work[D + lane + ROW_2]
        rx, ry, rz = work[R + lane], work[R + lane + U_LANES], work[R + lane + ROW_2]
        bx, by, bz = work[B + lane], work[B + lane + U_LANES], work[B + lane + ROW_2]
        mx, my, mz = work[M + lane], work[M + lane + U_LANES], work[M + lane + ROW_2]
        s = ONE - (nx * bx + ny * by + nz * bz)
        along = (nx * dx + ny * dy + nz * dz) / (ONE - (nx * rx + ny * ry + nz * rz))
        size = -ONE / s
        at = place - (px * x + py * y + pz * z) + (tx * mx + ty * my + tz * mz)
        low = np.int32(at)
        f = at - np.float32(low)
        g = ONE - f
        first, last = g * g * g, f * f * f
        second = FOUR - THREE * f * f * (TWO - f)
        work[S + lane] = s
        lows[lane] = low
        parts[lane] = np.int32(s * PARTS_PER_S)
        work[V + lane] = size * (
            ex * dx + ey * dy + ez * dz + along * (ex * rx + ey * ry + ez * rz)
        )
        work[V + lane + U_LANES] = size * (
            fx * dx + fy * dy + fz * dz + along * (fx * rx + fy * ry + fz * rz)
        )
        work[WEIGHTS + lane] = first
        work[WEIGHTS + lane + U_LANES] = second
        work[WEIGHTS + lane + ROW_2] = SIX - first - second - last
        work[WEIGHTS + lane + ROW_2 + U_LANES] = last


@njit(error_model="numpy", nogil=True)
def assign(
    work, alive, lows, parts, lowest, last, row, of_slot, limits, table, slots, quick, to
):  # fmt: skip
    """Where in the bins each particle's first number goes; 0, LOST, or a count without a slot.

    lowest: low bin 0, less 1; row: of the bins in slot 0; of_slot: numbers per slot.
    """
    for lane in range(alive):
        low, part = lowest + lows[lane], parts[lane]
        if low < 0 or low > last or part < 0 or part > PARTS:
            return np.int64(LOST)
        slot = quick[part]
        if slot < 0:
            passes = passing(work[S + lane], limits, table)
            slot = slots[passes]
            if slot < 0:
                return np.int64(passes)
        to[lane] = np.uintp(slot) * of_slot + N2 * (row + np.uintp(low))
    return np.int64(0)


@njit(error_model="numpy", nogil=True)
def widen(work, wide):
    """V, its two components side by side, and the weights, in the precision of the bins."""
    for lane in range(U_LANES):
        wide[N2 * lane], wide[N2 * lane + N1] = work[V + lane], work[V + lane + U_LANES]
    for n in range(N2 * U_LANES, N6 * U_LANES):
        wide[n] = work[V + n]


@njit(error_model="numpy", nogil=True, fastmath={"contract"})
def spread(wide, lane, bins, at):
    """Add a particle's V to four bins from `at` on, both components of a bin at once."""
    for q in range(N2 + N2):
        add_scaled(bins, at + N2 * q, wide, N2 * lane, wide[lane + (q + N2) * U_LANES], 2)


@njit(error_model="numpy", nogil=True)
def approach(c, grid, corner, slopes, paths, starts, reach, height, lowest, place):
    """The window and the retarded times of cell c: height (3,), lowest and place (directions,)."""
    c, rows, columns = np.uint32(c), np.uint32(grid[1]), np.uint32(grid[2])
    line = c // columns
    x, y, z = (
        corner[0] + (c - line * columns), corner[1] + line % rows, corner[2] + line // rows
    )  # fmt: skip
    for i, at in enumerate((x, y, z)):
        height[i] = slopes[i] * at - (1.0 if slopes[i] > 0.0 else 0.0)
    for d in range(len(paths)):
        at = starts[d] - (paths[d, 0] * x + paths[d, 1] * y + paths[d, 2] * z)
        lowest[d] = floor(at - reach[d])
        place[d] = at - lowest[d]


@njit(cache=True, error_model="numpy", nogil=True)
def add_binned(
    state, cells, block, first, count, width, grid, corner, slopes, aims, paths, starts, reach,
    age, mix, total, limits, table, slots, quick, bins,
):  # fmt: skip
    """Spread what particles radiate over bins of retarded time with a cubic B-spline.

    cells (n,): which; block, first, count, width: see `producers.kernels`; grid: (planes, rows,
    columns); corner (3,): place of the first cell. slopes (3,): of the window. aims (directions,
    AIM), in the precision of block; paths (directions, 3): way along n per unit of position; starts
    (directions,): the bin of place 0; reach (directions,): how much lower than its cell a particle
    may be, all in bins. age [bins], mix, total, limits, table: see `radiation_kernels`. slots
    (frequencies + 1,): which of bins (slots, directions, bins, 2) takes the particles whose count
    of passing frequencies is the index, or -1; quick (PARTS + 1,) int32: the same by part of s, or
    -1 where the count varies.

    Begins at state (3,), index in cells, block of the cell, direction; stops before a block that
    needs a slot which is not there. Returns the count to make a slot for, LOST, or 0 at the end.
    """
    number, directions = block.dtype.type, len(paths)
    work, wide = np.zeros(SCRATCH, block.dtype), np.zeros(N6 * U_LANES)
    lows, parts = np.zeros(LANES, np.int32), np.zeros(LANES, np.int32)
    to = np.zeros(LANES, np.uintp)
    height, slope = np.zeros(3, block.dtype), slopes.astype(block.dtype)
    place, lowest = np.zeros(directions, block.dtype), np.zeros(directions, np.int64)
    flat, flat_aims = bins.reshape(bins.size), aims.reshape(aims.size)
    length, last = np.uintp(bins.shape[2]), bins.shape[2] - 4
    size, of_slot = np.uintp(width) * U_LANES, N2 * np.uintp(directions) * length
    for index in range(state[0], len(cells)):
        c = cells[index]
        approach(c, grid, corner, slopes, paths, starts, reach, height, lowest, place)
        n = np.uintp(count[c])
        for b in range(np.uintp(state[1]), (n + U_LANES - N1) // U_LANES):
            base = (np.uintp(first[c]) + b) * size
            alive = min(n - b * U_LANES, U_LANES)
            motion(
                block, base, base + size - N3 * U_LANES, work, slope, height, total, number(age),
                number(mix),
            )  # fmt: skip
            for d in range(np.uintp(state[2]), np.uintp(directions)):
                emit(work, lows, parts, flat_aims, d * U_AIM, place[d])
                widen(work, wide)
                missing = assign(
                    work, alive, lows, parts, lowest[d] - 1, last, d * length, of_slot, limits,
                    table, slots, quick, to,
                )  # fmt: skip
                if missing != 0:
                    state[0], state[1], state[2] = index, b, d
                    return missing
                for lane in range(alive):
                    spread(wide, lane, flat, to[lane])
            state[2] = 0
        state[1] = 0
    return np.int64(0)
