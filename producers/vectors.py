"""Short runs of numbers as one vector instruction each, where the compiler would go one by one.

numba leaves straight-line code scalar (its SLP vectoriser is off, for it spoils the loops over
lanes), so these three write the vector into LLVM's code. Arrays are C-contiguous and indexed flat;
`n` is a literal. Nothing beyond the n numbers is read or written; nothing is checked.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import extending, types
from numba.core import cgutils

from producers.layout import PARTS

_NUMBER = ir.IntType(32)
intrinsic: Any = extending.intrinsic  # its type wants the first argument, which no one passes


def _at(context, builder, kind, array, index, n):
    """Pointer to n numbers of a flat array as a vector, and their alignment."""
    made = context.make_array(kind)(context, builder, array)
    element = context.get_data_type(kind.dtype)
    pointer = builder.gep(made.data, [index])
    size = context.get_abi_sizeof(element)
    return builder.bitcast(pointer, ir.VectorType(element, n).as_pointer()), size


def _from_to(context, builder, kinds, args, n):
    """What args 2, 3 (array, index) hold, the pointer to args 0, 1, and the alignment of both."""
    source, size = _at(context, builder, kinds[2], args[2], args[3], n)
    target, _ = _at(context, builder, kinds[0], args[0], args[1], n)
    return builder.load(source, align=size), target, size


def _splat(builder, value, n):
    """A vector of n times one number."""
    vector = ir.VectorType(value.type, n)
    one = builder.insert_element(ir.Constant(vector, ir.Undefined), value, _NUMBER(0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(_NUMBER, n), [0] * n))


def _pick(builder, a, b, lanes):
    """The lanes of a and b, one after the other, by number."""
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_NUMBER, len(lanes)), lanes))


@intrinsic(prefer_literal=True)
def copy_row(typingctx, to, at, of, index, n):
    """to[at : at + n] = of[index : index + n]."""
    count = n.literal_value

    def code(context, builder, signature, args):
        numbers, target, size = _from_to(context, builder, signature.args, args, count)
        builder.store(numbers, target, align=size)
        return context.get_dummy_value()

    return types.void(to, types.uintp, of, types.uintp, n), code


@intrinsic(prefer_literal=True)
def copy_first(typingctx, to, at, of, index, m, n):
    """to[at : at + n] = the first m of of[index : index + n], then zeros."""
    count = n.literal_value

    def code(context, builder, signature, args):
        numbers, target, size = _from_to(context, builder, signature.args, args, count)
        lanes = ir.Constant(ir.VectorType(_NUMBER, count), list(range(count)))
        first = builder.icmp_unsigned(
            "<", lanes, _splat(builder, builder.trunc(args[4], _NUMBER), count)
        )
        kept = builder.select(first, numbers, ir.Constant(numbers.type, None))
        builder.store(kept, target, align=size)
        return context.get_dummy_value()

    return types.void(to, types.uintp, of, types.uintp, types.uintp, n), code


@intrinsic(prefer_literal=True)
def repeat(typingctx, to, at, number, n):
    """to[at : at + n] = number."""
    count = n.literal_value

    def code(context, builder, signature, args):
        target, size = _at(context, builder, signature.args[0], args[0], args[1], count)
        builder.store(_splat(builder, args[2], count), target, align=size)
        return context.get_dummy_value()

    return types.void(to, types.uintp, to.dtype, n), code


@intrinsic(prefer_literal=True)
def add_scaled(typingctx, to, index, of, at, factor, n):
    """to[index : index + n] += factor of[at : at + n]."""
    count = n.literal_value

    def code(context, builder, signature, args):
        numbers, target, size = _from_to(context, builder, signature.args, args, count)
        scaled = builder.fmul(numbers, _splat(builder, args[4], count), flags=["contract"])
        total = builder.fadd(builder.load(target, align=size), scaled, flags=["contract"])
        builder.store(total, target, align=size)
        return context.get_dummy_value()

    return types.void(to, types.uintp, of, types.uintp, to.dtype, n), code


@intrinsic
def add_four_sums(typingctx, to, index, of, at):
    """to[index + m] += sum of of[at + m PARTS : at + (m + 1) PARTS], m = 0 to 3, which become 0."""

    def code(context, builder, signature, args):
        kinds = signature.args
        halves = []
        for m in range(4):
            start = builder.add(args[3], ir.Constant(args[3].type, m * PARTS))
            source, size = _at(context, builder, kinds[2], args[2], start, PARTS)
            parts = builder.load(source, align=size)
            builder.store(ir.Constant(parts.type, None), source, align=size)
            low, high = (_pick(builder, parts, parts, list(range(s, s + 4))) for s in (0, 4))
            halves.append(builder.fadd(low, high))
        while len(halves) > 1:  # add neighbours: 4 x 4 numbers become 2 x 4, then 4 totals
            halves = [
                builder.fadd(_pick(builder, a, b, [0, 2, 4, 6]), _pick(builder, a, b, [1, 3, 5, 7]))
                for a, b in zip(halves[::2], halves[1::2], strict=True)
            ]
        target, size = _at(context, builder, kinds[0], args[0], args[1], 4)
        builder.store(builder.fadd(builder.load(target, align=size), halves[0]), target, align=size)
        return context.get_dummy_value()

    return types.void(to, types.uintp, of, types.uintp), code


@intrinsic
def prefetch(typingctx, of, index):
    """Ask for the memory of of[index], which may be anywhere, to be brought near."""

    def code(context, builder, signature, args):
        made = context.make_array(signature.args[0])(context, builder, args[0])
        byte = ir.IntType(8).as_pointer()
        pointer = builder.bitcast(builder.gep(made.data, [args[1]]), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, _NUMBER, _NUMBER, _NUMBER])
        ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(ask, [pointer, _NUMBER(1), _NUMBER(3), _NUMBER(1)])  # to write, near, data
        return context.get_dummy_value()

    return types.void(of, types.uintp), code


assert PARTS == 8, "add_four_sums folds eight partial sums"
assert np.uintp is np.uint64 or np.uintp(0).itemsize == 8, "indices are 64 bits wide"
