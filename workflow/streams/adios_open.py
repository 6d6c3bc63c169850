"""Opening an ADIOS2 stream for reading, within our own deadline."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workflow.errors import ConfigError, DataError, StreamTimeout
from workflow.streams.adios import contact_name, message_of, sst_parameters
from workflow.streams.adios_engine import adios2, engine_room
from workflow.streams.watchdog import killed_after
from workflow.streams.writer_note import Life, WriterNote

log = logging.getLogger(__name__)

PAUSE_S = 0.02  # between looks at a contact file or a folder
GRACE_S = 5.0  # past the deadline, before the watchdog ends a process that hangs in Open


@dataclass(frozen=True, kw_only=True)
class Opened:
    """An open engine and what keeps it alive."""

    adios: Any
    io: Any
    engine: Any
    note: WriterNote
    file: Path


def open_sst(
    path: Path | str, *, parameters: Mapping[str, str], name: str, deadline_s: float
) -> Opened:
    """Join a stream; a missing or stale contact file is tried again until the deadline.

    Open itself cannot be interrupted: a process that hangs in it past the deadline is killed by
    its watchdog, after saying why. A writer known to be dead or suspended is not called at all.
    """
    chosen = {**sst_parameters(parameters, writer=False), "OpenTimeoutSecs": "1"}
    ends = time.monotonic() + deadline_s
    words = (
        f"stream '{name}' ({path}): the writer did not answer within {deadline_s} s and the open "
        "hangs. Its next step takes longer (a writer lets readers in at a step), it is suspended, "
        "or it speaks another version of SST: ADIOS2 2.10 and 2.11 or "
        f"later refuse each other without an error; this side is {adios2.__version__}. "
        "Use one ADIOS2 on both sides, or engine bp5. Ending this process."
    )
    why = "there is no contact file"
    with killed_after(deadline_s + GRACE_S, words=words):
        while True:
            base = contact_name(path)
            note = WriterNote(file=Path(base + ".writer"))
            life = note.life()
            if not Path(base + ".sst").exists():
                why = "there is no contact file: the writer has not started, or writes elsewhere"
            elif life in (Life.LOST, Life.STOPPED, Life.CLOSED):
                why = f"its contact file is there, but its writer is {life.value}"
            else:
                try:
                    return _open("SST", base, chosen, note)
                except RuntimeError as e:
                    why = message_of(e)
            if time.monotonic() > ends:
                raise StreamTimeout(
                    f"stream '{name}': wanted a writer at {base}.sst within {deadline_s} s, got "
                    f"none ({why}). Start the writer, check the path, and that both sides use one "
                    "version of ADIOS2: SST of 2.10 and of 2.11 or later refuse each other (this "
                    f"side: {adios2.__version__})."
                )
            time.sleep(PAUSE_S)


def open_bp(path: Path, *, parameters: Mapping[str, str], name: str, deadline_s: float) -> Opened:
    """Open a BP5 or BP4 folder, finished or growing; waits for it until the deadline."""
    ends = time.monotonic() + deadline_s
    while True:
        why = ""
        index = path / "md.idx"
        if path.exists() and not path.is_dir():
            raise DataError(
                f"stream '{name}': wanted a BP5 or BP4 folder, got the file {path}. Give the "
                "folder that ADIOS2 writes (it has md.idx in it), or a pattern of such."
            )
        if index.exists() and index.stat().st_size:
            kind = "BP5" if (path / "mmd.0").exists() else "BP4"
            try:
                note = WriterNote(file=path / "billow.writer")
                return _open(kind, str(path), {**parameters, "OpenTimeoutSecs": "0"}, note)
            except RuntimeError as e:
                why = message_of(e)
        if time.monotonic() > ends:
            if why:
                raise DataError(
                    f"stream '{name}': {path} cannot be read as BP: {why}. Is it whole?"
                )
            raise StreamTimeout(
                f"stream '{name}': wanted a BP folder at {path} within {deadline_s} s, got "
                "none. Check the path, and that its writer has started."
            )
        time.sleep(PAUSE_S)


def _open(engine: str, path: str, parameters: Mapping[str, str], note: WriterNote) -> Opened:
    adios = engine_room.ADIOS()
    io = adios.DeclareIO("reader")
    io.SetEngine(engine)
    quiet = {} if engine == "SST" else {"Profile": "Off"}  # it leaves files in the temporary folder
    io.SetParameters({**quiet, **{k: str(v) for k, v in parameters.items()}})
    opened = io.Open(path, engine_room.Mode.Read)
    return Opened(adios=adios, io=io, engine=opened, note=note, file=Path(path))


def files_of(path: Path) -> list[Path] | None:
    """Files of a file-based series, by iteration; None if the path is one file.

    The path is a pattern with %T or %06T, or a folder of BP folders.
    """
    if match := re.search(r"%0?\d*T", path.name):
        head, tail = path.name[: match.start()], path.name[match.end() :]
        named = re.compile(re.escape(head) + r"(\d+)" + re.escape(tail) + r"(\.bp[45]?)?")
        folder = path.parent
    elif path.is_dir() and not (path / "md.idx").exists():
        named, folder = re.compile(r".*?(\d*)\.bp[45]?"), path
    else:
        return None
    if not folder.is_dir():
        raise ConfigError(f"{path}: wanted a folder of iterations, got no folder {folder}.")
    found = [
        (int(m[1] or 0), file) for file in folder.iterdir() if (m := named.fullmatch(file.name))
    ]
    if not found and path.name != folder.name:
        raise DataError(f"{path}: wanted files of this pattern in {folder}, got none.")
    return [file for _, file in sorted(found)] or None


PAGE = 4096  # blocks begin at multiples of it


def check_whole(file: Path) -> None:
    """Refuse a BP5 folder whose data files are shorter than its index says.

    The engine would wait for the missing bytes for ever. Layout of md.idx: a header of 64 bytes,
    then records of one kind byte, a length and so many bytes. A step's record holds, as uint64,
    place and length of its metadata, the number of flushes, then per writer the (place,
    length) of each flush and the place of the last block, rounded up to a page: with nothing in
    that block, the file ends up to a page earlier. The last block of all is not covered.
    """
    index = (file / "md.idx").read_bytes()
    data = sorted(file.glob("data.*"))
    if not (file / "mmd.0").exists() or len(data) != 1:
        return
    needed, at = 0, 64
    while at + 9 <= len(index):
        kind, size = index[at], int.from_bytes(index[at + 1 : at + 9], "little")
        body = index[at + 9 : at + 9 + size]
        words = [int.from_bytes(body[i : i + 8], "little") for i in range(0, len(body) - 7, 8)]
        if kind == ord("s") and len(words) > 3:
            flushes, rest = words[2], words[3:]
            per_writer = 2 * flushes + 1
            for i in range(0, len(rest) - per_writer + 1, per_writer):
                pairs = rest[i : i + 2 * flushes]
                ends = [p + n for p, n in zip(pairs[::2], pairs[1::2], strict=True)]
                needed = max(needed, *ends, rest[i + 2 * flushes] - PAGE + 1)
        at += 9 + size
    have = data[0].stat().st_size
    if have < needed:
        raise DataError(
            f"{data[0]}: wanted at least {needed} bytes, as the index says, got {have}. The copy "
            "or the write was cut off; copy it again."
        )
