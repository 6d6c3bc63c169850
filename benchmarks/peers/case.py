"""The case that every code runs, and the one JSON line it reports. Standard library only.

A Kelvin-Helmholtz flow as in `producers.khi`, with warm electrons and particles at random places:
a periodic square of two streams of electrons and protons, +x in the outer half and -x in the inner.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

CELL_M = 93.4635e-9
DT_S = 1.79e-16
DENSITY_M3 = 1e25
GAMMA = 1.021  # of the streams
TEMPERATURE_EV = 100.0  # of the electrons; the ions are cold
MASS_RATIO = 1836.152672
C = 299792458.0  # [m/s]
FLOW_U = (GAMMA**2 - 1.0) ** 0.5  # gamma beta of the streams
THERMAL_U = (TEMPERATURE_EV / 510998.95) ** 0.5  # spread of each component of the electrons' u

STAT = Path("/proc/stat")
STRETCHES = 5  # timed one after the other; the least crowded counts


def arguments(description: str) -> argparse.ArgumentParser:
    """What every code's command line has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--grid", type=int, default=128, help="cells along each side")
    parser.add_argument("--per-cell", type=int, default=16, help="particles of each species")
    parser.add_argument("--steps", type=int, default=10, help="of one timed stretch")
    parser.add_argument("--warm-up", type=int, default=10, help="steps before them")
    parser.add_argument("--threads", type=int, default=1)
    return parser


def hold_threads(threads: int) -> None:
    """Bind the number of threads; only works before numpy, numba or a code is imported."""
    for name in ("OMP", "NUMBA", "OPENBLAS", "MKL"):
        os.environ[f"{name}_NUM_THREADS"] = str(threads)


def timed(
    options: argparse.Namespace, advance: Callable[[], object], pids: Sequence[int] = ()
) -> dict[str, float]:
    """Wall and processor time of the least crowded of several stretches; `advance` runs one.

    `pids`: processes whose time counts besides this one's. Processor time is that of all threads;
    `crowding` is how many cores more than there are were wanted by ours and other work together.
    """

    def clocks() -> tuple[float, float, float]:
        own = time.process_time() + sum(_seconds(f"/proc/{pid}/stat") for pid in pids)
        return time.perf_counter(), own, _machine_busy_s()

    stretches = []
    for _ in range(STRETCHES):
        began = clocks()
        advance()
        wall, own, busy = (now - then for now, then in zip(clocks(), began, strict=True))
        crowding = options.threads + max(0.0, busy - own) / wall - (os.cpu_count() or 1)
        stretches.append({"wall_s": wall, "cpu_s": own, "crowding": max(0.0, crowding)})
    return min(stretches, key=lambda s: (round(s["crowding"], 1), s["wall_s"]))


def _seconds(stat: str) -> float:
    """Processor time of a process, from its stat file: fields 14 and 15, user and system."""
    after_name = Path(stat).read_text().rpartition(")")[2].split()
    return sum(int(ticks) for ticks in after_name[11:13]) / os.sysconf("SC_CLK_TCK")


def _machine_busy_s() -> float:
    """Seconds of all cores together that were not idle, nor waiting for a disk."""
    ticks = [int(t) for t in STAT.read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def report(
    options: argparse.Namespace,
    *,
    code: str,
    version: str,
    particles: int,
    times: dict[str, float],
    **more: object,
) -> None:
    """Print the line. `particles`: of all species; processor time is shared by the threads."""
    pushed = particles * options.steps
    line = {
        "code": code,
        "version": version,
        "ns_per_particle_step": 1e9 * times["wall_s"] / pushed,
        "cpu_ns_per_particle_step": 1e9 * times["cpu_s"] / pushed / options.threads,
        "threads": options.threads,
        "particles": particles,
        "steps": options.steps,
    }
    print(json.dumps(line | times | more))
