"""Messages over TCP between the processes of one run: a header (kind, length), then raw bytes.

Who calls proves that it knows the run's token, and so does who listens; the token stays home:

    listener   HELLO     a random challenge                                  or REFUSED, why
    caller     ANSWER    a challenge of its own, and the keyed digest of both
    listener   WELCOME   the keyed digest of both, the other way round       or REFUSED, why

What comes in is never unpickled or executed. Nothing is encrypted: on a network that others listen
to, use a tunnel.

Whoever waits calls its `idle` every CHECK_S, which may raise. A peer whose process ends is noticed
at once, since its system closes the connection; one whose machine or cable is gone, after SILENT_S,
by TCP's keepalive on a connection that has no bytes under way. A peer that is frozen, or
that takes its time, is neither.
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
import hmac
import secrets
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from workflow.errors import ConfigError, DataError, StreamBroken, StreamTimeout
from workflow.types import Array

HEADER = struct.Struct("<BxxxxxxxQ")  # kind, bytes that follow
TEXT = 1 << 16  # bytes of a message in words, at most
CHECK_S = 0.1
HANDSHAKE_S = 5.0
SILENT_S = 4
_CHALLENGE = 32  # bytes

Idle = Callable[[], None]


class Kind(enum.IntEnum):
    """What a message is."""

    HELLO = 1
    ANSWER = 2
    WELCOME = 3
    REFUSED = 4
    JOIN = 5  # from here on between the hosts of a simulation: see producers/hosts.py
    SETUP = 6
    OUTPUTS = 7
    LINK = 8
    MOVERS = 9
    FIELD = 10
    OUTPUT = 11
    BYE = 12
    FAILED = 13


def wait_for_ever() -> None:
    """An `idle` that never gives up."""


def until(seconds: float, late: str) -> Idle:
    """An `idle` that raises StreamTimeout with these words when the time is over."""
    end = time.monotonic() + seconds

    def check() -> None:
        if time.monotonic() > end:
            raise StreamTimeout(late)

    return check


class Wire:
    """One connection and the name of who is at its other end. Errors: StreamBroken, DataError."""

    def __init__(self, sock: socket.socket, peer: str) -> None:
        self.peer = peer
        self._sock = sock
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        quiet = "TCP_KEEPIDLE" if hasattr(socket, "TCP_KEEPIDLE") else "TCP_KEEPALIVE"  # macOS
        for option, value in ((quiet, SILENT_S - 2), ("TCP_KEEPINTVL", 1), ("TCP_KEEPCNT", 2)):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)

    def fileno(self) -> int:
        return self._sock.fileno()

    @property
    def here(self) -> str:
        """The address of this end."""
        return str(self._sock.getsockname()[0])

    @property
    def there(self) -> str:
        """The address of the other end."""
        return str(self._sock.getpeername()[0])

    def close(self) -> None:
        """Let go of the connection, in this process."""
        self._sock.close()

    def cut(self) -> None:
        """End the connection for all processes that share it."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def readable(self, seconds: float = 0.0) -> bool:
        """Whether there is a message, or an end."""
        return self._ready(select.POLLIN, seconds)

    def send(self, kind: Kind, *parts: bytes | Array, idle: Idle = wait_for_ever) -> None:
        """Send one message: all bytes, then all arrays, which must be contiguous."""
        length = sum(len(p) if isinstance(p, bytes) else p.nbytes for p in parts)
        words = [p for p in parts if isinstance(p, bytes)]
        arrays = [_octets(p) for p in parts if not isinstance(p, bytes)]
        for view in (memoryview(b"".join([HEADER.pack(kind, length), *words])), *arrays):
            while len(view):
                sent = self.send_some(view)
                view = view[sent:]
                if not sent and not self._ready(select.POLLOUT, CHECK_S):
                    idle()

    def receive(
        self, *kinds: Kind, limit: int = TEXT, idle: Idle = wait_for_ever
    ) -> tuple[Kind, bytearray]:
        """Receive one message of one of these kinds, of `limit` bytes at most."""
        kind, length = self.head(*kinds, idle=idle)
        self._limit(length, limit)
        payload = bytearray(length)
        self._fill(memoryview(payload), idle)
        return kind, payload

    def head(self, *kinds: Kind, idle: Idle = wait_for_ever) -> tuple[Kind, int]:
        """Receive a message's header: its kind, one of these, and the bytes that follow."""
        head = bytearray(HEADER.size)
        self._fill(memoryview(head), idle)
        return self._parsed(head, *kinds)

    def fill(self, array: Array, idle: Idle = wait_for_ever) -> None:
        """Receive the next bytes of a message into a contiguous array."""
        self._fill(_octets(array), idle)

    def _fill(self, view: memoryview, idle: Idle) -> None:
        while len(view):
            got = self.receive_some(view)
            view = view[got:]
            if not got and not self._ready(select.POLLIN, CHECK_S):
                idle()

    def send_some(self, view: memoryview) -> int:
        """Send what goes out at once; returns how many bytes."""
        try:
            return self._sock.send(view)
        except BlockingIOError:
            return 0
        except OSError as e:
            raise StreamBroken(f"the connection to {self.peer} broke: {e.strerror or e}") from e

    def receive_some(self, view: memoryview) -> int:
        """Receive what is there into the start of a view; returns how many bytes."""
        try:
            got = self._sock.recv_into(view)
        except BlockingIOError:
            return 0
        except OSError as e:
            raise StreamBroken(f"the connection to {self.peer} broke: {e.strerror or e}") from e
        if got == 0:
            raise StreamBroken(f"the connection to {self.peer} was closed")
        return got

    def _ready(self, event: int, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self._sock, event)
        return bool(poll.poll(1000 * seconds))

    def _parsed(self, head: bytearray, *kinds: Kind) -> tuple[Kind, int]:
        number, length = HEADER.unpack(head)
        if number not in kinds:
            got = Kind(number).name if number in list(Kind) else f"the unknown kind {number}"
            wanted = " or ".join(kind.name for kind in kinds)
            raise DataError(
                f"{self.peer}: wanted a message {wanted}, got {got}. Is it the same Billow?"
            )
        return Kind(number), length

    def _limit(self, length: int, limit: int) -> None:
        if length > limit:
            raise DataError(
                f"{self.peer}: wanted a message of at most {limit} bytes, got one of {length}. Is "
                "it the same Billow?"
            )


def _octets(array: Array) -> memoryview:
    assert array.flags.c_contiguous, "a copy would be sent, or filled"
    return memoryview(array.reshape(-1).view(np.uint8))  # type: ignore[arg-type]  # Python 3.11


def exchange(
    wires: Sequence[Wire],
    kind: Kind,
    payloads: Sequence[bytes],
    *,
    limits: Sequence[int],
    idle: Idle = wait_for_ever,
) -> list[bytearray]:
    """Send a message on every wire and receive one from each, all at the same time.

    So that messages may be larger than what the network takes in without a reader.
    """
    leaving = [
        memoryview(HEADER.pack(kind, len(p)) + p) for p in payloads
    ]  # one piece: one packet, where it fits
    coming = [_Coming(wire, kind, limit) for wire, limit in zip(wires, limits, strict=True)]
    while True:
        moved = 0
        for n, wire in enumerate(wires):
            if len(leaving[n]):
                sent = wire.send_some(leaving[n])
                leaving[n] = leaving[n][sent:]
                moved += sent
            moved += coming[n].take()
        poll, waiting = select.poll(), False
        for n, wire in enumerate(wires):
            wanted = select.POLLOUT * (len(leaving[n]) > 0) | select.POLLIN * (not coming[n].whole)
            if wanted:
                poll.register(wire, wanted)
                waiting = True
        if not waiting:
            return [message.payload for message in coming]
        if not moved and not poll.poll(1000 * CHECK_S):
            idle()


class _Coming:
    """A message that comes in piece by piece."""

    def __init__(self, wire: Wire, kind: Kind, limit: int) -> None:
        self._wire, self._kind, self._limit = wire, kind, limit
        self._head = bytearray(HEADER.size)
        self._rest = memoryview(self._head)
        self._headed = False
        self.payload = bytearray()

    @property
    def whole(self) -> bool:
        return self._headed and not len(self._rest)

    def take(self) -> int:
        """Take what is there; returns how many bytes."""
        taken = 0
        while not self.whole:
            got = self._wire.receive_some(self._rest)
            if not got:
                break
            taken += got
            self._rest = self._rest[got:]
            if not self._headed and not len(self._rest):
                self._headed = True
                _, length = self._wire._parsed(self._head, self._kind)
                self._wire._limit(length, self._limit)
                self.payload = bytearray(length)
                self._rest = memoryview(self.payload)
        return taken


# ---------------------------------------------------------------- who is who


def listen(address: str) -> socket.socket:
    """A socket that listens at HOST:PORT; port 0: any that is free."""
    host, port = parse(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as e:
        raise ConfigError(
            f"cannot listen at {address}: {e.strerror or e}. Give an address of this machine and a "
            "port that is free; port 0 takes any."
        ) from e
    listener.setblocking(False)
    return listener


def parse(address: str) -> tuple[str, int]:
    """Host and port of HOST:PORT."""
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"wanted HOST:PORT, as in node7:7001, got '{address}'.")
    return host, int(port)


def accept(listener: socket.socket, token: str, *, idle: Idle) -> Wire:
    """The next caller that knows the token; raises ConfigError about one that does not."""
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    while not poll.poll(1000 * CHECK_S):
        idle()
    sock, place = listener.accept()
    wire = Wire(sock, f"{place[0]}:{place[1]}")
    with closed_on_error(wire):
        _examine(wire, token)
    return wire


@contextlib.contextmanager
def closed_on_error(wire: Wire) -> Iterator[None]:
    """Close a connection that something went wrong with, and let the error pass."""
    try:
        yield
    except BaseException:
        wire.close()
        raise


def _examine(wire: Wire, token: str) -> None:
    """The listener's part of the handshake."""
    patience = until(HANDSHAKE_S, f"{wire.peer} called and did not say the token in time")
    mine = secrets.token_bytes(_CHALLENGE)
    wire.send(Kind.HELLO, mine, idle=patience)
    _, answer = wire.receive(Kind.ANSWER, limit=2 * _CHALLENGE, idle=patience)
    theirs, proof = bytes(answer[:_CHALLENGE]), bytes(answer[_CHALLENGE:])
    if not hmac.compare_digest(proof, _proof(token, b"caller", mine, theirs)):
        refuse(wire, "the token is wrong. Give the one that the producer printed.")
        raise ConfigError(f"{wire.peer} was refused: its token is wrong")
    wire.send(Kind.WELCOME, _proof(token, b"listener", mine, theirs), idle=patience)


def call(address: str, token: str) -> Wire:
    """Connect to a listener that knows the token, too. ConfigError: refused; StreamError: else."""
    host, port = parse(address)
    try:
        sock = socket.create_connection((host, port), timeout=HANDSHAKE_S)
    except OSError as e:
        raise StreamTimeout(f"nobody answers at {address}: {e.strerror or e}") from e
    wire = Wire(sock, address)
    with closed_on_error(wire):
        _introduce(wire, token)
    return wire


def _introduce(wire: Wire, token: str) -> None:
    """The caller's part of the handshake."""
    patience = until(HANDSHAKE_S, f"{wire.peer} took the call and did not answer in time")
    kind, theirs = wire.receive(Kind.HELLO, Kind.REFUSED, idle=patience)
    if kind is Kind.HELLO:
        mine = secrets.token_bytes(_CHALLENGE)
        wire.send(Kind.ANSWER, mine, _proof(token, b"caller", bytes(theirs), mine), idle=patience)
        kind, proof = wire.receive(Kind.WELCOME, Kind.REFUSED, idle=patience)
        if kind is Kind.WELCOME:
            if not hmac.compare_digest(proof, _proof(token, b"listener", bytes(theirs), mine)):
                raise ConfigError(f"{wire.peer} does not know the token: it is not our producer.")
            return
        theirs = proof
    raise ConfigError(f"{wire.peer} refused: {words(theirs)}")


def refuse(wire: Wire, why: str) -> None:
    """Tell a caller why it is not wanted, and let go of it."""
    with contextlib.suppress(StreamBroken, StreamTimeout):
        wire.send(Kind.REFUSED, why.encode(), idle=until(HANDSHAKE_S, "refused"))
    wire.close()


def words(payload: bytes | bytearray) -> str:
    """The text of a message, in one line."""
    return " ".join(bytes(payload).decode(errors="replace").split())


def _proof(token: str, who: bytes, listener: bytes, caller: bytes) -> bytes:
    return hmac.digest(token.encode(), who + listener + caller, hashlib.sha256)
