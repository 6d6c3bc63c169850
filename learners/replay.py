"""Replay: a now-buffer of the newest samples and a reservoir of all earlier ones.

A sample enters the now-buffer (first in, first out). What it pushes out is offered to the
reservoir, which keeps a uniform random subset of everything ever offered (Vitter 1985,
algorithm R): after n offers each is kept with probability min(1, size / n).
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from learners.digests import digest_of
from workflow.errors import CheckpointError, ConfigError, DataError
from workflow.protocols import Normaliser
from workflow.types import Array, Batch, Key, Sample

KEEP, LATENT = 1, 2  # spawn keys of the draws that are not those of a batch's rows


class Shard:
    """Node of the run graph that serves one part of every batch; see workflow.protocols."""

    def __init__(
        self,
        *,
        part: int,
        seed: int,
        now: int,
        reservoir: int,
        rows: int,
        normaliser: Normaliser | None,
        arrays: tuple[str, ...],
    ) -> None:
        if now < 1 or reservoir < 0 or rows < 1 or not arrays:
            raise ConfigError(
                "replay: wanted now >= 1, reservoir >= 0, rows >= 1 and arrays to keep, got "
                f"now {now}, reservoir {reservoir}, rows {rows}, arrays {list(arrays)}."
            )
        self._part, self._seed, self._rows = part, seed, rows
        self._normaliser, self._names = normaliser, arrays
        self._now_size, self._reservoir_size = now, reservoir
        self._store: dict[str, Array] = {}  # name -> (slots, ...), made with the first sample
        self._clear()

    def _clear(self) -> None:
        slots = self._now_size + self._reservoir_size
        self._keys: list[Key | None] = [None] * slots
        self._drawn = np.zeros(slots, dtype=np.int64)  # rows of batches made, by slot
        self._now: deque[int] = deque()  # slots, oldest first
        self._reservoir: list[int] = []  # slots
        self._free = list(range(slots))[::-1]
        self._seen = 0  # samples taken in so far
        self._offered = 0  # samples that the now-buffer has pushed out so far

    # ------------------------------------------------------------ samples in

    def ready(self) -> bool:
        """Whether a batch can be made: there is at least one sample."""
        return bool(self._now)

    def insert(self, samples: Sequence[Sample]) -> Mapping[str, Any]:
        """Take new samples in this order.

        Returns the fill of now-buffer and reservoir (`now`, `reservoir`), how many samples were
        ever taken (`seen`), the keys of those that left without having been drawn
        (`evicted_unseen`), and [key, reason] of those not taken (`refused`): non-finite ones, and
        ones that are here already. Another shape than the first sample's, or a missing array, is
        a DataError that names the box; then none of the samples is taken.
        """
        shapes = {name: store.shape[1:] for name, store in self._store.items()}
        for sample in samples:
            self._check(sample, shapes)
        unseen: list[Key] = []
        refused: list[tuple[Key, str]] = []
        here = {key for key in self._keys if key is not None}
        for sample in samples:
            if reason := self._refusal(sample, here):
                refused.append((sample.key, reason))
                continue
            here.add(sample.key)
            if len(self._now) == self._now_size:
                gone = self._offer(self._now.popleft())
                if gone is not None:
                    here.discard(self._keys[gone])
                    unseen += self._leave(gone)
            self._take(sample)
        return {
            "now": len(self._now),
            "reservoir": len(self._reservoir),
            "seen": self._seen,
            "evicted_unseen": unseen,
            "refused": refused,
        }

    def _check(self, sample: Sample, shapes: dict[str, tuple[int, ...]]) -> None:
        """DataError unless the sample has all arrays in the shapes, which the first one sets."""
        for name in self._names:
            if name not in sample.arrays:
                raise DataError(
                    f"{_place(sample.key)}: wanted the array '{name}', got "
                    f"{sorted(sample.arrays)}. Check the chain of transforms."
                )
            got = sample.arrays[name].shape
            wanted = shapes.setdefault(name, got)
            if got != wanted:
                raise DataError(
                    f"{_place(sample.key)}: '{name}': wanted shape {wanted} as in the samples "
                    f"before, got {got}. Draw a fixed number of particles from each box."
                )

    def _refusal(self, sample: Sample, here: set[Key]) -> str:
        if sample.key in here:
            return "is here already"
        for name in self._names:
            if not np.isfinite(sample.arrays[name]).all():
                return f"non-finite values in '{name}'"
        return ""

    def _take(self, sample: Sample) -> None:
        slot = self._free.pop()
        for name in self._names:
            if name not in self._store:
                self._store[name] = self._room(sample.arrays[name].shape)
            self._store[name][slot] = sample.arrays[name]
        stream, iteration, box = sample.key
        self._keys[slot] = Key(stream, int(iteration), int(box))
        self._drawn[slot] = 0
        self._now.append(slot)
        self._seen += 1

    def _room(self, shape: tuple[int, ...]) -> Array:
        """Storage for one array of every sample that can be held; touched only as it fills."""
        return np.empty((len(self._keys), *shape), dtype=np.float32)

    def _offer(self, slot: int) -> int | None:
        """Algorithm R: keep the slot, or one in its place; returns the slot that must go."""
        self._offered += 1
        if len(self._reservoir) < self._reservoir_size:
            self._reservoir.append(slot)
            return None
        seeds = np.random.SeedSequence([self._seed, self._part, self._offered], spawn_key=(KEEP,))
        place = int(np.random.default_rng(seeds).integers(self._offered))
        if place >= self._reservoir_size:
            return slot
        gone, self._reservoir[place] = self._reservoir[place], slot
        return gone

    def _leave(self, slot: int) -> list[Key]:
        """Free a slot; returns its key if it was never drawn."""
        key, self._keys[slot] = self._keys[slot], None
        self._free.append(slot)
        return [key] if key is not None and self._drawn[slot] == 0 else []

    # ------------------------------------------------------------ batches out

    def batch(self, step: int, moments: Mapping[str, Array]) -> tuple[Mapping[str, Any], Batch]:
        """(manifest, batch) of one training step: a pure function of (seed, step, contents).

        Half of the rows (rounded up) come from the now-buffer and half from the reservoir. What
        one of them lacks comes from the other, so that no sample is in a batch twice unless the
        shard holds fewer than `rows`: then the batch has the whole reservoir once, and the
        now-buffer's samples fill it up, each as often as any other, give or take one. An empty
        shard gives a batch without rows.
        """
        rng = np.random.default_rng(np.random.SeedSequence([self._seed, self._part, step]))
        slots, from_now = self._draw(rng)
        self._drawn += np.bincount(slots, minlength=len(self._drawn))
        arrays = {name: self._stacked(name, slots, moments) for name in self._names if len(slots)}
        rows = tuple(key for s in slots if (key := self._keys[s]) is not None)
        latent = np.random.SeedSequence([self._seed, self._part, step], spawn_key=(LATENT,))
        batch = Batch(
            step=step,
            part=self._part,
            arrays=arrays,
            rows=rows,
            from_now=from_now,
            seed=int(latent.generate_state(1, np.uint64)[0] >> 1),
            digest=digest_of(arrays, label=json.dumps(rows)),
        )
        manifest = {
            "step": step,
            "part": self._part,
            "rows": list(rows),
            "from_now": from_now,
            "digest": batch.digest,
            "bytes": sum(array.nbytes for array in arrays.values()),
        }
        return manifest, batch

    def _draw(self, rng: np.random.Generator) -> tuple[Array, int]:
        """Slots of the rows, and how many of them (the first ones) are of the now-buffer."""
        now = np.array(self._now, dtype=np.intp)
        reservoir = np.array(self._reservoir, dtype=np.intp)
        if len(now) == 0:
            return now, 0
        replayed = min(len(reservoir), max(self._rows // 2, self._rows - len(now)))
        from_now = self._rows - replayed
        rounds, rest = divmod(from_now, len(now))
        again = [rng.permutation(now) for _ in range(rounds)]
        fresh = rng.choice(now, rest, replace=False)
        replay = rng.choice(reservoir, replayed, replace=False)
        return np.concatenate([*again, fresh, replay]), from_now

    def _stacked(self, name: str, slots: Array, moments: Mapping[str, Array]) -> Array:
        stacked = self._store[name][slots]  # (rows, ...)
        if self._normaliser is not None:
            stacked = self._normaliser.normalise(name, stacked, moments)
        return np.ascontiguousarray(stacked, dtype=np.float32)

    # ------------------------------------------------------------ what it holds

    def contents(self) -> Mapping[str, Any]:
        """Keys held (now-buffer oldest first), and how often each was drawn into a batch."""
        return {
            "now": [self._keys[s] for s in self._now],
            "reservoir": [self._keys[s] for s in self._reservoir],
            "drawn": {self._keys[s]: int(self._drawn[s]) for s in (*self._now, *self._reservoir)},
            "seen": self._seen,
            "offered": self._offered,
        }

    def state(self) -> Mapping[str, Array]:
        """All that it holds, as arrays: rows of the now-buffer (oldest first), then the reservoir.

        "data/<name>" (n, ...), "keys" (JSON as bytes), "drawn" (n,) and "counts": samples in the
        now-buffer and in the reservoir, seen, offered.
        """
        slots = np.array([*self._now, *self._reservoir], dtype=np.intp)
        keys = json.dumps([self._keys[s] for s in slots]).encode()
        counts = [len(self._now), len(self._reservoir), self._seen, self._offered]
        return {
            **{f"data/{name}": store[slots] for name, store in self._store.items()},
            "keys": np.frombuffer(keys, dtype=np.uint8),
            "drawn": self._drawn[slots],
            "counts": np.array(counts, dtype=np.int64),
        }

    def load_state(self, state: Mapping[str, Array]) -> None:
        """Go on from a state as if nothing had happened; CheckpointError when it does not fit."""
        try:
            now, reservoir, seen, offered = (int(n) for n in state["counts"])
            keys = [Key(*key) for key in json.loads(np.asarray(state["keys"]).tobytes())]
            data = {n: state[f"data/{n}"] for n in self._names} if keys else {}
            drawn = state["drawn"]
        except (KeyError, ValueError, TypeError) as e:
            raise CheckpointError(
                f"replay state of part {self._part}: wanted counts, keys, drawn and data of "
                f"{list(self._names)}, got {sorted(state)} ({e!r}). Use an earlier checkpoint."
            ) from e
        held = now + reservoir
        wrong = [name for name, array in data.items() if len(array) != held]
        if len(keys) != held or len(drawn) != held or wrong:
            raise CheckpointError(
                f"replay state of part {self._part}: wanted {held} samples as counted, got "
                f"{len(keys)} keys, {len(drawn)} counts. It is torn: use an earlier checkpoint."
            )
        if now > self._now_size or reservoir > self._reservoir_size:
            raise CheckpointError(
                f"replay state of part {self._part}: wanted at most now {self._now_size} and "
                f"reservoir {self._reservoir_size}, got {now} and {reservoir}. "
                "Resume with the buffer sizes that it was written with."
            )
        self._clear()
        slots = [self._free.pop() for _ in range(held)]
        for name, array in data.items():
            self._store[name] = self._room(array.shape[1:])
            self._store[name][slots] = array
        for slot, key in zip(slots, keys, strict=True):
            self._keys[slot] = key
        self._drawn[slots] = drawn
        self._now.extend(slots[:now])
        self._reservoir.extend(slots[now:])
        self._seen, self._offered = seen, offered


def _place(key: Key) -> str:
    return f"stream '{key.stream}', iteration {key.iteration}, box {key.box}"
