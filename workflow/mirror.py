"""The journal as TensorBoard curves, if the extra `tensorboard` is installed.

One directory per writer (a learner, a shard, else the source), because TensorBoard shows each as
a curve of its own and stands still when two processes write into one. Everything mirrored is in
the journal as well: a mirror that fails is switched off, and the run goes on.
"""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from workflow.journal import Event, number

log = logging.getLogger(__name__)

FOLDER = "tensorboard"  # in the run folder
FLUSH_S = 2.0
SIDE_FIELDS = ("norm", "busy_s", "wait_s", "blocked_s", "bytes")  # numbers beside `value`


class Mirror:
    """Writes the numbers of events as scalars. Feed it events in order of time."""

    def __init__(self, folder: Path) -> None:
        self._folder = Path(folder) / FOLDER
        self._writers: dict[str, Any] = {}
        self._steps: Counter[tuple[str, str]] = Counter()  # of events that name no step
        self._flushed = time.monotonic()
        self._off = False

    def feed(self, event: Event) -> None:
        """Mirror one event; those without a number leave no trace."""
        if self._off:
            return
        try:
            name = writer_name(event)
            for tag, value in scalars(event):
                self._writer(name).add_scalar(
                    tag, _float32(value), self._step(event, name, tag), wall_time=event["t"]
                )
            if time.monotonic() - self._flushed > FLUSH_S:
                self.flush()
        except OSError as e:
            self._off = True
            log.error("%s: TensorBoard is no longer written: %s. See the journal.", self._folder, e)

    def flush(self) -> None:
        """Bring everything fed so far onto the file system."""
        self._flushed = time.monotonic()
        for writer in self._writers.values():
            writer.flush()

    def close(self) -> None:
        for name in list(self._writers):
            try:
                self._writers.pop(name).close()
            except OSError as e:
                log.error("%s: the end of '%s' is not written: %s", self._folder, name, e)

    def _writer(self, name: str) -> Any:
        if name not in self._writers:
            from tensorboard.summary import Writer

            self._writers[name] = Writer(str(self._folder / name))
        return self._writers[name]

    def _step(self, event: Event, name: str, tag: str) -> int:
        step = number(event.get("step"))
        if step is not None and abs(step) < 2**53:
            return int(step)
        self._steps[name, tag] += 1
        return self._steps[name, tag] - 1


def mirror_or_none(folder: Path) -> Mirror | None:
    """A mirror into the run folder, or None (and a line in the log) where TensorBoard is not."""
    try:
        import tensorboard.summary  # noqa: F401
    except (ImportError, AttributeError, TypeError) as e:  # absent, or at odds with NumPy, protobuf
        log.info("no TensorBoard mirror: %s. Install 'billow[tensorboard]' to have one.", e)
        return None
    return Mirror(folder)


def scalars(event: Event) -> Iterator[tuple[str, float]]:
    """Tags and numbers of an event: its value, its terms, and known numbers beside them."""
    name = event["event"]
    value = number(event.get("value"))
    if value is not None:
        yield name, value
    terms = event.get("terms")
    if isinstance(terms, dict):
        for term, part in terms.items():
            value = number(part)
            if value is not None:
                yield f"{name}/{term}", value
    area = name.partition("/")[0]
    for field in SIDE_FIELDS:
        value = number(event.get(field))
        if value is not None:
            yield f"{area}/{field}", value


def writer_name(event: Event) -> str:
    """The directory of an event's curves: a plain name, whatever the event says."""
    who = event.get("learner") or event.get("node")
    if who is None and number(event.get("part")) is not None:
        who = f"part-{event['part']}"
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", str(who or event["source"]))[:80]
    return plain if plain.strip(".") else "unnamed"


def _float32(value: float) -> np.float32:
    with np.errstate(over="ignore"):
        return np.float32(value)
