"""One run on several hosts, here processes that join over 127.0.0.1: the same bits, and no host or
rank that outlives the others."""

import dataclasses
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from producers.beams import CounterBeams
from producers.khi import KelvinHelmholtz
from producers.radiation import Radiation
from producers.setup import Start
from workflow import wire
from workflow.errors import ConfigError, StreamTimeout
from workflow.types import Hosting

ROOT = Path(__file__).parents[2]
LAPTOP = str(ROOT / "configs" / "khi-laptop.yaml")
TOKEN = "the token of this test"
BILLOW = [sys.executable, "-m", "workflow.cli"]
PATIENCE_S = 90.0


@pytest.fixture
def port(monkeypatch):
    """A port that is free, and the token in the environment."""
    monkeypatch.setenv("BILLOW_TOKEN", TOKEN)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


@pytest.fixture
def joins(port):
    """Starts hosts that join at the port; they are ended with the test."""
    started = []

    def start(*options):
        command = [*BILLOW, "join", f"127.0.0.1:{port}", "--wait", "60", *options]
        started.append(Process(command))
        return started[-1]

    yield start
    for process in started:
        process.end()


class Process:
    """A command, and what it says on both outputs, line by line."""

    def __init__(self, command):
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT
        )
        self.pid = self.process.pid
        self.lines = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line)

    @property
    def said(self):
        return "".join(self.lines)

    def says(self, pattern):
        """Wait for words, as long as it lives."""
        until = time.monotonic() + PATIENCE_S
        while (found := re.search(pattern, self.said)) is None:
            assert self.process.poll() is None, self.said
            assert time.monotonic() < until, self.said
            time.sleep(0.02)
        return found

    def ranks(self):
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        return [int(pid) for pid in children.split()]

    def code(self):
        """Its exit code, when it has come to its end."""
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return code

    def end(self):
        self.process.kill()
        self.code()
        self.process.stdout.close()


def gone(pids):
    """Wait until none of these processes is left."""
    until = time.monotonic() + PATIENCE_S
    while left := [pid for pid in pids if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < until, left
        time.sleep(0.02)
    return True


# ---------------------------------------------------------------- the same numbers

FLAT = {
    "grid": (16, 40), "particles_per_cell": 4, "start": Start.RANDOM, "temperature_ev": 9000.0,
    "first_step": 3, "last_step": 24, "period": 7, "momentum_prev": True,
}  # fmt: skip
CASES = {
    "four ranks on two hosts": KelvinHelmholtz(**FLAT, ranks=4, hosts=2),
    "a rank of two threads on each of two hosts": KelvinHelmholtz(
        **FLAT, ranks=2, threads=2, hosts=2, radiation=Radiation(frequencies=12)
    ),
    "four ranks on three hosts": KelvinHelmholtz(**FLAT, ranks=4, hosts=3),
    "three dimensions": CounterBeams(
        grid=(8, 16, 6), particles_per_cell=4, start=Start.RANDOM, temperature_ev=9000.0,
        along="y", first_step=2, last_step=14, period=4, ranks=2, hosts=2,
    ),
}  # fmt: skip


def numbers(frames):
    return [
        (frame.iteration, frame.box, {k: np.array(a) for k, a in frame.arrays.items()})
        for frame in frames
    ]


@pytest.mark.parametrize("case", CASES)
def test_hosts_give_the_same_bits(case, port, joins):
    setup = dataclasses.replace(CASES[case], listen=f"127.0.0.1:{port}")
    hosts = [joins() for _ in range(1, setup.hosts)]
    inline = [numbers(f) for f in setup.iterations(7, hosting=Hosting.INLINE)]
    far = [numbers(f) for f in setup.iterations(7, hosting=Hosting.PROCESSES)]
    for one, other in zip(inline, far, strict=True):
        for (step, box, arrays), (far_step, far_box, far_arrays) in zip(one, other, strict=True):
            assert (step, box, arrays.keys()) == (far_step, far_box, far_arrays.keys())
            for path, array in arrays.items():
                np.testing.assert_array_equal(far_arrays[path], array, err_msg=path)
    for host in hosts:
        assert host.code() == 0, host.said
        assert f"the run is over: {len(inline)} of {len(inline)} outputs" in host.said
    electrons = [[len(arrays["e/weighting"]) for _, _, arrays in far[n]] for n in (0, -1)]
    assert electrons[0] != electrons[1]  # some went to another host


# ---------------------------------------------------------------- who comes in

ENDLESS = ["grid=[16, 32]", "ranks=4", "hosts=2", "first_step=0", "last_step=10000000"]


@pytest.fixture
def endless(port, tmp_path):
    """Starts an endless simulation that waits for another host; ended with the test."""
    started = []

    def start(*overrides):
        settings = [*ENDLESS, f"listen=127.0.0.1:{port}", *overrides]
        command = [*BILLOW, "simulate", LAPTOP, *(f"source.producer.{o}" for o in settings)]
        started.append(Process([*command, "--plain", "--out", str(tmp_path / "x.bp5")]))
        return started[-1]

    yield start
    for process in started:
        process.end()


@pytest.fixture
def running(endless, joins):
    """A simulation on two hosts that has written something: (producer, joined, ranks' pids)."""
    producer, joined = endless(), joins()
    producer.says(r"iteration \d+ \(1 of")
    ranks = [*producer.ranks(), *joined.ranks()]
    assert len(ranks) == 4
    return producer, joined, ranks


def test_the_producer_prints_the_command_that_joins_it(endless, monkeypatch):
    monkeypatch.delenv("BILLOW_TOKEN")
    producer = endless("last_step=20", "join_s=60")
    command = producer.says(r"billow (join 127\.0\.0\.1:\d+ --token \w+)")[1]
    joined = Process([*BILLOW, *shlex.split(command)])
    assert joined.code() == 0, joined.said
    assert producer.code() == 0, producer.said
    joined.end()


def test_when_nobody_joins_the_command_is_in_the_error(port, monkeypatch):
    monkeypatch.delenv("BILLOW_TOKEN")
    setup = KelvinHelmholtz(
        grid=(8, 16), ranks=2, hosts=2, last_step=2, period=1, join_s=0.2,
        listen=f"127.0.0.1:{port}",
    )  # fmt: skip
    command = rf"run `billow join 127\.0\.0\.1:{port} --token \w+`"
    with pytest.raises(StreamTimeout, match=rf"KelvinHelmholtz: wanted 2 hosts.*{command}"):
        next(setup.iterations(1, hosting=Hosting.PROCESSES))
    with socket.create_server(("127.0.0.1", port)):
        pass  # the port is free again


def test_a_wrong_token_is_refused_and_the_producer_waits_on(endless, joins, monkeypatch):
    producer = endless("last_step=20", "join_s=60")
    producer.says("waiting for 1 more host of 2")
    monkeypatch.setenv("BILLOW_TOKEN", "some other token")
    stranger = joins()
    assert stranger.code() == 2
    assert "the token is wrong. Give the one that the producer printed" in stranger.said
    assert "was refused: its token is wrong" in producer.said
    monkeypatch.setenv("BILLOW_TOKEN", TOKEN)
    assert joins().code() == 0
    assert producer.code() == 0


def test_a_host_too_many_is_refused(running, port):
    with pytest.raises(ConfigError, match=r"refused: the run has its 2 hosts"):
        wire.call(f"127.0.0.1:{port}", TOKEN)


def test_without_a_producer_joining_gives_up_and_says_so(joins):
    joined = joins("--wait", "0")
    assert joined.code() == 3
    assert "Waited 0 s for a producer: start it, or check the address" in joined.said


def test_a_host_that_leaves_before_the_run_begins_is_not_counted(endless, joins):
    producer = endless("last_step=20", "hosts=3", "join_s=60")
    first = joins()
    producer.says("has joined, 1 to come")
    first.process.kill()
    others = [joins(), joins()]
    assert [host.code() for host in others] == [0, 0]
    assert producer.code() == 0, producer.said
    assert "left before the run began" in producer.said


# ---------------------------------------------------------------- who is lost


def test_a_killed_host_ends_the_run_and_is_named(running):
    producer, joined, ranks = running
    os.kill(joined.pid, signal.SIGKILL)
    assert producer.code() == 3
    assert re.search(
        rf"NodeLost: KelvinHelmholtz: host 1 \(\S+, process {joined.pid}\) is gone", producer.said
    ), producer.said
    assert "Traceback" not in producer.said
    assert gone(ranks)


@pytest.mark.parametrize("local", [0, 1])
def test_a_killed_rank_of_another_host_is_named(running, local):
    producer, joined, ranks = running
    os.kill(ranks[2 + local], signal.SIGKILL)
    assert producer.code() == 3
    assert joined.code() == 3
    for process in (producer, joined):
        what = rf"rank {local} \(process {ranks[2 + local]}\) was killed by SIGKILL"
        assert re.search(rf"host 1 \(ranks 2 to 3, here from 0\): {what}", process.said)
        assert "Traceback" not in process.said
    assert gone(ranks)


def test_a_killed_rank_of_the_producer_is_named_everywhere(running):
    producer, joined, ranks = running
    os.kill(ranks[1], signal.SIGKILL)
    assert producer.code() == 3
    assert joined.code() == 3
    for process in (producer, joined):
        assert f"rank 1 (process {ranks[1]}) was killed by SIGKILL" in process.said
    assert gone(ranks)


def test_a_killed_producer_ends_the_hosts(running):
    producer, joined, ranks = running
    os.kill(producer.pid, signal.SIGKILL)
    assert joined.code() == 3
    assert "NodeLost: the producer is gone: it was killed" in joined.said
    assert gone(ranks)


def test_a_producer_that_is_stopped_says_goodbye(running):
    producer, joined, ranks = running
    producer.process.send_signal(signal.SIGINT)
    assert producer.code() == 130
    assert joined.code() == 0, joined.said
    assert re.search(r"the run is over: \d+ of \d+ outputs, it was stopped", joined.said)
    assert gone(ranks)


def test_of_three_hosts_the_one_that_was_killed_is_named(endless, joins):
    producer = endless("hosts=3")
    hosts = [joins(), joins()]
    producer.says(r"iteration \d+ \(1 of")
    ranks = [pid for process in (producer, *hosts) for pid in process.ranks()]
    assert len(ranks) == 4
    os.kill(hosts[1].pid, signal.SIGKILL)
    assert producer.code() == 3
    assert re.search(rf"host \d \(\S+, process {hosts[1].pid}\) is gone", producer.said)
    assert hosts[0].code() == 3
    assert f"process {hosts[1].pid}) is gone" in hosts[0].said
    assert gone(ranks)
