"""One openPMD iteration as a reader sees it: boxes, records, units, and what to transfer.

Pure: the engine stands behind `Step`. Nothing is remembered from earlier iterations, because
shapes, counts, records and species may change in every one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from workflow.errors import DataError, StreamError
from workflow.streams.openpmd import AXES, GROUPS, JSON_SUFFIX, OFF_GRID, RANK
from workflow.streams.openpmd_step import Span, Step, attribute_of, number_of, path_of
from workflow.types import DIMENSIONLESS, Array, Box, Dropped, Frame, Key, Unit

log = logging.getLogger(__name__)


class Iteration:
    """An `Arrival`: one iteration that the engine holds open."""

    def __init__(
        self,
        step: Step,
        *,
        stream: str,
        number: int,
        base: str,
        hosts: Sequence[str],
        on_release: Callable[[], None],
    ) -> None:
        self._step, self._stream, self._base = step, stream, base
        self._on_release: Callable[[], None] | None = on_release
        self.iteration = number
        unit_s = number_of(step.attribute(base + "timeUnitSI"), 1.0)
        self.time_s = number_of(step.attribute(base + "time"), float(number)) * unit_s
        self.dt_s = number_of(step.attribute(base + "dt"), 1.0) * unit_s
        self.meshes_path = path_of(step.attribute("/meshesPath"), "meshes/")
        self._particles_path = path_of(step.attribute("/particlesPath"), "particles/")
        self.records: dict[str, list[str]] = {}  # record -> component paths, as in Frame
        self.meshes: set[str] = set()
        self.constants: dict[str, Array] = {}  # component path -> value ()
        self._patched: set[str] = set()
        self._parts: dict[str, list[tuple[int, int]]] = {}
        self._list_variables()
        self._list_constants()
        self.boxes = self._find_boxes(hosts)

    # ------------------------------------------------------------ what is there

    def _list_variables(self) -> None:
        for variable in self._step.variables():
            if not variable.startswith(self._base):
                continue
            path = variable[len(self._base) :]
            if path.startswith(self.meshes_path):
                self._add(path[len(self.meshes_path) :], mesh=True)
            elif path.startswith(self._particles_path):
                path = path[len(self._particles_path) :]
                if "/particlePatches/" in path:
                    self._patched.add(path.split("/")[0])
                else:
                    self._add(path, mesh=False)

    def _list_constants(self) -> None:
        """Constant components have no variable, only the attributes `value` and `shape`."""
        species = {r.split("/")[0] for r in self.records if r not in self.meshes} | self._patched
        for name in sorted(self._step.attributes()):
            if not (name.startswith(self._base) and name.endswith("/value")):
                continue
            full = name[: -len("/value")]
            path = full[len(self._base) :]
            for root, mesh in ((self.meshes_path, True), (self._particles_path, False)):
                if path.startswith(root) and self._is_current(full, species):
                    value = np.asarray(self._step.attribute(name))
                    if value.size == 1 and self._step.attribute(f"{full}/shape") is not None:
                        self.constants[path[len(root) :]] = value.reshape(())
                        self._add(path[len(root) :], mesh=mesh)

    def _is_current(self, full: str, species: set[str]) -> bool:
        """Whether a constant is of this step: attributes of earlier steps stay visible."""
        root, mark = (self._step.attribute(GROUPS + p) for p in ("/", full))
        if root is not None and mark is not None:
            return bool(np.array_equal(root, mark))
        path = full[len(self._base) :]
        if not path.startswith(self._particles_path) or self._base != "/data/":
            return True
        return path[len(self._particles_path) :].split("/")[0] in species

    def _add(self, component: str, *, mesh: bool) -> None:
        parts = component.split("/")
        record = parts[0] if mesh else "/".join(parts[:2])
        if mesh:
            self.meshes.add(record)
        self.records.setdefault(record, []).append(component)

    def offers(self) -> tuple[str, ...]:
        """Records of this very iteration."""
        return tuple(sorted(self.records))

    # ------------------------------------------------------------ boxes

    def _find_boxes(self, hosts: Sequence[str]) -> tuple[Box, ...]:
        """From the particle patches, else from the blocks of a mesh, else of a species."""
        patches = {kind: p for kind in sorted(self._patched) if (p := self._patches_of(kind))}
        boxes = next((p[0] for p in patches.values()), None)
        if boxes is None:
            boxes = self._boxes_of_meshes() or self._boxes_of_species()
        for kind, (own, parts) in patches.items():
            if own == boxes:
                self._parts[kind] = parts
            else:
                log.warning(
                    "%s, iteration %d: particlePatches of %s name other boxes than those of %s; "
                    "ignored", self._stream, self.iteration, kind, next(iter(patches)),
                )  # fmt: skip
        if len(hosts) == len(boxes):
            return tuple(
                Box(index=i, offset=o, extent=e, host=hosts[i] or None)
                for i, (o, e) in enumerate(boxes)
            )
        return tuple(Box(index=i, offset=o, extent=e) for i, (o, e) in enumerate(boxes))

    def _patches_of(self, kind: str) -> tuple[list[Span], list[tuple[int, int]]] | None:
        """Boxes and particle ranges that the patches of a species tell, if they are right."""
        folder = f"{self._base}{self._particles_path}{kind}/particlePatches/"
        axes = [a for a in AXES if f"{folder}offset/{a}" in self._step.variables()]
        names = [folder + n for n in ("numParticles", "numParticlesOffset")]
        names += [f"{folder}{n}/{a}" for n in ("offset", "extent") for a in axes]
        total = self._count(kind)
        try:
            columns = [c.astype(int) for c in self._whole(names)]
            if len({len(c) for c in columns}) != 1:
                raise DataError(f"columns of {[len(c) for c in columns]} patches")
            if int(columns[0].sum()) != total:
                raise DataError(f"they sum to {columns[0].sum()} particles of {total}")
        except (DataError, ValueError) as e:
            log.warning(
                "%s, iteration %d: particlePatches of %s are ignored (%s); boxes are taken from "
                "the blocks of variables", self._stream, self.iteration, kind, e,
            )  # fmt: skip
            return None
        sizes, starts = columns[:2]
        offsets = np.array(columns[2 : 2 + len(axes)]).reshape(len(axes), -1).T.tolist()
        extents = np.array(columns[2 + len(axes) :]).reshape(len(axes), -1).T.tolist()
        boxes = [(tuple(o), tuple(e)) for o, e in zip(offsets, extents, strict=True)]
        if not boxes:
            return None
        return boxes, [(int(s), int(n)) for s, n in zip(starts, sizes, strict=True)]

    def _whole(self, variables: Sequence[str]) -> list[Array]:
        there = self._step.variables()
        if missing := [v for v in variables if v not in there]:
            raise DataError(f"missing: {missing[0]}")
        shapes = [self._step.shape(v) for v in variables]
        return self._step.fetch(
            [(v, ((0,) * len(s), s)) for v, s in zip(variables, shapes, strict=True)]
        )

    def _boxes_of_meshes(self) -> list[Span]:
        """Blocks of the mesh with the most dimensions; bookkeeping meshes have one label."""
        best: list[Span] = []
        own = [m for m in sorted(self.meshes) if OFF_GRID.get(m, (RANK,))[0] == RANK]
        for mesh in own or sorted(self.meshes):
            full = self._base + self.meshes_path + self.records[mesh][0]
            if self.records[mesh][0] in self.constants:
                continue
            if len(self._vector(f"{self._mesh(mesh)}/gridSpacing")) != len(self._step.shape(full)):
                continue
            corner = self._corner(mesh)
            spans = [
                (tuple(int(s) for s in (np.array(start) + corner)[::-1]), count[::-1])
                for start, count in self._step.spans(full)
            ]
            if spans and (not best or len(spans[0][0]) > len(best[0][0])):
                best = spans
        return best

    def _boxes_of_species(self) -> list[Span]:
        """One box per block of the first particle variable; where it lies is not known."""
        for record in self.offers():
            component = self.records[record][0]
            if record not in self.meshes and component not in self.constants:
                full = self._base + self._particles_path + component
                return [((), ()) for _ in self._step.spans(full)] or [((), ())]
        return [((), ())]

    def _mesh(self, mesh: str) -> str:
        return self._base + self.meshes_path + mesh

    def _vector(self, name: str) -> Array:
        value = self._step.attribute(name)
        return np.zeros(0) if value is None else np.atleast_1d(np.asarray(value, float))

    def _corner(self, mesh: str) -> Array:
        """First cell of a mesh in the full grid, z, y, x: not zero where a range was written."""
        spacing = self._vector(f"{self._mesh(mesh)}/gridSpacing")
        offset = self._vector(f"{self._mesh(mesh)}/gridGlobalOffset")
        if len(offset) != len(spacing) or not np.all(spacing > 0):
            return np.zeros(len(spacing), int)
        return np.rint(offset / spacing).astype(int)

    # ------------------------------------------------------------ data

    def read(self, boxes: Sequence[Box], records: Sequence[str]) -> list[Frame | Dropped]:
        """The named records of some boxes, copied out; one transfer for all of them."""
        if self._on_release is None:
            raise StreamError(
                f"{self._stream}: iteration {self.iteration} is released; read before release()."
            )
        components, units, missing = self._choose(records)
        if missing:
            return [self._dropped(box, f"missing: {missing}") for box in boxes]
        plans = {}
        dropped = {}
        for box in boxes:
            try:
                plans[box.index] = {c: self._span(c, box) for c in components}
            except DataError as e:
                dropped[box.index] = self._dropped(box, f"unreadable: {e}")
        wanted = [
            (self._full(c), span)
            for spans in plans.values()
            for c, span in spans.items()
            if c not in self.constants
        ]
        try:
            arrays = iter(self._step.fetch(wanted))
        except DataError as e:
            return [self._dropped(box, f"unreadable: {e}") for box in boxes]
        frames: list[Frame | Dropped] = []
        for box in boxes:
            if box.index in dropped:
                frames.append(dropped[box.index])
                continue
            got = {}
            for c, (_, count) in plans[box.index].items():
                constant = self.constants.get(c)
                array = next(arrays) if constant is None else np.broadcast_to(constant, count)
                mesh = c.split("/")[0]
                is_row = mesh in self.meshes and self._is_per_rank(mesh, self.shape(c))
                got[c] = array[0] if is_row else array
            frame = Frame(
                stream=self._stream, iteration=self.iteration, time_s=self.time_s,
                dt_s=self.dt_s, box=box, arrays=got, units=units,
            )  # fmt: skip
            frames.append(frame)
        return frames

    def _choose(self, records: Sequence[str]) -> tuple[list[str], dict[str, Unit], str]:
        """Components of the records, their units, and the first record that is not there."""
        components: list[str] = []
        for record in records:
            whole = self.records.get(record)
            if whole is None and record in self.records.get(record.rsplit("/", 1)[0], ()):
                whole = [record]
            if whole is None:
                return [], {}, record
            components += [c for c in whole if c not in components]
        return components, {c: self.unit(c) for c in components}, ""

    def _dropped(self, box: Box, reason: str) -> Dropped:
        return Dropped(
            key=Key(self._stream, self.iteration, box.index), by=f"stream {self._stream}",
            reason=reason,
        )  # fmt: skip

    def _full(self, component: str) -> str:
        mesh = component.split("/")[0] in self.meshes
        return self._base + (self.meshes_path if mesh else self._particles_path) + component

    def shape(self, component: str) -> tuple[int, ...]:
        """Global shape of a component, variable or constant."""
        full = self._full(component)
        if component in self.constants:
            return tuple(int(n) for n in np.atleast_1d(self._step.attribute(f"{full}/shape")))
        return self._step.shape(full)

    def _count(self, kind: str) -> int:
        names = [c for r, cs in self.records.items() if r.split("/")[0] == kind for c in cs]
        return next((self.shape(c)[0] for c in names), 0)

    def _span(self, component: str, box: Box) -> Span:
        """Start and count, in this component's global shape, of what belongs to a box."""
        kind = component.split("/")[0]
        shape = self.shape(component)
        if kind not in self.meshes:
            start, count = self._particles(kind)[box.index]
            if start + count > shape[0]:
                raise DataError(f"{component} has {shape[0]} particles, not {start + count}")
            return (start,), (count,)
        return self._cells(kind, shape, box)

    def _cells(self, mesh: str, shape: tuple[int, ...], box: Box) -> Span:
        """A mesh of the grid is cut to the box; one with a row per rank gives the box's row."""
        if self._is_grid(mesh, shape):
            start = np.array(box.offset[::-1]) - self._corner(mesh)
            return tuple(int(n) for n in start), box.extent[::-1]
        if self._is_per_rank(mesh, shape):
            return (box.index, *(0,) * (len(shape) - 1)), (1, *shape[1:])
        return (0,) * len(shape), shape

    def _is_grid(self, mesh: str, shape: tuple[int, ...]) -> bool:
        corner = self._corner(mesh)
        if mesh in OFF_GRID or not len(shape) == len(self.boxes[0].offset) == len(corner):
            return False
        ends = [np.add(b.offset, b.extent)[::-1] for b in self.boxes]
        return tuple(int(n) for n in np.max(ends, axis=0) - corner) == shape

    def _is_per_rank(self, mesh: str, shape: tuple[int, ...]) -> bool:
        if OFF_GRID.get(mesh, (RANK,))[0] != RANK:
            return False
        return bool(shape) and shape[0] == len(self.boxes) and not self._is_grid(mesh, shape)

    def _particles(self, kind: str) -> list[tuple[int, int]]:
        """Start and count of each box's particles: from the patches, else from the blocks."""
        if kind not in self._parts:
            names = [c for r, cs in self.records.items() if r.split("/")[0] == kind for c in cs]
            variables = [c for c in names if c not in self.constants]
            spans = self._step.spans(self._full(variables[0])) if variables else []
            parts = [(s[0], n[0]) for s, n in spans]
            if len(parts) != len(self.boxes):
                if len(self.boxes) > 1:
                    raise DataError(
                        f"{kind} has {len(parts)} blocks and no valid patches, for "
                        f"{len(self.boxes)} boxes: whose particles they are is not known"
                    )
                parts = [(0, self._count(kind))]
            self._parts[kind] = parts
        return self._parts[kind]

    def unit(self, component: str) -> Unit:
        """Of one component, from the attributes of this iteration."""
        full, mesh = self._full(component), component.split("/")[0] in self.meshes
        record = self._mesh(component.split("/")[0]) if mesh else self._record(component)
        dimension = self._vector(f"{record}/unitDimension")
        return Unit(
            si=number_of(self._step.attribute(f"{full}/unitSI"), 1.0),
            dimension=tuple(dimension.tolist()) if len(dimension) == 7 else DIMENSIONLESS,
            macro_weighted=bool(number_of(self._step.attribute(f"{record}/macroWeighted"), 0.0)),
            weighting_power=number_of(self._step.attribute(f"{record}/weightingPower"), 0.0),
            time_offset=number_of(self._step.attribute(f"{record}/timeOffset"), 0.0),
        )

    def _record(self, component: str) -> str:
        return self._base + self._particles_path + "/".join(component.split("/")[:2])

    def release(self) -> None:
        """End the step: the writer may go on. Twice is once."""
        if self._on_release is not None:
            on_release, self._on_release = self._on_release, None
            on_release()

    # ------------------------------------------------------------ for `describe`

    def below(self) -> Mapping[str, Any]:
        """All attributes of this iteration by name without base path, lists restored."""
        start = len(self._base)
        names = sorted(n for n in self._step.attributes() if n.startswith(self._base))
        return {
            n[start:]: attribute_of(self._step, n) for n in names if not n.endswith(JSON_SUFFIX)
        }
