"""What lies where in the arrays of the particle loop; np.uintp (N.., U_.., ROW_..) for indices."""

from __future__ import annotations

import numpy as np

LANES = 16  # particles per block
PARTS = 8  # partial sums per node
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

N0, N1, N2, N3, N4, N5, N6 = (np.uintp(n) for n in range(7))
U_LANES, U_PARTS, U_GUARD, U_TILE = (np.uintp(n) for n in (LANES, PARTS, GUARD, TILE))
U_OLD, U_NEW, U_WAY, U_WEIGHTS, U_SUMS = (np.uintp(n) for n in (OLD, NEW, WAY, WEIGHTS, SUMS))
ROW_Y, ROW_UX, ROW_UY, ROW_UZ, ROW_Z = (np.uintp(n * LANES) for n in range(1, 6))
