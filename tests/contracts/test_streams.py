"""One suite for every stream: what is put arrives, whatever carries it."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import stream_kit as kit

from workflow import streams
from workflow.errors import StreamError
from workflow.protocols import StreamReader, StreamWriter
from workflow.types import Dropped, StreamState


class Memory:
    def __init__(self, tmp_path, encoding):
        self.writer = streams.MemoryStream(name="s", limit=2, series=kit.series())
        self._left = list(kit.ITERATIONS)

    def reader(self):
        return self.writer.reader("s")

    def pump(self):
        """Put the next iteration where there is room, or say goodbye."""
        if not self._left:
            self.writer.close()
        elif not self.writer.full():
            self.writer.put(kit.frames(self._left.pop(0)))

    def stop(self):
        self.writer.close()


class FollowedFile(Memory):
    def __init__(self, tmp_path, encoding):
        self._path = tmp_path / "out.bp5"
        self.writer = streams.open_writer("bp5", self._path, kit.series(), encoding=encoding)
        self.writer.full = lambda: False
        self._left = list(kit.ITERATIONS)

    def reader(self):
        self.pump()  # there is no file before its first step
        return streams.open_reader("bp5", self._path, name="s")


class ReplayedFile(FollowedFile):
    def reader(self):
        for iteration in self._left:
            self.writer.put(kit.frames(iteration))
        self.writer.close()
        return streams.open_reader("bp5", self._path, name="s")

    def pump(self):
        pytest.fail("a finished file is read without waiting")


class Sst:
    def __init__(self, tmp_path, encoding):
        self._path = tmp_path / "out"
        self._process = subprocess.Popen(
            [sys.executable, kit.__file__, "all", "sst", str(self._path), encoding],
            cwd=Path(__file__).parents[2],
        )

    def reader(self):
        return streams.open_reader("sst", self._path, name="s")

    def pump(self):
        """The writer runs by itself."""

    def stop(self):
        self._process.wait(kit.PATIENCE_S)


CASES = [(Memory, "none")] + [
    (kind, encoding) for kind in (FollowedFile, ReplayedFile, Sst) for encoding in kit.ENCODINGS
]


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0].__name__}-{case[1]}")
def carrier(request, tmp_path):
    kind, encoding = request.param
    made = kind(tmp_path, encoding)
    yield made
    made.stop()


def test_every_value_unit_offset_and_time_arrives_and_the_end_is_an_end(carrier):
    reader = carrier.reader()
    assert isinstance(reader, StreamReader)
    seen = kit.collect(reader, pump=carrier.pump)
    assert [iteration for iteration, *_ in seen] == list(kit.ITERATIONS)
    for iteration, _, boxes, got in seen:
        assert tuple((b.index, b.offset, b.extent, b.host) for b in boxes) == tuple(
            (b.index, b.offset, b.extent, b.host) for b in kit.BOXES
        )
        for frame, wanted in zip(got, kit.frames(iteration), strict=True):
            kit.assert_equal_frames(frame, wanted, kit.series())
            assert frame.key == wanted.key
    assert reader.state() is StreamState.ENDED
    assert reader.poll() is None
    assert reader.state() is StreamState.ENDED
    assert reader.stats()["iterations"] == len(kit.ITERATIONS)
    assert reader.stats()["last_iteration"] == kit.ITERATIONS[-1]
    assert reader.stats()["gaps"] == 0
    reader.close()


def test_a_species_that_is_absent_is_a_reason_and_an_empty_box_is_an_empty_array(carrier):
    reader = carrier.reader()
    seen = kit.collect(reader, pump=carrier.pump, records=["i/momentum", "i/mass"], boxes=[0, 2])
    reader.close()
    offers = {iteration: set(offered) for iteration, offered, *_ in seen}
    assert all("e/momentum" in o and "E" in o for o in offers.values())
    assert {n: "i/momentum" in o and "i/mass" in o for n, o in offers.items()} == {
        10: True, 20: False, 30: True, 50: True,
    }  # fmt: skip
    for iteration, _, _, (first, empty) in seen:
        if iteration == 20:
            assert [d.reason for d in (first, empty)] == ["missing: i/momentum"] * 2
            assert isinstance(first, Dropped)
            assert empty.key == ("s", 20, 2)
            continue
        n = kit.count("i", iteration, 0)
        assert first.arrays["i/momentum/x"].shape == first.arrays["i/mass"].shape == (n,)
        assert empty.arrays["i/momentum/x"].shape == empty.arrays["i/mass"].shape == (0,)
        assert empty.arrays["i/momentum/x"].dtype == np.float32


def test_only_the_named_records_of_the_named_boxes_come(carrier):
    reader = carrier.reader()
    seen = kit.collect(reader, pump=carrier.pump, records=["e/weighting", "density"], boxes=[1])
    reader.close()
    for iteration, _, _, (frame,) in seen:
        assert set(frame.arrays) == {"e/weighting", "density"} == set(frame.units)
        wanted = kit.frames(iteration)[1].arrays["density"]
        np.testing.assert_array_equal(frame.arrays["density"], wanted)


def test_a_reader_holds_one_iteration_at_a_time_and_arrays_outlive_it(carrier):
    reader = carrier.reader()
    found = []

    def first():
        arrival = reader.poll()
        carrier.pump() if arrival is None else found.append(arrival)
        return arrival is not None

    kit.wait_for(first, "iteration")
    with pytest.raises(StreamError, match=r"release\(\)"):
        reader.poll()
    frame = found[0].read(found[0].boxes, ["e/momentum"])[0]
    found[0].release()
    found[0].release()
    with pytest.raises(StreamError, match="released"):
        found[0].read(found[0].boxes, ["e/momentum"])
    kit.collect(reader, pump=carrier.pump)
    wanted = kit.frames(10)[0].arrays["e/momentum/x"]
    np.testing.assert_array_equal(frame.arrays["e/momentum/x"], wanted)
    assert not frame.arrays["e/momentum/x"].flags.writeable
    reader.close()


def test_the_writer_counts_and_refuses_a_put_after_its_goodbye(tmp_path):
    for writer in (
        streams.MemoryStream(name="s", limit=9),
        streams.open_writer("bp5", tmp_path / "x.bp5", kit.series()),
    ):
        assert isinstance(writer, StreamWriter)
        for iteration in kit.ITERATIONS:
            writer.put(kit.frames(iteration))
        stats = writer.stats()
        assert stats["iterations"] == len(kit.ITERATIONS)
        assert stats["bytes"] > 0
        assert stats["blocked_s"] >= 0
        writer.close()
        with pytest.raises(StreamError, match="closed"):
            writer.put(kit.frames(60))
