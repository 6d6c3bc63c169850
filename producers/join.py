"""`billow join`: this machine computes a share of the ranks of a producer elsewhere.

What the hosts of a run are to each other: `producers.hosts`.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from producers import course, gathering, hosts, link, ranks
from producers.setup import Setup
from workflow import plugins, wire
from workflow.errors import BillowError, ConfigError, NodeLost, StreamError, StreamTimeout
from workflow.wire import Kind, Wire

log = logging.getLogger(__name__)

RETRY_S = 0.2
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Part:
    """What the producer gave this host, and its connections."""

    host: int
    setup: Setup
    seed: int
    line: Wire
    outputs: Wire
    below: Wire
    above: Wire

    @property
    def ranks(self) -> range:
        return gathering.share(self.host, self.setup.hosts, self.setup.ranks)

    @property
    def name(self) -> str:
        own = self.ranks
        return f"host {self.host} (ranks {own.start} to {own.stop - 1}, here from 0)"


def join(address: str, *, token: str, wait_s: float, say: Say) -> None:
    """Join the producer at HOST:PORT and compute until its run is over.

    Raises ConfigError when refused, StreamTimeout when there is no producer within `wait_s`,
    NodeLost when the run came to a bad end, here or elsewhere.
    """
    with contextlib.ExitStack() as closing:
        line = _reach(address, token, wait_s)
        closing.callback(line.close)
        listener = wire.listen(f"[{line.here}]:0")
        closing.callback(listener.close)
        line.send(Kind.JOIN, json.dumps(gathering.facts(listener.getsockname()[1])).encode())
        say(f"has joined {address}; waiting for the run to begin")
        kind, payload = line.receive(Kind.SETUP, Kind.REFUSED, Kind.FAILED, limit=1 << 24)
        if kind is not Kind.SETUP:
            raise ConfigError(f"{address} refused: {wire.words(payload)}")
        try:
            part = _connect(json.loads(payload), address, token, line, listener, closing)
            listener.close()
            own = part.ranks
            name = type(part.setup).__name__
            say(f"host {part.host} of {name}: ranks {own.start} to {own.stop - 1}")
            say(f"the run is over: {_compute(part)}")
        except BaseException as e:
            with contextlib.suppress(StreamError):
                line.send(
                    Kind.FAILED, (str(e) or type(e).__name__)[: wire.TEXT // 4].encode(),
                    idle=wire.until(hosts.GOODBYE_S, "no goodbye"),
                )  # fmt: skip
            raise


def _reach(address: str, token: str, wait_s: float) -> Wire:
    """Call the producer until it answers."""
    wire.parse(address)
    end = time.monotonic() + wait_s
    while True:
        try:
            return wire.call(address, token)
        except StreamError as e:
            if time.monotonic() > end:
                raise type(e)(
                    f"{e}. Waited {wait_s:g} s for a producer: start it, or check the address in "
                    "the command that it printed."
                ) from e
        time.sleep(RETRY_S)


def _connect(
    given: dict[str, Any],
    address: str,
    token: str,
    line: Wire,
    listener: socket.socket,
    closing: contextlib.ExitStack,
) -> Part:
    """Build the set-up and connect to the producer and both neighbours."""
    setup = plugins.build(given["setup"], "the producer's set-up")
    if not isinstance(setup, Setup):
        raise ConfigError(f"wanted a set-up of producers.setup, got {type(setup).__name__}.")
    host = int(given["host"])
    last = host + 1 == setup.hosts
    outputs = wire.call(address, token)
    closing.callback(outputs.close)
    outputs.send(Kind.OUTPUTS, json.dumps({"host": host}).encode())
    above = wire.call(address if last else given["above"], token)
    closing.callback(above.close)
    above.send(Kind.LINK, json.dumps({"host": host}).encode())
    late = wire.until(
        gathering.LINK_S, f"host {host - 1} did not call within {gathering.LINK_S:g} s"
    )

    def idle() -> None:
        if line.readable():
            raise NodeLost(f"the producer {gathering.last_words(line)}")
        late()

    while (called := gathering.next_caller(listener, token, idle)) is None:
        pass
    below = called[0]
    closing.callback(below.close)
    beside = (host + 1) % setup.hosts
    for end, number in ((line, 0), (outputs, 0), (below, host - 1), (above, beside)):
        end.peer = f"host {number} ({end.there})"
    return Part(
        host=host, setup=setup, seed=int(given["seed"]), line=line, outputs=outputs, below=below,
        above=above,
    )  # fmt: skip


def _compute(part: Part) -> str:
    """Run this host's ranks and send their outputs; returns how the run came to its end."""
    setup, own, threads = part.setup, part.ranks, part.setup.threads
    course.warm_up(setup.plasma, setup.far_field())
    slabs, slots = course.lay_out(setup, ranks.shared_zeros)
    edges = link.edges(
        slabs, range(own.start * threads, own.stop * threads), below=part.below, above=part.above
    )
    program = link.linked(
        functools.partial(course.program, setup, part.seed, slabs, slots), own, threads, edges,
        (part.line, part.outputs, part.below, part.above),
    )  # fmt: skip
    local = ranks.ProcessRanks(program, len(own), name=part.name)
    watch = hosts.Watch((part.line,), (part.below, part.above))
    sent, error = 0, None
    try:
        while (slot := local.next_slot()) is not None:
            for rank in own:
                link.send_output(part.outputs, slots[rank][slot], lambda: _heed(watch, local))
            sent += 1
    except (NodeLost, StreamError) as e:
        error = e
    finally:
        local.close()
        watch.stop()
    early = _farewell(part.line, error)
    return f"{sent} of {len(setup.outputs)} outputs{', it was stopped' * early}"


def _farewell(line: Wire, error: BillowError | None) -> bool:
    """What the producer says at the end; True: it stopped early. Raises NodeLost if it is lost."""
    if isinstance(error, NodeLost) and link.CUT_OFF not in str(error):
        raise error
    patience = wire.wait_for_ever if error is None else wire.until(hosts.GOODBYE_S, "silent")
    try:
        kind, said = line.receive(Kind.BYE, Kind.FAILED, idle=patience)
    except StreamTimeout:
        assert error is not None
        raise error from None
    except StreamError as e:
        raise NodeLost(f"the producer {gathering.GONE}") from e
    if kind is Kind.FAILED:
        raise NodeLost(wire.words(said))
    return error is not None


def _heed(watch: hosts.Watch, local: ranks.ProcessRanks) -> None:
    if watch.alarm.is_set():
        raise NodeLost(f"{link.CUT_OFF} the producer")
    local.rest(1e-3)
