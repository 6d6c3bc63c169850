"""Ranks: the parts of one simulation, run in turn in one thread or each in its own process.

What a rank does is a generator, its `Program`: it computes and yields a `Signal` where it needs the
others. Both hostings drive the same generators, so both give the same bits.

    MEET    go on when both neighbours have come to the same MEET
    CLAIM   go on when the consumer is done with the output slot that is filled next
    SHOW    the slot is filled

In processes, ranks are forked children over shared memory that has no name, so that nothing can be
left behind in /dev/shm; MEET is one byte through a pipe to and from each neighbour, so that a rank
that waits leaves its core to others. Outputs go through two slots: the ranks compute the next one
while the consumer works on the last one. A rank that dies is noticed through its sentinel whenever
the consumer waits; a rank whose parent is gone ends itself within PARENT_CHECK_S. Linux and macOS.
"""

from __future__ import annotations

import enum
import logging
import mmap
import multiprocessing
import os
import select
import signal
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from typing import Protocol

import numpy as np

from workflow.errors import BillowError, NodeLost
from workflow.types import Array, Hosting

log = logging.getLogger(__name__)

SLOTS = 2  # output buffers of each rank
PARENT_CHECK_S = 0.2
_NO_RESERVE = 0x4000 if os.uname().sysname == "Linux" else 0  # MAP_NORESERVE: commit when touched


class Signal(enum.Enum):
    """Where a rank needs the others."""

    MEET = "meet"
    CLAIM = "claim"
    SHOW = "show"


Program = Callable[[int], Iterator[Signal]]


class Ranks(Protocol):
    """The ranks of one simulation as its consumer sees them."""

    pids: tuple[int, ...]  # of the ranks' processes; empty when they have none

    def next_slot(self) -> int | None:
        """Give the last slot back and wait for the next one; None at the end."""
        ...

    def rest(self, seconds: float) -> None:
        """Let time pass, but not over a rank's death."""
        ...

    def close(self) -> None:
        """End the ranks; the slots must not be read any more."""
        ...


def start(program: Program, ranks: int, *, hosting: Hosting, name: str) -> Ranks:
    """Start `ranks` ranks of a simulation called `name`."""
    if hosting is Hosting.INLINE:
        return InlineRanks(program, ranks)
    return ProcessRanks(program, ranks, name=name)


def shared_zeros(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
    """Zeros that forked processes share; freed with the last view of the last process."""
    count = int(np.prod(shape))
    flags = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | _NO_RESERVE
    memory = mmap.mmap(-1, max(1, count * dtype.itemsize), flags=flags)
    return np.frombuffer(memory, dtype=dtype, count=count).reshape(shape)


class InlineRanks:
    """All ranks in the caller's thread, one after the other from signal to signal."""

    def __init__(self, program: Program, ranks: int) -> None:
        self.pids: tuple[int, ...] = ()
        self._lives = [program(rank) for rank in range(ranks)]
        self._shown = 0

    def next_slot(self) -> int | None:
        """See Ranks."""
        while True:
            signals = [next(life, None) for life in self._lives]
            assert len(set(signals)) == 1, f"ranks are out of step: {signals}"
            if signals[0] is None:
                return None
            if signals[0] is Signal.SHOW:
                self._shown += 1
                return (self._shown - 1) % SLOTS

    def rest(self, seconds: float) -> None:
        """See Ranks."""
        time.sleep(max(0.0, seconds))

    def close(self) -> None:
        """See Ranks."""
        for life in self._lives:
            life.close()  # type: ignore[attr-defined]


class ProcessRanks:
    """Each rank in a forked process of its own. The parent computes nothing."""

    def __init__(self, program: Program, ranks: int, *, name: str) -> None:
        self._name = name
        self._shown = 0
        self._lost = ""  # why, once a rank is
        self._ended: set[int] = set()
        up = [os.pipe() for _ in range(ranks)]  # from rank to the one above
        down = [os.pipe() for _ in range(ranks)]
        grants = [os.pipe() for _ in range(ranks)]  # from the parent: a slot is free
        reports = [multiprocessing.Pipe(duplex=False) for _ in range(ranks)]
        context = multiprocessing.get_context("fork")
        self._processes: list[BaseProcess] = []
        for rank in range(ranks):
            below, above = (rank - 1) % ranks, (rank + 1) % ranks
            port = _Port(
                parent=os.getpid(),
                to=(down[rank][1], up[rank][1]),
                heard=(up[below][0], down[above][0]),
                grants=grants[rank][0],
                report=reports[rank][1],
            )
            process = context.Process(
                target=port.live, args=(program, rank), name=f"{name} rank {rank}", daemon=True
            )
            with warnings.catch_warnings():
                # Newer Pythons warn of forks beside threads. A rank takes no lock that a thread
                # of ours could hold: it runs compiled loops and reads and writes pipes.
                warnings.simplefilter("ignore", DeprecationWarning)
                process.start()
            self._processes.append(process)
        for read, write in up + down:
            os.close(read)
            os.close(write)
        for read, _ in grants:
            os.close(read)
        for _, report in reports:
            report.close()
        self._grants = [write for _, write in grants]
        self._reports = [report for report, _ in reports]
        self.pids = tuple(p.pid or 0 for p in self._processes)
        self._end = weakref.finalize(
            self, _end, os.getpid(), self._processes, self._grants, self._reports
        )
        log.info("%s: ranks run in processes %s", name, ", ".join(map(str, self.pids)))

    def next_slot(self) -> int | None:
        """See Ranks; raises NodeLost when a rank died."""
        if self._lost:
            raise NodeLost(self._lost)
        if not self._end.alive:
            return None
        if self._shown:
            self._grant()
        waiting = set(range(len(self._processes))) - self._ended
        while waiting:
            self._watch({r: self._reports[r] for r in waiting}, timeout=None)
            for rank in [r for r in waiting if self._reports[r].poll()]:
                self._hear(rank)
                waiting.discard(rank)
        if self._ended:
            self.close()
            return None
        self._shown += 1
        return (self._shown - 1) % SLOTS

    def _hear(self, rank: int) -> None:
        try:
            said = self._reports[rank].recv_bytes()
        except EOFError:
            said = b""
        if said == b"end":
            self._ended.add(rank)
        elif said != b"show":
            self._lose(rank, said.decode(errors="replace"))

    def _grant(self) -> None:
        for grant in self._grants:
            try:
                os.write(grant, b"g")
            except BrokenPipeError:
                log.debug("%s: a rank left before it was granted a slot", self._name)

    def rest(self, seconds: float) -> None:
        """See Ranks; raises NodeLost when a rank died."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._watch({}, timeout=left)

    def _watch(
        self, reports: dict[int, connection.Connection[bytes, bytes]], timeout: float | None
    ) -> None:
        """Wait for a report, a death or the time; raise NodeLost for a death."""
        living = {p.sentinel: r for r, p in enumerate(self._processes) if p.exitcode is None}
        for rank, process in enumerate(self._processes):
            if process.exitcode not in (None, 0):
                self._lose(rank)
        if not living and not reports:
            time.sleep(timeout or 0.0)
            return
        happened = connection.wait([*reports.values(), *living], timeout)
        for sentinel in [s for s in living if s in happened]:
            rank = living[sentinel]
            self._processes[rank].join()
            if self._processes[rank].exitcode != 0:
                self._lose(rank)

    def _lose(self, rank: int, why: str = "") -> None:
        """Take all ranks down, and raise."""
        code = self._processes[rank].exitcode
        why = why or self._last_words(rank)
        if why:
            what = f"failed: {why}"
        elif code is not None and code < 0:
            what = f"was killed by {signal.Signals(-code).name}"
        else:
            what = f"ended with exit code {code}"
        self._lost = (
            f"{self._name}: rank {rank} (process {self.pids[rank]}) {what}. The other ranks were "
            "ended with it; start the producer again."
        )
        self.close()
        raise NodeLost(self._lost)

    def _last_words(self, rank: int) -> str:
        """The error that a rank reported before it ended, behind outputs that nobody took."""
        report = self._reports[rank]
        while report.poll():
            try:
                said = report.recv_bytes()
            except EOFError:
                break
            if said not in (b"show", b"end"):
                return said.decode(errors="replace")
        return ""

    def close(self) -> None:
        """See Ranks."""
        self._end()


def _end(
    owner: int,
    processes: list[BaseProcess],
    grants: list[int],
    reports: list[connection.Connection[bytes, bytes]],
) -> None:
    """Kill and bury the ranks, close the pipes; not in a fork that inherited them."""
    if os.getpid() != owner:
        return
    for process in processes:
        process.kill()
    for process in processes:
        process.join()
        process.close()
    for grant in grants:
        os.close(grant)
    for report in reports:
        report.close()


class _Port:
    """A rank's own end of its pipes; lives in the rank's process."""

    def __init__(
        self,
        *,
        parent: int,
        to: tuple[int, int],
        heard: tuple[int, int],
        grants: int,
        report: connection.Connection[bytes, bytes],
    ) -> None:
        self._parent, self._to, self._grants, self._report = parent, to, grants, report
        self._heard = heard
        self._claims = 0

    def live(self, program: Program, rank: int) -> None:
        """The life of a rank's process."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's ^C is the parent's business
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        try:
            for asked in program(rank):
                self._answer(asked)
            self._report.send_bytes(b"end")
        except _Orphaned:
            os._exit(1)
        except Exception as e:  # it must reach the parent, whatever it is
            kind = "" if isinstance(e, BillowError) else f"{type(e).__name__}: "
            self._report.send_bytes(f"{kind}{e}"[:2000].encode() or b"?")
            os._exit(1)

    def _answer(self, asked: Signal) -> None:
        if asked is Signal.MEET:
            for pipe in self._to:
                os.write(pipe, b"t")
            for pipe in self._heard:
                self._read(pipe)
        elif asked is Signal.CLAIM:
            self._claims += 1
            if self._claims > SLOTS:
                self._read(self._grants)
        else:
            self._report.send_bytes(b"show")

    def _read(self, pipe: int) -> None:
        """Read one byte, unless the parent goes first."""
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        while True:
            here = poll.poll(1000 * PARENT_CHECK_S)
            if os.getppid() != self._parent:
                raise _Orphaned
            if here:
                os.read(pipe, 1)
                return


class _Orphaned(Exception):
    """The parent is gone."""
