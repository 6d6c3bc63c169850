"""What a link between hosts costs: one run on two hosts against the same run over shared memory.

Both "hosts" are processes of this machine and talk over 127.0.0.1, so that processors and memory
are the same: what differs is the transport. Two ranks, TSC, float32, 25 particles of each species
per cell (24 in three dimensions). A step's time is the best of many stretches without output, of
runs of both kinds in turn. A real network adds its own latency, twice a step, and the time of the
bytes that the table says.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import multiprocessing
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.rows import row, show
from producers import link, pic
from producers.beams import CounterBeams
from producers.course import fill
from producers.khi import KelvinHelmholtz
from producers.setup import Setup
from workflow import wire
from workflow.types import Hosting
from workflow.wire import Kind, Wire

TOKEN = "of a benchmark on 127.0.0.1"
ROUND_TRIPS = 2000
STRETCHES = 10  # of a run
CASES: dict[str, tuple[Setup, int]] = {  # and steps of a stretch
    "2-D, 32 x 32": (KelvinHelmholtz(grid=(32, 32), ranks=2, last_step=1, period=1), 200),
    "2-D, 192 x 256": (KelvinHelmholtz(grid=(192, 256), ranks=2, last_step=1, period=1), 5),
    "3-D, 32 x 32 x 32": (
        CounterBeams(grid=(32, 32, 32), particles_per_cell=24, ranks=2, last_step=1, period=1),
        3,
    ),
}  # fmt: skip


def run(*, quick: bool) -> list[dict[str, Any]]:
    """Time the exchange alone and whole steps, and print the table."""
    rows = [_of_exchange(size) for size in (1 << 10, 1 << 16, 1 << 21)]
    for case, (setup, steps) in CASES.items():
        rows += _of_case(case, setup, steps, rounds=1 if quick else 3)
    show("two ranks on two hosts, over 127.0.0.1, against shared memory", rows, 3)
    return rows


def _of_exchange(size: int) -> dict[str, Any]:
    """A message each way at once, between two processes."""
    with wire.listen("127.0.0.1:0") as listener:
        address = listener.getsockname()[:2]
        other = multiprocessing.get_context("fork").Process(target=_echo, args=(address, size))
        other.start()
        listener.setblocking(True)
        sock, _ = listener.accept()
        each_s = _exchanges(Wire(sock, "the other"), size)
        other.join()
    return row(f"exchange of {size >> 10} KiB each way", "us", 1e6 * each_s)


def _echo(address: tuple[str, int], size: int) -> None:
    _exchanges(Wire(socket.create_connection(address), "the other"), size)


def _exchanges(end: Wire, size: int) -> float:
    """Best time of an exchange [s], of stretches of many."""
    payload, best = bytes(size), float("inf")
    for _ in range(20):
        began = time.perf_counter()
        for _ in range(ROUND_TRIPS // 20):
            wire.exchange([end], Kind.MOVERS, [payload], limits=[size])
        best = min(best, (time.perf_counter() - began) / (ROUND_TRIPS // 20))
    end.close()
    return best


def _of_case(case: str, setup: Setup, steps: int, *, rounds: int) -> list[dict[str, Any]]:
    setup = dataclasses.replace(setup, last_step=steps * STRETCHES, period=steps, fields=False)
    near_s = far_s = float("inf")
    for _ in range(rounds):
        near_s = min(near_s, _step_s(setup, steps))
        with _joined(setup) as far:
            far_s = min(far_s, _step_s(far, steps))
    return [
        row(f"{case}: a step's bytes, each way and edge", "KiB", _edge_bytes(setup) / 1024),
        row(f"{case}: a step on two hosts", "ms", 1e3 * far_s, "shared memory", 1e3 * near_s),
    ]


def _step_s(setup: Setup, steps: int) -> float:
    """Best time of a step, over stretches of so many between two outputs."""
    outputs = setup.iterations(1, hosting=Hosting.PROCESSES)
    times = [time.perf_counter() for _ in outputs]
    return min(b - a for a, b in itertools.pairwise(times[1:])) / steps


@contextlib.contextmanager
def _joined(setup: Setup) -> Iterator[Setup]:
    """The set-up for two hosts, of which the second is already on its way."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    before = os.environ.get("BILLOW_TOKEN")
    os.environ["BILLOW_TOKEN"] = TOKEN
    command = [sys.executable, "-m", "workflow.cli", "join", address]
    host = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield dataclasses.replace(setup, hosts=2, listen=address)
        host.wait(60.0)
    finally:
        host.kill()
        host.wait()
        del os.environ["BILLOW_TOKEN"]
        if before is not None:
            os.environ["BILLOW_TOKEN"] = before


def _edge_bytes(setup: Setup) -> float:
    """What one edge sends in the fifth step."""
    particles = setup.particles_per_cell * setup.grid[0] * setup.grid[1] * setup.plasma.planes
    slabs = pic.allocate(setup.plasma, particles=particles, zeros=pic.private_zeros)
    for slab in slabs:
        fill(setup, 1, slab)
    for _ in range(4):
        pic.step(slabs)
    for slab in slabs:
        pic.advance(slab)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        end = Wire(socket.create_connection(listener.getsockname()[:2]), "nobody")
        edge = link.edges(slabs, range(1), below=end, above=end)[0][0]
        size = sum(len(edge.pack(kind)) for kind in (Kind.MOVERS, Kind.FIELD))
        end.close()
    return size
