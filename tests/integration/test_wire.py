"""Messages over TCP: whole, or an error that says what is wrong; nobody comes without the token."""

import socket
import struct
import threading

import numpy as np
import pytest

from workflow import wire
from workflow.errors import ConfigError, DataError, StreamBroken, StreamTimeout
from workflow.wire import HEADER, Kind, Wire

TOKEN = "a token of this test"
PATIENCE_S = 20.0


def patience():
    return wire.until(PATIENCE_S, "the test hangs")


@pytest.fixture
def pair():
    """Two ends of one connection over 127.0.0.1."""
    with wire.listen("127.0.0.1:0") as listener:
        near = socket.create_connection(listener.getsockname()[:2])
        far, _ = listener.accept()
    ends = Wire(near, "the far end"), Wire(far, "the near end")
    yield ends
    for end in ends:
        end.close()


@pytest.fixture
def listener():
    with wire.listen("127.0.0.1:0") as made:
        yield made


def address(listener):
    return "{}:{}".format(*listener.getsockname()[:2])


def in_a_thread(work):
    """Start work; the function that is returned waits for its result or its error."""
    found = []

    def run():
        try:
            found.append((work(), None))
        except Exception as e:
            found.append((None, e))

    thread = threading.Thread(target=run)
    thread.start()

    def result():
        thread.join(PATIENCE_S)
        value, error = found[0]
        if error is not None:
            raise error
        return value

    return result


def test_a_message_arrives_as_it_was_sent(pair):
    near, far = pair
    array = np.arange(12.0).reshape(3, 4)
    near.send(Kind.OUTPUT, b"head", array, np.zeros((2, 0)))
    kind, payload = far.receive(Kind.OUTPUT, idle=patience())
    assert kind is Kind.OUTPUT
    assert bytes(payload[:4]) == b"head"
    np.testing.assert_array_equal(np.frombuffer(payload, np.float64, 12, 4).reshape(3, 4), array)


def test_a_message_fills_arrays_where_they_are(pair):
    near, far = pair
    sent, taken = np.arange(9, dtype=np.int32), np.zeros((3, 3), np.int32)
    near.send(Kind.OUTPUT, sent)
    assert far.head(Kind.OUTPUT, idle=patience()) == (Kind.OUTPUT, sent.nbytes)
    for row in taken:
        far.fill(row, patience())
    np.testing.assert_array_equal(taken.ravel(), sent)


def test_messages_larger_than_any_buffer_cross_each_other(pair):
    size = 32 << 20
    ends = list(zip(pair, (b"a" * size, b"b" * size), strict=True))
    both = [
        in_a_thread(
            lambda end=end, mine=mine: wire.exchange(
                [end], Kind.MOVERS, [mine], limits=[size], idle=patience()
            )
        )
        for end, mine in ends
    ]
    (theirs,), (ours,) = (wait() for wait in both)
    assert theirs == b"b" * size
    assert ours == b"a" * size


def test_one_exchange_over_two_wires_keeps_them_apart(pair):
    near, far = pair  # a ring of one: what goes up comes back from below
    up, down = wire.exchange(
        [near, far], Kind.FIELD, [b"from near", b""], limits=[16, 16], idle=patience()
    )
    assert (up, down) == (b"", b"from near")


def receive(end):
    end.receive(Kind.MOVERS, limit=100, idle=patience())


def exchange(end):
    wire.exchange([end], Kind.MOVERS, [b""], limits=[100], idle=patience())


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (HEADER.pack(Kind.FIELD, 0), "wanted a message MOVERS, got FIELD"),
        (HEADER.pack(99, 0), "got the unknown kind 99"),
        (b"GET / HTTP/1.1\r\n\r\n", "got the unknown kind 71"),
        (HEADER.pack(Kind.MOVERS, 1 << 50), "at most 100 bytes, got one of 1125899906842624"),
    ],
)
@pytest.mark.parametrize("take", [receive, exchange])
def test_what_is_no_message_is_refused_before_room_is_made_for_it(pair, sent, says, take):
    near, far = pair
    near.send_some(memoryview(sent))
    with pytest.raises(DataError, match=f"the near end: .*{says}"):
        take(far)


@pytest.mark.parametrize("before", [b"", b"\x09\0\0", HEADER.pack(Kind.MOVERS, 100) + b"half"])
def test_a_connection_that_closes_anywhere_in_a_message_is_broken(pair, before):
    near, far = pair
    near.send_some(memoryview(before))
    near.close()
    with pytest.raises(StreamBroken, match="the near end was closed"):
        far.receive(Kind.MOVERS, idle=patience())


def test_a_cut_ends_a_wait_on_the_other_end(pair):
    near, far = pair
    waiting = in_a_thread(lambda: far.receive(Kind.BYE, idle=patience()))
    near.cut()
    with pytest.raises(StreamBroken):
        waiting()


def test_whoever_waits_can_give_up(pair):
    near, _ = pair
    with pytest.raises(StreamTimeout, match="gave up"):
        near.receive(Kind.BYE, idle=wire.until(0.05, "gave up"))
    with pytest.raises(StreamTimeout, match="gave up"):
        near.send(Kind.OUTPUT, bytes(64 << 20), idle=wire.until(0.05, "gave up"))


# ---------------------------------------------------------------- who is who


def test_who_knows_the_token_comes_in(listener):
    accepted = in_a_thread(lambda: wire.accept(listener, TOKEN, idle=patience()))
    caller = wire.call(address(listener), TOKEN)
    taken = accepted()
    caller.send(Kind.JOIN, b"hello")
    assert taken.receive(Kind.JOIN, idle=patience())[1] == b"hello"
    caller.close()
    taken.close()


def test_a_wrong_token_is_refused_and_both_sides_say_so(listener):
    accepted = in_a_thread(lambda: wire.accept(listener, TOKEN, idle=patience()))
    with pytest.raises(ConfigError, match="refused: the token is wrong"):
        wire.call(address(listener), "another token")
    with pytest.raises(ConfigError, match="was refused: its token is wrong"):
        accepted()


def test_the_token_does_not_travel(listener):
    heard = []

    def eavesdrop():
        sock, _ = listener.accept()
        with sock:
            sock.sendall(HEADER.pack(Kind.HELLO, 32) + bytes(32))
            heard.append(sock.recv(HEADER.size + 64, socket.MSG_WAITALL))

    listener.setblocking(True)
    stolen = in_a_thread(eavesdrop)
    with pytest.raises(StreamBroken):
        wire.call(address(listener), TOKEN)
    stolen()
    assert len(heard[0]) == HEADER.size + 64  # a challenge and a proof
    assert TOKEN.encode() not in heard[0]


def test_a_listener_that_does_not_know_the_token_is_found_out(listener):
    def pretend():
        sock, _ = listener.accept()
        with sock:
            sock.sendall(HEADER.pack(Kind.HELLO, 32) + bytes(32))
            sock.recv(4096)
            sock.sendall(HEADER.pack(Kind.WELCOME, 32) + bytes(32))
            sock.recv(1)

    listener.setblocking(True)
    pretender = in_a_thread(pretend)
    with pytest.raises(ConfigError, match="does not know the token"):
        wire.call(address(listener), TOKEN)
    pretender()


def test_a_caller_that_speaks_something_else_is_told_apart(listener):
    accepted = in_a_thread(lambda: wire.accept(listener, TOKEN, idle=patience()))
    with socket.create_connection(listener.getsockname()[:2]) as sock:
        sock.sendall(struct.pack("<16s", b"GET / HTTP/1.1\r\n"))
        with pytest.raises(DataError, match="wanted a message ANSWER"):
            accepted()


def test_nobody_listens_is_said(listener):
    nobody = address(listener)
    listener.close()
    with pytest.raises(StreamTimeout, match=f"nobody answers at {nobody}"):
        wire.call(nobody, TOKEN)


def test_a_taken_address_is_said(listener):
    with pytest.raises(ConfigError, match=r"cannot listen at .*port 0 takes any"):
        wire.listen(address(listener))
