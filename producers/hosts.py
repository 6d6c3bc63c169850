"""One run on several hosts: the producer's own, and others that join it (`producers.join`).

    host 0    ranks 0, 1    shared memory; the consumer of all outputs
      │ ▲  links: edges of slabs, both ways, from rank to rank, at every MEET
      ▼ │
    host 1    ranks 2, 3    shared memory; sends its outputs to host 0

Each host runs its share of the ranks as `producers.ranks` does. The hosts form a ring of links,
over which only the ranks at the edges talk, directly and not through the producer. Besides, every
joined host has two connections with the producer: one for outputs, and the *line*, on which nobody
speaks while all is well. So any event on a line means an end: what it says, or its closing. Then
the links are cut, and with them everything else ends, on all hosts.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from producers import link
from producers.gathering import Team, full, last_words, share
from producers.ranks import ProcessRanks, Program
from workflow import wire
from workflow.errors import BillowError, DataError, NodeLost, StreamError
from workflow.wire import Kind, Wire

if TYPE_CHECKING:
    from producers.course import Slabs, Slot
    from producers.setup import Setup

REASON_S = 0.5  # how long to listen for who was lost first
GOODBYE_S = 1.0


class Watch:
    """A thread that looks at lines; when one is not silent, it cuts the links.

    A host whose ranks are cut off ends; so everyone learns of a loss, whatever they wait for.
    """

    def __init__(
        self, lines: Sequence[Wire], links: Sequence[Wire], listener: socket.socket | None = None
    ) -> None:
        self.alarm = threading.Event()
        self._lines, self._links, self._listener = lines, links, listener
        self._wake, self._woken = os.pipe()
        self._thread = threading.Thread(target=self._look, name="lines", daemon=True)
        self._thread.start()

    def _look(self) -> None:
        poll = select.poll()
        for watched in (self._wake, self._listener, *self._lines):
            if watched is not None:
                poll.register(watched, select.POLLIN)
        while True:
            heard = [fd for fd, _ in poll.poll()]
            if self._wake in heard:
                return
            if self._listener is not None and self._listener.fileno() in heard:
                self._refuse(self._listener)
                continue
            self.alarm.set()
            for wire_ in self._links:
                wire_.cut()
            return

    def _refuse(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError, BillowError):
            sock, place = listener.accept()
            wire.refuse(Wire(sock, str(place[0])), full(len(self._lines) + 1))

    def stop(self) -> None:
        """Look no more."""
        os.write(self._woken, b"w")
        self._thread.join()
        os.close(self._wake)
        os.close(self._woken)


class FarRanks:
    """The ranks of a run on several hosts, as the consumer on the first of them sees them."""

    def __init__(
        self,
        program: Program,
        setup: Setup,
        team: Team,
        slabs: Slabs,
        slots: Sequence[Sequence[Slot]],
    ) -> None:
        self._name, self._team, self._slots = type(setup).__name__, team, slots
        self._shares = [
            share(host, setup.hosts, setup.ranks) for host in range(1, setup.hosts)
        ]  # of the joined
        self._lost = ""
        own, threads = share(0, setup.hosts, setup.ranks), setup.threads
        edges = link.edges(slabs, range(own.stop * threads), below=team.below, above=team.above)
        program = link.linked(program, own, threads, edges, (*team.wires, team.listener))
        try:
            self._local = ProcessRanks(program, len(own), name=self._name)
        except BaseException:
            _end(os.getpid(), None, None, team, [])
            raise
        lines = [host.line for host in team.joined]
        self._watch = Watch(lines, (team.below, team.above), team.listener)
        self._farewell = [(Kind.BYE, "")]  # the last is said
        self._end = weakref.finalize(
            self, _end, os.getpid(), self._local, self._watch, team, self._farewell
        )
        self.pids = self._local.pids

    def next_slot(self) -> int | None:
        """See Ranks; raises NodeLost when a rank died, here or on another host."""
        if self._lost:
            raise NodeLost(self._lost)
        if not self._end.alive:
            return None
        try:
            self._heed()
            slot = self._local.next_slot()
            if slot is None:
                self.close()
                return None
            for wire_, ranks in zip(self._team.outputs, self._shares, strict=True):
                for rank in ranks:
                    link.receive_output(wire_, self._slots[rank][slot], self._look)
        except (NodeLost, StreamError, DataError) as e:
            self._lose(e)
        return slot

    def rest(self, seconds: float) -> None:
        """See Ranks; raises NodeLost when a rank died, here or on another host."""
        until = time.monotonic() + seconds
        try:
            while (left := until - time.monotonic()) > 0:
                self._heed()
                self._local.rest(min(left, wire.CHECK_S))
        except NodeLost as e:
            self._lose(e)

    def close(self) -> None:
        """See Ranks; tells the other hosts."""
        self._end()

    def _heed(self) -> None:
        if self._watch.alarm.is_set():
            raise NodeLost(f"{link.CUT_OFF} the others")

    def _look(self) -> None:
        """Raise NodeLost if someone is known to be lost."""
        self._heed()
        self._local.rest(1e-3)

    def _lose(self, error: BillowError) -> NoReturn:
        """Find out who was lost first, take all ranks down, and raise."""
        if isinstance(error, NodeLost) and link.CUT_OFF not in str(error):
            self._lost = str(error)
        else:
            why = self._who(str(error)).partition(" The other ranks ")[0].rstrip(".")
            self._lost = (
                f"{self._name}: {why}. The other hosts were ended with it; "
                "start the producer again, and let them join again."
            )
        self._farewell.append((Kind.FAILED, self._lost))
        self.close()
        raise NodeLost(self._lost)

    def _who(self, error: str) -> str:
        """The host that was lost, and why: one that did not only lose its neighbour, if any."""
        listening = {host.line: host.name for host in self._team.joined}
        end = time.monotonic() + REASON_S
        found = error
        while listening and time.monotonic() < end:
            for line in [heard for heard in listening if heard.readable(0.01)]:
                name = listening.pop(line)
                found = f"{name} {last_words(line)}"
                if link.CUT_OFF not in found:
                    return found
        return found


def _end(
    owner: int,
    local: ProcessRanks | None,
    watch: Watch | None,
    team: Team,
    farewell: list[tuple[Kind, str]],
) -> None:
    """Say goodbye, end the own ranks, close everything; not in a fork that inherited them."""
    if os.getpid() != owner:
        return
    if watch is not None:
        watch.stop()
    for host in team.joined:
        with contextlib.suppress(StreamError):
            for kind, why in farewell[-1:]:
                host.line.send(kind, why.encode(), idle=wire.until(GOODBYE_S, "no goodbye"))
    if local is not None:
        local.close()
    team.listener.close()
    for wire_ in team.wires:
        wire_.close()
