"""The outputs of a run of ranks, one iteration after the other, as its consumer takes them."""

from __future__ import annotations

import abc
import math
import time
from collections.abc import Iterable, Iterator

from producers.ranks import Ranks
from workflow.types import Frame


class Outputs(abc.ABC, Iterator[tuple[Frame, ...]]):
    """The frames of each output, one per rank; nothing is started before the first is asked for.

    A concrete one says how its ranks start and how a slot becomes a frame. outputs: the iterations
    that are written. pace_s: shortest wall time between two.
    """

    def __init__(self, *, count: int, outputs: Iterable[int], pace_s: float) -> None:
        self._count, self._outputs, self._pace_s = count, iter(outputs), pace_s
        self._ranks: Ranks | None = None
        self._last_s = -math.inf

    @property
    def pids(self) -> tuple[int, ...]:
        """The ranks' processes, once they run."""
        return self._ranks.pids if self._ranks is not None else ()

    def __next__(self) -> tuple[Frame, ...]:
        if self._ranks is None:
            self._ranks = self._start()
        slot = self._ranks.next_slot()
        if slot is None:
            raise StopIteration
        self._ranks.rest(self._last_s + self._pace_s - time.monotonic())
        self._last_s = time.monotonic()
        iteration = next(self._outputs)
        return tuple(self._frame(rank, iteration, slot) for rank in range(self._count))

    def close(self) -> None:
        """End the run before its end; frames must not be read any more."""
        if self._ranks is not None:
            self._ranks.close()

    @abc.abstractmethod
    def _start(self) -> Ranks:
        """Allocate, compile, and start the ranks."""

    @abc.abstractmethod
    def _frame(self, rank: int, iteration: int, slot: int) -> Frame:
        """A rank's output; its arrays hold until the next is asked for."""
