"""The inner loops of the far-field radiation, compiled: the direct sum, the bins' transform.

Units: dt = 1, c dt = 1. n is a direction's unit vector, s = 1 - n.beta, tau = t - n.r the retarded
time. Everything here is float64 whatever the solver computes in.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from __future__ import annotations

from math import cos, sin, sqrt

import numpy as np
from numba import njit

from producers.layout import LANES as BLOCK_LANES

LANES = 64  # frequencies that are advanced together
PARTS = 8192  # of the table that says which frequencies pass a given s in [0, 2]

EIGHT = 8  # bins that are transformed together
FEW = 4  # frequencies that are transformed one by one: distinct cuts leave many such
ROWS = 16  # of LANES numbers each, of the transform's scratch array

_0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15 = (
    np.uintp(i) for i in range(ROWS)
)
_lanes = np.uintp(LANES)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def emit_backward(nx, ny, nz, bx, by, bz, ax, ay, az):
    """n x [(n - b) x (b - a)] / s^2 = [(n - b) (n.(b - a)) / s - (b - a)] / s, and s.

    b: beta now; a: beta one step before.
    """
    dx, dy, dz = bx - ax, by - ay, bz - az
    s = 1.0 - (nx * bx + ny * by + nz * bz)
    r = 1.0 / s
    along = (nx * dx + ny * dy + nz * dz) * r
    return (
        ((nx - bx) * along - dx) * r,
        ((ny - by) * along - dy) * r,
        ((nz - bz) * along - dz) * r,
        s,
    )


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def emit_total(nx, ny, nz, bx, by, bz, ax, ay, az):
    """V(b) - V(a) with V(beta) = n x (n x beta) / (1 - n.beta), and s of b."""
    nb, na = nx * bx + ny * by + nz * bz, nx * ax + ny * ay + nz * az
    s = 1.0 - nb
    p, q = 1.0 / s, 1.0 / (1.0 - na)
    return (
        (nx * nb - bx) * p - (nx * na - ax) * q,
        (ny * nb - by) * p - (ny * na - ay) * q,
        (nz * nb - bz) * p - (nz * na - az) * q,
        s,
    )


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def beta_of(ux, uy, uz):
    """beta = u / gamma."""
    x, y, z = np.float64(ux), np.float64(uy), np.float64(uz)
    g = 1.0 / sqrt(1.0 + x * x + y * y + z * z)
    return x * g, y * g, z * g


@njit(cache=True, nogil=True, error_model="numpy")
def passing(s, limits, table):
    """How many frequencies lie below the cut of a particle, which falls as 1 / s.

    limits (frequencies,), falling: frequency f passes where s < limits[f]. table (PARTS + 1,): how
    many pass at the lower end of each part of [0, 2].
    """
    count = table[min(np.uintp(max(s, 0.0) * (PARTS / 2)), np.uintp(PARTS))]
    while count > _0 and s >= limits[count - _1]:
        count -= _1
    return count


@njit(cache=True, nogil=True, error_model="numpy")
def add_direct(
    cells, block, first, count, width, grid, corner, slopes, normals, drifts, paths, when, age, mix,
    total, omega, limits, table, amplitude,
):  # fmt: skip
    """Add sum_k V_k exp(i w tau_k) to amplitude (directions, frequencies, 3), term by term.

    cells (n,): which; block, first, count, width: see `producers.kernels`; grid: (planes, rows,
    columns); corner (3,): place of the first cell. slopes (3,): a particle at x counts for the
    product of 1 - |slope x - 1| over the axes where the slope is not 0. normals (directions, 3);
    drifts (directions, 3): the same along the axes of the box, else 0; paths (directions, 3): n_i
    cell_i [c dt per cell]. tau is taken `age` before the time `when` of
    the position, having moved since with (1 - mix) beta(now) + mix beta(before). total: V is a
    difference (`emit_total`), else `emit_backward`.
    """
    lanes, before = np.uintp(BLOCK_LANES), np.uintp(width) - _3
    rows = (_0, _1, _5)  # of x, y, z
    x = np.zeros(3)
    for c in cells:
        at = (c % grid[2], c // grid[2] % grid[1], c // grid[2] // grid[1])
        for m in range(np.uintp(count[c])):
            p = (np.uintp(first[c]) + m // lanes) * np.uintp(width) * lanes + m % lanes
            share = 1.0
            for i in range(3):
                x[i] = corner[i] + at[i] + block[p + rows[i] * lanes]
                if slopes[i] > 0.0:
                    share *= max(1.0 - abs(slopes[i] * x[i] - 1.0), 0.0)
            bx, by, bz = beta_of(
                block[p + _2 * lanes], block[p + _3 * lanes], block[p + _4 * lanes]
            )
            p += before * lanes
            ax, ay, az = beta_of(block[p], block[p + lanes], block[p + _2 * lanes])
            b, a = (bx, by, bz), (ax, ay, az)
            for d in range(len(normals)):
                nx, ny, nz = normals[d, 0], normals[d, 1], normals[d, 2]
                if total:
                    vx, vy, vz, s = emit_total(nx, ny, nz, bx, by, bz, ax, ay, az)
                else:
                    vx, vy, vz, s = emit_backward(nx, ny, nz, bx, by, bz, ax, ay, az)
                vx, vy, vz = vx * share, vy * share, vz * share
                tau = when - age
                for i in range(3):
                    tau -= paths[d, i] * x[i]
                    tau += age * drifts[d, i] * ((1.0 - mix) * b[i] + mix * a[i])
                for f in range(passing(s, limits, table)):
                    wave = complex(cos(omega[f] * tau), sin(omega[f] * tau))
                    amplitude[d, f, 0] += vx * wave
                    amplitude[d, f, 1] += vy * wave
                    amplitude[d, f, 2] += vz * wave


@njit(cache=True, nogil=True, error_model="numpy")
def transform(
    bins, order, counts, first_bin, used, per_step, omega, levels, amplitude
):  # fmt: skip
    """Add sum_m bins[m] exp(i w m / per_step) to amplitude, and empty the bins.

    amplitude (directions, frequencies, 2). levels (frequencies,), falling: how often the bins are
    halved in number for a frequency. bins (slots, directions, bins, 2), first_bin
    (directions,): as they were filled; used (directions,): bins that were. order
    (slots,): slots by falling counts (slots,) of passing frequencies, so that a frequency gets what
    all slots hold up to the last one where it passes.
    """
    work = np.empty(ROWS * LANES)
    for d in range(len(used)):
        total = np.zeros((used[d], 2))
        above = -1  # frequencies from here on are done; -1: nothing is there yet
        for i in range(len(order) + 1):
            if i < len(order) and _empty(bins, order[i], d, used[d]):
                continue
            low = counts[i] if i < len(order) else 0
            if above > low:
                part = slice(low, above)
                _descend(
                    total, first_bin[d], per_step, omega[part], levels[part], amplitude[d, part],
                    work,
                )  # fmt: skip
            above = low
            if i < len(order):
                _pour(bins, order[i], d, total)


@njit(cache=True, nogil=True, error_model="numpy")
def _descend(bins, first_bin, per_step, omega, levels, amplitude, work):
    """Add the transform of bins to amplitude (frequencies, 2), halving them on the way down."""
    first, rate, high, level = int(first_bin), per_step, len(omega), 0
    while high > 0:
        low = high
        while low > 0 and levels[low - 1] <= level:
            low -= 1
        if high - low > FEW:
            _turn(bins, first, rate, omega[low:high], amplitude[low:high], work)
        else:
            for f in range(low, high):
                _turn_one(bins, first, omega[f] / rate, amplitude[f], work)
        if low > 0:
            lead = 2 + first % 2  # wide bins lie at even numbers, so that they are always the same
            bins, first, rate, level = (
                _halved(bins, lead),
                (first - lead) // 2,
                0.5 * rate,
                level + 1,
            )
        high = low


@njit(cache=True, nogil=True, error_model="numpy")
def _halved(bins, lead):
    """Bins twice as wide, the first of them `lead` old ones before the first.

    A cubic B-spline is the sum of five of half its width, times 1, 4, 6, 4, 1 over 8: this is what
    spreading over the wider bins would have given.
    """
    n = np.intp(len(bins))
    half = np.empty(((n + 1 + lead) // 2 + 1, 2))
    for k in range(len(half)):
        for c in range(2):
            total = 0.0
            for j, weight in enumerate((0.125, 0.5, 0.75, 0.5, 0.125)):
                m = 2 * k - lead - 2 + j
                if 0 <= m < n:
                    total += weight * bins[m, c]
            half[k, c] = total
    return half


@njit(cache=True, nogil=True, error_model="numpy")
def _empty(bins, slot, direction, used):
    """Whether nothing is in the bins of a slot."""
    for m in range(used):
        if bins[slot, direction, m, 0] != 0.0 or bins[slot, direction, m, 1] != 0.0:
            return False
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _pour(bins, slot, direction, total):
    """Move what is in the bins of a slot over to total (used, 2)."""
    into, of = total.reshape(total.size), bins[slot, direction].reshape(2 * bins.shape[2])
    for n in range(np.uintp(len(into))):
        into[n] += of[n]
        of[n] = 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _turn(bins, first_bin, per_step, omega, amplitude, work):
    """Add sum_m bins[m] exp(i w (first_bin + m) / per_step) to amplitude (frequencies, 2).

    EIGHT bins at a time, and LANES frequencies: with the phase P of the middle of eight bins, and
    h_k the phase from there to the middle of the k-th bin above it (or below),

        sum_m x_m exp(i w m) = exp(i P) sum_k [(x_k + x_-k) cos h_k + i (x_k - x_-k) sin h_k]

    work (ROWS LANES,): cosines and sines of P, of the way to the next eight, of h_0 to h_3; real
    and imaginary sums of both components.
    """
    even, odd = np.zeros((4, 2)), np.zeros((4, 2))
    for f in range(0, len(omega), LANES):
        size = min(LANES, len(omega) - f)
        work[:] = 0.0
        for j in range(np.uintp(size)):
            _set_out(work, j, omega[f + j] / per_step, first_bin + 3.5)
        for m in range(0, len(bins), EIGHT):
            _fold(bins, m, even, odd)
            _go_on(work, even, odd, np.uintp(-8 & (size + 7)))  # whole registers
        for j in range(size):
            for c in range(2):
                k = j + (12 + 2 * c) * LANES
                amplitude[f + j, c] += complex(work[k], work[k + LANES])


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _turn_one(bins, first_bin, turn, amplitude, work):
    """The same of one frequency, phase `turn` per bin, LANES bins at a time; amplitude (2,)."""
    work[: 6 * LANES] = 0.0
    c, s, cr, ci = cos(turn * first_bin), sin(turn * first_bin), cos(turn), sin(turn)
    for j in range(_lanes):
        work[j], work[j + _lanes] = c, s
        c, s = c * cr - s * ci, c * ci + s * cr
    far = turn * LANES
    cr, ci = cos(far), sin(far)
    whole = len(bins) // LANES * LANES
    flat = bins.reshape(bins.size)
    for m in range(_0, np.uintp(whole), _lanes):
        for j in range(_lanes):
            x, y = flat[_2 * (m + j)], flat[_2 * (m + j) + _1]
            re, im = work[j], work[j + _lanes]
            work[j + _2 * _lanes] += x * re
            work[j + _3 * _lanes] += x * im
            work[j + _4 * _lanes] += y * re
            work[j + _5 * _lanes] += y * im
            work[j] = re * cr - im * ci
            work[j + _lanes] = re * ci + im * cr
    for j in range(len(bins) - whole):
        for c in range(2):
            wave = complex(work[j], work[j + LANES])
            amplitude[c] += bins[whole + j, c] * wave
    for j in range(LANES):
        for c in range(2):
            k = j + (2 + 2 * c) * LANES
            amplitude[c] += complex(work[k], work[k + LANES])


@njit(cache=True, nogil=True, error_model="numpy")
def _set_out(work, j, turn, middle):
    """Cosines and sines of lane j: phase `turn` per bin, `middle` of the first eight bins."""
    work[j], work[j + _lanes] = cos(turn * middle), sin(turn * middle)
    c, s = cos(0.5 * turn), sin(0.5 * turn)
    cr, ci = c * c - s * s, 2.0 * c * s
    for k in range(_4):
        work[j + (_4 + k) * _lanes], work[j + (_8 + k) * _lanes] = c, s
        c, s = c * cr - s * ci, c * ci + s * cr
    for _ in range(_3):
        cr, ci = cr * cr - ci * ci, 2.0 * cr * ci
    work[j + _2 * _lanes], work[j + _3 * _lanes] = cr, ci


@njit(cache=True, nogil=True, error_model="numpy")
def _fold(bins, m, even, odd):
    """Sums and differences of the bins m to m + 7 about their middle, from there outwards."""
    for k in range(4):
        for c in range(2):
            low = bins[m + 3 - k, c] if m + 3 - k < len(bins) else 0.0
            high = bins[m + 4 + k, c] if m + 4 + k < len(bins) else 0.0
            even[k, c], odd[k, c] = high + low, high - low


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _go_on(work, even, odd, lanes):
    """Add eight bins to the sums of all lanes, and turn the phases on to the next eight."""
    a0, a1, a2, a3 = even[0, 0], even[1, 0], even[2, 0], even[3, 0]
    b0, b1, b2, b3 = even[0, 1], even[1, 1], even[2, 1], even[3, 1]
    p0, p1, p2, p3 = odd[0, 0], odd[1, 0], odd[2, 0], odd[3, 0]
    q0, q1, q2, q3 = odd[0, 1], odd[1, 1], odd[2, 1], odd[3, 1]
    for j in range(lanes):
        re, im = work[j], work[j + _lanes]
        cr, ci = work[j + _2 * _lanes], work[j + _3 * _lanes]
        c0, c1 = work[j + _4 * _lanes], work[j + _5 * _lanes]
        c2, c3 = work[j + _6 * _lanes], work[j + _7 * _lanes]
        s0, s1 = work[j + _8 * _lanes], work[j + _9 * _lanes]
        s2, s3 = work[j + _10 * _lanes], work[j + _11 * _lanes]
        x, y = a0 * c0 + a1 * c1 + a2 * c2 + a3 * c3, p0 * s0 + p1 * s1 + p2 * s2 + p3 * s3
        work[j + _12 * _lanes] += re * x - im * y
        work[j + _13 * _lanes] += re * y + im * x
        x, y = b0 * c0 + b1 * c1 + b2 * c2 + b3 * c3, q0 * s0 + q1 * s1 + q2 * s2 + q3 * s3
        work[j + _14 * _lanes] += re * x - im * y
        work[j + _15 * _lanes] += re * y + im * x
        work[j] = re * cr - im * ci
        work[j + _lanes] = re * ci + im * cr
