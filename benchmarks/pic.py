"""The particle-in-cell solver, timed against the codes a physicist can install with pip.

All run the case of `benchmarks.peers.case` in the same minutes, alternately (ours, peer, ours,
peer ...), each in a process of its own; the ratio is the median of the ratios within the rounds.
lambdapic has the same algorithm as ours at TSC float64 (Yee, Boris, Esirkepov) and is the
like-for-like peer; pi-PIC has spectral fields. How to install them: `benchmarks.peers`.

Wall time decides, in the least crowded of five stretches of a process; rounds in which other work
still took cores away count only if there are no others. Processor time per thread stands beside it,
and so does the crowding that was left. (A code that spins while it waits for a crowded-out thread
burns processor time, too.)
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks import triad
from benchmarks.processes import PEERS_FOLDER, call, installed, peer_python
from producers.pic import Shape

QUIET = 0.2  # crowding of a round that counts
STRETCH = 10_000_000  # particle-steps, at least
OUT_OF_CACHE_MIB = 2048
SHOWN = (Shape.CIC, Shape.TSC)  # part by part
ITEMSIZE = {"float32": 4, "float64": 8}
WALL, CPU, BANDWIDTH = "ns_per_particle_step", "cpu_ns_per_particle_step", "gb_per_s"
UNITS = {
    WALL: "ns per particle-step",
    CPU: "processor ns per particle-step and thread",
    BANDWIDTH: "GB/s",
}
Lap = dict[str, Any]  # what a process reports
Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A code to compare with."""

    name: str
    is_like: str  # what to know before comparing


PEERS = (
    Peer(name="lambdapic", is_like="the same algorithm"),
    Peer(name="pipic", is_like="spectral fields, its own shape"),
)
NOTES = "; ".join(f"{peer.name}: {peer.is_like}" for peer in PEERS) + (
    "; crowd: cores wanted beyond those there are, in the rounds that count (of: how many)"
)


@dataclass(frozen=True, kw_only=True)
class Size:
    """Cells along each side, particles per cell of each of two species, threads."""

    grid: int
    per_cell: int
    threads: int

    def __str__(self) -> str:
        return f"{self.grid}² x {self.per_cell}, {self.threads} thread{'s'[: self.threads - 1]}"

    @property
    def particles(self) -> int:
        return 2 * self.per_cell * self.grid**2

    @property
    def options(self) -> list[str]:
        steps = max(5, STRETCH // self.particles)
        values = vars(self) | {"steps": steps}
        return [f"--{name.replace('_', '-')}={value}" for name, value in values.items()]

    def state_mib(self, dtype: str) -> int:
        """Memory of all particles' x, y, ux, uy, uz."""
        return max(1, self.particles * 5 * ITEMSIZE[dtype] // 2**20)


def run(*, quick: bool) -> list[Row]:
    """Time everything and print the tables; the median of 5 rounds, or, if quick, one round."""
    console = Console()
    peers = [peer for peer in PEERS if installed(peer.name, console)]
    rounds = 1 if quick else 5
    small, small_2, large, large_2 = (
        Size(grid=grid, per_cell=per_cell, threads=threads)
        for grid, per_cell in ((128, 16), (256, 25))
        for threads in (1, 2)
    )
    against, ours = [], []
    for size in (small, small_2) if quick else (small, small_2, large, large_2):
        against += _against_peers(size, peers, rounds, console)
    for size in (small,) if quick else (small, small_2):
        ours += _against_memory(size, rounds, console)
    _print(f"Ours and peers, median of {rounds}", against, console)
    _print(f"Ours and memory, median of {rounds}", ours, console)
    parts = [_parts(small, shape, dtype) for shape in SHOWN for dtype in ITEMSIZE]
    _print_parts(parts, small, console)
    return against + ours + [row for laps in parts for row in _part_rows(laps, small)]


# ---------------------------------------------------------------- processes


def _ours(size: Size, shape: Shape, dtype: str) -> Lap:
    module = [sys.executable, "-m", "benchmarks.pic_case"]
    return _last_line([*module, *size.options, f"--shape={shape.value}", f"--dtype={dtype}"])


def _parts(size: Size, shape: Shape, dtype: str) -> Lap:
    module = [sys.executable, "-m", "benchmarks.pic_parts"]
    lap = _last_line([*module, *size.options, f"--shape={shape.value}", f"--dtype={dtype}"])
    return {"name": f"{shape.value.upper()} {dtype}", "parts": lap}


def _theirs(peer: Peer, size: Size) -> Lap:
    return _last_line([peer_python(), PEERS_FOLDER / f"{peer.name}_case.py", *size.options])


def _triad(mib: int, threads: int) -> Lap:
    module = [sys.executable, "-m", "benchmarks.triad"]
    return _last_line([*module, f"--mib={mib}", f"--threads={threads}"])


def _last_line(command: Sequence[str | Path]) -> Lap:
    """What a process reported: its last line, JSON."""
    found: Lap = json.loads(call(command).strip().splitlines()[-1])
    return found


# ---------------------------------------------------------------- rows


def _against_peers(size: Size, peers: Sequence[Peer], rounds: int, console: Console) -> list[Row]:
    """TSC float64, ours and the peers' in turn: wall time, then processor time."""
    ours: list[Lap] = []
    theirs: dict[Peer, list[Lap]] = {peer: [] for peer in peers}
    for _ in track(range(rounds), f"peers, {size}", console=console, transient=True):
        ours.append(_ours(size, Shape.TSC, "float64"))
        for peer in peers:
            theirs[peer].append(_theirs(peer, size))
    case = f"TSC float64, {size}"
    if not peers:
        return [_row(case, ours, key) for key in (WALL, CPU)]
    return [
        _row(case, ours, key, peer=f"{peer.name} {laps[0]['version']}", theirs=laps)
        for peer, laps in theirs.items()
        for key in (WALL, CPU)
    ]


def _against_memory(size: Size, rounds: int, console: Console) -> list[Row]:
    """Every shape and precision of ours, beside what memory would allow."""
    state = {dtype: size.state_mib(dtype) for dtype in ITEMSIZE}
    speed = {mib: _triad(mib, size.threads) for mib in (OUT_OF_CACHE_MIB, *state.values())}
    threads = str(size).rpartition(", ")[2]
    rows = [_row(f"triad, {mib} MiB, {threads}", [speed[mib]], BANDWIDTH) for mib in speed]
    for dtype in ITEMSIZE:
        least_ns = triad.bound(dtype=dtype, gb_per_s=speed[state[dtype]][BANDWIDTH])
        for shape in track(tuple(Shape), f"{dtype}, {size}", console=console, transient=True):
            laps = [_ours(size, shape, dtype) for _ in range(rounds)]
            bound = [{WALL: least_ns}] * rounds
            case = f"{shape.value.upper()} {dtype}, {size}"
            rows.append(_row(case, laps, WALL, peer="memory bound", theirs=bound))
    return rows


def _row(
    case: str, ours: list[Lap], key: str, *, peer: str | None = None, theirs: Sequence[Lap] = ()
) -> Row:
    """Medians over the rounds that were not crowded, or over all if all were."""
    rounds = list(zip(ours, theirs, strict=True)) if theirs else [(lap,) for lap in ours]
    quiet = [laps for laps in rounds if _crowding(laps) < QUIET] or rounds
    row: Row = {
        "case": case,
        "unit": UNITS[key],
        "billow": statistics.median(laps[0][key] for laps in quiet),
        "peer": peer,
        "peer_value": None,
        "ratio": None,
        "rounds": len(quiet),
        "crowding": max(_crowding(laps) for laps in quiet),
    }
    if theirs:
        ratios = [t[key] / o[key] for o, t in quiet]
        row["peer_value"] = statistics.median(t[key] for _, t in quiet)
        row["ratio"] = statistics.median(ratios)
        row["ratio_range"] = [min(ratios), max(ratios)]
    return row


def _part_rows(lap: Lap, size: Size) -> list[Row]:
    """One row for every part of a step."""
    return [
        {
            "case": f"{lap['name']}, {size}, {part}",
            "unit": UNITS[WALL],
            "billow": ns,
            "peer": None,
            "peer_value": None,
            "ratio": None,
        }
        for part, ns in lap["parts"].items()
    ]


def _print_parts(laps: Sequence[Lap], size: Size, console: Console) -> None:
    """A table: parts down, shapes and precisions across."""
    table = Table(title=f"Ours by part, {size}: {UNITS[WALL]}")
    table.add_column("part")
    for lap in laps:
        table.add_column(lap["name"], justify="right")
    for part in laps[0]["parts"]:
        table.add_row(part, *(f"{lap['parts'][part]:.1f}" for lap in laps))
    console.print(table)


def _crowding(laps: Sequence[Lap]) -> float:
    return max(float(lap.get("crowding", 0.0)) for lap in laps)


def _print(title: str, rows: Sequence[Row], console: Console) -> None:
    """One table for each unit, which 80 columns hold."""
    for unit in dict.fromkeys(row["unit"] for row in rows):
        table = Table(title=f"{title}: {unit}", caption=NOTES)
        for column in ("case", "billow", "peer", "its", "ratio", "range", "crowd", "of"):
            table.add_column(column, justify="left" if column in ("case", "peer") else "right")
        for row in (r for r in rows if r["unit"] == unit):
            table.add_row(row["case"], f"{row['billow']:.1f}", *_beside(row))
        console.print(table)


def _beside(row: Row) -> tuple[str, ...]:
    """The peer's cells of a row, and the crowding."""
    crowd = f"{row['crowding']:.1f}", str(row["rounds"])
    if row["unit"] == UNITS[BANDWIDTH]:
        return ("",) * 6
    if row["peer"] is None:
        return "", "", "", "", *crowd
    low, high = row["ratio_range"]
    name, value = row["peer"], f"{row['peer_value']:.1f}"
    return name, value, f"{row['ratio']:.2f}", f"{low:.2f}-{high:.2f}", *crowd
