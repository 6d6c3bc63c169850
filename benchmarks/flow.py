"""The load generator, timed: what a stream can be offered, and what one SST reader gets of it.

The peers are bounds, measured in the same minutes: of memory, numpy copies of the same frame by as
many threads as the generator has ranks; of transport, a plain TCP socket between two processes on
the loopback, as SST uses it. Bytes are those of the frames, counted once.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from producers.flow import Motion, VortexFlow
from workflow import streams
from workflow.types import Dropped, Frame, Hosting, StreamState

ROOT = Path(__file__).parents[1]
GB = 1e9
BATCH = 10  # steps between two outputs, where the steps and not the outputs are timed
RANKS = min(2, os.cpu_count() or 1)
SST_RANKS = 2  # two boxes
CONSTANT = ("e/mass", "e/charge")  # need no transport
SENDER = """
import socket, sys
port, size, times = map(int, sys.argv[1:])
frame = b"x" * size
with socket.create_connection(("127.0.0.1", port)) as connection:
    for _ in range(times):
        connection.sendall(frame)
"""
LOAD = VortexFlow(last_step=1, rows=2)  # 2.5 million electrons, 79 MB a frame


def run(*, quick: bool) -> list[dict[str, Any]]:
    """Time everything in turn and print the table; the median of 5 rounds, or 1."""
    rounds, outputs = (1, 10) if quick else (5, 30)
    one = replace(LOAD, last_step=outputs)
    many = replace(one, ranks=RANKS)
    rare = replace(LOAD, last_step=BATCH * outputs // 3, period=BATCH)
    size = sum(a.nbytes for a in _arrays(next(one.iterations(0, hosting=Hosting.INLINE))))
    particles = LOAD.rows * LOAD.per_row
    found: dict[str, list[float]] = {}

    def note(name: str, seconds: float) -> None:
        found.setdefault(name, []).append(seconds)

    for _ in range(rounds):
        note("copy", _copy(1, outputs))
        note("copies", _copy(RANKS, outputs))
        note("inline", _produce(one, Hosting.INLINE))
        note("rare", _produce(rare, Hosting.INLINE))
        note("ranks", _produce(many, Hosting.PROCESSES))
        note("tcp", _tcp(size, outputs))
        for motion in Motion:
            note(f"sst {motion.value}", _stream(motion, outputs))
    ns = {name: [1e9 * s / particles for s in times] for name, times in found.items()}
    rate = {name: [size / s / GB for s in times] for name, times in found.items()}
    ns["rare"] = [value / BATCH for value in ns["rare"]]
    alone, together = "numpy copy", f"numpy copy, {RANKS} threads"
    rows = [
        _row("a particle's step, an output each step", "ns", ns["inline"], alone, ns["copy"]),
        _row(f"a particle's step, an output each {BATCH}", "ns", ns["rare"]),
        _row("frames in memory, one thread", "GB/s", rate["inline"], alone, rate["copy"]),
        _row(f"frames in memory, {RANKS} ranks", "GB/s", rate["ranks"], together, rate["copies"]),
        _row("SST to one reader, vortex", "GB/s", rate["sst vortex"], alone, rate["copy"]),
        _row("SST to one reader, frozen", "GB/s", rate["sst frozen"], "TCP socket", rate["tcp"]),
    ]  # fmt: skip
    _print(rows, rounds, size)
    return rows


def _arrays(frames: tuple[Frame, ...]) -> list[np.ndarray[Any, Any]]:
    return [array for frame in frames for array in frame.arrays.values()]


def _copy(threads: int, outputs: int) -> float:
    """Seconds to copy a whole frame, its parts by several threads."""
    frames = next(replace(LOAD, ranks=threads).iterations(0, hosting=Hosting.INLINE))
    pairs = [[(np.empty_like(a), a) for a in _arrays((frame,))] for frame in frames]

    def part(mine: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]) -> None:
        for target, source in mine:
            np.copyto(target, source)

    with ThreadPoolExecutor(threads) as pool:
        return _each(lambda: list(pool.map(part, pairs)), outputs)


def _each(work: Callable[[], Any], times: int) -> float:
    """Seconds a time, after one that is not counted."""
    work()
    began = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - began) / times


def _produce(config: VortexFlow, hosting: Hosting) -> float:
    """Seconds an output, after the first, which scatters the particles."""
    iterations = config.iterations(0, hosting=hosting)
    next(iterations)
    return _each(lambda: next(iterations), len(config.outputs) - 2)


def _stream(motion: Motion, outputs: int) -> float:
    """Seconds an iteration from a writer's process over SST to this one, all boxes read."""
    with tempfile.TemporaryDirectory(prefix="billow-bench-") as folder:
        path = Path(folder) / "flow"
        command = [sys.executable, "-m", "benchmarks.flow", str(path), motion.value, str(outputs)]
        writer = subprocess.Popen(command, cwd=ROOT)
        reader = streams.open_reader("sst", path, name="flow")
        began, count = 0.0, 0
        while reader.state() not in (StreamState.ENDED, StreamState.PRODUCER_LOST):
            arrival = reader.poll()
            if arrival is None:
                time.sleep(2e-4)
                continue
            got = arrival.read(arrival.boxes, [n for n in arrival.offers() if n not in CONSTANT])
            arrival.release()
            assert not any(isinstance(frame, Dropped) for frame in got), got
            count += 1
            if count == 2:  # the first opens connections, the second fills the queue
                began = time.perf_counter()
            ended = time.perf_counter()
        reader.close()
        if writer.wait() or count != outputs + 1:
            raise RuntimeError(f"the writer ended with {writer.returncode} after {count} outputs")
    return (ended - began) / (count - 2)


def _tcp(size: int, outputs: int) -> float:
    """Seconds for as many bytes as a frame has, through a socket from another process."""
    target = np.ones(size, np.uint8)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        command = [sys.executable, "-c", SENDER, port, str(size), str(outputs + 1)]
        with subprocess.Popen(command) as sender, server.accept()[0] as connection:

            def frame() -> None:
                got = 0
                while got < size and (n := connection.recv_into(memoryview(target)[got:])):
                    got += n

            seconds = _each(frame, outputs)
        if sender.returncode:
            raise RuntimeError(f"the sender ended with {sender.returncode}")
    return seconds


def _write(path: str, motion: str, outputs: int) -> None:
    """The writer's process."""
    config = replace(LOAD, ranks=SST_RANKS, motion=Motion(motion), last_step=outputs)
    iterations = config.iterations(0, hosting=Hosting.PROCESSES)
    frames = next(iterations, None)  # ranks start before the stream has threads of its own
    with streams.open_writer("sst", path, config.series()) as writer:
        while frames is not None:
            writer.put(frames)
            frames = next(iterations, None)


def _row(
    case: str,
    unit: str,
    ours: list[float],
    peer: str | None = None,
    theirs: list[float] | None = None,
) -> dict[str, Any]:
    ratio = None
    if theirs is not None:
        less = unit == "ns"  # is better
        pairs = zip(ours, theirs, strict=True)
        ratio = statistics.median(t / o if less else o / t for o, t in pairs)
    return {
        "case": case,
        "unit": unit,
        "billow": statistics.median(ours),
        "peer": peer,
        "peer_value": None if theirs is None else statistics.median(theirs),
        "ratio": ratio,
    }


def _print(rows: list[dict[str, Any]], rounds: int, size: int) -> None:
    title = f"load generator, frames of {size / 1e6:.0f} MB: median of {rounds} round(s)"
    table = Table(title=title)
    for column in ("case", "unit", "billow", "peer", "peer's", "ratio"):
        table.add_column(column, justify="right" if column in ("billow", "peer's", "ratio")
                         else "left")  # fmt: skip
    for row in rows:
        peer = ("", "", "")
        if row["peer"] is not None:
            peer = (row["peer"], f"{row['peer_value']:.2f}", f"{row['ratio']:.2f}")
        table.add_row(row["case"], row["unit"], f"{row['billow']:.2f}", *peer)
    Console().print(table)


if __name__ == "__main__":
    _write(sys.argv[1], sys.argv[2], int(sys.argv[3]))
