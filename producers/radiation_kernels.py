"""The inner loops of the far-field radiation, compiled.

Units: dt = 1, c dt = 1. n is a direction's unit vector, s = 1 - n.beta, tau = t - n.r the retarded
time. Everything is float64 whatever the solver computes in: a phase of 1e5 radians leaves float32
no digits.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from __future__ import annotations

from math import cos, floor, sin, sqrt

import numpy as np
from numba import njit

BLOCK = 256  # particles whose motion stays in the first-level cache over all directions
LANES = 64  # frequencies that are advanced together
PARTS = 8192  # of the table that says which frequencies pass a given s in [0, 2]

_0, _1, _2, _3, _4, _5, _6, _7, _8, _9 = (np.uintp(i) for i in range(10))
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
    position, before, now, share, normals, paths, when, age, mix, total, omega, limits, table,
    amplitude,
):  # fmt: skip
    """Add sum_k V_k exp(i w tau_k) to amplitude (directions, frequencies, 3), term by term.

    position (d, n); before, now (3, n): u; share (n,): a factor of each particle.
    normals (directions, 3); paths (directions, d): n_i cell_i [c dt per cell]. tau is taken `age`
    before the time `when` of the position, having moved since with (1 - mix) beta(now) + mix
    beta(before). total: V is a difference (`emit_total`), else `emit_backward`.
    """
    axes = len(position)
    for p in range(position.shape[1]):
        bx, by, bz = beta_of(now[0, p], now[1, p], now[2, p])
        ax, ay, az = beta_of(before[0, p], before[1, p], before[2, p])
        b, a = (bx, by, bz), (ax, ay, az)
        for d in range(len(normals)):
            nx, ny, nz = normals[d, 0], normals[d, 1], normals[d, 2]
            if total:
                vx, vy, vz, s = emit_total(nx, ny, nz, bx, by, bz, ax, ay, az)
            else:
                vx, vy, vz, s = emit_backward(nx, ny, nz, bx, by, bz, ax, ay, az)
            vx, vy, vz = vx * share[p], vy * share[p], vz * share[p]
            tau = when - age
            for i in range(axes):
                tau -= paths[d, i] * position[i, p]
                tau += age * normals[d, i] * ((1.0 - mix) * b[i] + mix * a[i])
            for f in range(passing(s, limits, table)):
                wave = complex(cos(omega[f] * tau), sin(omega[f] * tau))
                amplitude[d, f, 0] += vx * wave
                amplitude[d, f, 1] += vy * wave
                amplitude[d, f, 2] += vz * wave


@njit(cache=True, nogil=True, error_model="numpy")
def add_binned(
    block, direction, position, before, now, share, normals, paths, when, age, mix, total,
    per_step, limits, table, slots, touched, first_bin, bins,
):  # fmt: skip
    """Spread the vectors V_k over bins of retarded time with a cubic B-spline.

    Arguments as in `add_direct`. per_step: bins per dt. slots (frequencies + 1,): which of
    bins (slots, directions, bins, 3) takes the particles whose count of passing frequencies is the
    index, or -1; touched (directions, slots) notes which did. first_bin (directions,): number of
    the first bin, tau = number / per_step.

    Goes block by block and direction by direction from the given ones on, and stops before one that
    needs a slot which is not there. Returns block, direction, count to make a slot for; at the end
    block * BLOCK >= n. A count of -1 says that a particle fell out of the bins.
    """
    n = np.intp(position.shape[1])
    motion, vectors = np.empty((6, BLOCK)), np.empty((3, BLOCK))
    place, slot = np.empty(BLOCK), np.empty(BLOCK, np.uintp)
    while block * BLOCK < n:
        first, last = block * BLOCK, min(block * BLOCK + BLOCK, n)
        _motion(first, last, now, motion[:3])
        _motion(first, last, before, motion[3:])
        while direction < len(normals):
            _vectors(first, last, motion, share, normals[direction], total, vectors, place)
            missing = _counts(last - first, place, limits, table, slots, touched[direction], slot)
            if missing > 0:
                return block, direction, missing
            place[:] = (when - age) * per_step - first_bin[direction]
            for i in range(len(position)):
                _delay(first, last, position[i], paths[direction, i] * per_step, place)
                if age != 0.0:
                    drift = age * normals[direction, i] * per_step
                    _advance(last - first, motion[i], motion[3 + i], drift, mix, place)
            if not _spread(last - first, vectors, place, slot, direction, bins):
                return block, direction, -1
            direction += 1
        direction = 0
        block += 1
    return block, direction, 0


@njit(cache=True, nogil=True, error_model="numpy")
def _motion(first, last, u, beta):
    """beta (3, BLOCK) of particles first..last."""
    for j in range(np.uintp(last - first)):
        p = np.uintp(first) + j
        beta[_0, j], beta[_1, j], beta[_2, j] = beta_of(u[_0, p], u[_1, p], u[_2, p])


@njit(cache=True, nogil=True, error_model="numpy")
def _vectors(first, last, motion, share, normal, total, vectors, s):
    """V (3, BLOCK) and s (BLOCK,) of particles first..last in one direction."""
    nx, ny, nz = normal[0], normal[1], normal[2]
    bx, by, bz, ax, ay, az = motion[0], motion[1], motion[2], motion[3], motion[4], motion[5]
    vx, vy, vz = vectors[0], vectors[1], vectors[2]
    if total:
        for j in range(np.uintp(last - first)):
            x, y, z, s[j] = emit_total(nx, ny, nz, bx[j], by[j], bz[j], ax[j], ay[j], az[j])
            w = share[np.uintp(first) + j]
            vx[j], vy[j], vz[j] = w * x, w * y, w * z
    else:
        for j in range(np.uintp(last - first)):
            x, y, z, s[j] = emit_backward(nx, ny, nz, bx[j], by[j], bz[j], ax[j], ay[j], az[j])
            w = share[np.uintp(first) + j]
            vx[j], vy[j], vz[j] = w * x, w * y, w * z


@njit(cache=True, nogil=True, error_model="numpy")
def _counts(size, s, limits, table, slots, touched, slot):
    """The slot (BLOCK,) of each particle; returns a count of passing frequencies without, or 0."""
    missing = _0
    for j in range(np.uintp(size)):
        count = passing(s[j], limits, table)
        if slots[count] < 0:
            missing = count
        else:
            slot[j] = slots[count]
            touched[slot[j]] = True
    return np.intp(missing)


@njit(cache=True, nogil=True, error_model="numpy")
def _delay(first, last, position, per_cell, place):
    """Move retarded times by the way along one axis."""
    for j in range(np.uintp(last - first)):
        place[j] -= per_cell * position[np.uintp(first) + j]


@njit(cache=True, nogil=True, error_model="numpy")
def _advance(size, now, before, drift, mix, place):
    """Move retarded times back along one axis to where the particle was accelerated."""
    for j in range(np.uintp(size)):
        place[j] += drift * ((1.0 - mix) * now[j] + mix * before[j])


@njit(cache=True, nogil=True, error_model="numpy")
def _spread(size, vectors, place, slot, direction, bins):
    """Add vectors to the four bins around their places. False if a place is outside, or no number.

    The weights are those of the cubic B-spline, for f = place - floor(place).
    """
    directions, length = np.uintp(bins.shape[1]), np.uintp(bins.shape[2])
    flat = bins.reshape(bins.size)
    highest = np.float64(bins.shape[2] - 3)
    for j in range(np.uintp(size)):
        low = floor(place[j])
        if not (low >= 1.0 and low <= highest):
            return False
        f = place[j] - low
        g = 1.0 - f
        a, d = g * g * g * (1.0 / 6.0), f * f * f * (1.0 / 6.0)
        b = 2.0 / 3.0 - f * f * (1.0 - 0.5 * f)
        weights = (a, b, 1.0 - a - b - d, d)
        vector = (vectors[_0, j], vectors[_1, j], vectors[_2, j])
        row = slot[j] * directions + np.uintp(direction)
        m = _3 * (row * length + np.uintp(low) - _1)
        for q in range(np.uintp(4)):
            for c in range(_3):
                flat[m + _3 * q + c] += weights[q] * vector[c]
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def transform(bins, touched, order, counts, first_bin, used, per_step, omega, amplitude):
    """Add sum_m bins[m] exp(i w m / per_step) to amplitude, and empty the bins.

    amplitude (directions, frequencies, 3). bins (slots, directions, bins, 3), touched (directions,
    slots), first_bin (directions,): as they were filled; used (directions,): bins that were. order
    (slots,): slots by falling counts (slots,) of passing frequencies, so that a frequency gets what
    all slots hold up to the last one where it passes.
    """
    work = np.empty(10 * LANES)
    for d in range(len(used)):
        total = np.zeros((used[d], 3))
        above = np.intp(-1)  # frequencies from here on are done; -1: nothing is there yet
        for i in range(len(order)):
            if touched[d, order[i]]:
                if above > counts[i]:
                    part = slice(counts[i], above)
                    _turn(total, first_bin[d], per_step, omega[part], amplitude[d, part], work)
                _pour(bins[order[i], d], total)
                touched[d, order[i]] = False
                above = counts[i]
        if above > 0:
            _turn(total, first_bin[d], per_step, omega[:above], amplitude[d, :above], work)


@njit(cache=True, nogil=True, error_model="numpy")
def _pour(bins, total):
    """Move what is in bins (bins, 3) over to total."""
    for m in range(np.uintp(len(total))):
        for c in range(_3):
            total[m, c] += bins[m, c]
            bins[m, c] = 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _turn(bins, first_bin, per_step, omega, amplitude, work):
    """Add sum_m bins[m] exp(i w (first_bin + m) / per_step) to amplitude (frequencies, 3).

    The phase of a frequency is turned on from bin to bin, LANES frequencies at a time. work (10
    LANES,): cosines and sines of the phase, of a turn; real and imaginary sums of x, y, z.
    """
    for f in range(0, len(omega), LANES):
        size = min(LANES, len(omega) - f)
        lanes = np.uintp(-8 & (size + 7))  # whole registers
        work[:] = 0.0
        for j in range(size):
            turn = omega[f + j] / per_step
            work[j], work[j + LANES] = cos(turn * first_bin), sin(turn * first_bin)
            work[j + 2 * LANES], work[j + 3 * LANES] = cos(turn), sin(turn)
        for m in range(len(bins)):
            x, y, z = bins[m, 0], bins[m, 1], bins[m, 2]
            for j in range(lanes):
                re, im = work[j], work[j + _lanes]
                cr, ci = work[j + _2 * _lanes], work[j + _3 * _lanes]
                work[j + _4 * _lanes] += x * re
                work[j + _5 * _lanes] += x * im
                work[j + _6 * _lanes] += y * re
                work[j + _7 * _lanes] += y * im
                work[j + _8 * _lanes] += z * re
                work[j + _9 * _lanes] += z * im
                work[j] = re * cr - im * ci
                work[j + _lanes] = re * ci + im * cr
        for j in range(size):
            for c in range(3):
                k = j + (4 + 2 * c) * LANES
                amplitude[f + j, c] += complex(work[k], work[k + LANES])
