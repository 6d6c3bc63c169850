"""The journal of a run: append-only JSON lines, one file per process, one event per line.

A line is `{"t": unix time [s], "source": "learner-0", "event": "learner/loss", ...}`; the event's
name is `area/quantity` with a unit suffix, its number is in `value`, other plain fields follow.
Every line is handed to the kernel whole and at once, so that killing the writer loses at most one
torn line. Non-finite numbers are the strings "NaN", "Infinity" and "-Infinity": every line is
valid JSON. Text that came from a stream is data here; nothing in a journal is ever executed.
"""

from __future__ import annotations

import enum
import heapq
import json
import logging
import math
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from types import TracebackType
from typing import Any

import numpy as np

from workflow.errors import DataError

log = logging.getLogger(__name__)

Event = dict[str, Any]

FOLDER = "journal"  # in the run folder
HEARTBEAT = "run/heartbeat"
MAX_T = 1e12  # [s] a time beyond it is damage


# ---------------------------------------------------------------- writing


class Journal:
    """Writes the events of one process. Safe to use from several threads.

    A journal that cannot be written (a full disk) does not end the run: the events are counted as
    lost, an error is logged once, and the count is the first thing written when there is room.
    """

    def __init__(self, path: Path, source: str) -> None:
        self.path = Path(path)
        self.source = source
        self.lost = 0  # events that could not be written since the last one that could
        self._lock = threading.Lock()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        torn = _cut_torn_line(self._file)
        if torn:  # an earlier process of this name was killed while it wrote
            self.write("journal/torn", value=torn)

    def write(self, event: str, **fields: Any) -> None:
        """Append one event; `fields` are plain values, NumPy numbers or small arrays."""
        line = encode({"t": round(time.time(), 6), "source": self.source, "event": event, **fields})
        with self._lock:
            if self._file < 0:
                raise ValueError(f"{self.path}: the journal is closed; '{event}' came too late.")
            if self.lost:
                note = {"source": self.source, "event": "journal/lost", "value": self.lost}
                line = encode({"t": round(time.time(), 6), **note}) + line
            self._append(line)

    def heartbeat(self) -> None:
        """Say that this run is alive; `workflow.vitals` reads it."""
        self.write(HEARTBEAT, pid=os.getpid(), host=socket.gethostname())

    def close(self) -> None:
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _append(self, line: bytes) -> None:
        size = os.fstat(self._file).st_size
        try:
            written = os.write(self._file, line)
            while written < len(line):
                written += os.write(self._file, line[written:])
        except OSError as e:
            os.ftruncate(self._file, size)  # half a line would hide every later one
            if not self.lost:
                log.error("%s: cannot write the journal: %s. Free some disk space.", self.path, e)
            self.lost += 1
            return
        self.lost = 0


def encode(event: Mapping[str, Any]) -> bytes:
    """One line of valid JSON, newline included."""
    try:
        text = _STRICT.encode(event)
    except (ValueError, TypeError):  # a non-finite number or an odd key: the slow way
        text = _STRICT.encode(_clean(event))
    return text.encode("ascii") + b"\n"


def number(value: object) -> float | None:
    """The number in a field of an event, non-finite ones included; None if it is none."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return float(value) if isinstance(value, float) or abs(value) < 2**1023 else None
    if value in ("NaN", "Infinity", "-Infinity"):
        return float(str(value))
    return None


def _plain(value: Any) -> Any:
    """What JSON has for a value that it does not know."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, PurePath | BaseException):
        return str(value)
    return repr(value)


_STRICT = json.JSONEncoder(allow_nan=False, separators=(",", ":"), default=_plain)


def _clean(value: Any) -> Any:
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {str(key): _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    return _clean(_plain(value))


def _cut_torn_line(file: int) -> int:
    """Remove what stands behind the last newline; returns how many bytes that was."""
    size = os.fstat(file).st_size
    end = size
    while end > 0:
        start = max(0, end - 65536)
        newline = os.pread(file, end - start, start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end < size:
        os.ftruncate(file, end)
    return size - end


# ---------------------------------------------------------------- reading


class Events(Iterator[Event]):
    """The events of one or more files, merged by time. `torn` counts torn last lines by file."""

    def __init__(self, files: list[Path]) -> None:
        self.torn: dict[str, int] = {}
        self._merged = heapq.merge(*map(self._of, files), key=_time)

    def __next__(self) -> Event:
        return next(self._merged)

    def _of(self, file: Path) -> Iterator[Event]:
        with file.open("rb") as lines:
            broken = ""
            for i, line in enumerate(lines, start=1):
                if broken:
                    raise DataError(
                        f"{file}, line {i - 1}: wanted a JSON object with t, source and event, "
                        f"got {broken}. Only a last line may be torn: remove this line, or the "
                        "file, to read the rest."
                    )
                event, broken = _decode(line)
                if event is not None:
                    yield event
            if broken:
                self.torn[str(file)] = 1
                log.info("%s: the last line is torn; its writer was killed.", file)


class Tail:
    """Follows the journal of a run: each `new()` gives the events since the last call, by time.

    Only complete lines are read; the rest of a line is waited for. A broken complete line is
    counted in `broken` and passed over, because a view must outlive what it looks at.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self.broken = 0
        self._read: dict[Path, int] = {}  # bytes of each file that were read

    def new(self) -> list[Event]:
        events: list[Event] = []
        for file in journal_files(self.folder):
            events += self._new_of(file)
        events.sort(key=_time)
        return events

    def _new_of(self, file: Path) -> Iterator[Event]:
        position = self._read.get(file, 0)
        with file.open("rb") as lines:
            if os.fstat(lines.fileno()).st_size < position:
                position = 0  # the file was replaced
            lines.seek(position)
            for line in lines:
                if not line.endswith(b"\n"):
                    break
                position += len(line)
                event, broken = _decode(line)
                if event is None:
                    self.broken += 1
                    log.warning("%s: passed over a broken line: %s", file, broken)
                else:
                    yield event
        self._read[file] = position


def read_journal(path: Path) -> Events:
    """All events of a run folder, a journal folder or one file, merged by time.

    One torn last line per file is passed over and counted; a broken line elsewhere is a DataError
    that names file and line.
    """
    path = Path(path)
    files = [path] if path.is_file() else journal_files(path)
    if not files and not (_folder(path).is_dir() and _folder(path).name == FOLDER):
        raise DataError(
            f"{path}: no journal here. Wanted a run folder (with '{FOLDER}/' in it), a folder of "
            "*.jsonl files or one such file."
        )
    return Events(files)


def tail(folder: Path) -> Tail:
    """A follower of a run's journal; the folder may still be empty."""
    return Tail(folder)


def journal_files(folder: Path) -> list[Path]:
    """The journal files of a run folder or journal folder, by name."""
    return sorted(_folder(Path(folder)).glob("*.jsonl"))


def _folder(path: Path) -> Path:
    inner = path / FOLDER
    return inner if inner.is_dir() else path


def _decode(line: bytes) -> tuple[Event | None, str]:
    """(event, "") or (None, what the line is instead)."""
    shown = repr(line[:60])
    if not line.endswith(b"\n"):
        return None, f"a line without end, {shown}"
    try:
        event = json.loads(line)
    except (ValueError, RecursionError) as e:
        return None, f"{shown} ({e})"
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        return None, shown
    t = number(event.get("t"))
    if t is None or not abs(t) < MAX_T or not isinstance(event.get("source"), str):
        return None, shown
    return event, ""


def _time(event: Event) -> float:
    return float(event["t"])
