"""A stream inside one process, for one-thread runs: the same seams, without an engine.

One thread does everything, so `put` never waits: the loop asks `full()` and steps the producer
only when there is room. Arrays are copied once, when put; readers share the frozen copies.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, get_args

import numpy as np

from workflow.errors import ConfigError, DataError, StreamError
from workflow.streams.openpmd import record_of
from workflow.types import Array, Box, Dropped, Frame, Key, Series, StreamState, Unit

Policy = Literal["block", "drop_oldest", "drop_newest"]


class MemoryStream:
    """The writer's end (see `StreamWriter`), and a bounded queue for each of its readers.

    Every reader gets every iteration. With no reader yet, iterations wait for the first ones:
    `readers` is how many must have come before anything is dropped or forgotten.
    `full()` is true while a put would not find room under policy "block"; putting then raises.
    The other policies never block: they drop, and count what they dropped.
    """

    def __init__(
        self,
        *,
        name: str,
        limit: int = 2,
        policy: Policy = "block",
        readers: int = 1,
        series: Series | None = None,
    ) -> None:
        if limit < 1 or policy not in get_args(Policy):
            raise ConfigError(
                f"stream '{name}': wanted limit from 1 and policy one of "
                f"{', '.join(get_args(Policy))}, got {limit} and '{policy}'."
            )
        self.name, self.limit, self.policy = name, limit, policy
        self._wanted_readers, self._series = readers, series
        self._queues: list[deque[tuple[Frame, ...]]] = []
        self._early: deque[tuple[Frame, ...]] = deque()  # put before all readers came
        self.ending: StreamState | None = None
        self._stats = dict.fromkeys(("iterations", "bytes", "blocked_s", "dropped"), 0.0)
        self._stats["last_iteration"] = -1.0

    def full(self) -> bool:
        """Whether the producer should rest: the slowest reader has `limit` iterations to go."""
        return any(len(queue) >= self.limit for queue in self._all_queues())

    def _all_queues(self) -> list[deque[tuple[Frame, ...]]]:
        early = [self._early] if len(self._queues) < self._wanted_readers else []
        return [*self._queues, *early]

    def put(self, frames: Sequence[Frame]) -> None:
        """Publish one iteration, copied. Raises StreamError where waiting would be for ever."""
        if self.ending is not None:
            raise StreamError(f"stream '{self.name}' is closed; put is possible until close().")
        if not frames:
            raise DataError("an iteration needs at least one frame, got none: put one per box.")
        if self.policy == "block" and self.full():
            raise StreamError(
                f"stream '{self.name}': wanted room in the queue of {self.limit}, got none, and "
                "waiting in the only thread would be for ever. Ask full() before put()."
            )
        copies = tuple(
            replace(f, stream=self.name, arrays={k: np.array(a) for k, a in f.arrays.items()})
            for f in sorted(frames, key=lambda frame: frame.box.index)
        )
        for queue in self._all_queues():
            if len(queue) < self.limit:
                queue.append(copies)
                continue
            self._stats["dropped"] += 1
            if self.policy == "drop_oldest":
                queue.popleft()
                queue.append(copies)
        self._stats["iterations"] += 1
        self._stats["last_iteration"] = float(copies[0].iteration)
        self._stats["bytes"] += sum(a.nbytes for f in copies for a in f.arrays.values())

    def reader(self, name: str | None = None) -> MemoryReader:
        """One more reader; it sees what was put before, if not all awaited readers had come."""
        late = len(self._queues) >= self._wanted_readers
        queue: deque[tuple[Frame, ...]] = deque() if late else deque(self._early)
        self._queues.append(queue)
        if len(self._queues) >= self._wanted_readers:
            self._early.clear()
        return MemoryReader(self, queue, name or self.name, self._series)

    def leave(self, queue: deque[tuple[Frame, ...]]) -> None:
        """A reader goes; nothing waits for it any more."""
        self._queues = [q for q in self._queues if q is not queue]
        self._wanted_readers = min(self._wanted_readers, len(self._queues))

    def close(self) -> None:
        """Say goodbye: readers see ENDED once they have taken what is queued."""
        self.ending = self.ending or StreamState.ENDED

    def abandon(self) -> None:
        """Leave without a goodbye: readers see PRODUCER_LOST."""
        self.ending = self.ending or StreamState.PRODUCER_LOST

    def stats(self) -> Mapping[str, float]:
        """iterations, bytes, blocked_s (always 0), dropped, last_iteration."""
        return dict(self._stats)


class MemoryArrival:
    """One iteration; see `Arrival`."""

    def __init__(self, frames: Sequence[Frame], reader: MemoryReader) -> None:
        self._frames, self._reader = {f.box.index: f for f in frames}, reader
        self._open = True
        first = frames[0]
        self.iteration, self.time_s, self.dt_s = first.iteration, first.time_s, first.dt_s
        self.boxes: tuple[Box, ...] = tuple(f.box for f in frames)
        series = reader.series
        meshes = series.meshes if series else frozenset()
        meshes |= {n for f in frames for n in f.arrays if n.count("/") == 0}
        if series is None:  # two-part names of a grid-shaped array are mesh components
            meshes |= {n.split("/")[0] for f in frames for n, a in f.arrays.items() if a.ndim > 1}
        self._components: dict[str, list[str]] = {}
        for name in dict.fromkeys(n for f in frames for n in f.arrays):
            self._components.setdefault(record_of(name, meshes), []).append(name)
        self._constants = {}
        for name, value in (series.constants if series else {}).items():
            species = name.split("/")[0] + "/"
            if any(record.startswith(species) for record in self._components):
                self._constants[name] = np.asarray(value, np.float64)
                known = self._components.setdefault(record_of(name, meshes), [])
                if name not in known:
                    known.append(name)

    def offers(self) -> tuple[str, ...]:
        """Records of this very iteration."""
        return tuple(sorted(self._components))

    def read(self, boxes: Sequence[Box], records: Sequence[str]) -> list[Frame | Dropped]:
        """The named records of some boxes."""
        if not self._open:
            raise StreamError(
                f"{self._reader.name}: iteration {self.iteration} is released; read before it."
            )
        return [self._read(self._frames[box.index], records) for box in boxes]

    def _read(self, frame: Frame, records: Sequence[str]) -> Frame | Dropped:
        arrays: dict[str, Array] = {}
        for record in records:
            names = self._components.get(record)
            if names is None and any(record in names for names in self._components.values()):
                names = [record]
            if names is None:
                return Dropped(
                    key=Key(self._reader.name, self.iteration, frame.box.index),
                    by=f"stream {self._reader.name}",
                    reason=f"missing: {record}",
                )
            arrays |= {name: self._array(frame, name) for name in names}
        series = self._reader.series
        units: dict[str, Unit] = {**(series.units if series else {}), **frame.units}
        return replace(
            frame,
            stream=self._reader.name,
            arrays=arrays,
            units={name: units[name] for name in arrays if name in units},
        )

    def _array(self, frame: Frame, name: str) -> Array:
        if name in frame.arrays:
            return frame.arrays[name]
        species = name.split("/")[0] + "/"
        lengths = [len(a) for n, a in frame.arrays.items() if n.startswith(species)]
        count = lengths[0] if lengths else 0
        if name in self._constants:
            return np.broadcast_to(self._constants[name], (count,))
        other = next(f.arrays[name] for f in self._frames.values() if name in f.arrays)
        return np.zeros(count, other.dtype)  # this box has none of the species

    def release(self) -> None:
        """Give it back; twice is once."""
        if self._open:
            self._open = False
            self._reader.held = None


class MemoryReader:
    """A consumer's end; see `StreamReader`."""

    def __init__(
        self,
        stream: MemoryStream,
        queue: deque[tuple[Frame, ...]],
        name: str,
        series: Series | None,
    ) -> None:
        self.name, self.series = name, series
        self.held: MemoryArrival | None = None
        self._stream, self._queue = stream, queue
        self._state = StreamState.RUNNING
        self._stats = {"iterations": 0.0, "bytes_read": 0.0, "gaps": 0.0, "last_iteration": -1.0}

    def poll(self) -> MemoryArrival | None:
        """The next iteration if one is there."""
        if self.held is not None:
            raise StreamError(
                f"{self.name}: iteration {self.held.iteration} is still held; release() it before "
                "the next poll()."
            )
        if not self._queue:
            self._state = self._stream.ending or StreamState.RUNNING
            return None
        self.held = MemoryArrival(self._queue.popleft(), self)
        self._stats["iterations"] += 1
        self._stats["last_iteration"] = float(self.held.iteration)
        return self.held

    def state(self) -> StreamState:
        """After the last poll; a stream in memory is never STALLED."""
        return self._state

    def close(self) -> None:
        """Leave the stream."""
        if self.held is not None:
            self.held.release()
        self._stream.leave(self._queue)

    def stats(self) -> Mapping[str, float]:
        """iterations, bytes_read (always 0: nothing is transferred), gaps, last_iteration."""
        return {**self._stats, "gaps": self._stream.stats()["dropped"]}
