"""Particle shapes, and sums over them that unroll when they are compiled.

A particle lies at x in [0, 1) of its cell. The nodes that its shape reaches and their order are the
same for all particles of a cell, so that many can be pushed by one vector instruction:

    order 1, CIC    2 whole nodes from 0     3 half nodes from -1
    order 2, TSC    4 whole nodes from -1    3 half nodes from -1
    order 3, PCS    4 whole nodes from -1    5 half nodes from -2

(node n at n; half node n at n + 1/2). Weights: the centred B-splines of that order, by truncated
powers (I. J. Schoenberg 1946; C. K. Birdsall & A. B. Langdon, section 4-8).

An order is passed as a tuple of that many zeros and a list of weights as a tuple, for then their
length is part of the type: each order gets a kernel of its own, with all loops over nodes unrolled.
The empty tuple is the order of a direction that is not there (z in two dimensions): one node of
weight 1. Constants are np.float32 and exact, so that they do not
promote float32 data.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numba.extending import overload

from producers.layout import N1, PARTS, U_PARTS

# arcp: a division by a constant may become a product with its inverse, in the data's precision.
INLINE: Any = {"forceinline": True, "error_model": "numpy", "fastmath": {"contract", "arcp"}}
# Sums of finite numbers: what is multiplied by an exact zero may go.
FINITE: Any = {**INLINE, "fastmath": {"contract", "arcp", "nnan", "nsz"}}

ZERO, HALF, ONE, TWO = np.float32(0), np.float32(0.5), np.float32(1), np.float32(2)
THREE, FOUR, SIX, TWELVE = np.float32(3), np.float32(4), np.float32(6), np.float32(12)
THREE_QUARTERS, THREE_HALVES = np.float32(0.75), np.float32(1.5)


def _compiled_only():
    raise TypeError("for compiled code only")


def reach(order):
    """(whole nodes, first whole node, half nodes, first half node) of an order."""
    _compiled_only()


@overload(reach, jit_options=INLINE)
def _reach(order):
    found = [(1, 0, 1, 0), (2, 0, 3, -1), (4, -1, 3, -1), (4, -1, 5, -2)][order.count]
    return lambda order: found


def whole(x, order):
    """Weights of the whole nodes."""
    _compiled_only()


@overload(whole, jit_options=INLINE)
def _whole(x, order):
    def none(x, order):
        return (ONE,)

    def cic(x, order):
        return ONE - x, x

    def tsc(x, order):
        low, high = max(HALF - x, ZERO), max(x - HALF, ZERO)
        a, b = THREE_HALVES - x, HALF + x
        return (
            HALF * low * low,
            HALF * a * a - THREE_HALVES * low * low,
            HALF * b * b - THREE_HALVES * high * high,
            HALF * high * high,
        )

    def pcs(x, order):
        y = ONE - x
        return (
            y * y * y / SIX,
            (FOUR - THREE * x * x * (TWO - x)) / SIX,
            (FOUR - THREE * y * y * (TWO - y)) / SIX,
            x * x * x / SIX,
        )

    return [none, cic, tsc, pcs][order.count]


def half(x, order):
    """Weights of the half nodes."""
    _compiled_only()


@overload(half, jit_options=INLINE)
def _half(x, order):
    def none(x, order):
        return (ONE,)

    def cic(x, order):
        d = x - HALF
        return max(-d, ZERO), ONE - abs(d), max(d, ZERO)

    def tsc(x, order):
        d = x - HALF
        low, high = HALF - d, HALF + d
        return HALF * low * low, THREE_QUARTERS - d * d, HALF * high * high

    def pcs(x, order):
        d = x - HALF
        low, high = max(-d, ZERO), max(d, ZERO)
        a, b, r = ONE - d, ONE + d, abs(d)
        return (
            low * low * low / SIX,
            (a * a * a - FOUR * low * low * low) / SIX,
            (FOUR - THREE * r * r * (TWO - r)) / SIX,
            (b * b * b - FOUR * high * high * high) / SIX,
            high * high * high / SIX,
        )

    return [none, cic, tsc, pcs][order.count]


def put(weights, at, values):
    """weights[at + n] = values[n]."""
    _compiled_only()


@overload(put, jit_options=INLINE)
def _put(weights, at, values):
    def one(weights, at, values):
        weights[at] = values[0]

    def more(weights, at, values):
        weights[at] = values[0]
        put(weights, at + N1, values[1:])

    return one if values.count == 1 else more


# ---------------------------------------------------------------- gather


def row(nodes, at, x):
    """Sum of x[i] nodes[at + PARTS i]: of every node there are PARTS copies; `at` says which."""
    _compiled_only()


@overload(row, jit_options=INLINE)
def _row(nodes, at, x):
    if x.count == 1:
        return lambda nodes, at, x: x[0] * nodes[at]
    return lambda nodes, at, x: x[0] * nodes[at] + row(nodes, at + U_PARTS, x[1:])


def plane(nodes, at, x, y):
    """Sum of y[j] x[i] of the nodes from `at`, rows one after the other."""
    _compiled_only()


@overload(plane, jit_options=INLINE)
def _plane(nodes, at, x, y):
    n = np.uintp(x.count * PARTS)
    if y.count == 1:
        return lambda nodes, at, x, y: y[0] * row(nodes, at, x)
    return lambda nodes, at, x, y: y[0] * row(nodes, at, x) + plane(nodes, at + n, x, y[1:])


def cube(nodes, at, x, y, z):
    """Sum of z[k] y[j] x[i] of the nodes from `at`, planes one after the other."""
    _compiled_only()


@overload(cube, jit_options=INLINE)
def _cube(nodes, at, x, y, z):
    n = np.uintp(x.count * y.count * PARTS)
    if z.count == 1:
        return lambda nodes, at, x, y, z: z[0] * plane(nodes, at, x, y)

    def more(nodes, at, x, y, z):
        return z[0] * plane(nodes, at, x, y) + cube(nodes, at + n, x, y, z[1:])

    return more


# ---------------------------------------------------------------- deposition


def mean(a, b):
    """(a + b) / 2, entry by entry."""
    _compiled_only()


@overload(mean, jit_options=FINITE)
def _mean(a, b):
    if a.count == 1:
        return lambda a, b: (HALF * (a[0] + b[0]),)
    return lambda a, b: (HALF * (a[0] + b[0]),) + mean(a[1:], b[1:])


def change(a, b):
    """b - a, entry by entry."""
    _compiled_only()


@overload(change, jit_options=FINITE)
def _change(a, b):
    if a.count == 1:
        return lambda a, b: (b[0] - a[0],)
    return lambda a, b: (b[0] - a[0],) + change(a[1:], b[1:])


def twelfth(a):
    """a / 12, entry by entry."""
    _compiled_only()


@overload(twelfth, jit_options=FINITE)
def _twelfth(a):
    if a.count == 1:
        return lambda a: (a[0] / TWELVE,)
    return lambda a: (a[0] / TWELVE,) + twelfth(a[1:])


def plus(a, b, factor):
    """a + factor b, entry by entry."""
    _compiled_only()


@overload(plus, jit_options=FINITE)
def _plus(a, b, factor):
    if a.count == 1:
        return lambda a, b, factor: (a[0] + factor * b[0],)
    return lambda a, b, factor: (a[0] + factor * b[0],) + plus(a[1:], b[1:], factor)


def times(a, factor):
    """a factor, entry by entry."""
    _compiled_only()


@overload(times, jit_options=FINITE)
def _times(a, factor):
    if a.count == 1:
        return lambda a, factor: (a[0] * factor,)
    return lambda a, factor: (a[0] * factor,) + times(a[1:], factor)


def outer(a, b):
    """a[j] b[k], j running first."""
    _compiled_only()


@overload(outer, jit_options=FINITE)
def _outer(a, b):
    if b.count == 1:
        return lambda a, b: times(a, b[0])
    return lambda a, b: times(a, b[0]) + outer(a, b[1:])


def flow(change, amount, before):
    """Charge that passes between the nodes: before - amount (change[0] + ... + change[n])."""
    _compiled_only()


@overload(flow, jit_options=FINITE)
def _flow(change, amount, before):
    if change.count == 2:
        return lambda change, amount, before: (before - amount * change[0],)

    def more(change, amount, before):
        passed = before - amount * change[0]
        return (passed,) + flow(change[1:], amount, passed)

    return more


def flow_up(change, amount, speed):
    """The same along z; in two dimensions the current out of the plane, amount speed."""
    _compiled_only()


@overload(flow_up, jit_options=FINITE)
def _flow_up(change, amount, speed):
    if change.count == 1:
        return lambda change, amount, speed: (amount * speed,)
    return lambda change, amount, speed: flow(change, amount, ZERO * amount)


@njit(error_model="numpy", forceinline=True)
def padded(nodes):
    """Nodes of a row of partial sums, with those that fill it up to a vector."""
    return nodes if nodes < 3 else 4


def add_row(sums, at, x, factor):
    """sums[at + PARTS i] += factor x[i]: every node has PARTS partial sums; `at` says which."""
    _compiled_only()


@overload(add_row, jit_options=FINITE)
def _add_row(sums, at, x, factor):
    def one(sums, at, x, factor):
        sums[at] += x[0] * factor

    def more(sums, at, x, factor):
        sums[at] += x[0] * factor
        add_row(sums, at + U_PARTS, x[1:], factor)

    return one if x.count == 1 else more


def add_rows(sums, at, x, factors):
    """add_row for all factors, row after row."""
    _compiled_only()


@overload(add_rows, jit_options=FINITE)
def _add_rows(sums, at, x, factors):
    line = np.uintp(padded.py_func(x.count) * PARTS)

    def one(sums, at, x, factors):
        add_row(sums, at, x, factors[0])

    def more(sums, at, x, factors):
        add_row(sums, at, x, factors[0])
        add_rows(sums, at + line, x, factors[1:])

    return one if factors.count == 1 else more


def add_pair(sums, at, x, dx, factor, change_factor):
    """add_row of x and of dx."""
    _compiled_only()


@overload(add_pair, jit_options=FINITE)
def _add_pair(sums, at, x, dx, factor, change_factor):
    def one(sums, at, x, dx, factor, change_factor):
        sums[at] = (sums[at] + x[0] * factor) + dx[0] * change_factor

    def more(sums, at, x, dx, factor, change_factor):
        sums[at] = (sums[at] + x[0] * factor) + dx[0] * change_factor
        add_pair(sums, at + U_PARTS, x[1:], dx[1:], factor, change_factor)

    return one if x.count == 1 else more


def add_pairs(sums, at, x, dx, factors, change_factors):
    """add_pair for all pairs of factors, row after row."""
    _compiled_only()


@overload(add_pairs, jit_options=FINITE)
def _add_pairs(sums, at, x, dx, factors, change_factors):
    line = np.uintp(padded.py_func(x.count) * PARTS)

    def one(sums, at, x, dx, factors, change_factors):
        add_pair(sums, at, x, dx, factors[0], change_factors[0])

    def more(sums, at, x, dx, factors, change_factors):
        add_pair(sums, at, x, dx, factors[0], change_factors[0])
        add_pairs(sums, at + line, x, dx, factors[1:], change_factors[1:])

    return one if factors.count == 1 else more
