"""The stream of one-thread runs: bounded, copying, never waiting."""

from dataclasses import replace

import numpy as np
import pytest
import stream_kit as kit

from workflow.errors import ConfigError, StreamError
from workflow.streams import MemoryStream
from workflow.types import StreamState


def iterations(reader):
    return [iteration for iteration, *_ in kit.collect(reader)]


def test_a_full_stream_says_so_and_does_not_wait():
    stream = MemoryStream(name="s", limit=2)
    reader = stream.reader()
    stream.put(kit.frames(10))
    assert not stream.full()
    stream.put(kit.frames(20))
    assert stream.full()
    with pytest.raises(StreamError, match=r"full\(\)"):
        stream.put(kit.frames(30))
    reader.poll().release()
    assert not stream.full()
    stream.put(kit.frames(30))
    stream.close()
    assert iterations(reader) == [20, 30]
    assert stream.stats()["dropped"] == 0


@pytest.mark.parametrize(("policy", "left"), [("drop_oldest", [30, 40]), ("drop_newest", [10, 20])])
def test_a_policy_that_drops_counts_what_it_dropped(policy, left):
    stream = MemoryStream(name="s", limit=2, policy=policy)
    reader = stream.reader()
    for iteration in (10, 20, 30, 40):
        stream.put(kit.frames(iteration))
    stream.close()
    assert iterations(reader) == left
    assert stream.stats()["dropped"] == reader.stats()["gaps"] == 2


def test_a_reader_never_sees_the_producers_later_writes():
    stream = MemoryStream(name="s")
    reader = stream.reader()
    buffer = np.zeros(3, np.float32)
    frame = replace(kit.frames(10)[0], arrays={"e/weighting": buffer})
    stream.put([frame])
    buffer[:] = 7
    arrival = reader.poll()
    (got,) = arrival.read(arrival.boxes, ["e/weighting"])
    assert got.arrays["e/weighting"].tolist() == [0, 0, 0]
    assert not got.arrays["e/weighting"].flags.writeable


def test_every_awaited_reader_gets_every_iteration_and_a_late_one_what_follows():
    stream = MemoryStream(name="s", limit=3, readers=2)
    first = stream.reader("a")
    stream.put(kit.frames(10))
    second = stream.reader("b")
    stream.put(kit.frames(20))
    late = stream.reader("c")
    stream.put(kit.frames(30))
    stream.close()
    assert [iterations(r) for r in (first, second, late)] == [[10, 20, 30], [10, 20, 30], [30]]


def test_a_reader_that_left_holds_nobody_up():
    stream = MemoryStream(name="s", limit=1, readers=2)
    gone, here = stream.reader(), stream.reader()
    stream.put(kit.frames(10))
    gone.close()
    here.poll().release()
    assert not stream.full()


def test_an_abandoned_stream_is_lost_and_not_ended():
    stream = MemoryStream(name="s")
    reader = stream.reader()
    stream.put(kit.frames(10))
    stream.abandon()
    stream.close()
    assert iterations(reader) == [10]
    assert reader.state() is StreamState.PRODUCER_LOST


def test_a_queue_without_room_and_an_unknown_policy_are_refused():
    with pytest.raises(ConfigError, match="limit from 1"):
        MemoryStream(name="s", limit=0)
    with pytest.raises(ConfigError, match="'spill'"):
        MemoryStream(name="s", policy="spill")
