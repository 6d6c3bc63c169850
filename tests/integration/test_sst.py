"""Streams between real processes that end, die, stand still, and come late."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import stream_kit as kit

from workflow import streams
from workflow.errors import ConfigError, DataError, StreamTimeout
from workflow.types import StreamState

ROOT = Path(__file__).parents[2]


class Writer:
    """A writer process; `next()` lets an endless one put one more iteration."""

    def __init__(self, how, engine, path, *more):
        self.process = subprocess.Popen(
            [sys.executable, kit.__file__, how, engine, str(path), *more],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True,
        )  # fmt: skip

    def opened(self):
        assert self.process.stdout.readline() == "open\n"

    def next(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def kill(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def start(request):
    """start(how, engine, path, ...) -> Writer; whatever still runs at the end is killed."""
    made = []

    def _start(*arguments):
        made.append(Writer(*arguments))
        return made[-1]

    yield _start
    for writer in made:
        writer.process.kill()
        writer.process.wait()
        writer.process.stdin.close()
        writer.process.stdout.close()


def arrival_of(reader):
    return kit.wait_for(reader.poll, "iteration")


def last_state(reader):
    """Poll to a final state."""

    def final():
        assert reader.poll() is None
        return reader.state() in (StreamState.ENDED, StreamState.PRODUCER_LOST)

    kit.wait_for(final, "final state")
    return reader.state()


def test_a_killed_writer_is_lost_and_not_an_end(tmp_path, start):
    writer = start("endless", "sst", tmp_path / "s")
    reader = streams.open_reader("sst", tmp_path / "s", name="a")
    for _ in range(2):
        writer.next()
        arrival_of(reader).release()
    assert reader.state() is StreamState.RUNNING
    writer.kill()
    assert last_state(reader) is StreamState.PRODUCER_LOST
    assert reader.stats()["last_iteration"] == 10
    assert reader.poll() is None
    reader.close()


@pytest.mark.parametrize("how", ["raise", "raise_inside"])
@pytest.mark.parametrize("engine", ["sst", "bp5"])
def test_a_python_error_in_the_writer_is_lost_and_not_an_end(tmp_path, start, how, engine):
    path = tmp_path / "s"
    writer = start(how, engine, path)
    if engine == "bp5":
        writer.process.wait(kit.PATIENCE_S)
    reader = streams.open_reader(engine, path, name="a")
    seen = kit.collect(reader)
    written = [10, 20] if how == "raise" else [10]
    got = [iteration for iteration, *_ in seen]
    assert got == written if engine == "bp5" else got == written[: len(got)]
    assert reader.state() is StreamState.PRODUCER_LOST
    assert writer.process.wait(kit.PATIENCE_S) == 1
    reader.close()


def test_a_writer_that_stands_still_is_stalled_and_goes_on(tmp_path, start):
    writer = start("endless", "sst", tmp_path / "s")
    reader = streams.open_reader("sst", tmp_path / "s", name="a", silence_s=0.2)
    writer.next()
    arrival_of(reader).release()
    os.kill(writer.process.pid, signal.SIGSTOP)
    kit.wait_for(
        lambda: reader.poll() is None and reader.state() is StreamState.STALLED, "stalled state"
    )
    writer.next()
    os.kill(writer.process.pid, signal.SIGCONT)
    arrival = arrival_of(reader)
    assert arrival.iteration == 10
    assert reader.state() is StreamState.RUNNING
    arrival.release()
    reader.close()


def test_a_stale_contact_file_is_tried_again_until_the_writer_is_back(tmp_path, start):
    path = tmp_path / "s"
    dead = start("endless", "sst", path)
    kit.wait_for(Path(f"{path}.sst").exists, "contact file")
    dead.kill()
    with pytest.raises(StreamTimeout, match=r"lost.*2\.10") as error:
        streams.open_reader("sst", path, name="a", deadline_s=0.3)
    assert str(path) in str(error.value)
    Path(f"{path}.writer").unlink()  # without a note the engine itself has to find out
    with pytest.raises(StreamTimeout, match=r"2\.10"):
        streams.open_reader("sst", path, name="a", deadline_s=0.3)
    alive = start("endless", "sst", path)
    reader = streams.open_reader("sst", path, name="a", deadline_s=kit.PATIENCE_S)
    alive.next()
    assert arrival_of(reader).iteration == 0
    reader.close()


def test_a_suspended_writer_does_not_hang_the_open(tmp_path, start):
    path = tmp_path / "s"
    writer = start("endless", "sst", path, "variable_based", "0")
    writer.opened()
    os.kill(writer.process.pid, signal.SIGSTOP)
    with pytest.raises(StreamTimeout, match="stopped"):
        streams.open_reader("sst", path, name="a", deadline_s=0.3)


def test_an_open_that_hangs_ends_its_process_with_a_reason(tmp_path, start):
    path = tmp_path / "s"
    writer = start("endless", "sst", path, "variable_based", "0")
    writer.opened()
    os.kill(writer.process.pid, signal.SIGSTOP)
    Path(f"{path}.writer").unlink()  # a foreign writer leaves no note
    code = (
        "import sys; from workflow.streams import adios_open; adios_open.GRACE_S = 0.5\n"
        "from workflow import streams\n"
        "streams.open_reader('sst', sys.argv[1], name='a', deadline_s=0.5)"
    )
    child = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        cwd=ROOT, capture_output=True, text=True, timeout=kit.PATIENCE_S, check=False,
    )  # fmt: skip
    assert child.returncode == -signal.SIGKILL
    assert "stream 'a'" in child.stderr
    assert "another version of SST" in child.stderr


def test_two_readers_each_take_their_own_box(tmp_path, start):
    start("all", "sst", tmp_path / "s", "variable_based", "2")
    code = (
        "import sys, json, numpy as np; sys.path.insert(0, 'tests'); import stream_kit as kit\n"
        "from workflow import streams\n"
        "r = streams.open_reader('sst', sys.argv[1], name='b')\n"
        "seen = kit.collect(r, records=['e/momentum'], boxes=[0])\n"
        "print(json.dumps([[n, f.arrays['e/momentum/x'].tolist()] for n, _, _, (f,) in seen]))\n"
        "print(r.state().value)"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "s")],
        cwd=ROOT, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    reader = streams.open_reader("sst", tmp_path / "s", name="a")
    seen = kit.collect(reader, records=["e/momentum"], boxes=[1])
    said, _ = other.communicate(timeout=kit.PATIENCE_S)
    theirs, state = said.splitlines()
    assert state == reader.state().value == "ended"
    for (n, _, _, (frame,)), (m, values) in zip(seen, json.loads(theirs), strict=True):
        assert n == m
        wanted = [f.arrays["e/momentum/x"] for f in kit.frames(n)]
        np.testing.assert_array_equal(frame.arrays["e/momentum/x"], wanted[1])
        np.testing.assert_array_equal(np.array(values, np.float32), wanted[0])
    moved = sum(12 * (kit.count("e", n, 1) or 0) for n in kit.ITERATIONS)
    assert moved <= reader.stats()["bytes_read"] < moved + 4000  # and the patches, not the fields
    reader.close()


def test_what_a_full_queue_discards_is_counted(tmp_path, start):
    writer = start(
        "ticking", "sst", tmp_path / "s", "variable_based", "1", "QueueFullPolicy=Discard"
    )
    reader = streams.open_reader("sst", tmp_path / "s", name="a")
    held = arrival_of(reader)
    while int(writer.process.stdout.readline()) < held.iteration + 100:
        pass  # the queue holds two; the newest are thrown away
    seen = [held.iteration]
    held.release()
    while seen[-1] < seen[0] + 100:
        arrival = arrival_of(reader)
        seen.append(arrival.iteration)
        arrival.release()
    assert reader.stats()["gaps"] == (seen[-1] - seen[0]) / 10 + 1 - len(seen) > 0
    reader.close()


@pytest.mark.parametrize("follow", [True, False])
def test_a_file_whose_writer_was_killed_is_lost_and_does_not_hang(tmp_path, start, follow):
    path = tmp_path / "out.bp5"
    writer = start("endless", "bp5", path)
    writer.opened()
    writer.next()
    assert writer.process.stdout.readline() == "0\n"
    reader = streams.open_reader("bp5", path, name="a", silence_s=1e9, follow=follow)
    arrival_of(reader).release()
    writer.kill()
    assert last_state(reader) is StreamState.PRODUCER_LOST
    reader.close()
    assert not streams.describe(path).finished


def test_a_growing_file_of_an_unknown_writer_is_lost_after_a_long_silence(tmp_path, start):
    path = tmp_path / "out.bp5"
    writer = start("endless", "bp5", path)
    writer.opened()
    writer.next()
    assert writer.process.stdout.readline() == "0\n"
    (path / "billow.writer").unlink()
    reader = streams.open_reader("bp5", path, name="a", silence_s=0.1, deadline_s=0.5)
    arrival_of(reader).release()
    kit.wait_for(
        lambda: reader.poll() is None and reader.state() is StreamState.STALLED, "stalled state"
    )
    assert last_state(reader) is StreamState.PRODUCER_LOST
    reader.close()


def test_a_reader_that_joins_late_sees_whole_iterations_and_how_many_it_missed(tmp_path, start):
    # The writer lets a reader in when it ends a step, so it has to be making steps.
    start("ticking", "sst", tmp_path / "s", "variable_based", "1", "QueueFullPolicy=Discard")
    first = streams.open_reader("sst", tmp_path / "s", name="a")
    arrival_of(first).release()
    late = streams.open_reader("sst", tmp_path / "s", name="b")
    arrival = arrival_of(late)
    got = arrival.read(arrival.boxes, ["e/momentum", "e/mass", "E", "density"])
    for frame, wanted in zip(got, kit.frames(arrival.iteration), strict=True):
        np.testing.assert_array_equal(frame.arrays["E/x"], wanted.arrays["E/x"])
        np.testing.assert_array_equal(frame.arrays["e/momentum/z"], wanted.arrays["e/momentum/z"])
        assert frame.units["e/mass"] == kit.series().units["e/mass"]
        assert frame.box == wanted.box
    assert late.stats()["missed_before_join"] == arrival.iteration / 10 > 0
    arrival.release()
    late.close()
    first.close()


def test_a_truncated_copy_of_a_recording_is_refused(tmp_path):
    path = tmp_path / "out.bp5"
    with streams.open_writer("bp5", path, kit.series()) as writer:
        for iteration in kit.ITERATIONS:
            writer.put(kit.frames(iteration))
    os.truncate(path / "data.0", 100)
    with pytest.raises(DataError, match="wanted at least"):
        streams.open_reader("bp5", path, name="a")


def test_a_file_that_is_not_openpmd_is_an_error_that_says_so(tmp_path):
    import adios2

    with adios2.Stream(str(tmp_path / "x.bp"), "w") as other:
        other.begin_step()
        other.write("temperature", np.zeros(3), [3], [0], [3])
        other.end_step()
    reader = streams.open_reader("bp5", tmp_path / "x.bp", name="a")
    with pytest.raises(DataError, match=r"a: wanted openPMD.*got temperature"):
        reader.poll()
    reader.close()
    (tmp_path / "text.bp5").write_text("hello")
    with pytest.raises(DataError, match="wanted a BP5 or BP4 folder"):
        streams.open_reader("bp5", tmp_path / "text.bp5", name="a")
    with pytest.raises(StreamTimeout, match="wanted a BP folder"):
        streams.open_reader("bp5", tmp_path / "none.bp5", name="a", deadline_s=0.1)


def test_a_queue_without_bound_is_refused_unless_it_is_asked_for(tmp_path):
    from workflow.streams.adios import sst_parameters

    with pytest.raises(ConfigError, match="QueueLimit"):
        streams.open_writer("sst", tmp_path / "s", kit.series(), parameters={"QueueLimit": "0"})
    asked = sst_parameters({"QueueLimit": "0", "unbounded": "true"}, writer=True)
    assert asked["QueueLimit"] == "0"
    assert "unbounded" not in asked
    defaults = sst_parameters({}, writer=True)
    assert defaults["QueueLimit"] == "2"
    assert defaults["QueueFullPolicy"] == "Block"
    assert defaults["DataTransport"] == "WAN"
    assert defaults["NetworkInterface"].startswith("lo")
    assert "NetworkInterface" not in sst_parameters({"DataInterface": "eth0"}, writer=True)
    with pytest.raises(ConfigError, match=r"engine.*'ssst'"):
        streams.open_writer("ssst", tmp_path / "s", kit.series())
    with pytest.raises(ConfigError, match=r"encoding.*'group'"):
        streams.open_writer("bp5", tmp_path / "s", kit.series(), encoding="group")
