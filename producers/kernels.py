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
takes the scalar way (`_cross`) and goes to a box of movers, from which `insert` puts it into its
new cell; so nothing is sorted and only what moves is moved.

Loops run to be vectorised: indices are np.uintp (signed ones bring wrap-around selects), all rows of
a block have constant distances in one flat array (separate arrays might overlap, for all that the
compiler knows), and blocks are whole: lanes beyond `count` hold old numbers of weight zero.

Deposition: T. Zh. Esirkepov, Comput. Phys. Commun. 135, 144 (2001). Push: J. P. Boris, Proc. 4th
Conf. Num. Sim. Plasmas (1970); A. V. Higuera & J. R. Cary, Phys. Plasmas 24, 052104 (2017).
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from __future__ import annotations

from math import sqrt

import numpy as np
from numba import njit
from numba.extending import overload

from producers.splines import (
    FINITE,
    HALF,
    INLINE,
    LANES,
    ONE,
    PARTS,
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
    plus,
    put,
    reach,
    twelfth,
    whole,
)

GUARD = 3  # a deposition after a move of one cell reaches two nodes down and three up
TILE = 128  # room for the nodes of one field component, at most 5 x 5 x 4
# One array holds all else that the work on a cell needs, so that the compiler knows what is apart:
OLD = 0  # x, y, z of a block at n
NEW = OLD + 3 * LANES  # the same at n + 1, relative to the cell
WAY = NEW + 3 * LANES  # the way along z
WEIGHTS = WAY + LANES  # at n along x, y, z on six nodes each, at n + 1
SUMS = WEIGHTS + 64  # partial sums of the current, at most 3 x 4 x 4 x 4 nodes
WORK = SUMS + 192 * PARTS
WITHIN, DOWN, UP = 0, 1, 2  # where a mover goes
TOO_FAST, TOO_MANY = -1, -2  # what `advance` returns when it cannot go on

_0, _1, _2, _3, _4, _5, _6 = (np.uintp(n) for n in range(7))
_LANES, _GUARD, _TILE, _PARTS = (np.uintp(n) for n in (LANES, GUARD, TILE, PARTS))
_OLD, _NEW, _WAY, _WEIGHTS, _SUMS = (np.uintp(n) for n in (OLD, NEW, WAY, WEIGHTS, SUMS))
_Y, _UX, _UY, _UZ, _Z = (np.uintp(n * LANES) for n in range(1, 6))


def _z(block, p, depth):
    """z of a particle; 0 in two dimensions."""


@overload(_z, jit_options=INLINE)
def _read_z(block, p, depth):
    if depth.count == 0:
        return lambda block, p, depth: ZERO * block[p]
    return lambda block, p, depth: block[p + _Z]


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
def take(tile, at, fields, component, k, j, i, planes, rows, columns):
    """Copy a component's nodes from (k, j, i) into the tile."""
    for c in range(np.uintp(planes)):
        for b in range(np.uintp(rows)):
            for a in range(np.uintp(columns)):
                tile[at] = fields[component, k + c, j + b, i + a]
                at += _1


@njit(error_model="numpy", nogil=True)
def take_fields(tile, fields, k, j, i, order, depth):
    """The nodes of all six components around cell (k, j, i), each at its place in the Yee cell."""
    w, wo, h, ho = reach(order)
    wz, wzo, hz, hzo = reach(depth)
    wj, wi, hj, hi = j + np.uintp(wo), i + np.uintp(wo), j + np.uintp(ho), i + np.uintp(ho)
    wk, hk = k + np.uintp(wzo), k + np.uintp(hzo)
    take(tile, _0, fields, _0, wk, wj, hi, wz, w, h)
    take(tile, _1 * _TILE, fields, _1, wk, hj, wi, wz, h, w)
    take(tile, _2 * _TILE, fields, _2, hk, wj, wi, hz, w, w)
    take(tile, _3 * _TILE, fields, _3, hk, hj, wi, hz, h, w)
    take(tile, _4 * _TILE, fields, _4, hk, wj, hi, hz, w, h)
    take(tile, _5 * _TILE, fields, _5, wk, hj, hi, wz, h, h)


@njit(error_model="numpy", nogil=True, fastmath={"contract"})
def push(block, base, tile, work, half_kick, step, order, depth, pusher):
    """Gather E, B at t = n and push u from n - 1/2 to n + 1/2, for one block.

    tile: the field nodes. work: receives the places at n and n + 1 and the way along z.
    half_kick: q/m / 2 [e/m_e]. step: c dt [cells].
    """
    for lane in range(_LANES):
        p = base + lane
        x, y, z = block[p], block[p + _Y], _z(block, p, depth)
        wx, wy, wz = whole(x, order), whole(y, order), whole(z, depth)
        hx, hy, hz = half(x, order), half(y, order), half(z, depth)
        ux, uy, uz = kick(
            block[p + _UX],
            block[p + _UY],
            block[p + _UZ],
            half_kick * cube(tile, _0, hx, wy, wz),
            half_kick * cube(tile, _1 * _TILE, wx, hy, wz),
            half_kick * cube(tile, _2 * _TILE, wx, wy, hz),
            half_kick * cube(tile, _3 * _TILE, wx, hy, hz),
            half_kick * cube(tile, _4 * _TILE, hx, wy, hz),
            half_kick * cube(tile, _5 * _TILE, hx, hy, wz),
            pusher,
        )
        way = step / sqrt(ONE + ux * ux + uy * uy + uz * uz)
        block[p + _UX] = ux
        block[p + _UY] = uy
        block[p + _UZ] = uz
        work[_OLD + lane] = x
        work[_OLD + lane + _LANES] = y
        work[_OLD + lane + _2 * _LANES] = z
        work[_NEW + lane] = x + way * ux
        work[_NEW + lane + _LANES] = y + way * uy
        work[_NEW + lane + _2 * _LANES] = z + way * uz
        work[_WAY + lane] = way * uz


@njit(error_model="numpy", nogil=True, fastmath={"contract", "nnan", "nsz"})
def deposit(work, alive, amount, order, depth):
    """Add the current of a block's particles that stay in their cell to the partial sums.

    amount: charge that one macro-particle carries over one cell in dt, in units of the current.
    """
    w, _, _, _ = reach(order)
    wz, _, _, _ = reach(depth)
    for first in range(_0, _LANES, _PARTS):
        for part in range(_PARTS):
            lane = first + part
            x, y, z = (
                work[_OLD + lane], work[_OLD + lane + _LANES], work[_OLD + lane + _2 * _LANES]
            )  # fmt: skip
            x1, y1, z1 = (
                work[_NEW + lane], work[_NEW + lane + _LANES], work[_NEW + lane + _2 * _LANES]
            )  # fmt: skip
            stays = (lane < alive) & (x1 >= ZERO) & (x1 < ONE) & (y1 >= ZERO) & (y1 < ONE)
            if len(depth):
                stays &= (z1 >= ZERO) & (z1 < ONE)
            q = amount if stays else ZERO * amount
            a, b = whole(x, order), whole(x1, order)
            mx, dx = mean(a, b), change(a, b)
            a, b = whole(y, order), whole(y1, order)
            my, dy = mean(a, b), change(a, b)
            c, d = whole(z, depth), whole(z1, depth)
            mz, dz = mean(c, d), change(c, d)
            fx, fy = flow(dx, q, ZERO * q), flow(dy, q, ZERO * q)
            fz = flow_up(dz, q, work[_WAY + lane])
            at = _SUMS + part
            add_rows(work, at, fx, plus(outer(my, mz), twelfth(outer(dy, dz)), ONE))
            at += np.uintp((w - 1) * w * wz) * _PARTS
            add_pairs(work, at, mx, dx, outer(fy, mz), outer(fy, twelfth(dz)))
            at += np.uintp((w - 1) * w * wz) * _PARTS
            add_pairs(work, at, mx, dx, outer(my, fz), outer(twelfth(dy), fz))


@njit(error_model="numpy", forceinline=True, fastmath={"contract", "reassoc"})
def flush(work, at, current, component, k, j, i, planes, rows, columns):
    """Add partial sums of one component to the grid from node (k, j, i), and clear them."""
    for c in range(np.uintp(planes)):
        for b in range(np.uintp(rows)):
            for a in range(np.uintp(columns)):
                total = work[at]
                for part in range(_1, _PARTS):
                    total += work[at + part]
                current[component, k + c, j + b, i + a] += total
                at += _PARTS
    return at


@njit(error_model="numpy", nogil=True)
def flush_all(work, current, k, j, i, order, depth):
    """Add the current of a cell's particles to the grid around (k, j, i)."""
    w, wo, _, _ = reach(order)
    wz, wzo, _, _ = reach(depth)
    up = max(wz - 1, 1)  # in two dimensions: the current out of the plane
    k, j, i = k + np.uintp(wzo), j + np.uintp(wo), i + np.uintp(wo)
    at = flush(work, _SUMS, current, _0, k, j, i, wz, w, w - 1)
    at = flush(work, at, current, _1, k, j, i, wz, w - 1, w)
    at = flush(work, at, current, _2, k, j, i, up, w, w)
    for n in range(_SUMS, at):
        work[n] = ZERO


# ---------------------------------------------------------------- particles that leave their cell


@njit(error_model="numpy", forceinline=True)
def spread(work, at, x, cell, order):
    """Weights on six whole nodes, from -2 of the old cell, of a particle at x in cell -1, 0 or 1."""
    for n in range(_6):
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
    at = _WEIGHTS + axis * _6 + node
    old, new = work[at], work[at + _3 * _6]
    return HALF * (old + new), new - old


@njit(error_model="numpy", nogil=True)
def deposit_wide(work, current, k, j, i, mx, my, mz, amount, twelfth, way, order, depth):
    """The current of one particle that leaves its cell: six nodes each way, as far as they count.

    mx, my, mz: cells that it goes. twelfth: 1/12 in the precision of the data. way: along z, which
    in two dimensions is current out of the plane.
    """
    left, right = window(mx, order)
    low, high = window(my, order)
    near, far = _0, _1
    j, i = j - _2, i - _2
    if len(depth):
        near, far = window(mz, order)
        k -= _2
    for c in range(near, far):
        sz, dz = weight(work, _2, c)
        for b in range(low, high):
            sy, dy = weight(work, _1, b)
            factor = amount * (sy * sz + twelfth * dy * dz)
            passed = ZERO * factor
            for a in range(left, right - _1):
                passed -= factor * weight(work, _0, a)[1]
                current[_0, k + c, j + b, i + a] += passed
        for a in range(left, right):
            sx, dx = weight(work, _0, a)
            factor = amount * (sx * sz + twelfth * dx * dz)
            passed = ZERO * factor
            for b in range(low, high - _1):
                passed -= factor * weight(work, _1, b)[1]
                current[_1, k + c, j + b, i + a] += passed
    for b in range(low, high):
        sy, dy = weight(work, _1, b)
        for a in range(left, right):
            sx, dx = weight(work, _0, a)
            factor = amount * (sx * sy + twelfth * dx * dy)
            if len(depth):
                passed = ZERO * factor
                for c in range(near, far - _1):
                    passed -= factor * weight(work, _2, c)[1]
                    current[_2, k + c, j + b, i + a] += passed
            else:
                current[_2, k, j + b, i + a] += factor * way


@njit(error_model="numpy", forceinline=True)
def stays(work, lane, depth):
    """Whether a particle is still in its cell."""
    x, y, z = work[_NEW + lane], work[_NEW + lane + _LANES], work[_NEW + lane + _2 * _LANES]
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
    x, y, z = work[_NEW + lane], work[_NEW + lane + _LANES], work[_NEW + lane + _2 * _LANES]
    near = (x >= -ONE) & (x < TWO) & (y >= -ONE) & (y < TWO)
    return near & ((len(depth) == 0) | ((z >= -ONE) & (z < TWO)))


@njit(error_model="numpy", nogil=True)
def cross(work, lane, current, k, j, i, amount, twelfth, order, depth):
    """Deposit a particle that leaves its cell; leaves its place in the new cell in `work`.

    Returns the cells that it goes along x, y, z.
    """
    at = _NEW + lane
    mx, x = place(work[at])
    my, y = place(work[at + _LANES])
    mz, z = 0, work[at + _2 * _LANES]
    spread(work, _WEIGHTS, work[_OLD + lane], 0, order)
    spread(work, _WEIGHTS + _6, work[_OLD + lane + _LANES], 0, order)
    spread(work, _WEIGHTS + _3 * _6, x, mx, order)
    spread(work, _WEIGHTS + _4 * _6, y, my, order)
    if len(depth):
        mz, z = place(z)
        spread(work, _WEIGHTS + _2 * _6, work[_OLD + lane + _2 * _LANES], 0, order)
        spread(work, _WEIGHTS + _5 * _6, z, mz, order)
    deposit_wide(
        work, current, k, j, i, mx, my, mz, amount, twelfth, work[_WAY + lane], order, depth
    )
    work[at], work[at + _LANES], work[at + _2 * _LANES] = x, y, z
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


@njit(error_model="numpy", nogil=True)
def settle(block, base, work, depth):
    """Give a block its places at n + 1; x of those that left is negative."""
    for lane in range(_LANES):
        block[base + lane] = work[_NEW + lane]
        block[base + lane + _Y] = work[_NEW + lane + _LANES]
        if len(depth):
            block[base + lane + _Z] = work[_NEW + lane + _2 * _LANES]


@njit(error_model="numpy", nogil=True)
def close_gaps(block, start, n, width):
    """Fill the gaps of those that left (x < 0) from the end of the cell; returns how many stay."""
    low, high = _0, np.uintp(n)
    size = np.uintp(width) * _LANES
    while True:
        while low < high and block[start + (low // _LANES) * size + low % _LANES] >= ZERO:
            low += _1
        if low >= high:
            return low
        high -= _1
        of = start + (high // _LANES) * size + high % _LANES
        if block[of] >= ZERO:
            to = start + (low // _LANES) * size + low % _LANES
            for q in range(np.uintp(width)):
                block[to + q * _LANES] = block[of + q * _LANES]


@njit(cache=True, error_model="numpy", nogil=True)
def advance(
    block, first, count, width, fields, current, grid, targets, numbers, gone, half_kick, amount,
    step, keep, order, depth, pusher,
):  # fmt: skip
    """Push one species of a slab by one step and add its current.

    block, first, count: see above. grid: (planes, rows, columns, rows of the slab below, of the slab
    above). targets (3, room), numbers (3, room, width), gone (3,): the movers for this slab, the one
    below, the one above: cells, rows of a block, how many. half_kick: q/m / 2 [e/m_e]. amount:
    charge of a macro-particle in units of the current. step: c dt [cells]. keep: note u(n - 1/2) in
    the last three rows. order, depth: shape along x, y and along z; pusher: () Boris, (0,)
    Higuera-Cary. Returns 0, TOO_FAST or TOO_MANY.
    """
    planes, rows, columns = np.uintp(grid[0]), np.uintp(grid[1]), np.uintp(grid[2])
    tile, work = np.zeros(6 * TILE, block.dtype), np.zeros(WORK, block.dtype)
    work[WEIGHTS + 12] = work[WEIGHTS + 30] = ONE  # of the one plane of two dimensions
    size, along = np.uintp(width) * _LANES, amount / step
    twelfth = (ZERO * amount + ONE) / np.float32(12)
    under = _GUARD if len(depth) else _0
    for c in range(planes * rows * columns):
        n = np.uintp(count[c])
        if n == 0:
            continue
        z, rest = c // (rows * columns), c % (rows * columns)
        y, x = rest // columns, rest % columns
        k, j, i = z + under, y + _GUARD, x + _GUARD
        take_fields(tile, fields, k, j, i, order, depth)
        start = np.uintp(first[c]) * size
        left = False
        for b in range((n + _LANES - _1) // _LANES):
            base = start + b * size
            alive = min(n - b * _LANES, _LANES)
            if keep:
                for lane in range(_3 * _LANES):
                    block[base + size - _3 * _LANES + lane] = block[base + _UX + lane]
            push(block, base, tile, work, half_kick, step, order, depth, pusher)
            deposit(work, alive, along, order, depth)
            for lane in range(alive):
                if stays(work, lane, depth):
                    continue
                if not slow_enough(work, lane, depth):
                    return TOO_FAST
                mx, my, mz = cross(
                    work, lane, current, k, j, i, along, twelfth, order, depth
                )
                side, cell = target(np.int64(x) + mx, np.int64(y) + my, np.int64(z) + mz, grid)
                m = gone[side]
                if m >= targets.shape[1]:
                    return TOO_MANY
                gone[side] = m + 1
                targets[side, m] = cell
                for q in range(np.uintp(width)):
                    numbers[side, m, q] = block[base + lane + q * _LANES]
                numbers[side, m, 0] = work[_NEW + lane]
                numbers[side, m, 1] = work[_NEW + lane + _LANES]
                if len(depth):
                    numbers[side, m, 5] = work[_NEW + lane + _2 * _LANES]
                work[_NEW + lane] = -ONE
                left = True
            settle(block, base, work, depth)
        flush_all(work, current, k, j, i, order, depth)
        if left:
            count[c] = close_gaps(block, start, n, width)
    return 0
