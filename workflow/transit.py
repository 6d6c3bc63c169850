"""The transform node: its own reader of the whole stream, frames to samples in transit.

`look` finds the next iteration and reports its boxes, `take` reads the boxes that were dealt to
this node, closes the iteration at once, and only then computes: the simulation never waits for
arithmetic.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workflow import chain as chains
from workflow.errors import DataError, StreamError
from workflow.protocols import Arrival, Normaliser, StreamReader, Transform
from workflow.types import Box, Dropped, Frame, Key, Sample, StreamState

log = logging.getLogger(__name__)

BY_CHOICE = "select"  # who drops boxes because the config does not want them


class Transit:
    """One transform node. `make_reader` opens the stream, where the node runs."""

    def __init__(
        self,
        *,
        name: str,
        make_reader: Callable[[str, str], StreamReader],
        chain: Sequence[Transform],
        normaliser: Normaliser | None,
        seed: int,
        shards: int,
    ) -> None:
        self.name = name
        self._make_reader = make_reader
        self._chain = tuple(chain)
        self._records = chains.needs(self._chain)
        self._normaliser = normaliser
        self._seed = seed
        self._shards = shards
        self._reader: StreamReader | None = None
        self._arrival: Arrival | None = None
        self._said: StreamState | None = None

    def open(self, stream: str, path: str) -> dict[str, Any]:
        """Join a stream; StreamTimeout when it is not there within the deadline."""
        self.close()
        began = time.monotonic()
        self._reader = self._make_reader(stream, path)
        self._said = None
        return {"name": self.name, "opened_s": time.monotonic() - began}

    def look(self) -> dict[str, Any] | None:
        """The next iteration's metadata, a change of the stream's state, or None: nothing new."""
        assert self._reader is not None, "look before open"
        if self._arrival is None:
            self._arrival = self._reader.poll()
        state = self._reader.state()
        arrival = self._arrival
        if arrival is None and state is self._said:
            return None
        self._said = state
        if arrival is None:
            return {"state": state.value, "stats": dict(self._reader.stats())}
        return {
            "state": StreamState.RUNNING.value,
            "iteration": arrival.iteration,
            "time_s": arrival.time_s,
            "boxes": arrival.boxes,
            "offers": arrival.offers(),
        }

    def take(
        self, iteration: int, boxes: Sequence[Box], shards: Mapping[int, int], held_out: bool
    ) -> tuple[Any, ...]:
        """Samples of these boxes of the iteration that `look` found.

        Returns the receipt, one list of samples per shard (`shards`: box index -> shard) and the
        list of held-out samples. The receipt lists what was made, dropped and lost, with why.
        """
        arrival, self._arrival = self._arrival, None
        assert arrival is not None, "take before look"
        assert arrival.iteration == iteration, (arrival.iteration, iteration)
        assert self._reader is not None
        began = time.monotonic()
        stream = self._reader.name
        receipt: dict[str, Any] = {"made": [], "dropped": [], "lost": [], "moments": {}}
        wanted = [box for box in boxes if chains.selects(self._chain, box)]
        receipt["dropped"] += [
            Dropped(key=Key(stream, iteration, box.index), by=BY_CHOICE, reason="not selected")
            for box in boxes
            if box not in wanted
        ]
        frames = self._read(arrival, wanted, stream, receipt)
        read_s = time.monotonic() - began
        packs: list[list[Sample]] = [[] for _ in range(self._shards + 1)]
        for frame in frames:
            made = (
                frame
                if isinstance(frame, Dropped)
                else chains.run(self._chain, frame, seed=self._seed)
            )
            if isinstance(made, Dropped):
                receipt["dropped"].append(made)
                continue
            receipt["made"].append(made.key)
            if self._normaliser is not None and not held_out:
                receipt["moments"][made.key] = self._normaliser.measure(made)
            packs[self._shards if held_out else shards[made.box.index]].append(made)
        receipt |= {
            "read_s": read_s,
            "compute_s": time.monotonic() - began - read_s,
            "bytes": sum(_bytes(frame) for frame in frames),
            "stats": dict(self._reader.stats()),
        }
        return (receipt, *packs)

    def close(self) -> None:
        """Leave the stream."""
        if self._reader is not None:
            self._reader.close()
        self._reader = self._arrival = None

    def _read(
        self, arrival: Arrival, boxes: Sequence[Box], stream: str, receipt: dict[str, Any]
    ) -> list[Frame | Dropped]:
        """The boxes' frames; the iteration is closed when this returns, whatever happened."""
        try:
            frames = arrival.read(boxes, self._records) if boxes else []
            arrival.release()
        except (StreamError, DataError) as e:
            log.warning("%s: iteration %d: %s", self.name, arrival.iteration, e)
            receipt["lost"] = [(Key(stream, arrival.iteration, b.index), str(e)) for b in boxes]
            return []
        return frames


def _bytes(frame: Frame | Dropped) -> int:
    return 0 if isinstance(frame, Dropped) else sum(a.nbytes for a in frame.arrays.values())
