"""What crosses between hosts that share the ranks of one run: edges of slabs, and outputs.

A rank reads of its neighbours only what `producers.pic` says: before `meet` their J guards and
boxes of movers, before `finish` their outermost rows of E. Where a neighbour lives on another host,
its slab stands here, too, as memory of which nothing is ever touched but these parts; an `Edge`
fills them at each MEET, with one message each way. So the solver does not know of other hosts, and
its sums have the same order: the same numbers, bit for bit.
"""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from producers import pic
from producers.layout import DOWN, GUARD, UP
from producers.ranks import Program, Signal
from workflow.errors import DataError, NodeLost, StreamError
from workflow.types import Array
from workflow.wire import Idle, Kind, Wire, exchange

if TYPE_CHECKING:
    from producers.course import Slot

CUT_OFF = "is cut off from"  # marks an error that another host's end has caused


@dataclass(frozen=True, kw_only=True)
class Edge:
    """The border between a slab here and its neighbour on another host."""

    wire: Wire
    own: pic.Slab
    other: pic.Slab  # filled here
    way: int  # DOWN or UP: where the other lies

    def pack(self, kind: Kind) -> bytes:
        """What the neighbour will read of the own slab: MOVERS before `meet`, else FIELD."""
        parts = [np.array([p.gone[self.way] for p in self.own.particles], np.int64)]
        parts = [*parts, *_movers(self.own, self.way)] if kind is Kind.MOVERS else []
        return b"".join(array.tobytes() for array in (*parts, _rows(self.own, self.way, kind)))

    def unpack(self, kind: Kind, payload: bytearray) -> None:
        """Put into the other slab what it has packed."""
        back = UP if self.way == DOWN else DOWN
        at = 0
        if kind is Kind.MOVERS:
            counts = np.zeros(len(self.other.particles), np.int64)
            at = _take(counts, payload, at)
            for mine, n in zip(self.other.particles, counts, strict=True):
                if not 0 <= n <= mine.targets.shape[1]:
                    raise DataError(
                        f"{self.wire.peer}: wanted at most {mine.targets.shape[1]} movers, got {n}."
                    )
                mine.gone[back] = n
            for array in _movers(self.other, back):
                at = _take(array, payload, at)
            self._check_targets(back)
        at = _take(_rows(self.other, back, kind), payload, at)
        if at != len(payload):
            raise DataError(f"{self.wire.peer}: wanted {at} bytes, got {len(payload)}.")

    def _check_targets(self, back: int) -> None:
        """No mover may go to a cell that is not there: compiled code would not notice."""
        for theirs, mine in zip(self.other.particles, self.own.particles, strict=True):
            targets = theirs.targets[back, : theirs.gone[back]]
            if targets.size and not (targets.min() >= 0 and targets.max() < mine.count.size):
                raise DataError(
                    f"{self.wire.peer}: wanted movers to cells 0 to {mine.count.size - 1}, got "
                    f"{targets.min()} to {targets.max()}."
                )

    def limit(self) -> int:
        """Bytes of a message at most."""
        slab = self.other
        particles = sum(
            p.targets[0].nbytes + p.numbers[0].nbytes + p.gone.itemsize for p in slab.particles
        )
        return int(particles + slab.current.nbytes)


def _movers(slab: pic.Slab, way: int) -> Iterator[Array]:
    """Boxes of movers, of each species, as far as they are full."""
    for mine in slab.particles:
        n = int(mine.gone[way])
        yield mine.targets[way, :n]
        yield mine.numbers[way, :n]


def _rows(slab: pic.Slab, way: int, kind: Kind) -> Array:
    """J in the guard towards the neighbour, or E in the own rows beside it; not contiguous."""
    if kind is Kind.MOVERS:
        return slab.current[..., -GUARD:, :] if way == UP else slab.current[..., :GUARD, :]
    rows = slice(-2 * GUARD, -GUARD) if way == UP else slice(GUARD, 2 * GUARD)
    return slab.fields[:3, ..., rows, :]


def _take(array: Array, payload: bytearray, at: int) -> int:
    """Fill an array from a place in the payload; returns the place behind."""
    end = at + array.nbytes
    if end > len(payload):
        raise DataError(f"an edge: wanted {end} bytes or more, got {len(payload)}.")
    array[...] = np.frombuffer(payload, array.dtype, array.size, at).reshape(array.shape)
    return end


def edges(
    slabs: Sequence[pic.Slab], own: range, *, below: Wire, above: Wire
) -> Mapping[int, tuple[Edge, ...]]:
    """The two edges of the slabs `own` of a host, by slab."""
    lowest, highest = slabs[own.start], slabs[own.stop - 1]
    under, over = slabs[own.start - 1], slabs[own.stop % len(slabs)]
    down = Edge(wire=below, own=lowest, other=under, way=DOWN)
    up = Edge(wire=above, own=highest, other=over, way=UP)
    return {own.start: (down, up)} if len(own) == 1 else {own.start: (down,), own.stop - 1: (up,)}


def linked(
    program: Program,
    own: range,
    threads: int,
    at: Mapping[int, tuple[Edge, ...]],
    sockets: Sequence[Wire | socket.socket],
) -> Program:
    """A host's program for its ranks `own`, numbered from 0, of a program for all ranks.

    `sockets`: all of the host's; a rank's process closes those that are not its own, so that a
    connection ends with the process whose it is.
    """
    parent = os.getpid()

    def with_parent() -> None:
        if os.getppid() != parent:  # as in producers.ranks
            os._exit(1)

    def life(local: int) -> Iterator[Signal]:
        rank = own.start + local
        slabs = range(rank * threads, (rank + 1) * threads)
        mine = [edge for slab, borders in at.items() if slab in slabs for edge in borders]
        for foreign in set(sockets) - {edge.wire for edge in mine}:
            foreign.close()
        kinds = itertools.cycle((Kind.MOVERS, Kind.FIELD))  # the two MEETs of a step
        for asked in program(rank):
            if asked is Signal.MEET and mine:
                _meet(rank, mine, next(kinds), with_parent)
            yield asked

    return life


def _meet(rank: int, mine: Sequence[Edge], kind: Kind, idle: Idle) -> None:
    """Exchange a rank's edges with the hosts beside."""
    try:
        payloads = exchange(
            [edge.wire for edge in mine],
            kind,
            [edge.pack(kind) for edge in mine],
            limits=[edge.limit() for edge in mine],
            idle=idle,
        )
    except StreamError as e:
        raise NodeLost(f"rank {rank} {CUT_OFF} its neighbour: {e}") from e
    for edge, payload in zip(mine, payloads, strict=True):
        edge.unpack(kind, payload)


# ---------------------------------------------------------------- outputs


def send_output(wire: Wire, slot: Slot, idle: Idle) -> None:
    """Send one rank's output."""
    wire.send(Kind.OUTPUT, slot.counts, *_filled(slot), idle=idle)


def receive_output(wire: Wire, slot: Slot, idle: Idle) -> None:
    """Receive one rank's output into its slot here."""
    _, length = wire.head(Kind.OUTPUT, idle=idle)
    if length < slot.counts.nbytes:
        raise DataError(f"{wire.peer}: wanted an output, got {length} bytes.")
    wire.fill(slot.counts, idle)
    for n, table in zip(slot.counts, slot.cells, strict=True):
        if not 0 <= n <= table.shape[1]:
            raise DataError(f"{wire.peer}: wanted at most {table.shape[1]} particles, got {n}.")
    parts = list(_filled(slot))
    wanted = slot.counts.nbytes + sum(part.nbytes for part in parts)
    if length != wanted:
        raise DataError(f"{wire.peer}: wanted an output of {wanted} bytes, got {length}.")
    for part in parts:
        wire.fill(part, idle)


def _filled(slot: Slot) -> Iterator[Array]:
    """Contiguous parts of a slot, as far as they are full."""
    for tables in (slot.cells, slot.floats):
        for n, table in zip(slot.counts, tables, strict=True):
            for row in table:
                yield row[:n]
    yield slot.fields
    yield slot.amplitude
