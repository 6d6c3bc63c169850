"""The whole path, timed: learning in transit against writing files first and learning from them.

Both do the same work on the same machine in the same minutes: the same plasma, samples and
training. `billow` is one `billow run`; the peer, the file way, lets the simulation write a BP5
series to its end and then trains on the recording of it.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
CONFIG = ROOT / "configs" / "khi-laptop.yaml"
QUICK = ["source.producer.last_step=700"]
MIB = 2**20


def run(*, quick: bool) -> list[dict[str, Any]]:
    """Time whole processes, alternately, and print the table; the median of 3 rounds, or 1."""
    overrides = QUICK if quick else []
    rounds = 1 if quick else 3
    live: list[dict[str, Any]] = []
    files: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="billow-bench-") as folder:
        for i in range(rounds):
            live.append(_run(Path(folder) / f"live-{i}", overrides))
            files.append(_file_way(Path(folder), i, overrides))
    rows = [
        _row("time to the first training step", "s", live, files, "first_step_s"),
        _row("whole run", "s", live, files, "wall_s"),
        *(
            _alone(
                f"peak memory, {kind}", "MiB", [s["peak_memory_bytes"][kind] / MIB for s in live]
            )
            for kind in live[0]["peak_memory_bytes"]
        ),
        _alone(
            "training steps per second", "1/s", [_rate(s, "training_steps_per_s") for s in live]
        ),
        _alone("learners wait for data", "%", [100 * s["learner_wait_fraction"] for s in live]),
        _alone("simulation waits", "%", [100 * s["producer_stall_fraction"] for s in live]),
        _alone("loss, last / first", "1", [s["loss_last"] / s["loss_first"] for s in live]),
    ]
    _print(rows, rounds)
    return rows


def _run(folder: Path, overrides: list[str], config: Path = CONFIG) -> dict[str, Any]:
    """One `billow run`; its summary, with the wall time of the whole process."""
    began = time.monotonic()
    command = [sys.executable, "-m", "workflow.cli", "run", str(config), *overrides]
    done = subprocess.run(
        [*command, "--out", str(folder), "--plain"], cwd=ROOT, capture_output=True, text=True
    )
    wall_s = time.monotonic() - began
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    before_s = wall_s - summary["wall_s"]  # imports and checks, before the run itself
    return summary | {"wall_s": wall_s, "first_step_s": summary["first_step_s"] + before_s}


def _file_way(folder: Path, i: int, overrides: list[str]) -> dict[str, Any]:
    """The simulation to a BP5 series, then a run on the recording; both times together."""
    from workflow.config import read_config

    config = read_config(CONFIG, [*overrides, "source.stream={engine: bp5, parameters: {}}"])
    produced = folder / f"produced-{i}"
    (produced / "journal").mkdir(parents=True)
    (produced / "config.yaml").write_text(json.dumps(config.model_dump(mode="json")))
    series = folder / f"series-{i}.bp5"
    began = time.monotonic()
    command = [sys.executable, "-m", "workflow.produce", str(produced), "--epoch", "1"]
    subprocess.run([*command, "--stream", str(series), "--readers", "1"], cwd=ROOT, check=True,
                   capture_output=True)  # fmt: skip
    simulated_s = time.monotonic() - began
    recording = json.dumps({"use": "producers.recording:Recording", "path": str(series)})
    summary = _run(folder / f"files-{i}", [*overrides, f"source.producer={recording}"])
    return summary | {
        "wall_s": summary["wall_s"] + simulated_s,
        "first_step_s": summary["first_step_s"] + simulated_s,
    }


def _rate(summary: dict[str, Any], name: str) -> float:
    return float(summary["rates"][name])


def _row(
    case: str, unit: str, ours: list[dict[str, Any]], theirs: list[dict[str, Any]], key: str
) -> dict[str, Any]:
    ratios = [t[key] / o[key] for o, t in zip(ours, theirs, strict=True)]
    return {
        "case": case,
        "unit": unit,
        "billow": statistics.median(o[key] for o in ours),
        "peer": "files first",
        "peer_value": statistics.median(t[key] for t in theirs),
        "ratio": statistics.median(ratios),
    }


def _alone(case: str, unit: str, values: list[float]) -> dict[str, Any]:
    median = statistics.median(values)
    return {"case": case, "unit": unit, "billow": median, "peer": None, "peer_value": None,
            "ratio": None}  # fmt: skip


def _print(rows: list[dict[str, Any]], rounds: int) -> None:
    table = Table(title=f"{CONFIG.name}: median of {rounds} round(s)")
    for column in ("case", "unit", "billow", "files first", "ratio"):
        table.add_column(column, justify="left" if column in ("case", "unit") else "right")
    for row in rows:
        peer = "" if row["peer_value"] is None else f"{row['peer_value']:.1f}"
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
        table.add_row(row["case"], row["unit"], f"{row['billow']:.2f}", peer, ratio)
    Console().print(table)
