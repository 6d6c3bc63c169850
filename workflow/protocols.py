"""All seams of Billow on one page. (The learners' inner seams: learners/protocols.py.)

A plug-in is a frozen dataclass or a pure function that fits one of these: picklable, comparable,
printed into the manifest. A config names it by dotted path; `workflow` imports no plug-in package.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from workflow.types import (
    Array,
    Batch,
    Box,
    Dropped,
    Frame,
    Gradient,
    Hosting,
    Progress,
    Sample,
    Series,
    StreamState,
    Update,
)

# ---------------------------------------------------------------- where frames come from


@runtime_checkable
class Producer(Protocol):
    """A simulation, or a recording of one.

    Optional, for `billow simulate`: `outputs`, the sized sequence of its iterations, and
    `cold_growth_rate(k)`, the linear theory of a wave of k [1/m] along x [1/s].
    """

    def offers(self) -> tuple[str, ...]:
        """Names of the records that every iteration has: "e/momentum", "e/weighting", "E", ..."""
        ...

    def series(self) -> Series:
        """What holds for all iterations."""
        ...

    def boxes(self) -> int:
        """How many boxes an iteration has."""
        ...

    def iterations(self, seed: int, *, hosting: Hosting) -> Iterator[tuple[Frame, ...]]:
        """Yield every output iteration as its frames, one per box, in order of box index.

        The frames' arrays are valid until the next one is asked for. The same seed gives
        the same numbers for both hostings. A lost rank raises NodeLost.
        """
        ...


# ---------------------------------------------------------------- how frames travel


@runtime_checkable
class StreamWriter(Protocol):
    """The producer's end of a stream. One iteration is put whole."""

    def put(self, frames: Sequence[Frame]) -> None:
        """Publish one iteration; waits while the queue is full and the policy is to block."""
        ...

    def close(self) -> None:
        """Say goodbye: readers then see ENDED. Never called by a producer that failed."""
        ...

    def stats(self) -> Mapping[str, float]:
        """Counters: iterations, bytes, blocked_s (time spent waiting for readers), ..."""
        ...


class Arrival(Protocol):
    """One iteration that a reader holds open: its metadata, and the boxes' data on request."""

    iteration: int
    time_s: float
    dt_s: float
    boxes: tuple[Box, ...]

    def offers(self) -> tuple[str, ...]:
        """Names of the records that this very iteration has."""
        ...

    def read(self, boxes: Sequence[Box], records: Sequence[str]) -> list[Frame | Dropped]:
        """The named records of some boxes, copied out; data moves only for these.

        A record that this iteration does not have gives Dropped, reason "missing: <record>".
        """
        ...

    def release(self) -> None:
        """Close the iteration at once: the simulation may go on."""
        ...


@runtime_checkable
class StreamReader(Protocol):
    """A consumer's end of a stream. Never blocks, never computes."""

    name: str

    def poll(self) -> Arrival | None:
        """The next iteration if one is there; the state says what None means."""
        ...

    def state(self) -> StreamState:
        """RUNNING, STALLED, ENDED or PRODUCER_LOST, after the last poll."""
        ...

    def close(self) -> None:
        """Leave the stream."""
        ...

    def stats(self) -> Mapping[str, float]:
        """Counters: iterations, bytes_read, gaps, last_iteration, ..."""
        ...


# ---------------------------------------------------------------- frames -> samples


@runtime_checkable
class Transform(Protocol):
    """One stage of the chain in transit. The arrays that the chain makes become the Sample."""

    def needs(self) -> tuple[str, ...]:
        """Records that must be in the stream: "e/momentum", ... (not what earlier stages make)."""
        ...

    def makes(self) -> Mapping[str, tuple[int, ...]]:
        """Arrays that this stage adds for the sample, with their shapes.

        An axis of -1 is as long as the stage's `species` is by then; see workflow/chain.py,
        also for the optional methods `fixes()` and `selects(box)`.
        """
        ...

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame | Dropped:
        """The frame with what this stage did to it, or why it was set aside."""
        ...


@runtime_checkable
class Normaliser(Protocol):
    """Running statistics of samples: measured in transit, merged in order, applied to batches.

    `Moments` are arrays by name, so that they travel and are kept like any other state.
    """

    def measure(self, sample: Sample) -> Mapping[str, Array]:
        """Moments of one sample; made inside a transform actor."""
        ...

    def merge(self, old: Mapping[str, Array], new: Mapping[str, Array]) -> Mapping[str, Array]:
        """Moments of both together ({} is the empty set)."""
        ...

    def normalise(self, name: str, stacked: Array, moments: Mapping[str, Array]) -> Array:
        """One stacked array (rows, ...) of a batch, normalised."""
        ...

    def denormalise(self, name: str, stacked: Array, moments: Mapping[str, Array]) -> Array:
        """The way back."""
        ...


# ---------------------------------------------------------------- the run graph


class Node(Protocol):
    """A thing that runs: does one small step at a time, never blocks, never sleeps."""

    def step(self) -> Progress: ...


class ReplayShard(Protocol):
    """Serves one part of every training batch, from a now-buffer and a reservoir."""

    def insert(self, samples: Sequence[Sample]) -> Mapping[str, Any]:
        """Take new samples in this order; returns fill counters and the keys evicted unseen."""
        ...

    def batch(self, step: int, moments: Mapping[str, Array]) -> tuple[Mapping[str, Any], Batch]:
        """Part of training step `step`: a pure function of (seed, step, contents).

        Returns (manifest, batch); the manifest has rows, from_now, digest.
        """
        ...


class Learner(Protocol):
    """Weights and optimizer; holds no samples, so any learner can take any part."""

    def gradient(self, batch: Batch) -> tuple[Mapping[str, Any], Gradient]:
        """Returns (receipt, offer); the receipt has learner, step, part, loss terms, busy_s."""
        ...

    def apply(self, update: Update) -> Mapping[str, Any]:
        """Apply one update (nothing when its values are None); returns step and digest."""
        ...

    def evaluate(
        self, arrays: Mapping[str, Array], state: Mapping[str, Array] | None = None
    ) -> Mapping[str, float]:
        """Loss terms on normalised held-out arrays, with own weights or those of `state`.

        No random draws: the same arrays and weights give the same bits.
        """
        ...

    def state(self) -> Mapping[str, Array]:
        """Weights ("weights/...") and optimizer ("optimizer/...") as arrays."""
        ...

    def load_state(self, state: Mapping[str, Array]) -> str:
        """Take over a peer's state; returns the weights' digest."""
        ...

    def digest(self) -> str:
        """Of the weights, bit for bit."""
        ...


class Rule(Protocol):
    """(k, d) offers -> (d,) update; pure."""

    def __call__(self, offers: Array) -> Array: ...


class Attack(Protocol):
    """What a lying learner sends instead of its gradient; for experiments."""

    def __call__(self, values: Array, *, step: int, rng: np.random.Generator) -> Array: ...
