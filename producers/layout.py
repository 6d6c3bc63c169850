"""What lies where in the arrays of the particle loop; np.uintp (N.., U_.., ROW_..) for indices."""

from __future__ import annotations

import numpy as np

LANES = 16  # particles per block
PARTS = 8  # of them at a time: as many copies of a field value, and partial sums of a current
GUARD = 3  # a deposition after a move of one cell reaches two nodes down and three up
TILE = 128  # room for the nodes of one field component, at most 5 x 5 x 4
# One array holds all that the work on a cell needs, so that the compiler knows what is apart:
OLD = 0  # the rows of a block: x, y at n, u, z at n
NEW = OLD + 6 * LANES  # x, y, z at n + 1, relative to the cell
WAY = NEW + 3 * LANES  # the way along z
NODES = WAY + LANES  # field components around the cell, TILE nodes each, PARTS copies of each
WEIGHTS = (
    NODES + 6 * TILE * PARTS
)  # of one that leaves: along x, y, z on six nodes each, at n; mean
CHANGES = WEIGHTS + 18  # the same at n + 1; change
FLOW = CHANGES + 18  # what passes between its nodes along x
SUMS = FLOW + 28  # partial sums of the current, at most 3 x 4 x 4 x 4 nodes
WORK = SUMS + 192 * PARTS
WITHIN, DOWN, UP = 0, 1, 2  # where a mover goes
TOO_FAST, TOO_MANY = -1, -2  # what `advance` returns when it cannot go on

N0, N1, N2, N3, N4, N5, N6 = (np.uintp(n) for n in range(7))
N8 = np.uintp(8)
U_LANES, U_PARTS, U_GUARD = (np.uintp(n) for n in (LANES, PARTS, GUARD))
U_TILE = np.uintp(TILE * PARTS)
U_OLD, U_NEW, U_WAY, U_NODES, U_SUMS = (np.uintp(n) for n in (OLD, NEW, WAY, NODES, SUMS))
U_WEIGHTS, U_CHANGES, U_FLOW = (np.uintp(n) for n in (WEIGHTS, CHANGES, FLOW))
ROW_Y, ROW_UX, ROW_UY, ROW_UZ, ROW_Z = (np.uintp(n * LANES) for n in range(1, 6))
