"""The writer's end of an ADIOS2 stream: SST between processes, or a BP5 file."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from workflow.errors import ConfigError, DataError, StreamError
from workflow.streams.adios import DTYPES, contact_name, message_of, sst_parameters
from workflow.streams.adios_engine import engine_room
from workflow.streams.openpmd import (
    GROUPS,
    JSON_SUFFIX,
    RANK_TABLE,
    Encoding,
    GlobalArray,
    lay_out,
    list_as_json,
    rank_table,
    root_attributes,
)
from workflow.streams.writer_note import WriterNote
from workflow.types import Array, Frame, Series

log = logging.getLogger(__name__)
OK = engine_room.StepStatus.OK


class AdiosWriter:
    """Puts whole iterations; see `StreamWriter`.

    Opening an SST stream waits until `RendezvousReaderCount` readers have come, and holds the
    whole process meanwhile. A producer that failed calls `abandon`, or just ends: only `close`
    says goodbye. As a context manager it closes after success and abandons after an error.
    """

    def __init__(
        self,
        engine: str,
        path: Path | str,
        series: Series,
        *,
        parameters: Mapping[str, str],
        encoding: Encoding,
    ) -> None:
        self._series, self._encoding = series, encoding
        self._host = socket.gethostname()
        self._date = time.strftime("%Y-%m-%d %H:%M:%S %z")
        self._adios: Any = engine_room.ADIOS()
        self._io: Any = self._adios.DeclareIO("writer")
        self._io.SetEngine(engine)
        name = str(path)
        if engine == "SST":
            name = contact_name(path)
            self._io.SetParameters(sst_parameters(parameters, writer=True))
            self._note = WriterNote(file=Path(name + ".writer"))
        else:
            self._io.SetParameters({k: str(v) for k, v in parameters.items()})
            self._note = WriterNote(file=Path(name) / "billow.writer")
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        self._is_file = engine != "SST"
        self._note.file.unlink(missing_ok=True)
        if not self._is_file:
            self._note.write("open")
        self._written: dict[str, bytes] = {}
        self._step = 0
        self._began = time.monotonic()
        self._stats = {"iterations": 0.0, "bytes": 0.0, "blocked_s": 0.0, "last_iteration": -1.0}
        try:
            self._engine: Any = self._io.Open(name, engine_room.Mode.Write)
        except Exception as e:
            raise StreamError(f"{path}: cannot be opened for writing: {message_of(e)}") from e
        if self._is_file:  # the engine makes the folder
            self._note.write("open")
        self._stats["rendezvous_s"] = time.monotonic() - self._began

    def put(self, frames: Sequence[Frame]) -> None:
        """Publish one iteration: one block per box, boxes without particles too."""
        if self._engine is None:
            raise StreamError("the stream is closed; put is possible until close().")
        layout = lay_out(self._series, frames, self._encoding)
        hosts = [f.box.host or self._host for f in sorted(frames, key=lambda f: f.box.index)]
        variables = {**layout.variables, RANK_TABLE: rank_table(hosts)}
        attributes = root_attributes(self._series, self._encoding) | layout.attributes
        attributes["/date"] = self._date
        attributes |= {GROUPS + g: np.uint64(self._step) for g in ("/", *sorted(layout.groups))}
        contents = {
            n: content for name, value in attributes.items() for n, content in _say(name, value)
        }
        self._check(variables)  # from here on nothing of ours can fail inside a step
        self._wait(self._engine.BeginStep, engine_room.StepMode.Append, -1.0)
        for name, content in contents.items():
            self._define(name, content)
        alive = [self._put(name, array) for name, array in variables.items()]
        self._wait(self._engine.EndStep)
        del alive  # the engine reads deferred blocks until the step has ended
        self._step += 1
        self._stats["iterations"] += 1
        self._stats["last_iteration"] = float(frames[0].iteration)
        self._stats["bytes"] += sum(
            block.nbytes for array in layout.variables.values() for _, block in array.blocks
        )

    def _wait(self, call: Any, *arguments: Any) -> None:
        began = time.monotonic()
        try:
            status = call(*arguments)
        except Exception as e:
            raise StreamError(f"the stream broke while it was written: {message_of(e)}") from e
        finally:
            self._stats["blocked_s"] += time.monotonic() - began
        if status not in (None, OK):
            raise StreamError(f"the engine does not take another step: {status}.")

    def _define(self, name: str, content: Any) -> None:
        """Define an attribute, or define it anew if its value is another one now."""
        numbers = isinstance(content, np.ndarray)
        key = content.dtype.str.encode() + content.tobytes() if numbers else repr(content).encode()
        if self._written.get(name) == key:
            return
        if name in self._written:
            self._io.RemoveAttribute(name)
        self._io.DefineAttribute(name, content)
        self._written[name] = key

    def _check(self, variables: Mapping[str, GlobalArray]) -> None:
        """A variable keeps its type and its number of dimensions."""
        for name, array in variables.items():
            known = self._io.InquireVariable(name)
            if known and (
                len(known.Shape()) != len(array.shape)
                or np.dtype(DTYPES[known.Type()]) != array.dtype
            ):
                raise DataError(
                    f"{name}: wanted {len(known.Shape())} dimensions of {known.Type()} as in the "
                    f"first iteration, got shape {array.shape} of {array.dtype}. Both are fixed."
                )

    def _put(self, name: str, array: GlobalArray) -> list[Array]:
        """Put all blocks of one variable; returns what must live until the step ends."""
        variable = self._io.InquireVariable(name)
        shape = list(array.shape)
        if not variable:
            nothing = np.zeros(0, array.dtype)
            variable = self._io.DefineVariable(name, nothing, shape, [0] * len(shape), shape)
        variable.SetShape(shape)
        alive = []
        for start, block in array.blocks:
            content = np.ascontiguousarray(block, array.dtype)
            variable.SetSelection((list(start), list(content.shape)))
            # by address: frames are read-only, and the bindings take only arrays they could change
            self._engine.Put(variable, content.ctypes.data, engine_room.Mode.Deferred)
            alive.append(content)
        return alive

    def close(self) -> None:
        """Say goodbye: readers then see ENDED. Waits until they have taken what is queued."""
        if self._engine is None:
            return
        self._wait(self._engine.Close)
        self._note.write("closed")
        self._forget()

    def abandon(self) -> None:
        """Leave without a goodbye: readers then see PRODUCER_LOST.

        An SST stream breaks at once. Ending the process by `os._exit`, by an uncaught error or by
        a signal has the same effect: no destructor says goodbye in place of `close`.
        """
        if self._engine is None:
            return
        self._note.write("abandoned")
        self._forget()

    def _forget(self) -> None:
        self._engine = self._io = self._adios = None

    def stats(self) -> Mapping[str, float]:
        """iterations, bytes, blocked_s (in the engine), rendezvous_s, last_iteration, wall_s."""
        return {**self._stats, "wall_s": time.monotonic() - self._began}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            log.warning("the stream is abandoned in process %d after %s", os.getpid(), kind)
            self.abandon()


def _say(name: str, value: Any) -> list[tuple[str, Any]]:
    """An attribute as the engine takes it; a list of texts also goes out as one text."""
    if isinstance(value, str):
        return [(name, value)]
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], str):
        return [(name, list(value)), (name + JSON_SUFFIX, list_as_json(value))]
    content = np.asarray(value)
    if content.dtype.kind not in "iufcb" or not content.size:
        raise ConfigError(
            f"attribute {name}: wanted text, a list of texts or numbers, got {value!r}."
        )
    return [(name, content.astype(np.uint8) if content.dtype.kind == "b" else content)]
