"""What a recording holds, read before a run starts: its Series, records, boxes, iterations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from workflow.errors import ConfigError, DataError
from workflow.streams.adios_read import AdiosReader
from workflow.streams.openpmd import OFF_GRID
from workflow.streams.openpmd_read import Iteration
from workflow.types import Array, Grid, Series, StreamState

# attributes that the writer makes anew from a Series; all others are carried as they are
MADE_ANEW = {"time", "dt", "timeUnitSI", "iteration", "snapshot"}
OF_RECORDS = {
    "axisLabels", "dataOrder", "geometry", "gridSpacing", "gridUnitSI", "timeOffset",
    "unitDimension", "unitSI", "position", "macroWeighted", "weightingPower", "value", "shape",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Description:
    """All that is needed to check a config against a recording, and to publish it again."""

    series: Series
    offers: tuple[str, ...]  # records that every iteration has
    boxes: int  # the most that an iteration has
    iterations: tuple[int, ...]
    finished: bool  # False: its writer did not close it


def describe(path: Path | str, engine: str = "bp5") -> Description:
    """Look through a BP file or file-based series. Raises DataError if it is not openPMD."""
    if engine.lower() not in ("bp5", "bp4", "bp"):
        raise ConfigError(
            f"describe: wanted engine bp5, got '{engine}'. A live stream cannot be described "
            "before it runs."
        )
    reader = AdiosReader(
        "BP", path, name=Path(path).name, parameters={}, silence_s=0.0, deadline_s=0.0, follow=False
    )
    series: Series | None = None
    offers: set[str] = set()
    boxes = 0
    iterations: list[int] = []
    try:
        while (arrival := reader.poll()) is not None:
            here = series_of(arrival, *reader.software())
            series = here if series is None else _wider(series, here)
            offers = set(arrival.offers()) if not iterations else offers & set(arrival.offers())
            boxes = max(boxes, len(arrival.boxes))
            iterations.append(arrival.iteration)
            arrival.release()
    finally:
        reader.close()
    if series is None:
        raise DataError(f"{path}: wanted at least one iteration, got none.")
    return Description(
        series=series, offers=tuple(sorted(offers)), boxes=boxes, iterations=tuple(iterations),
        finished=reader.state() is StreamState.ENDED,
    )  # fmt: skip


def series_of(arrival: Iteration, software: str, version: str) -> Series:
    """The Series that one iteration tells."""
    below = arrival.below()
    components = [c for cs in arrival.records.values() for c in cs]
    positions = {}
    for component in components:
        if component.split("/")[0] in arrival.meshes:
            value = below.get(f"{arrival.meshes_path}{component}/position")
            if value is not None:
                positions[component] = tuple(float(v) for v in np.atleast_1d(value))
    return Series(
        grid=_grid(arrival, below),
        dt_s=_scalar(below.get("timeUnitSI"), 1.0),
        software=software,
        software_version=version,
        units={c: arrival.unit(c) for c in components},
        meshes=frozenset(arrival.meshes),
        mesh_position=positions,
        constants={c: float(v) for c, v in arrival.constants.items()},
        attributes={n: _plain(v) for n, v in below.items() if _is_carried(n, v, arrival)},
    )


def _wider(old: Series, new: Series) -> Series:
    """Species may come late: what a later iteration adds is added, what was known stays."""
    return replace(
        old,
        units={**new.units, **old.units},
        meshes=old.meshes | new.meshes,
        mesh_position={**new.mesh_position, **old.mesh_position},
        constants={**new.constants, **old.constants},
        attributes={**new.attributes, **old.attributes},
    )


def _is_carried(name: str, value: Any, arrival: Iteration) -> bool:
    if name in MADE_ANEW or "particlePatches" in name:
        return False
    last = name.rsplit("/", 1)[-1]
    if last == "gridGlobalOffset":
        return bool(np.any(np.asarray(value)))
    return "/" not in name or last not in OF_RECORDS


def _grid(arrival: Iteration, below: Mapping[str, Any]) -> Grid:
    """From the mesh that fits the boxes; else from the boxes, with cells of size 1 m."""
    for mesh in sorted(arrival.meshes - OFF_GRID.keys()):
        path = f"{arrival.meshes_path}{mesh}"
        shape = arrival.shape(arrival.records[mesh][0])
        spacing = np.atleast_1d(below.get(f"{path}/gridSpacing", np.zeros(0))).astype(float)
        if len(spacing) == len(shape) == len(arrival.boxes[0].extent):
            unit = _scalar(below.get(f"{path}/gridUnitSI"), 1.0)
            return Grid(shape=shape[::-1], spacing_m=tuple((spacing * unit)[::-1].tolist()))
    ends = [np.add(b.offset, b.extent) for b in arrival.boxes]
    cells = tuple(int(n) for n in np.max(ends, axis=0))
    unit = _scalar(below.get("unit_length"), 1.0)
    names = ("cell_width", "cell_height", "cell_depth")[: len(cells)]
    return Grid(shape=cells, spacing_m=tuple(_scalar(below.get(n), 1.0) * unit for n in names))


def _scalar(value: Any, otherwise: float) -> float:
    return otherwise if value is None else float(np.atleast_1d(value)[0])


def _plain(value: Any) -> str | list[str] | float | int | Array:
    """One number as a number of its own dtype, the rest as it is."""
    if isinstance(value, np.ndarray) and value.size == 1:
        return value.ravel()[0]  # type: ignore[no-any-return]
    return value  # type: ignore[no-any-return]
