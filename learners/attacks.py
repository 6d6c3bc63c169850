"""What a lying or broken learner sends instead of its gradient, for experiments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workflow.errors import ConfigError
from workflow.types import Array


@dataclass(frozen=True, kw_only=True)
class SignFlip:
    """The gradient, `scale` times as long, the other way."""

    scale: float = 1.0

    def __call__(self, values: Array, *, step: int, rng: np.random.Generator) -> Array:
        return np.asarray(-self.scale * values, dtype=np.float32)


@dataclass(frozen=True, kw_only=True)
class GaussianNoise:
    """The gradient with normal noise on top, of `scale` times its root mean square."""

    scale: float = 1.0

    def __call__(self, values: Array, *, step: int, rng: np.random.Generator) -> Array:
        size = np.sqrt(np.mean(np.square(values, dtype=np.float64)))
        return np.asarray(values + self.scale * size * rng.standard_normal(values.size), np.float32)


@dataclass(frozen=True, kw_only=True)
class NotANumber:
    """NaN in a share of the values (at least one), at places drawn anew every step."""

    share: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ConfigError(f"NotANumber: wanted 0 < share <= 1, got {self.share}.")

    def __call__(self, values: Array, *, step: int, rng: np.random.Generator) -> Array:
        count = max(1, round(self.share * values.size))
        lie = np.array(values, dtype=np.float32)
        lie[rng.choice(values.size, count, replace=False)] = np.nan
        return lie


@dataclass(frozen=True, kw_only=True)
class Constant:
    """The same number in every value."""

    value: float

    def __call__(self, values: Array, *, step: int, rng: np.random.Generator) -> Array:
        return np.full(values.shape, self.value, dtype=np.float32)
