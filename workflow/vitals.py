"""Is a run alive? From its summary, or from the signs of life in its journal alone.

A run that was killed leaves no summary and no farewell: its heartbeat stops, or its process is
gone. Then it is `lost`, and never shown as running or as ended.
"""

from __future__ import annotations

import json
import logging
import os
import socket
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from workflow.journal import HEARTBEAT, Event, Tail

log = logging.getLogger(__name__)

Ending = Literal["ended", "stopped", "failed"]

SUMMARY = "summary.json"
ENDINGS: tuple[Ending, ...] = ("ended", "stopped", "failed")


@dataclass(frozen=True, kw_only=True)
class RunState:
    """What a run is doing, and how that is known."""

    state: Literal["running", "ended", "stopped", "failed", "lost"]
    why: str
    over: bool = True  # nothing more is to come; a silent run whose process lives may come back


@dataclass(frozen=True, kw_only=True)
class Signs:
    """The last signs of life of a run's own process."""

    start_t: float | None = None
    beat_t: float | None = None
    pid: int | None = None
    host: str | None = None
    end: tuple[str, str] | None = None  # (status, why), from run/end

    def after(self, event: Event) -> Signs:
        """The signs when this event is known as well."""
        if event["event"] == "run/end":
            said = (str(event.get("value", "")), str(event.get("why") or ""))
            return replace(self, end=said)
        if event["event"] not in (HEARTBEAT, "run/start"):
            return self
        started = event["t"] if event["event"] == "run/start" else self.start_t
        pid, host = event.get("pid"), event.get("host")
        return Signs(
            start_t=started,
            beat_t=event["t"],
            pid=pid if isinstance(pid, int) else self.pid,
            host=host if isinstance(host, str) else self.host,
        )


def run_state(folder: Path, now: float, *, silence_s: float = 30.0) -> RunState:
    """The state of the run in a folder at unix time `now`."""
    signs = Signs()
    follower = Tail(folder)
    for event in follower.new():
        signs = signs.after(event)
    return judge(folder, signs, now, silence_s=silence_s)


def judge(folder: Path, signs: Signs, now: float, *, silence_s: float = 30.0) -> RunState:
    """The state of a run, from its summary if that is newer than its last start, else its signs."""
    summary = read_summary(folder)
    if summary is not None and not _resumed(folder, signs):
        state = summary.get("status")
        if state in ENDINGS:
            return RunState(state=state, why=str(summary.get("reason") or "see summary.json"))
        return RunState(state="failed", why=f"summary.json has the unknown status {state!r}")
    if signs.end is not None and signs.end[0] in ENDINGS:
        return RunState(state=signs.end[0], why=signs.end[1] or "says its journal")
    if signs.beat_t is None:
        if now - _made_at(folder) <= silence_s:
            return RunState(state="running", why="starting", over=False)
        return RunState(state="lost", why="no sign of life in the journal")
    return _from_signs(signs, now - signs.beat_t, silence_s)


def _from_signs(signs: Signs, age_s: float, silence_s: float) -> RunState:
    here = signs.host in (None, socket.gethostname())
    if here and signs.pid is not None and not _alive(signs.pid):
        return RunState(state="lost", why=f"process {signs.pid} is gone and left no summary")
    where = f"process {signs.pid}" + ("" if here else f" on {signs.host}")
    if age_s > silence_s:
        lives = here and signs.pid is not None
        why = f"no heartbeat for {age_s:.0f} s" + (f", though {where} lives" if lives else "")
        return RunState(state="lost", why=why, over=not lives)
    return RunState(state="running", why=where, over=False)


def read_summary(folder: Path) -> dict[str, Any] | None:
    """The run's summary.json; None if there is none, or none that can be read."""
    try:
        summary = json.loads((Path(folder) / SUMMARY).read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as e:
        log.warning("%s: cannot be read: %s", Path(folder) / SUMMARY, e)
        return None
    return summary if isinstance(summary, dict) else None


def _made_at(folder: Path) -> float:
    """When the run folder was last given or rid of something, as unix time; 0 without one."""
    try:
        return Path(folder).stat().st_mtime
    except OSError:
        return 0.0


def _resumed(folder: Path, signs: Signs) -> bool:
    """Whether the run was started again after its summary was written."""
    if signs.start_t is None:
        return False
    return signs.start_t > (Path(folder) / SUMMARY).stat().st_mtime


def _alive(pid: int) -> bool:
    """Whether a process of this host runs; a zombie does not."""
    if pid < 1:  # to kill() these mean whole groups
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    except (OverflowError, OSError):
        return False
    try:
        status = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:  # no /proc on this system, or gone just now
        return not Path("/proc/self").exists()
    return status.rpartition(")")[2].split()[:1] != ["Z"]
