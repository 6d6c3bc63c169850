"""The hosts of one run come together: see `producers.hosts` for what they then are to each other.

a host    JOIN, what it is          over its line           producer    listens
producer  SETUP, its part           to every host, when all have joined
a host    OUTPUTS                   another call            producer    listens
a host    LINK                      to the host above       which listens; the producer is above
                                                            the last, and calls the first, last
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llvmlite.binding import get_host_cpu_name

from producers import units
from workflow import plugins, wire
from workflow.errors import ConfigError, DataError, NodeLost, StreamError
from workflow.wire import Idle, Kind, Wire

if TYPE_CHECKING:
    from producers.setup import Setup

log = logging.getLogger(__name__)

TOKEN = "BILLOW_TOKEN"  # the environment variable
PROTOCOL = 1  # of what the hosts say to each other
LINK_S = 60.0  # for all hosts to import the set-up and to connect
REASON_S = 0.5  # how long a word may take
GONE = "is gone: it was killed, or its machine or network is down"


def facts(port: int) -> dict[str, Any]:
    """What a host says of itself when it joins."""
    return {
        "version": _version(),
        "name": socket.gethostname(),
        "pid": os.getpid(),
        "cpu": get_host_cpu_name(),
        "port": port,
    }


def _version() -> str:
    return f"{units.software_version()}, protocol {PROTOCOL}"


def share(host: int, hosts: int, ranks: int) -> range:
    """The ranks of a host."""
    return range(host * ranks // hosts, (host + 1) * ranks // hosts)


def token() -> str:
    """What proves that a host belongs to the run: from the environment, or drawn."""
    given = os.environ.get(TOKEN, "")
    if given and len(given) < 12:
        raise ConfigError(f"{TOKEN}: wanted 12 characters or more, got {len(given)}.")
    return given or secrets.token_hex(12)


@dataclass(frozen=True, kw_only=True)
class Joined:
    """A host that has joined, as the producer sees it."""

    name: str
    port: int  # where it listens for its neighbour
    line: Wire


@dataclass(frozen=True, kw_only=True)
class Team:
    """All hosts of a run, connected, before their ranks start."""

    listener: socket.socket
    joined: tuple[Joined, ...]  # hosts 1, 2, ...
    outputs: tuple[Wire, ...]  # of hosts 1, 2, ...
    below: Wire
    above: Wire

    @property
    def wires(self) -> tuple[Wire, ...]:
        return (*(host.line for host in self.joined), *self.outputs, self.below, self.above)


def gather(setup: Setup, seed: int) -> Team:
    """Wait for the other hosts, give each its part, and connect them; raises StreamTimeout."""
    secret = token()
    listener = wire.listen(setup.listen)
    with contextlib.ExitStack() as undo:
        undo.callback(listener.close)
        joined = _wait_for_hosts(setup, listener, secret, undo)
        for number, host in enumerate(joined, start=1):
            above = joined[number] if number < len(joined) else None
            _say(host.line, Kind.SETUP, {
                "host": number,
                "setup": plugins.spec(setup),
                "seed": seed,
                "above": None if above is None else f"{_bracket(above.line.there)}:{above.port}",
            })  # fmt: skip
        team = _connect(joined, listener, secret, undo)
        undo.pop_all()
    log.info("%s: %d hosts are connected", type(setup).__name__, setup.hosts)
    return team


def _wait_for_hosts(
    setup: Setup, listener: socket.socket, secret: str, undo: contextlib.ExitStack
) -> list[Joined]:
    joined: list[Joined] = []
    missing = setup.hosts - 1
    command = invitation(listener, secret)
    log.warning(
        "%s: waiting for %d more host%s of %d. On each, run: %s",
        type(setup).__name__, missing, "s" * (missing > 1), setup.hosts, command,
    )  # fmt: skip
    patience = wire.until(
        setup.join_s,
        f"{type(setup).__name__}: wanted {setup.hosts} hosts, {missing} to join within "
        f"{setup.join_s:g} s, too few came. On each of the others, run `{command}` while the "
        "producer waits, or set hosts: 1.",
    )

    def idle() -> None:
        for host in [h for h in joined if h.line.readable()]:
            log.warning("host %s left before the run began", host.name)
            host.line.close()
            joined.remove(host)
        patience()

    while len(joined) < missing:
        called = next_caller(listener, secret, idle)
        if called is None:
            continue
        caller, kind, facts = called
        undo.callback(caller.close)
        if kind is not Kind.JOIN or facts.get("version") != _version():
            wire.refuse(caller, f"wanted Billow {_version()}, got {facts.get('version')}.")
            continue
        idle()  # numbers are those of who is still there
        name = f"({facts['name']}, process {facts['pid']})"
        joined.append(Joined(name=name, port=int(facts["port"]), line=caller))
        log.warning("a host %s has joined, %d to come", name, missing - len(joined))
        if facts["cpu"] != get_host_cpu_name():
            log.warning(
                "host %s has another processor (%s, here %s): its compiled loops may round "
                "otherwise, and the run need not repeat bit for bit on one host",
                name, facts["cpu"], get_host_cpu_name(),
            )  # fmt: skip
    return [
        dataclasses.replace(host, name=f"host {number} {host.name}")
        for number, host in enumerate(joined, start=1)
    ]


def _connect(
    joined: Sequence[Joined], listener: socket.socket, secret: str, undo: contextlib.ExitStack
) -> Team:
    """Take the calls of all hosts, then call the one above."""
    outputs: dict[int, Wire] = {}
    below: Wire | None = None
    patience = wire.until(LINK_S, f"wanted all hosts to be connected within {LINK_S:g} s")

    def idle() -> None:
        for host in joined:
            if host.line.readable():
                raise NodeLost(f"{host.name} {last_words(host.line)}")
        patience()

    while below is None or len(outputs) < len(joined):
        called = next_caller(listener, secret, idle)
        if called is None:
            continue
        caller, kind, facts = called
        undo.callback(caller.close)
        number = int(facts.get("host", 0))
        if kind is Kind.JOIN:
            wire.refuse(caller, full(len(joined) + 1))
        elif kind is Kind.OUTPUTS:
            outputs[number] = caller
        else:
            below = caller
            below.peer = joined[-1].name
    above = wire.call(f"{_bracket(joined[0].line.there)}:{joined[0].port}", secret)
    undo.callback(above.close)
    _say(above, Kind.LINK, {"host": 0})
    above.peer = joined[0].name
    for number, host in enumerate(joined, start=1):
        host.line.peer = outputs[number].peer = host.name
    return Team(
        listener=listener,
        joined=tuple(joined),
        outputs=tuple(outputs[number] for number in range(1, len(joined) + 1)),
        below=below,
        above=above,
    )


def invitation(listener: socket.socket, secret: str) -> str:
    """The command with which a host joins."""
    host, port = listener.getsockname()[:2]
    host = socket.gethostname() if host in ("0.0.0.0", "::") else _bracket(host)
    known = f"   (with {TOKEN} set as here)" if os.environ.get(TOKEN) else f" --token {secret}"
    return f"billow join {host}:{port}{known}"


def next_caller(
    listener: socket.socket, secret: str, idle: Idle
) -> tuple[Wire, Kind, dict[str, Any]] | None:
    """The next one who knows the token, and what it wants; None for one who does not."""
    try:
        caller = wire.accept(listener, secret, idle=idle)
        late = wire.until(wire.HANDSHAKE_S, f"{caller.peer} called and said nothing")
        with wire.closed_on_error(caller):
            kind, payload = caller.receive(Kind.JOIN, Kind.OUTPUTS, Kind.LINK, idle=late)
    except (ConfigError, DataError, StreamError) as e:
        idle()  # raises again if it was the one who raised
        log.warning("%s", e)
        return None
    return caller, kind, dict(json.loads(payload))


def _say(to: Wire, kind: Kind, facts: dict[str, Any]) -> None:
    to.send(kind, json.dumps(facts).encode())


def _bracket(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def full(hosts: int) -> str:
    return f"the run has its {hosts} hosts. Give a larger `hosts:` in its config."


def last_words(line: Wire) -> str:
    """Why a host's line is not silent, as the end of a sentence."""
    try:
        _, said = line.receive(Kind.FAILED, idle=wire.until(REASON_S, "silent"))
    except StreamError:
        return GONE
    return f"failed: {wire.words(said)}"
