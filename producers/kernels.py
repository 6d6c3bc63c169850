"""The inner loop of the particle-in-cell solver, compiled: push, deposit, change of cell.

Units: time in dt, positions in cells, u = gamma beta, E and B in m_e c / (e dt), current in units
of E per dt. Field arrays are (components, z, y, x) and carry GUARD cells on both sides of y and x,
and of z in three dimensions; in two z has one plane and no guard.

Particles of a cell lie together, in blocks of LANES: `first[c]` is the first block of cell c of the
slab (z, y, x; x running first), `count[c]` the number of its particles; the blocks up to
`first[c + 1]` are its room. A block is `width` rows of LANES numbers: x, y in the cell, ux, uy, uz,
in three dimensions z, and where it is kept u one step before. All particles of a cell read the same
field values and reach the same nodes, so a block is pushed and deposited by vector instructions;
its current is summed over the cell before it goes to the grid. A particle that leaves its cell
takes the scalar way (`producers.crossing`) and goes to a box of movers, from which `cells.insert`
puts it into its new cell; so nothing is sorted and only what moves is moved.

The loops are written to be vectorised: indices are np.uintp (signed ones bring wrap-around
selects); all rows of a block have constant distances in one flat array (separate arrays might
overlap, for all that the compiler knows); blocks are whole: lanes beyond `count` hold numbers
of weight zero. NUMBA_SLP_VECTORIZE=1 would spoil it.

Deposition: T. Zh. Esirkepov, Comput. Phys. Commun. 135, 144 (2001). Push: J. P. Boris, Proc. 4th
Conf. Num. Sim. Plasmas (1970); A. V. Higuera & J. R. Cary, Phys. Plasmas 24, 052104 (2017).
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from __future__ import annotations

from math import sqrt

import numpy as np
from numba import njit
from numba.extending import overload

from producers.cells import lane_of
from producers.crossing import cross, slow_enough, stays, target
from producers.layout import (
    LANES,
    N0,
    N1,
    N2,
    N3,
    N4,
    N5,
    N8,
    PARTS,
    ROW_UX,
    ROW_UY,
    ROW_UZ,
    ROW_Y,
    ROW_Z,
    TOO_FAST,
    TOO_MANY,
    U_GUARD,
    U_LANES,
    U_NEW,
    U_NODES,
    U_OLD,
    U_PARTS,
    U_SUMS,
    U_TILE,
    WEIGHTS,
    WORK,
)
from producers.splines import (
    HALF,
    INLINE,
    ONE,
    TWO,
    ZERO,
    add_pairs,
    add_rows,
    change,
    cube,
    flow,
    flow_up,
    half,
    mean,
    outer,
    padded,
    plus,
    reach,
    twelfth,
    whole,
)
from producers.vectors import add_four_sums, copy_first, copy_row, prefetch, repeat


def _rotation_gamma(square, tx, ty, tz, dot, pusher):
    """gamma with which a pusher turns u: square = 1 + u^2 after half the kick; t = q B dt / 2 m."""


@overload(_rotation_gamma, jit_options=INLINE)
def _gamma_of(square, tx, ty, tz, dot, pusher):
    if pusher.count == 0:  # Boris
        return lambda square, tx, ty, tz, dot, pusher: sqrt(square)

    def higuera_cary(square, tx, ty, tz, dot, pusher):
        turn = tx * tx + ty * ty + tz * tz
        left = square - turn
        return sqrt(HALF * (left + sqrt(left * left + TWO * TWO * (turn + dot * dot))))

    return higuera_cary


@njit(error_model="numpy", forceinline=True, fastmath={"contract"})
def kick(ux, uy, uz, ex, ey, ez, bx, by, bz, pusher):
    """u after dt; e, b: q/m dt / 2 times E, B."""
    ux, uy, uz = ux + ex, uy + ey, uz + ez
    square = ONE + ux * ux + uy * uy + uz * uz
    turn = ONE / _rotation_gamma(square, bx, by, bz, ux * bx + uy * by + uz * bz, pusher)
    tx, ty, tz = bx * turn, by * turn, bz * turn
    s = TWO / (ONE + tx * tx + ty * ty + tz * tz)
    vx, vy, vz = ux + uy * tz - uz * ty, uy + uz * tx - ux * tz, uz + ux * ty - uy * tx
    return (
        ux + s * (vy * tz - vz * ty) + ex,
        uy + s * (vz * tx - vx * tz) + ey,
        uz + s * (vx * ty - vy * tx) + ez,
    )


@njit(error_model="numpy", forceinline=True)
def take(work, at, fields, component, k, j, i, planes, rows, columns):
    """Copy a component's nodes from (k, j, i), PARTS times each."""
    for c in range(np.uintp(planes)):
        for b in range(np.uintp(rows)):
            for a in range(np.uintp(columns)):
                repeat(work, at, fields[component, k + c, j + b, i + a], PARTS)
                at += U_PARTS


@njit(error_model="numpy", nogil=True)
def take_fields(work, fields, k, j, i, order, depth):
    """The nodes of all six components around cell (k, j, i), each at its place in the Yee cell."""
    w, wo, h, ho = reach(order)
    wz, wzo, hz, hzo = reach(depth)
    wj, wi, hj, hi = j + np.uintp(wo), i + np.uintp(wo), j + np.uintp(ho), i + np.uintp(ho)
    wk, hk = k + np.uintp(wzo), k + np.uintp(hzo)
    take(work, U_NODES, fields, N0, wk, wj, hi, wz, w, h)
    take(work, U_NODES + N1 * U_TILE, fields, N1, wk, hj, wi, wz, h, w)
    take(work, U_NODES + N2 * U_TILE, fields, N2, hk, wj, wi, hz, w, w)
    take(work, U_NODES + N3 * U_TILE, fields, N3, hk, hj, wi, hz, h, w)
    take(work, U_NODES + N4 * U_TILE, fields, N4, hk, wj, hi, hz, w, h)
    take(work, U_NODES + N5 * U_TILE, fields, N5, wk, hj, hi, wz, h, h)


@njit(error_model="numpy", forceinline=True)
def bring(block, start):
    """Ask for the rows of a block that is needed soon: no hardware guesses where it lies."""
    for q in range(N5):
        for line in range(N0, U_LANES, N8):
            prefetch(block, start + q * U_LANES + line)


@njit(error_model="numpy", forceinline=True)
def load(work, block, base, keep, last, depth):
    """Take a block into `work`; `keep`: note u in its rows from `last`."""
    for q in range(N5 + np.uintp(len(depth) > 0)):
        copy_row(work, U_OLD + q * U_LANES, block, base + q * U_LANES, LANES)
    if keep:
        for q in range(N3):
            copy_row(block, last + q * U_LANES, work, U_OLD + ROW_UX + q * U_LANES, LANES)


@njit(error_model="numpy", forceinline=True)
def store(work, alive, block, base, depth):
    """Give a block its u at n + 1/2 and places at n + 1; x of those that left is negative.

    Lanes beyond `alive` get 0, lest what lies there drifts away step by step until it is no number.
    """
    copy_first(block, base, work, U_NEW, alive, LANES)
    copy_first(block, base + ROW_Y, work, U_NEW + ROW_Y, alive, LANES)
    for q in range(N2, N5):
        copy_first(block, base + q * U_LANES, work, U_OLD + q * U_LANES, alive, LANES)
    if len(depth):
        copy_first(block, base + ROW_Z, work, U_NEW + N2 * U_LANES, alive, LANES)


@njit(error_model="numpy", nogil=True, fastmath={"contract"})
def push(work, half_kick, step, order, depth, pusher):
    """Gather E, B at t = n and push u from n - 1/2 to n + 1/2, for the block in `work`.

    Leaves places at n + 1 and the way along z. half_kick: q/m / 2 [e/m_e]. step: c dt [cells].
    """
    for first in range(N0, U_LANES, U_PARTS):
        for part in range(U_PARTS):
            p, at = U_OLD + first + part, U_NODES + part
            x, y, z = work[p], work[p + ROW_Y], work[p + ROW_Z]
            wx, wy, wz = whole(x, order), whole(y, order), whole(z, depth)
            hx, hy, hz = half(x, order), half(y, order), half(z, depth)
            ux, uy, uz = kick(
                work[p + ROW_UX],
                work[p + ROW_UY],
                work[p + ROW_UZ],
                half_kick * cube(work, at, hx, wy, wz),
                half_kick * cube(work, at + N1 * U_TILE, wx, hy, wz),
                half_kick * cube(work, at + N2 * U_TILE, wx, wy, hz),
                half_kick * cube(work, at + N3 * U_TILE, wx, hy, hz),
                half_kick * cube(work, at + N4 * U_TILE, hx, wy, hz),
                half_kick * cube(work, at + N5 * U_TILE, hx, hy, wz),
                pusher,
            )
            way = step / sqrt(ONE + ux * ux + uy * uy + uz * uz)
            work[p + ROW_UX] = ux
            work[p + ROW_UY] = uy
            work[p + ROW_UZ] = uz
            q = U_NEW + first + part
            work[q] = x + way * ux
            work[q + U_LANES] = y + way * uy
            work[q + N2 * U_LANES] = z + way * uz
            work[q + N3 * U_LANES] = way * uz


@njit(error_model="numpy", nogil=True, fastmath={"contract", "nnan", "nsz"})
def deposit(work, alive, amount, order, depth):
    """Add the current of a block's particles that stay in their cell to the partial sums.

    amount: charge that one macro-particle carries over one cell in dt, in units of the current.
    """
    w, _, _, _ = reach(order)
    wz, _, _, _ = reach(depth)
    for first in range(N0, U_LANES, U_PARTS):
        for part in range(U_PARTS):
            lane = first + part
            p, q = U_OLD + lane, U_NEW + lane
            x1, y1, z1 = work[q], work[q + U_LANES], work[q + N2 * U_LANES]
            inside = (lane < alive) & (x1 >= ZERO) & (x1 < ONE) & (y1 >= ZERO) & (y1 < ONE)
            if len(depth):
                inside &= (z1 >= ZERO) & (z1 < ONE)
            charge = amount if inside else ZERO * amount
            a, b = whole(work[p], order), whole(x1, order)
            mx, dx = mean(a, b), change(a, b)
            a, b = whole(work[p + ROW_Y], order), whole(y1, order)
            my, dy = mean(a, b), change(a, b)
            c, d = whole(work[p + ROW_Z], depth), whole(z1, depth)
            mz, dz = mean(c, d), change(c, d)
            fx, fy = flow(dx, charge, ZERO * charge), flow(dy, charge, ZERO * charge)
            fz = flow_up(dz, charge, work[q + N3 * U_LANES])
            at = U_SUMS + part
            add_rows(work, at, fx, plus(outer(my, mz), twelfth(outer(dy, dz)), ONE))
            at += np.uintp(padded(w - 1) * w * wz) * U_PARTS
            add_pairs(work, at, mx, dx, outer(fy, mz), outer(fy, twelfth(dz)))
            at += np.uintp(padded(w) * (w - 1) * wz) * U_PARTS
            add_pairs(work, at, mx, dx, outer(my, fz), outer(twelfth(dy), fz))


@njit(error_model="numpy", forceinline=True)
def flush(work, at, current, component, k, j, i, planes, rows, columns):
    """Add partial sums of one component to the grid from node (k, j, i), and clear them."""
    _, height, depth, width = current.shape
    for c in range(np.uintp(planes)):
        for b in range(np.uintp(rows)):
            row = (component * np.uintp(height) + k + c) * np.uintp(depth) + j + b
            index = row * np.uintp(width) + i
            if columns > 2:
                add_four_sums(current, index, work, at)
                at += N4 * U_PARTS
                continue
            for a in range(np.uintp(columns)):
                total = ZERO * work[at]
                for part in range(U_PARTS):
                    total += work[at + part]
                    work[at + part] = ZERO
                current[component, k + c, j + b, i + a] += total
                at += U_PARTS
    return at


@njit(error_model="numpy", nogil=True)
def flush_all(work, current, k, j, i, order, depth):
    """Add the current of a cell's particles to the grid around (k, j, i)."""
    w, wo, _, _ = reach(order)
    wz, wzo, _, _ = reach(depth)
    up = max(wz - 1, 1)  # in two dimensions: the current out of the plane
    k, j, i = k + np.uintp(wzo), j + np.uintp(wo), i + np.uintp(wo)
    at = flush(work, U_SUMS, current, N0, k, j, i, wz, w, w - 1)
    at = flush(work, at, current, N1, k, j, i, wz, w - 1, w)
    flush(work, at, current, N2, k, j, i, up, w, w)


@njit(error_model="numpy", nogil=True)
def close_gaps(block, start, n, width):
    """Fill the gaps of those that left (x < 0) from the end of the cell; returns how many stay."""
    low, high = N0, np.uintp(n)
    size = np.uintp(width) * U_LANES
    while True:
        while low < high and block[lane_of(start, low, size)] >= ZERO:
            low += N1
        if low >= high:
            return low
        high -= N1
        of = lane_of(start, high, size)
        if block[of] >= ZERO:
            to = lane_of(start, low, size)
            for q in range(np.uintp(width)):
                block[to + q * U_LANES] = block[of + q * U_LANES]


@njit(cache=True, error_model="numpy", nogil=True)
def advance(
    block, first, count, width, fields, current, grid, targets, numbers, gone, half_kick, amount,
    step, keep, order, depth, pusher,
):  # fmt: skip
    """Push one species of a slab by one step and add its current.

    block, first, count: see above. grid: (planes, rows, columns, rows of the slab below, rows of
    the slab above). targets (3, room), numbers (3, room, width), gone (3,): the movers for this
    slab, the one below, the one above: cells, rows of a block, how many. half_kick: q/m / 2
    [e/m_e]. amount: charge of a macro-particle in units of the current. step: c dt [cells]. keep:
    note u(n - 1/2) in the last three rows. order, depth: shape along x, y and along z; pusher: ()
    Boris, (0,) Higuera-Cary. Returns 0, TOO_FAST or TOO_MANY.
    """
    planes, rows, columns = np.uintp(grid[0]), np.uintp(grid[1]), np.uintp(grid[2])
    work = np.zeros(WORK, block.dtype)
    work[WEIGHTS + 12] = ONE  # of the one plane of two dimensions
    size, along = np.uintp(width) * U_LANES, amount / step
    twelfth = (ZERO * amount + ONE) / np.float32(12)
    under = U_GUARD if len(depth) else N0
    for c in range(planes * rows * columns):
        n = np.uintp(count[c])
        if n == 0:
            continue
        z, rest = c // (rows * columns), c % (rows * columns)
        y, x = rest // columns, rest % columns
        k, j, i = z + under, y + U_GUARD, x + U_GUARD
        coming = min(c + N2, planes * rows * columns - N1)
        bring(block, np.uintp(first[coming]) * size)
        take_fields(work, fields, k, j, i, order, depth)
        start = np.uintp(first[c]) * size
        left = False
        for b in range((n + U_LANES - N1) // U_LANES):
            base = start + b * size
            alive = min(n - b * U_LANES, U_LANES)
            load(work, block, base, keep, base + size - N3 * U_LANES, depth)
            push(work, half_kick, step, order, depth, pusher)
            deposit(work, alive, along, order, depth)
            for lane in range(alive):
                if stays(work, lane, depth):
                    continue
                if not slow_enough(work, lane, depth):
                    return TOO_FAST
                mx, my, mz = cross(work, lane, current, k, j, i, along, twelfth, order, depth)
                side, cell = target(np.int64(x) + mx, np.int64(y) + my, np.int64(z) + mz, grid)
                m = gone[side]
                if m >= targets.shape[1]:
                    return TOO_MANY
                gone[side] = m + 1
                targets[side, m] = cell
                for q in range(N2):
                    numbers[side, m, q] = work[U_NEW + lane + q * U_LANES]
                for q in range(N2, N5):
                    numbers[side, m, q] = work[U_OLD + lane + q * U_LANES]
                if len(depth):
                    numbers[side, m, N5] = work[U_NEW + lane + N2 * U_LANES]
                for q in range(N5 + np.uintp(len(depth) > 0), np.uintp(width)):
                    numbers[side, m, q] = block[base + lane + q * U_LANES]
                work[U_NEW + lane] = -ONE
                left = True
            store(work, alive, block, base, depth)
        flush_all(work, current, k, j, i, order, depth)
        if left:
            count[c] = close_gaps(block, start, n, width)
    return 0
