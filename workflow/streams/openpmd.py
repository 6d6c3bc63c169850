"""The openPMD layout as PIConGPU writes it: names, attributes and blocks of one iteration.

Pure: nothing here knows an engine. Names follow the openPMD standard 1.1.0 and its ED-PIC
extension. Order of axes: `Box` and `Grid` are x, y(, z); whatever belongs to a mesh is z, y, x,
except `position` of a component, which PIConGPU writes as x, y(, z).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from workflow.errors import ConfigError, DataError
from workflow.types import DIMENSIONLESS, Array, Frame, Series, Unit

Encoding = Literal["variable_based", "group_based"]
Attribute = Any  # a string, a list of strings, a number or an array of numbers

MESHES = "fields/"
PARTICLES = "particles/"
GROUPS = "__openPMD_groups"
RANK_TABLE = "/rankTable"
SNAPSHOT = "/data/snapshot"
JSON_SUFFIX = "_json"  # twin of a list of strings, which SST loses
AXES = ("x", "y", "z")
# Meshes of PIConGPU's radiation plugin lie on no grid: names of their axes. With a first axis
# RANK each box has a row of its own; the others are the same for all boxes.
RANK, DIRECTION, FREQUENCY = "rank", "detector direction index", "detector frequency index"
OFF_GRID = {
    "Amplitude": (DIRECTION, FREQUENCY, "None"),
    "Amplitude_distributed": (RANK, DIRECTION, FREQUENCY),
    "DetectorDirection": (DIRECTION, "None", "None"),
    "DetectorFrequency": ("None", FREQUENCY, "None"),
}


@dataclass(frozen=True, kw_only=True)
class GlobalArray:
    """One variable: a global shape, and one block (start, values) per box."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    blocks: tuple[tuple[tuple[int, ...], Array], ...]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """All that one iteration puts: full paths of variables, attributes and groups."""

    variables: dict[str, GlobalArray] = field(default_factory=dict)
    attributes: dict[str, Attribute] = field(default_factory=dict)
    groups: set[str] = field(default_factory=set)

    def group(self, path: str) -> None:
        """Mark a group and all groups above it."""
        parts = path.strip("/").split("/")
        self.groups.update("/" + "/".join(parts[:i]) for i in range(1, len(parts) + 1))


def check_encoding(encoding: str) -> Encoding:
    """The encoding, if it is one."""
    if encoding not in get_args(Encoding):
        raise ConfigError(
            f"encoding: '{encoding}' is not known; wanted one of {', '.join(get_args(Encoding))}."
        )
    return encoding  # type: ignore[return-value]


def base_path(encoding: Encoding, iteration: int) -> str:
    """Where an iteration's names begin."""
    return "/data/" if encoding == "variable_based" else f"/data/{iteration}/"


def record_of(component: str, meshes: frozenset[str] | set[str]) -> str:
    """The record that a component path belongs to: "e/momentum/x" -> "e/momentum"."""
    parts = component.split("/")
    return parts[0] if parts[0] in meshes else "/".join(parts[:2])


def root_attributes(series: Series, encoding: Encoding) -> dict[str, Attribute]:
    """What stands at the root of the series, once; a path only when something lies there."""
    varies = encoding == "variable_based"
    paths = {}
    if series.meshes:
        paths["/meshesPath"] = MESHES
    if any(name.split("/")[0] not in series.meshes for name in series.units):
        paths["/particlesPath"] = PARTICLES
    return {
        **paths,
        "/openPMD": "1.1.0",
        "/openPMDextension": np.uint32(1),
        "/basePath": "/data" if varies else "/data/%T/",
        "/iterationEncoding": "variableBased" if varies else "groupBased",
        "/iterationFormat": "/data" if varies else "/data/%T/",
        "/software": series.software,
        "/softwareVersion": series.software_version or "unknown",
        "/picongpuIOVersionMajor": np.int32(3),
        "/picongpuIOVersionMinor": np.int32(0),
        "__openPMD_internal/openPMD2_adios2_schema": np.uint64(0),
        "__openPMD_internal/useSteps": np.uint8(1),
        "__openPMD_internal/useModifiableAttributes": np.uint8(varies),
    }


def _single(value: Any) -> Array:
    """As float, PIConGPU's choice, where that loses nothing; else as double."""
    exact = np.asarray(value, np.float64)
    single = exact.astype(np.float32)
    return single if np.array_equal(single, exact) else exact


def lay_out(series: Series, frames: Sequence[Frame], encoding: Encoding) -> Layout:
    """One iteration as variables, attributes and groups. Raises DataError on frames that differ."""
    frames = sorted(frames, key=lambda frame: frame.box.index)
    first = _check(frames)
    layout, base = Layout(), base_path(encoding, first.iteration)
    layout.group(base)
    units = {**series.units, **{k: u for frame in frames for k, u in frame.units.items()}}
    components = dict.fromkeys(name for frame in frames for name in frame.arrays)
    species: dict[str, list[str]] = {}
    for name in components:
        if name.split("/")[0] in series.meshes:
            _mesh(layout, base, name, series, units, frames)
        else:
            species.setdefault(name.split("/")[0], []).append(name)
    for kind, names in species.items():
        _species(layout, base, kind, names, series, units, frames)
    for name, value in series.attributes.items():
        if _is_there(layout, base, name):
            layout.attributes[base + name] = value
    _times(layout, base, first, series, encoding)
    return layout


def _check(frames: Sequence[Frame]) -> Frame:
    if not frames:
        raise DataError("an iteration needs at least one frame, got none: put one per box.")
    first = frames[0]
    for index, frame in enumerate(frames):
        if frame.iteration != first.iteration or frame.box.index != index:
            raise DataError(
                f"frames of one put: wanted iteration {first.iteration}, boxes 0 to "
                f"{len(frames) - 1}, got iteration {frame.iteration}, box {frame.box.index}. "
                "Put all boxes of one iteration together."
            )
    return first


def _is_there(layout: Layout, base: str, name: str) -> bool:
    """Attributes below a mesh or species go out only where that exists in this iteration."""
    parts = name.split("/")
    return len(parts) < 3 or base + "/".join(parts[:2]) in layout.groups | layout.variables.keys()


def _times(layout: Layout, base: str, first: Frame, series: Series, encoding: Encoding) -> None:
    """time and dt in steps, as PIConGPU has them: seconds = time * timeUnitSI.

    Always double: a float ends at 2^24 steps, and in a stream an attribute keeps its type for ever.
    """
    steps = first.time_s / series.dt_s
    on_the_step = math.isclose(steps, first.iteration, rel_tol=1e-9, abs_tol=1e-9)
    layout.attributes.update(
        {
            base + "time": np.float64(first.iteration if on_the_step else steps),
            base + "dt": np.float64(first.dt_s / series.dt_s),
            base + "timeUnitSI": np.float64(series.dt_s),
            base + "iteration": np.uint32(first.iteration),
        }
    )
    if encoding == "variable_based":
        layout.attributes[SNAPSHOT] = np.array([first.iteration], np.uint64)


def _unit(units: Mapping[str, Unit], name: str) -> Unit:
    if name not in units:
        raise DataError(
            f"{name}: wanted its unit, got units of {', '.join(sorted(units)) or 'nothing'}. "
            "Add it to Series.units."
        )
    return units[name]


def _mesh(
    layout: Layout,
    base: str,
    name: str,
    series: Series,
    units: Mapping[str, Unit],
    frames: Sequence[Frame],
) -> None:
    """One component of a mesh: of the grid; or a row per box; or one array that all boxes share."""
    kind = name.split("/")[0]
    mesh, path, unit = base + MESHES + kind, base + MESHES + name, _unit(units, name)
    first = next(frame.arrays[name] for frame in frames if name in frame.arrays)
    on_grid = kind not in OFF_GRID and first.ndim == len(series.grid.shape)
    labels = list(OFF_GRID.get(kind, ("x",)))
    spacing, unit_length = np.ones(len(labels)), 1.0
    if on_grid:
        labels = list(AXES[: first.ndim][::-1])
        unit_length = float(series.attributes.get("unit_length", 1.0))
        spacing = np.array(series.grid.spacing_m[::-1]) / unit_length
        layout.attributes[f"{mesh}/fieldSmoothing"] = "none"
    layout.attributes.update(
        {
            f"{mesh}/axisLabels": labels,
            f"{mesh}/dataOrder": "C",
            f"{mesh}/geometry": "cartesian",
            f"{mesh}/gridSpacing": spacing,
            f"{mesh}/gridGlobalOffset": np.zeros(len(spacing)),
            f"{mesh}/gridUnitSI": np.float64(unit_length),
            f"{mesh}/timeOffset": _single(unit.time_offset),
            f"{mesh}/unitDimension": np.array(unit.dimension),
            f"{path}/unitSI": np.float64(unit.si),
            f"{path}/position": _single(series.mesh_position.get(name, (0.0,) * len(spacing))),
        }
    )
    if kind in OFF_GRID and labels[0] != RANK:
        blocks: tuple[tuple[tuple[int, ...], Array], ...] = (((0,) * first.ndim, first),)
        shape = first.shape
    elif on_grid:
        # A recorded range lies somewhere in the full grid: blocks are relative to its corner.
        corner = series.attributes.get(f"{MESHES}{kind}/gridGlobalOffset", 0.0 * spacing)
        shift = np.rint(corner / spacing).astype(int)
        blocks, shape = _cut(name, frames, shift), series.grid.shape[::-1]
    else:
        blocks, shape = _rows(name, frames, first.shape), (len(frames), *first.shape)
    layout.variables[path] = GlobalArray(dtype=first.dtype, shape=shape, blocks=blocks)
    layout.group(mesh if "/" in name else base + MESHES)


def _cut(
    name: str, frames: Sequence[Frame], shift: Array
) -> tuple[tuple[tuple[int, ...], Array], ...]:
    """Each box's part of the grid, less `shift` cells (z, y, x)."""
    return tuple(
        (
            tuple((np.array(frame.box.offset[::-1]) - shift).tolist()),
            _of_mesh(name, frame, frame.box.extent[::-1]),
        )
        for frame in frames
    )


def _rows(
    name: str, frames: Sequence[Frame], shape: tuple[int, ...]
) -> tuple[tuple[tuple[int, ...], Array], ...]:
    """A row per box."""
    return tuple(
        ((frame.box.index, *(0,) * len(shape)), _of_mesh(name, frame, shape)[np.newaxis])
        for frame in frames
    )


def _of_mesh(name: str, frame: Frame, wanted: tuple[int, ...]) -> Array:
    array = frame.arrays.get(name)
    if array is None or array.shape != wanted:
        raise DataError(
            f"{name}: wanted shape {wanted} of box {frame.box.index} in iteration "
            f"{frame.iteration}, got {'nothing' if array is None else array.shape}. A mesh is "
            "put by every box."
        )
    return array


def _species(
    layout: Layout,
    base: str,
    kind: str,
    names: Sequence[str],
    series: Series,
    units: Mapping[str, Unit],
    frames: Sequence[Frame],
) -> None:
    counts = [_count(kind, names, frame) for frame in frames]
    starts = [sum(counts[:i]) for i in range(len(counts))]
    total = sum(counts)
    for name in names:
        if name in series.constants:
            continue  # goes out as a constant below
        found = [frame.arrays[name] for frame in frames if name in frame.arrays]
        nothing = np.zeros(0, found[0].dtype)
        blocks = tuple(
            ((start,), frame.arrays.get(name, nothing))
            for start, frame in zip(starts, frames, strict=True)
        )
        path = base + PARTICLES + name
        layout.variables[path] = GlobalArray(dtype=found[0].dtype, shape=(total,), blocks=blocks)
        _record(layout, base, name, _unit(units, name))
        layout.group(path.rsplit("/", 1)[0])
    for name, value in series.constants.items():
        if name.split("/")[0] == kind:
            path = base + PARTICLES + name
            _record(layout, base, name, _unit(units, name))
            layout.attributes[f"{path}/timeOffset"] = np.float64(_unit(units, name).time_offset)
            layout.attributes[f"{path}/value"] = np.float64(value)  # one dtype for ever
            layout.attributes[f"{path}/shape"] = np.array([total], np.uint64)
            layout.group(path)
    _patches(layout, f"{base}{PARTICLES}{kind}/particlePatches", counts, starts, frames)


def _count(kind: str, names: Sequence[str], frame: Frame) -> int:
    """Particles of a species in a box."""
    lengths = {name: len(frame.arrays[name]) for name in names if name in frame.arrays}
    if len(set(lengths.values())) > 1 or (lengths and len(lengths) < len(names)):
        raise DataError(
            f"{kind} in box {frame.box.index} of iteration {frame.iteration}: wanted all of "
            f"{', '.join(names)} with one length, got {lengths}."
        )
    return next(iter(lengths.values()), 0)


def _record(layout: Layout, base: str, name: str, unit: Unit) -> None:
    record = base + PARTICLES + "/".join(name.split("/")[:2])
    layout.attributes.update(
        {
            f"{record}/unitDimension": np.array(unit.dimension),
            f"{record}/timeOffset": _single(unit.time_offset),
            f"{record}/macroWeighted": np.uint32(unit.macro_weighted),
            f"{record}/weightingPower": np.float64(unit.weighting_power),
            f"{base}{PARTICLES}{name}/unitSI": np.float64(unit.si),
        }
    )


def _patches(
    layout: Layout, path: str, counts: Sequence[int], starts: Sequence[int], frames: Sequence[Frame]
) -> None:
    """One patch per box: how many particles, where they start, and the box in cells."""
    columns: dict[str, Sequence[int]] = {"numParticles": counts, "numParticlesOffset": starts}
    for axis in range(len(frames[0].box.offset)):
        columns[f"offset/{AXES[axis]}"] = [frame.box.offset[axis] for frame in frames]
        columns[f"extent/{AXES[axis]}"] = [frame.box.extent[axis] for frame in frames]
    for name, values in columns.items():
        layout.variables[f"{path}/{name}"] = GlobalArray(
            dtype=np.dtype(np.uint64),
            shape=(len(frames),),
            blocks=tuple(((i,), np.array([v], np.uint64)) for i, v in enumerate(values)),
        )
        layout.attributes[f"{path}/{name}/unitSI"] = np.float64(1.0)
        layout.attributes[f"{path}/{name.split('/')[0]}/unitDimension"] = np.array(DIMENSIONLESS)
    layout.group(f"{path}/offset")
    layout.group(f"{path}/extent")


def rank_table(hosts: Sequence[str]) -> GlobalArray:
    """Host of each rank, as rows of zero-ended characters: (ranks, longest + 1) int8."""
    width = max(len(host.encode()) for host in hosts) + 1
    rows = [np.frombuffer(h.encode().ljust(width, b"\0"), np.int8)[np.newaxis] for h in hosts]
    return GlobalArray(
        dtype=np.dtype(np.int8),
        shape=(len(hosts), width),
        blocks=tuple(((i, 0), row) for i, row in enumerate(rows)),
    )


def hosts_of(table: Array) -> list[str]:
    """The way back from a rank table."""
    rows = np.ascontiguousarray(table).view(np.uint8)
    return [bytes(row).split(b"\0")[0].decode(errors="replace") for row in rows]


def list_as_json(values: Sequence[str]) -> str:
    """A list of strings in one string."""
    return json.dumps(list(values))
