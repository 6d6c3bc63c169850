"""The reader's end of an ADIOS2 stream: SST, a BP file being written, or a recording.

Only `begin_step` with time-out 0 is used: a positive one can crash the process when a step arrives
near it. The four states are never mixed up: EndOfStream is ENDED, OtherError is PRODUCER_LOST,
NotReady is neither, and becomes STALLED after a silence.

Two waits remain inside the engine. A reader that joins late is let in when the writer ends its
next step. And after steps were thrown away (QueueFullPolicy Discard) even a `begin_step` with
time-out 0 waits for the next one that is kept, or the end: poll() then blocks that long.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from workflow.errors import DataError, StreamError
from workflow.streams.adios import EngineStep, message_of
from workflow.streams.adios_engine import engine_room
from workflow.streams.adios_open import Opened, check_whole, files_of, open_bp, open_sst
from workflow.streams.openpmd import RANK_TABLE, hosts_of
from workflow.streams.openpmd_read import Iteration
from workflow.streams.openpmd_step import iterations_of
from workflow.streams.writer_note import Life
from workflow.types import StreamState

log = logging.getLogger(__name__)
Status = engine_room.StepStatus


class AdiosReader:
    """One consumer's end; see `StreamReader`. Holds one iteration at a time."""

    def __init__(
        self,
        engine: str,
        path: Path | str,
        *,
        name: str,
        parameters: Mapping[str, str],
        silence_s: float,
        deadline_s: float,
        follow: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._parameters, self._deadline_s = parameters, deadline_s
        self._silence_s, self._follow, self._clock = silence_s, follow, clock
        self._live = engine == "SST"
        self._files: list[Path] = []
        self._state = StreamState.RUNNING
        self._quiet_since: float | None = None
        self._held: Iteration | None = None
        self._waiting: list[tuple[int, str]] = []  # further iterations of the open step
        self._step: EngineStep | None = None
        self._hosts: list[str] = []
        self._last_step: int | None = None
        self._stats = dict.fromkeys(("iterations", "bytes_read", "gaps", "missed_before_join"), 0.0)
        self._stats["last_iteration"] = -1.0
        if self._live:
            self._opened: Opened | None = open_sst(
                path, parameters=parameters, name=name, deadline_s=deadline_s
            )
        else:
            series = files_of(Path(path))
            self._series = series is not None
            self._files = [Path(path)] if series is None else series
            self._opened = self._open_file()

    def _open_file(self) -> Opened:
        opened = open_bp(
            self._files.pop(0),
            parameters=self._parameters, name=self.name, deadline_s=self._deadline_s,
        )  # fmt: skip
        if opened.note.life() is not Life.ALIVE:
            check_whole(opened.file)
        return opened

    # ------------------------------------------------------------ the next iteration

    def poll(self) -> Iteration | None:
        """The next iteration if one is there. Raises DataError on a step that is not openPMD."""
        if self._held is not None:
            raise StreamError(
                f"{self.name}: iteration {self._held.iteration} is still held; release() it before "
                "the next poll()."
            )
        while self._opened is not None and self._state is not StreamState.PRODUCER_LOST:
            if not self._waiting and not self._begin(self._opened):
                return None
            if not self._waiting:
                self._end_step()  # a step without an iteration, such as one of root attributes
                continue
            assert self._step is not None
            number, base = self._waiting.pop(0)
            try:
                self._held = Iteration(
                    self._step, stream=self.name, number=number, base=base, hosts=self._hosts,
                    on_release=self._released,
                )  # fmt: skip
            except (ValueError, KeyError, TypeError) as e:
                self._released()
                raise DataError(
                    f"{self.name}: iteration {number} is not laid out as openPMD asks: {e}"
                ) from e
            self._stats["iterations"] += 1
            self._stats["last_iteration"] = float(number)
            return self._held
        return None

    def _begin(self, opened: Opened) -> bool:
        """Ask the engine for a step. True if there is one, or the next file was opened."""
        try:
            status = opened.engine.BeginStep(engine_room.StepMode.Read, 0.0)
        except Exception as e:
            log.warning("%s: the stream broke: %s", self.name, message_of(e))
            status = Status.OtherError
        if status == Status.OK:
            self._quiet_since, self._state = None, StreamState.RUNNING
            self._note_gap(opened.engine.CurrentStep())
            self._step = EngineStep(opened.io, opened.engine)
            try:
                self._waiting = iterations_of(self._step, name=self.name)
                self._read_hosts()
            except DataError:
                self._end_step()
                raise
            return True
        if status == Status.EndOfStream:
            return self._at_end(opened)
        if status == Status.NotReady:
            self._be_quiet(opened)
        else:
            self._lose("the connection to its producer broke")
        return False

    def _at_end(self, opened: Opened) -> bool:
        """The engine says the end: believe it, unless the writer's note says otherwise."""
        if opened.note.life() is Life.LOST:
            self._lose("its writer ended without a goodbye")
            return False
        if self._files:
            opened.engine.Close()
            self._opened = self._open_file()
            return True
        self._state = StreamState.ENDED
        return False

    def _be_quiet(self, opened: Opened) -> None:
        now = self._clock()
        if self._quiet_since is None:
            self._quiet_since = now
        quiet_s = now - self._quiet_since
        if quiet_s > self._silence_s:
            self._state = StreamState.STALLED
        if self._live:
            return  # the engine tells when an SST writer is gone
        life = opened.note.life()
        if life is Life.LOST:
            self._lose("its writer is gone and did not close it")
        elif not self._follow:
            self._lose("the file is truncated: its writer did not close it")
        elif life is Life.UNKNOWN and quiet_s > self._silence_s + self._deadline_s:
            self._lose(f"nothing was written to it for {quiet_s:.0f} s")

    def _lose(self, why: str) -> None:
        self._state = StreamState.PRODUCER_LOST
        log.warning(
            "%s: %s; the last iteration seen is %d", self.name, why, self._stats["last_iteration"]
        )

    def _note_gap(self, step: int) -> None:
        """Steps that the queue's policy discarded leave a gap in the engine's count."""
        if not self._live:
            return
        if self._last_step is None:
            self._stats["missed_before_join"] = float(step)
        else:
            self._stats["gaps"] += step - self._last_step - 1
        self._last_step = step

    def _read_hosts(self) -> None:
        """openPMD-api writes the table of hosts once, in the first step."""
        assert self._step is not None
        if RANK_TABLE in self._step.variables():
            shape = self._step.shape(RANK_TABLE)
            if len(shape) == 2:
                table = self._step.fetch([(RANK_TABLE, ((0, 0), shape))])[0]
                self._hosts = hosts_of(table.astype(np.int8, copy=False))

    def _released(self) -> None:
        self._held = None
        if not self._waiting:
            self._end_step()

    def _end_step(self) -> None:
        if self._step is None or self._opened is None:
            return
        self._stats["bytes_read"] += self._step.bytes_read
        self._step = None
        try:
            self._opened.engine.EndStep()
        except Exception as e:
            self._lose(f"it broke at the end of a step ({message_of(e)})")

    # ------------------------------------------------------------ the rest

    def software(self) -> tuple[str, str]:
        """Name and version of what wrote the iteration that is held."""
        if self._step is None:
            raise StreamError(f"{self.name}: no iteration is held; ask between poll and release.")
        found = [self._step.attribute(name) for name in ("/software", "/softwareVersion")]
        return str(found[0] or "unknown"), str(found[1] or "")

    def state(self) -> StreamState:
        """After the last poll."""
        return self._state

    def close(self) -> None:
        """Leave the stream; a held iteration is released."""
        if self._held is not None:
            self._held.release()
        self._end_step()
        opened, self._opened = self._opened, None
        if opened is not None:
            try:
                opened.engine.Close()
            except Exception as e:
                log.warning("%s: closing failed: %s", self.name, message_of(e))

    def stats(self) -> Mapping[str, float]:
        """iterations, bytes_read, gaps, missed_before_join, last_iteration (-1: none), quiet_s."""
        quiet = 0.0 if self._quiet_since is None else self._clock() - self._quiet_since
        now = 0 if self._step is None else self._step.bytes_read
        return {**self._stats, "bytes_read": self._stats["bytes_read"] + now, "quiet_s": quiet}
