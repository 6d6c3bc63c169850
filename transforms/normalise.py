"""Running normalisation: moments measured per sample, merged in order, applied to batches.

Moments are kept per column (last axis) in float64, as count, mean and M2 (the sum of squared
deviations), and merged pairwise: Chan, Golub and LeVeque (1979), "Updating formulae and a pairwise
algorithm for computing sample variances", eq. 2.1. The same samples merged in the same order give
the same bits. Columns are joined into groups only when the moments are applied.

    "samples"         ()          how many samples went in
    "<array>/count"   ()          values per column
    "<array>/mean"    (columns,)
    "<array>/m2"      (columns,)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from workflow.errors import ConfigError, DataError
from workflow.types import Array, Sample

Float64 = NDArray[np.float64]
Moments = Mapping[str, Array]

SAMPLES = "samples"
ROUNDING = 2.0**-22  # a relative spread of this size is rounding of float32, not a signal


@dataclass(frozen=True, kw_only=True)
class RunningNormaliser:
    """(x - mean) / std with statistics of the run itself; they travel with every checkpoint.

    groups:       array -> groups of columns. A group has one std, so that a vector keeps its
                  direction. Columns of such an array that are in no group stand alone. An array
                  that is not named is one group: a scalar mean and std.
    mean:         one mean per "group" (as published) or per "column".
    freeze_after: samples after which the moments stay as they are; None: they run for ever.
    floor:        a std at or below it, or one lost in float32 rounding of the mean, belongs to a
                  dead channel and counts as 1: the channel comes out as zeros.
    """

    groups: Mapping[str, Sequence[Sequence[int]]] = field(default_factory=dict)
    mean: Literal["group", "column"] = "group"
    freeze_after: int | None = None
    floor: float = 1e-30

    def __post_init__(self) -> None:
        if self.mean not in ("group", "column"):
            raise ConfigError(
                f"RunningNormaliser.mean: wanted 'group' or 'column', got {self.mean!r}."
            )
        if self.freeze_after is not None and self.freeze_after < 1:
            raise ConfigError(
                f"RunningNormaliser.freeze_after: wanted samples >= 1, or nothing to run for "
                f"ever, got {self.freeze_after}."
            )
        if not 0 < self.floor < np.inf:
            raise ConfigError(
                f"RunningNormaliser.floor: wanted a small positive number, got {self.floor}."
            )
        for name, groups in self.groups.items():
            columns = [column for group in groups for column in group]
            if not all(groups) or len(set(columns)) < len(columns) or min(columns, default=0) < 0:
                raise ConfigError(
                    f"RunningNormaliser.groups['{name}']: wanted non-empty groups of column "
                    f"numbers from 0 up, none twice, got {[list(g) for g in groups]}."
                )

    def measure(self, sample: Sample) -> dict[str, Array]:
        moments: dict[str, Array] = {SAMPLES: np.asarray(1, dtype=np.int64)}
        for name, array in sample.arrays.items():
            moments.update(_moments_of(name, array))
        return moments

    def merge(self, old: Moments, new: Moments) -> dict[str, Array]:
        if not old or not new or self._frozen(old):
            return dict(old or new)
        merged: dict[str, Array] = {SAMPLES: np.asarray(old[SAMPLES] + new[SAMPLES])}
        for name in dict.fromkeys([*_names(old), *_names(new)]):
            both = [m for m in (old, new) if f"{name}/count" in m]
            merged.update(_chan(name, *both) if len(both) == 2 else _only(name, both[0]))
        return merged

    def normalise(self, name: str, stacked: Array, moments: Moments) -> Array:
        mean, std = self.scale(name, stacked, moments)
        # in float64: a mean much larger than the std must not cost digits
        return ((stacked - mean) / std).astype(np.float32)

    def denormalise(self, name: str, stacked: Array, moments: Moments) -> Array:
        mean, std = self.scale(name, stacked, moments)
        return (stacked * std + mean).astype(np.float32)

    def scale(self, name: str, stacked: Array, moments: Moments) -> tuple[Float64, Float64]:
        """Mean and std by which an array's columns are shifted and divided, (columns,) each."""
        if f"{name}/mean" not in moments:
            raise DataError(
                f"normalise '{name}': no moments of it, only of {_names(moments) or 'nothing'}. "
                "Measure samples that have it first."
            )
        count = float(moments[f"{name}/count"])
        means, m2s = moments[f"{name}/mean"], moments[f"{name}/m2"]
        if stacked.shape[-1:] != means.shape:
            raise DataError(
                f"normalise '{name}': wanted {len(means)} columns as measured, "
                f"got shape {stacked.shape}."
            )
        mean, std = means.copy(), np.empty_like(means)
        for group in self._groups(name, len(means)):
            joint = means[group].mean()
            centre = means[group] if self.mean == "column" else joint
            between = 0.0 if self.mean == "column" else np.square(means[group] - joint).sum()
            spread = np.sqrt((m2s[group].sum() + count * between) / (count * len(group)))
            mean[group] = centre
            std[group] = 1.0 if self._dead(spread, float(np.abs(joint))) else spread
        return mean, std

    def _groups(self, name: str, columns: int) -> list[list[int]]:
        if name not in self.groups:
            return [list(range(columns))]
        groups = [list(group) for group in self.groups[name]]
        named = {column for group in groups for column in group}
        if max(named, default=0) >= columns:
            raise DataError(
                f"normalise '{name}': groups name column {max(named)}, the array has {columns} "
                "columns. Correct RunningNormaliser.groups."
            )
        return groups + [[c] for c in range(columns) if c not in named]

    def _dead(self, spread: float, size: float) -> bool:
        return bool(spread <= max(self.floor, ROUNDING * size))

    def _frozen(self, moments: Moments) -> bool:
        return self.freeze_after is not None and int(moments[SAMPLES]) >= self.freeze_after


def _moments_of(name: str, array: Array) -> dict[str, Array]:
    if array.ndim == 0 or array.size == 0:
        raise DataError(f"measure '{name}': wanted at least one column, got shape {array.shape}.")
    rows = array.reshape(-1, array.shape[-1]).astype(np.float64)  # (rows, columns)
    mean = rows.mean(axis=0)
    return {
        f"{name}/count": np.asarray(len(rows), dtype=np.int64),
        f"{name}/mean": mean,
        f"{name}/m2": np.square(rows - mean).sum(axis=0),
    }


def _chan(name: str, old: Moments, new: Moments) -> dict[str, Array]:
    a, b = float(old[f"{name}/count"]), float(new[f"{name}/count"])
    if old[f"{name}/mean"].shape != new[f"{name}/mean"].shape:
        raise DataError(
            f"merge '{name}': wanted {len(old[f'{name}/mean'])} columns as before, "
            f"got {len(new[f'{name}/mean'])}."
        )
    delta = new[f"{name}/mean"] - old[f"{name}/mean"]
    return {
        f"{name}/count": np.asarray(old[f"{name}/count"] + new[f"{name}/count"]),
        f"{name}/mean": old[f"{name}/mean"] + delta * (b / (a + b)),
        f"{name}/m2": old[f"{name}/m2"] + new[f"{name}/m2"] + np.square(delta) * (a * b / (a + b)),
    }


def _only(name: str, moments: Moments) -> dict[str, Array]:
    return {f"{name}/{part}": moments[f"{name}/{part}"] for part in ("count", "mean", "m2")}


def _names(moments: Moments) -> list[str]:
    return [path.removesuffix("/mean") for path in moments if path.endswith("/mean")]
