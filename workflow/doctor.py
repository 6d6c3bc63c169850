"""`billow doctor`: what this machine can do, found out by doing it; verdicts in words."""

from __future__ import annotations

import multiprocessing
import os
import platform
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from workflow.folder import PACKAGES, _version
from workflow.types import Box, Frame, Grid, Series, StreamState, Unit

STEPS = 3
GIB = 2**30


def host_facts() -> dict[str, Any]:
    """Of this machine, for a benchmark's file."""
    return {
        "name": socket.gethostname(),
        "system": platform.platform(),
        "cpus": os.cpu_count(),
        "python": sys.version.split()[0],
        "versions": {name: _version(name) for name in PACKAGES},
    }


def report() -> int:
    """Print the verdicts; 0 when a run can work here, 3 when not."""
    checks: list[tuple[str, Callable[[], str], bool]] = [
        ("python", lambda: sys.version.split()[0], True),
        ("processors", lambda: f"{os.cpu_count()}", True),
        ("shared memory", _shared_memory, True),
        ("packages", _packages, True),
        ("SST self-stream", _self_stream, True),
        ("ray", _ray, True),
        ("torch", _torch, True),
        ("tensorboard", _tensorboard, False),
    ]
    good = True
    for name, check, needed in checks:
        try:
            verdict, mark = check(), "ok"
        except Exception as e:  # whatever an engine raises is the verdict
            verdict, mark = f"{type(e).__name__}: {e}", "FAILS" if needed else "absent"
            good = good and not needed
        print(f"{mark:7} {name:16} {verdict}", flush=True)
    print("this machine can run Billow" if good else "Billow cannot run here as things are")
    return 0 if good else 3


def _shared_memory() -> str:
    place = Path("/dev/shm")
    if not place.exists():
        return "no /dev/shm on this system: Ray uses files instead"
    free = shutil.disk_usage(place).free
    note = "" if free > GIB / 2 else "; small: set cluster.object_store_mb below it"
    return f"{free / GIB:.1f} GiB free in /dev/shm{note}"


def _packages() -> str:
    versions = {name: _version(name) for name in PACKAGES}
    missing = [name for name, version in versions.items() if version is None]
    if missing:
        raise ImportError(f"not installed: {', '.join(missing)}")
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _self_stream() -> str:
    """Three iterations from a process of our own over SST."""
    from workflow import streams

    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="billow-doctor-") as folder:
        path = Path(folder) / "doctor.sst"
        # in another process: opening a stream holds the interpreter until the other end is there
        writer = multiprocessing.get_context("spawn").Process(target=_write_steps, args=(path,))
        writer.start()
        try:
            reader = streams.open_reader(
                "sst", path, name="doctor", silence_s=10.0, deadline_s=30.0
            )
            got: list[int] = []
            while reader.state() in (StreamState.RUNNING, StreamState.STALLED):
                arrival = reader.poll()
                if arrival is None:
                    if time.monotonic() - began > 60.0:
                        raise TimeoutError("no iteration within 60 s: is adios2 2.12 or later?")
                    time.sleep(0.002)
                    continue
                frame = arrival.read(arrival.boxes, ["E"])[0]
                assert isinstance(frame, Frame)
                got.append(int(frame.arrays["E/x"][0, 0]))
                arrival.release()
            reader.close()
        finally:
            writer.kill()
            writer.join()
    if got != list(range(STEPS)):
        raise OSError(f"wanted iterations {list(range(STEPS))}, got {got}")
    return f"{STEPS} iterations from a process of our own in {time.monotonic() - began:.1f} s"


def _write_steps(path: Path) -> None:
    from workflow import streams

    unit = Unit(si=1.0)
    series = Series(
        grid=Grid(shape=(4, 4), spacing_m=(1.0, 1.0)), dt_s=1.0, software="billow doctor",
        units={"E/x": unit}, meshes=frozenset({"E"}), mesh_position={"E/x": (0.5, 0.0)},
    )  # fmt: skip
    writer = streams.open_writer("sst", path, series)
    for step in range(STEPS):
        writer.put([_doctor_frame(step, unit)])
    writer.close()


def _doctor_frame(step: int, unit: Unit) -> Frame:
    return Frame(
        stream="doctor", iteration=step, time_s=float(step), dt_s=1.0,
        box=Box(index=0, offset=(0, 0), extent=(4, 4)),
        arrays={"E/x": np.full((4, 4), step, np.float32)}, units={"E/x": unit},
    )  # fmt: skip


def _ray() -> str:
    from workflow.cluster import RayHost

    began = time.monotonic()
    host = RayHost(address=None, object_store_mb=100, cpus={}, gpus={})
    try:
        node, started = host.start("doctor", "check", _Echo, {})
        host.result(started)
        if host.result(host.call(node, "echo", 1)) != 1:
            raise OSError("an actor gave a wrong answer")
    finally:
        host.close()
    return f"starts and answers in {time.monotonic() - began:.1f} s"


class _Echo:
    def echo(self, value: int) -> int:
        return value


def _torch() -> str:
    from workflow.plugins import load

    device = load("learners.autoencoder:placed", "doctor")("auto")
    return f"learners compute on {device}"


def _tensorboard() -> str:
    version = _version("tensorboard")
    if version is None:
        raise ImportError("curves are not mirrored; pip install 'billow[tensorboard]'")
    return f"curves are mirrored, tensorboard {version}"
