"""The inner loop of the load generator: particles in a row of Stuart vortices, compiled.

The flow (J. T. Stuart, J. Fluid Mech. 29, 417 (1967)) is a steady solution of Euler's equations in
two dimensions. With phases a = k x, b = k y, y from the middle of the row, and speed U,

    psi = -(U/k) ln(cosh b - eps cos a)
    v_x =  d psi/dy = -U sinh b     / (cosh b - eps cos a)
    v_y = -d psi/dx =  U eps sin a  / (cosh b - eps cos a)

eps = 0 is a tanh shear layer, eps -> 1 a row of point vortices. No speed is above U/sqrt(1-eps^2).

Units: time in dt, lengths in cells, speeds in c, a in turns, b in units of ln 2. Everything is
float32 and free of branches, and indices are np.uintp, so that LLVM vectorises the loop; sine,
cosine and power of two are polynomials because their library calls would prevent that. Fast
mathematics are allowed here: the same machine gives the same bits, another one may not.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from __future__ import annotations

from math import sqrt

import numpy as np
from numba import njit

BLOCK = 1024  # particles that take all their steps while they are in the first-level cache

ZERO, HALF, ONE = np.float32(0), np.float32(0.5), np.float32(1)
BELOW_ONE = np.float32(0.99999994)  # the rounding to float32 must not leave the cell
FAR = np.float32(100)  # [ln 2] from the middle: 2^-FAR is next to nothing and still a float32
EXPONENT_OF_ONE, MANTISSA_BITS = np.int32(127), np.int32(23)

# Interpolated at Chebyshev's points, then rounded; errors below 4e-7 in float32.
SIN = tuple(  # sin(pi t) / t in powers of t^2, |t| <= 1/2
    map(np.float32, (3.14159274, -5.16771030, 2.55007744, -0.598290384, 0.0776559114))
)
COS = tuple(  # cos(pi t)
    map(np.float32, (0.99999994, -4.93479300, 4.05841064, -1.33187294, 0.219682425))
)
EXP = tuple(  # 2^-f in powers of f, 0 <= f < 1
    map(
        np.float32,
        (0.99999994, -0.693143129, 0.240178958, -0.0552981198, 0.00920918025, -0.000946877),
    )
)


# No reordering and no estimates: a loop has a vector and a scalar version, chosen by where arrays
# happen to lie, and both must give the same bits.
EXACT = {"contract", "nnan", "ninf", "nsz"}


@njit(cache=True, fastmath=EXACT, error_model="numpy", inline="always")
def velocity(turn, height, eps, speed):
    """v_x, v_y [c] at phases a = 2 pi turn, b = ln 2 height; float32 scalars."""
    turn -= np.floor(turn + HALF)
    q = turn * turn
    s = turn * (SIN[0] + q * (SIN[1] + q * (SIN[2] + q * (SIN[3] + q * SIN[4]))))
    c = COS[0] + q * (COS[1] + q * (COS[2] + q * (COS[3] + q * COS[4])))
    b = min(abs(height), FAR)
    n = np.floor(b)
    f = b - n
    w = EXP[0] + f * (EXP[1] + f * (EXP[2] + f * (EXP[3] + f * (EXP[4] + f * EXP[5]))))
    bits = (EXPONENT_OF_ONE - np.int32(n)) << MANTISSA_BITS
    w *= np.int32(bits).view(np.float32)  # e^-|b|, so that nothing overflows far out
    sine, cosine = (s + s) * c, ONE - (s + s) * s  # of the double angle
    scale = speed / (HALF + HALF * w * w - eps * w * cosine)
    return -np.copysign(HALF - HALF * w * w, height) * scale, eps * w * sine * scale


@njit(cache=True, fastmath=EXACT, error_model="numpy", inline="always")
def _wrap(z, low, length):
    """z in [low, low + length), after at most one period."""
    z += length if z < low else ZERO
    return z - (length if z >= low + length else ZERO)


@njit(cache=True, fastmath=EXACT, error_model="numpy")
def _step(count, cells, state, first, new_cells, new_state, new_first, row, flow, eps, step, mass):
    """One step of `count` particles by the midpoint rule, from one place into another."""
    columns, bottom, rows = row
    turns, heights, speed = flow
    eps_mid, eps_end = eps
    middle = bottom + HALF * rows
    per_mass = ONE / mass
    start, new_start = np.uintp(first), np.uintp(new_first)
    for b in range(np.uintp(count)):
        p, r = start + b, new_start + b
        px, py = state[2, p], state[3, p]
        ux, uy = px * per_mass, py * per_mass
        way = step / sqrt(ONE + ux * ux + uy * uy)
        x, y = state[0, p], state[1, p]
        i, j = np.float32(cells[0, p]), np.float32(cells[1, p])
        hx, hy = x + HALF * way * ux, y + HALF * way * uy
        vx, vy = velocity(turns * (i + hx), heights * (j - middle + hy), eps_mid, speed)
        x, y = x + step * vx, y + step * vy
        i, j = i + np.floor(x), j + np.floor(y)
        x, y = min(x - np.floor(x), BELOW_ONE), min(y - np.floor(y), BELOW_ONE)
        i, j = _wrap(i, ZERO, columns), _wrap(j, bottom, rows)
        vx, vy = velocity(turns * (i + x), heights * (j - middle + y), eps_end, speed)
        weight = mass / sqrt(ONE - vx * vx - vy * vy)
        new_cells[0, r], new_cells[1, r] = np.int32(i), np.int32(j)
        new_state[0, r], new_state[1, r] = x, y
        new_state[2, r], new_state[3, r] = weight * vx, weight * vy


@njit(cache=True, error_model="numpy")
def _remember(count, state, first, new_state, new_first):
    """Note the old momenta beside the new ones; apart from `_step`, which would not vectorise."""
    start, new_start = np.uintp(first), np.uintp(new_first)
    for b in range(np.uintp(count)):
        new_state[4, new_start + b] = state[2, start + b]
        new_state[5, new_start + b] = state[3, start + b]


@njit(cache=True, fastmath=EXACT, error_model="numpy")
def advance(first, last, cells, state, new_cells, new_state, row, flow, eps, step, mass):
    """All steps of a row's particles from one output to the next, block by block.

    cells (2, n) int32: column and row of the grid. state (4 or 6, n) float32: x, y in the cell,
    momentum x, y as mass gamma beta, and, where there are six, the momentum one step before.
    The old arrays are read and the new ones written, from `first` to before `last`; they are not
    the same. row: (columns, first row, rows). flow: (turns per cell, heights per cell, speed [c]).
    eps (steps, 2): at the middle and at the end of each step. step: c dt [cells]; with 0 only the
    momentum is set. Particles leave the row nowhere: it is periodic in x, and in y, where psi and
    v_y are the same on both edges.
    """
    room_cells = np.empty((2, 2, BLOCK), np.int32)
    room_state = np.empty((2, 4, BLOCK), np.float32)
    steps = len(eps)
    for block in range(first, last, BLOCK):
        count = min(BLOCK, last - block)
        old_cells, old_state, old_block = cells, state, block
        for s in range(steps):
            now = (eps[s, 0], eps[s, 1])
            if s == steps - 1:
                _step(count, old_cells, old_state, old_block, new_cells, new_state, block,
                      row, flow, now, step, mass)  # fmt: skip
                if new_state.shape[0] > 4:
                    _remember(count, old_state, old_block, new_state, block)
            else:
                _step(count, old_cells, old_state, old_block, room_cells[s % 2], room_state[s % 2],
                      0, row, flow, now, step, mass)  # fmt: skip
                old_cells, old_state, old_block = room_cells[s % 2], room_state[s % 2], 0
