"""A recording as a producer: a series on disk put onto a stream again, at a chosen rate.

Whatever wrote it, the run that learns from it cannot tell it from a simulation: same records, same
boxes, same iterations. Species and meshes keep the names that they have in the recording.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from workflow import streams
from workflow.errors import BillowError, ConfigError, DataError, StreamBroken
from workflow.protocols import Arrival, StreamReader
from workflow.types import Frame, Hosting, Series, StreamState

if TYPE_CHECKING:
    from workflow.streams.adios_describe import Description

POLL_S = 0.002  # between two looks for the next iteration: a file has no way to call us


@dataclass(frozen=True, kw_only=True)
class Recording:
    """Re-streams a recorded openPMD series (BP4 or BP5, of PIConGPU or of ours).

    path:       a BP folder, a pattern such as "simData_%06T.bp5", or a folder of BP folders.
    rate_hz:    iterations per second; 0: as fast as they are taken. Runs in one thread never wait.
    first_step, last_step: the first and last iteration to stream, both included.
    period:     stream every so-manyth of them.
    repeat:     stream all of it so often; each time the iterations and the time go on rising.
    """

    path: str
    rate_hz: float = 0.0
    first_step: int | None = None
    last_step: int | None = None
    period: int = 1
    repeat: int = 1

    def __post_init__(self) -> None:
        if not self.path:
            raise ConfigError("Recording.path: wanted the path of a series, got ''.")
        if not 0 <= self.rate_hz < float("inf"):
            raise ConfigError(
                f"Recording.rate_hz: wanted iterations per second, or 0 for as fast as they are "
                f"taken, got {self.rate_hz}."
            )
        if self.period < 1 or self.repeat < 1:
            raise ConfigError(
                f"Recording: wanted period and repeat of 1 or more, got {self.period} and "
                f"{self.repeat}."
            )
        first, last = self.first_step, self.last_step
        if first is not None and last is not None and first > last:
            raise ConfigError(f"Recording: wanted first_step <= last_step, got {first} and {last}.")

    def offers(self) -> tuple[str, ...]:
        return self._described().offers

    def series(self) -> Series:
        return self._described().series

    def boxes(self) -> int:
        return self._described().boxes

    def iterations(self, seed: int, *, hosting: Hosting) -> Iterator[tuple[Frame, ...]]:
        """The recorded iterations; nothing is random, so the seed changes nothing."""
        rate_hz = self.rate_hz if hosting is Hosting.PROCESSES else 0.0
        return _paced(self._repeated(), rate_hz)

    @property
    def outputs(self) -> tuple[int, ...]:
        """The iterations that are streamed, as recorded; all of them once for each repetition."""
        wanted = [i for i in self._described().iterations if self._wants(i)]
        return tuple(wanted[:: self.period]) * self.repeat

    # ------------------------------------------------------------ reading

    def _repeated(self) -> Iterator[tuple[Frame, ...]]:
        shift = 0  # [steps]
        for _ in range(self.repeat):
            seen: list[int] = []
            for frames in self._once():
                seen.append(frames[0].iteration)
                yield tuple(shifted(frame, shift) for frame in frames)
            if not seen:
                raise DataError(
                    f"{self.path}: no iteration from {self.first_step} to {self.last_step}. "
                    "Set first_step and last_step to what the recording holds."
                )
            gap = seen[-1] - seen[-2] if len(seen) > 1 else 1
            shift += seen[-1] - seen[0] + gap

    def _once(self) -> Iterator[tuple[Frame, ...]]:
        reader = self._open()
        try:
            taken = 0
            for arrival in _arrivals(reader, self.path):
                wanted = self._wants(arrival.iteration)
                if wanted and taken % self.period == 0:
                    frames = whole(arrival, self.path)
                    arrival.release()
                    yield frames
                else:
                    arrival.release()
                taken += wanted
                if self.last_step is not None and arrival.iteration >= self.last_step:
                    return  # what follows, or that nobody closed it, is of no interest
        finally:
            reader.close()

    def _wants(self, iteration: int) -> bool:
        after = self.first_step is None or iteration >= self.first_step
        return after and (self.last_step is None or iteration <= self.last_step)

    def _open(self) -> StreamReader:
        return streams.open_reader(
            "bp5", self._there(), name="recording", deadline_s=0.0, follow=False
        )

    def _described(self) -> Description:
        try:
            return streams.describe(self._there())
        except ConfigError:
            raise
        except BillowError as e:
            raise ConfigError(f"Recording.path: {e}") from e

    def _there(self) -> Path:
        path = Path(self.path)
        if not (path.parent if "%" in path.name else path).exists():
            raise ConfigError(
                f"Recording.path: wanted a recorded series, got '{self.path}', which does not "
                "exist. Give its path, absolute or from where billow is started."
            )
        return path


def shifted(frame: Frame, steps: int) -> Frame:
    """The frame as if it had come so many simulation steps later."""
    if steps == 0:
        return frame
    return dataclasses.replace(
        frame, iteration=frame.iteration + steps, time_s=frame.time_s + steps * frame.dt_s
    )


def whole(arrival: Arrival, path: str) -> tuple[Frame, ...]:
    """All boxes and records of an iteration, in order of box index."""
    boxes = sorted(arrival.boxes, key=lambda box: box.index)
    frames: list[Frame] = []
    for outcome in arrival.read(boxes, arrival.offers()):
        if not isinstance(outcome, Frame):
            raise DataError(
                f"{path}, iteration {arrival.iteration}, box {outcome.key.box}: cannot be read: "
                f"{outcome.reason}. Leave the iteration out with first_step and last_step."
            )
        frames.append(outcome)
    return tuple(frames)


def _arrivals(reader: StreamReader, path: str) -> Iterator[Arrival]:
    """Every iteration of a closed series; StreamBroken where it was cut off."""
    last: int | None = None
    while True:
        arrival = reader.poll()
        if arrival is not None:
            last = arrival.iteration
            yield arrival
            continue
        if reader.state() is StreamState.ENDED:
            return
        if reader.state() is StreamState.PRODUCER_LOST:
            raise StreamBroken(
                f"{path}: truncated: its writer never closed it; the last whole iteration is "
                f"{last}. Set last_step to stream what is there."
            )
        time.sleep(POLL_S)


def _paced(iterations: Iterator[tuple[Frame, ...]], rate_hz: float) -> Iterator[tuple[Frame, ...]]:
    """The same at a rate; time lost to a slow consumer is not made up for by a burst."""
    due = time.monotonic()
    for frames in iterations:
        if rate_hz > 0:
            wait_s = due - time.monotonic()
            if wait_s > 0:
                time.sleep(wait_s)
            due = max(due, time.monotonic()) + 1 / rate_hz
        yield frames
