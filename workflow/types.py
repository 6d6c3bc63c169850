"""What flows through a run: frozen, keyword-only dataclasses of NumPy arrays.

    Frame ──transforms──▶ Sample ──replay──▶ Batch ──learner──▶ Gradient ──reducer──▶ Update

Constructors mark every array read-only, because Ray delivers arrays so and a one-thread run must
not differ. Axis order: `offset`, `extent`, `shape` and `spacing` of boxes and grids are in physics
order x, y(, z); mesh arrays are C-ordered as openPMD stores them, (y, x) or (z, y, x).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

DIMENSIONLESS = (0.0,) * 7
LENGTH = (1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
MOMENTUM = (1.0, 1.0, -1.0, 0.0, 0.0, 0.0, 0.0)
MASS = (0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0)
CHARGE = (0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0)
ELECTRIC_FIELD = (1.0, 1.0, -3.0, -1.0, 0.0, 0.0, 0.0)
MAGNETIC_FIELD = (0.0, 1.0, -2.0, -1.0, 0.0, 0.0, 0.0)
ACTION = (2.0, 1.0, -1.0, 0.0, 0.0, 0.0, 0.0)  # energy times time
PER_TIME = (0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0)


class Progress(enum.Enum):
    """What one `Node.step()` did."""

    WORKED = "worked"
    IDLE = "idle"
    DONE = "done"


class StreamState(enum.Enum):
    """The four states of a stream; they are never mixed up."""

    RUNNING = "running"
    STALLED = "stalled"  # nothing new for longer than the configured silence
    ENDED = "ended"  # the producer closed it
    PRODUCER_LOST = "producer_lost"  # it broke: a crash never looks like an end


class Hosting(enum.Enum):
    """Where the parts of a run live: all in the caller's thread, or each in its own process."""

    INLINE = "inline"
    PROCESSES = "processes"


class Key(NamedTuple):
    """The name of one box of one iteration of one stream: what the ledger counts."""

    stream: str
    iteration: int
    box: int


def _freeze(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The same arrays as read-only views (the caller's own array stays writable)."""
    frozen = {}
    for name, array in arrays.items():
        view = np.asarray(array).view()
        view.flags.writeable = False
        frozen[name] = view
    return frozen


class _ReadOnlyArrays:
    """Mixed into the dataclasses below: marks each array field, bare or in a mapping, read-only."""

    def __post_init__(self) -> None:
        for f in fields(self):  # type: ignore[arg-type]
            value = getattr(self, f.name)
            if isinstance(value, np.ndarray):
                object.__setattr__(self, f.name, _freeze({"": value})[""])
            elif f.name == "arrays":
                object.__setattr__(self, f.name, _freeze(value))


@dataclass(frozen=True, kw_only=True)
class Unit:
    """How the numbers of one record component become SI: value * si, per openPMD."""

    si: float
    dimension: tuple[float, ...] = DIMENSIONLESS  # powers of m, kg, s, A, K, mol, cd
    macro_weighted: bool = False  # the number is for the whole macro-particle
    weighting_power: float = 0.0
    time_offset: float = 0.0  # in units of dt


@dataclass(frozen=True, kw_only=True)
class Box:
    """One rank's chunk of one iteration. `offset` and `extent` are in cells, x, y(, z)."""

    index: int
    offset: tuple[int, ...]
    extent: tuple[int, ...]
    host: str | None = None  # where its writer runs, if the stream says so


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The mesh of a simulation, x, y(, z)."""

    shape: tuple[int, ...]  # cells
    spacing_m: tuple[float, ...]  # [m]


@dataclass(frozen=True, kw_only=True)
class Series:
    """What holds for every iteration of a simulation's output; openPMD's root attributes."""

    grid: Grid
    dt_s: float  # [s] one simulation step
    software: str
    software_version: str = ""
    units: Mapping[str, Unit] = field(default_factory=dict)  # by component path, as in Frame
    meshes: frozenset[str] = frozenset()  # names of records that are meshes: "E", "B", ...
    mesh_position: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # in the cell
    constants: Mapping[str, float] = field(default_factory=dict)  # "e/mass": same for all particles
    attributes: Mapping[str, Any] = field(default_factory=dict)  # of every iteration, as they are


@dataclass(frozen=True, kw_only=True)
class Frame(_ReadOnlyArrays):
    """One box of one iteration of one stream.

    `arrays` is keyed by openPMD path without the base path: particle components
    "e/momentum/x" (n,), scalar records "e/weighting" (n,), mesh components "E/x" (y, x) or
    (z, y, x) restricted to the box. Constant components arrive expanded (zero strides).
    Transforms add what they derive under plain names ("particles").
    """

    stream: str
    iteration: int
    time_s: float  # [s] since the start of the simulation
    dt_s: float  # [s]
    box: Box
    arrays: Mapping[str, Array]
    units: Mapping[str, Unit] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        return Key(self.stream, self.iteration, self.box.index)


@dataclass(frozen=True, kw_only=True)
class Dropped:
    """An item that was set aside on purpose, and why. Lands in the ledger."""

    key: Key
    by: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Sample(_ReadOnlyArrays):
    """One training example made from one frame: `particles (n, 6)`, `spectrum (512,)`, ..."""

    stream: str
    iteration: int
    time_s: float
    box: Box
    arrays: Mapping[str, Array]  # float32, raw: normalised when a batch is made

    @property
    def key(self) -> Key:
        return Key(self.stream, self.iteration, self.box.index)


@dataclass(frozen=True, kw_only=True)
class Batch(_ReadOnlyArrays):
    """What one gradient is computed from: part `part` of training step `step`."""

    step: int
    part: int
    arrays: Mapping[str, Array]  # stacked, normalised: (rows, ...)
    rows: tuple[Key, ...]  # in order
    from_now: int  # the first so many rows are from the now-buffer, the others are replayed
    seed: int  # of every random draw that the learner makes on this batch
    digest: str  # of rows and data


@dataclass(frozen=True, kw_only=True)
class Gradient(_ReadOnlyArrays):
    """One learner's offer for one training step."""

    learner: str
    step: int
    part: int
    values: Array  # (d,) float32
    rows: tuple[Key, ...]
    digest: str


@dataclass(frozen=True, kw_only=True)
class Update(_ReadOnlyArrays):
    """The reducer's answer. A lost, slow or lying peer is data in it, never an exception."""

    step: int
    values: Array | None  # (d,) float32; None: nothing to apply, see reason
    heard: tuple[str, ...]
    missing: tuple[str, ...]
    suspects: Mapping[str, str]  # learner -> why its offer was set aside, or is not trusted
    reason: str  # empty when values is given
