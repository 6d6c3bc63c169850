"""A note beside a stream that says who writes it and whether it was closed on purpose.

An engine's own goodbye cannot be trusted: ADIOS2 closes a BP5 file in a destructor, also when the
writer failed. And a file whose writer was killed looks like one that is still written. So our
writers leave a note; streams of other programs have none, and are judged by silence.
"""

from __future__ import annotations

import enum
import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path


class Life(enum.Enum):
    """What is known of a stream's writer."""

    UNKNOWN = "unknown"  # no note, or of another machine
    ALIVE = "alive"
    STOPPED = "stopped"  # suspended by a signal
    CLOSED = "closed"  # it said goodbye
    LOST = "lost"  # it is gone and did not


@dataclass(frozen=True, kw_only=True)
class WriterNote:
    """The note of one stream."""

    file: Path

    def write(self, state: str) -> None:
        """Say "open", "closed" or "abandoned"."""
        facts = {"state": state, "pid": os.getpid(), "born": _birth(os.getpid()), "host": _host()}
        new = self.file.with_name(f"{self.file.name}.{os.getpid()}")
        new.write_text(json.dumps(facts))
        new.replace(self.file)

    def life(self) -> Life:
        """What the note says of the writer, checked against the machine's processes."""
        try:
            facts = json.loads(self.file.read_text())
            state, pid, born, host = (facts[k] for k in ("state", "pid", "born", "host"))
        except (OSError, ValueError, KeyError, TypeError):
            return Life.UNKNOWN
        if state == "closed":
            return Life.CLOSED
        if state == "abandoned":
            return Life.LOST
        if host != _host() or born is None:
            return Life.UNKNOWN
        if born != _birth(pid):
            return Life.LOST
        return Life.STOPPED if _letter(pid) == "T" else Life.ALIVE


def _host() -> str:
    """This machine and, where there are such, this container's process table."""
    try:
        return f"{socket.gethostname()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return socket.gethostname()


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _letter(pid: int) -> str:
    return (_stat(pid) or [""])[0]


def _birth(pid: int) -> str | None:
    """When a living process started, in clock ticks; a process id alone may be used anew."""
    stat = _stat(pid)
    return None if not stat or stat[0] in "ZX" else stat[19]
