"""The journal: every line valid JSON, whole and at once; read back whatever was killed."""

from __future__ import annotations

import enum
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from workflow.errors import DataError
from workflow.journal import Journal, Tail, encode, number, read_journal, tail
from workflow.types import Key, StreamState
from workflow.vitals import run_state


def lines_of(path):
    return [json.loads(line, parse_constant=_refuse) for line in path.read_text().splitlines()]


def _refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


def journal_in(folder, source="run"):
    return Journal(folder / "journal" / f"{source}.jsonl", source)


def test_an_event_is_one_line_with_time_source_name_and_fields(tmp_path):
    before = time.time()
    with journal_in(tmp_path, "learner-0") as journal:
        journal.write("learner/loss", value=0.25, step=3, terms={"kl": 0.1})
        written = lines_of(journal.path)
    (event,) = written
    assert before - 1e-6 <= event.pop("t") <= time.time() + 1e-6
    assert event == {
        "source": "learner-0",
        "event": "learner/loss",
        "value": 0.25,
        "step": 3,
        "terms": {"kl": 0.1},
    }


class Colour(enum.Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (np.float32(0.5), 0.5),
        (np.int64(7), 7),
        (np.bool_(True), True),
        (np.array([[1, 2]]), [[1, 2]]),
        (float("nan"), "NaN"),
        (np.float32("inf"), "Infinity"),
        (-math.inf, "-Infinity"),
        ([1.0, math.nan], [1.0, "NaN"]),
        (np.array([np.nan, 1.0]), ["NaN", 1.0]),
        ({"kl": np.float64("nan")}, {"kl": "NaN"}),
        ({np.int64(3): 1.5}, {"3": 1.5}),
        (Key("simulation", 700, 2), ["simulation", 700, 2]),
        (StreamState.PRODUCER_LOST, "producer_lost"),
        (frozenset({"b", "a"}), ["a", "b"]),
        (Path("/a/b"), "/a/b"),
        (ValueError("torn"), "torn"),
        ("two\nlines \u2028 \ud800 [red]", "two\nlines \u2028 \ud800 [red]"),
        (None, None),
    ],
)
def test_any_value_becomes_one_line_of_valid_json(value, plain):
    line = encode({"value": value})
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert json.loads(line, parse_constant=_refuse) == {"value": plain}


@pytest.mark.parametrize(
    ("value", "wanted"),
    [(3, 3.0), (0.5, 0.5), ("Infinity", math.inf), ("12", None), (None, None), (True, None)],
)
def test_numbers_of_events_come_back(value, wanted):
    assert number(value) == wanted
    assert math.isnan(number("NaN"))


def test_threads_do_not_tear_each_others_lines(tmp_path):
    with journal_in(tmp_path) as journal:

        def write(name):
            for i in range(200):
                journal.write("test/count", value=i, who=name, pad="x" * 300)

        threads = [threading.Thread(target=write, args=(n,)) for n in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    events = list(read_journal(tmp_path))
    for name in "abcd":
        assert [e["value"] for e in events if e["who"] == name] == list(range(200))


def test_every_event_is_on_the_file_before_write_returns_even_for_kill_9(tmp_path):
    code = (
        "import sys, os, signal\n"
        "from pathlib import Path\n"
        "from workflow.journal import Journal\n"
        "j = Journal(Path(sys.argv[1]) / 'journal' / 'x.jsonl', 'x')\n"
        "for i in range(500): j.write('test/count', value=i)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path)], timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert [e["value"] for e in read_journal(tmp_path)] == list(range(500))


def test_a_torn_last_line_is_passed_over_and_counted(tmp_path):
    with journal_in(tmp_path) as journal:
        journal.write("a/b", value=1)
    for torn in (b'{"t": 5, "source": "x", "ev', b"\xff\xfe\x00", b"\x00" * 40 + b"\n"):
        other = tmp_path / "journal" / "other.jsonl"
        other.write_bytes(encode({"t": 1.0, "source": "o", "event": "c/d"}) + torn)
        events = read_journal(tmp_path)
        assert [e["event"] for e in events] == ["c/d", "a/b"]
        assert events.torn == {str(other): 1}


@pytest.mark.parametrize(
    "broken", [b"{torn\n", b"[1, 2]\n", b'{"event": "a/b"}\n', b"\n", b'{"t":"x","event":"e"}\n']
)
def test_a_broken_line_elsewhere_names_file_and_line(tmp_path, broken):
    good = encode({"t": 1.0, "source": "o", "event": "c/d"})
    file = tmp_path / "x.jsonl"
    file.write_bytes(good + broken + good)
    events = read_journal(file)
    with pytest.raises(DataError, match=r"x\.jsonl, line 2: wanted a JSON object"):
        list(events)


def test_files_are_merged_by_time(tmp_path):
    for source, times in (("a", [1, 4, 5]), ("b", [2, 3, 6])):
        lines = [encode({"t": float(t), "source": source, "event": "x/y"}) for t in times]
        (tmp_path / f"{source}.jsonl").write_bytes(b"".join(lines))
    assert [e["t"] for e in read_journal(tmp_path)] == [1, 2, 3, 4, 5, 6]


def test_a_folder_without_a_journal_is_a_data_error(tmp_path):
    with pytest.raises(DataError, match="no journal here"):
        read_journal(tmp_path / "nowhere")
    (tmp_path / "journal").mkdir()
    assert list(read_journal(tmp_path)) == []


def test_a_journal_that_is_opened_again_cuts_the_torn_line_and_says_so(tmp_path):
    with journal_in(tmp_path) as journal:
        journal.write("a/b", value=1)
        path = journal.path
    with path.open("ab") as file:
        file.write(b'{"t": 17')
    with journal_in(tmp_path) as journal:
        journal.write("a/b", value=2)
    events = list(read_journal(tmp_path))
    assert [(e["event"], e["value"]) for e in events] == [
        ("a/b", 1),
        ("journal/torn", 8),
        ("a/b", 2),
    ]


def test_a_journal_of_nothing_but_a_long_torn_line_starts_empty(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"x" * 200_000)
    with Journal(path, "x"):
        pass
    assert [(e["event"], e["value"]) for e in read_journal(path)] == [("journal/torn", 200_000)]


def test_a_full_disk_loses_events_but_neither_the_run_nor_the_count(tmp_path, monkeypatch):
    with journal_in(tmp_path) as journal:
        journal.write("a/b", value=0)
        real = os.write

        # room for ten more bytes, then none
        attempts = iter([10])

        def ten_bytes_then_full(file, data):
            room = next(attempts, None)
            if room is None:
                raise OSError(28, "No space left on device")
            return real(file, data[:room])

        monkeypatch.setattr(os, "write", ten_bytes_then_full)
        journal.write("a/b", value=1)
        journal.write("a/b", value=2)
        assert journal.lost == 2
        monkeypatch.undo()
        journal.write("a/b", value=3)
        assert journal.lost == 0
    assert [(e["event"], e["value"]) for e in read_journal(tmp_path)] == [
        ("a/b", 0),
        ("journal/lost", 2),
        ("a/b", 3),
    ]


def test_writing_to_a_closed_journal_is_an_error(tmp_path):
    journal = journal_in(tmp_path)
    journal.close()
    journal.close()
    with pytest.raises(ValueError, match="came too late"):
        journal.write("a/b")


# ---------------------------------------------------------------- following


def test_a_follower_sees_each_event_once_and_new_files_too(tmp_path):
    follower = tail(tmp_path)
    assert follower.new() == []
    with journal_in(tmp_path, "a") as a:
        a.write("x/y", value=1)
        assert [e["value"] for e in follower.new()] == [1]
        assert follower.new() == []
        with journal_in(tmp_path, "b") as b:
            b.write("x/y", value=2)
            a.write("x/y", value=3)
            assert [e["value"] for e in follower.new()] == [2, 3]


def test_a_follower_waits_for_the_rest_of_a_line(tmp_path):
    file = tmp_path / "x.jsonl"
    line = encode({"t": 1.0, "source": "o", "event": "c/d"})
    file.write_bytes(line[:20])
    follower = Tail(tmp_path)
    assert follower.new() == []
    with file.open("ab") as more:
        more.write(line[20:])
    assert len(follower.new()) == 1


def test_a_follower_counts_broken_lines_and_goes_on(tmp_path):
    good = encode({"t": 1.0, "source": "o", "event": "c/d"})
    (tmp_path / "x.jsonl").write_bytes(good + b"{broken\n" + good)
    follower = Tail(tmp_path)
    assert len(follower.new()) == 2
    assert follower.broken == 1


# ---------------------------------------------------------------- state of a run


def gone_pid():
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_run_with_a_heartbeat_of_a_living_process_is_running(tmp_path):
    with journal_in(tmp_path) as journal:
        journal.heartbeat()
    assert run_state(tmp_path, time.time()).state == "running"


def test_a_run_without_heartbeat_for_long_is_lost_though_its_process_lives(tmp_path):
    with journal_in(tmp_path) as journal:
        journal.heartbeat()
    late = run_state(tmp_path, time.time() + 60)
    assert late.state == "lost"
    assert late.why == f"no heartbeat for 60 s, though process {os.getpid()} lives"
    assert not late.over, "it may come back"


def test_a_killed_run_is_lost_at_once_and_never_running(tmp_path):
    with journal_in(tmp_path) as journal:
        journal.write("run/heartbeat", pid=gone_pid())
    state = run_state(tmp_path, time.time())
    assert state.state == "lost"
    assert "is gone" in state.why


def test_a_zombie_is_not_alive(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", ""])
    try:
        with journal_in(tmp_path) as journal:
            journal.write("run/heartbeat", pid=process.pid)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, and not yet collected
        assert run_state(tmp_path, time.time()).state == "lost"
    finally:
        process.wait()


@pytest.mark.parametrize("pid", [0, -1, 2**40])
def test_a_pid_that_no_process_can_have_is_not_alive(tmp_path, pid):
    with journal_in(tmp_path) as journal:
        journal.write("run/heartbeat", pid=pid)
    assert run_state(tmp_path, time.time()).state == "lost"


def test_a_run_that_never_said_its_pid_is_judged_by_its_heartbeat_alone(tmp_path):
    with journal_in(tmp_path) as journal:
        journal.write("run/heartbeat", pid="12")
    assert run_state(tmp_path, time.time()).state == "running"
    assert run_state(tmp_path, time.time() + 60).state == "lost"


def test_a_run_on_another_host_is_judged_by_its_heartbeat_alone(tmp_path):
    with journal_in(tmp_path) as journal:
        journal.write("run/heartbeat", pid=gone_pid(), host="another")
    assert run_state(tmp_path, time.time()).state == "running"
    assert run_state(tmp_path, time.time() + 60).state == "lost"


@pytest.mark.parametrize("status", ["ended", "stopped", "failed"])
def test_the_summary_says_how_a_run_ended(tmp_path, status):
    with journal_in(tmp_path) as journal:
        journal.write("run/heartbeat", pid=gone_pid())
    (tmp_path / "summary.json").write_text(json.dumps({"status": status, "reason": "as asked"}))
    state = run_state(tmp_path, time.time())
    assert (state.state, state.why) == (status, "as asked")


def test_a_run_that_was_resumed_is_running_again_in_spite_of_its_old_summary(tmp_path):
    summary = tmp_path / "summary.json"
    summary.write_text('{"status": "stopped"}')
    os.utime(summary, (1e9, 1e9))
    with journal_in(tmp_path) as journal:
        journal.write("run/start", pid=os.getpid())
    assert run_state(tmp_path, time.time()).state == "running"


@pytest.mark.parametrize("text", ["", "{torn", "[]", "\x00"])
def test_a_summary_that_cannot_be_read_does_not_hide_the_heartbeat(tmp_path, text):
    (tmp_path / "summary.json").write_text(text)
    with journal_in(tmp_path) as journal:
        journal.heartbeat()
    assert run_state(tmp_path, time.time()).state == "running"


def test_a_folder_without_any_sign_of_life_is_starting_and_then_lost(tmp_path):
    assert run_state(tmp_path, time.time()).why == "starting"
    assert run_state(tmp_path, time.time() + 60).state == "lost"
    assert run_state(tmp_path / "nowhere", time.time()).state == "lost"
