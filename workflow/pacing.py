"""When to take a sample in and when to train: tied to data, never to sleeping.

    training steps owed = floor((samples - samples at the start) * batches_per_sample / parts)

where a sample goes to one of `parts` shards, so that every shard serves `batches_per_sample`
batches for each sample it takes in. The rule is a pure function of counts, so that a run's
sequence of insertions and batches does not depend on how fast anybody is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from workflow.errors import ConfigError


@dataclass
class Pacing:
    """Counts samples and says how many training steps are owed by now."""

    parts: int
    batches_per_sample: float
    first_samples: int  # every shard holds so many before the first training step
    per_shard: list[int] = field(init=False)
    samples: int = 0
    extra: int = 0  # steps owed beyond the rule: replay after the stream, or while it is away
    _start: int | None = None  # samples that were there when the first step became possible

    def __post_init__(self) -> None:
        if self.batches_per_sample <= 0 or self.parts < 1:
            raise ConfigError(
                f"replay.batches_per_sample: wanted above 0, got {self.batches_per_sample}: "
                "no training step would ever be owed."
            )
        self.per_shard = [0] * self.parts

    def insert(self, shards: Sequence[int]) -> None:
        """Samples went to these shards."""
        for shard in shards:
            self.per_shard[shard] += 1
        self.samples += len(shards)
        if self._start is None and min(self.per_shard) >= self.first_samples:
            self._start = self.samples - 1

    @property
    def warm(self) -> bool:
        return self._start is not None

    @property
    def owed(self) -> int:
        """Training steps that may have been taken by now."""
        if self._start is None:
            return 0
        new = self.samples - self._start
        return int(new * self.batches_per_sample / self.parts) + self.extra
