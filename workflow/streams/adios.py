"""The room of the ADIOS2 engine: what writer and reader share, and the step a reader holds open.

Only files `adios*.py` of this package know adios2; its errors become ours here. What was measured
with adios2 2.12.1 and shapes this code:

- Open, EndStep and PerformGets of the Python bindings hold the interpreter lock while they wait:
  no other thread of the process runs. So an end of an SST stream lives in its own process.
- An attribute cannot be changed, but it can be removed and defined anew; readers see the new value.
- SST binds its port on all interfaces; `NetworkInterface` chooses which address it tells readers.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from workflow.errors import ConfigError, DataError
from workflow.streams.adios_engine import engine_room
from workflow.streams.openpmd_step import Span
from workflow.types import Array

DTYPES = {
    "char": "i1",
    "float": "f4",
    "double": "f8",
    "float complex": "c8",
    "double complex": "c16",
    **{f"int{bits}_t": f"i{bits // 8}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}_t": f"u{bits // 8}" for bits in (8, 16, 32, 64)},
}

ROUTES = ("NetworkInterface", "DataInterface", "ControlInterface")


def loopback() -> str:
    """Name of the interface that stays on this machine."""
    names = [name for _, name in socket.if_nameindex()]
    return next((name for name in names if name.startswith("lo")), "lo")


def sst_parameters(parameters: Mapping[str, str], *, writer: bool) -> dict[str, str]:
    """ADIOS2's own parameter names, with our defaults; refuses a queue without bound."""
    chosen = {str(k): str(v) for k, v in parameters.items()}
    chosen.setdefault("DataTransport", "WAN")
    if writer:
        unbounded = chosen.pop("unbounded", "false").lower() in ("true", "1", "yes")
        chosen.setdefault("QueueLimit", "2")
        chosen.setdefault("QueueFullPolicy", "Block")
        chosen.setdefault("RendezvousReaderCount", "1")
        limit = chosen["QueueLimit"]
        if not re.fullmatch(r"\d+", limit) or (limit == "0" and not unbounded):
            raise ConfigError(
                f"QueueLimit: wanted a number of steps from 1, got '{limit}'. 0 lets the queue eat "
                "the simulation's memory; if you want that, add unbounded: 'true'."
            )
    if not any(name in chosen for name in ROUTES):
        chosen["NetworkInterface"] = loopback()
    return chosen


def contact_name(path: Path | str) -> str:
    """The name that the engine appends ".sst" to."""
    text = str(path)
    if text.endswith(".sst") and not Path(text + ".sst").exists():
        return text[: -len(".sst")]
    return text


def message_of(error: Exception) -> str:
    """An engine's error in one line without its colours."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    return " ".join(text.split())[:300]


class EngineStep:
    """The step that an open engine is in; see `openpmd_step.Step`."""

    def __init__(self, io: Any, engine: Any) -> None:
        self._io, self._engine = io, engine
        self._variables = {
            name: _shape(facts.get("Shape", "")) for name, facts in io.AvailableVariables().items()
        }
        self._attributes: set[str] | None = None
        self.bytes_read = 0

    def variables(self) -> Collection[str]:
        return self._variables.keys()

    def attributes(self) -> Collection[str]:
        if self._attributes is None:
            self._attributes = set(self._io.AvailableAttributes())
        return self._attributes

    def attribute(self, name: str) -> Any:
        attribute = self._io.InquireAttribute(name)
        if not attribute:
            return None
        if attribute.Type() == "string":
            texts = attribute.DataString()
            return texts[0] if len(texts) == 1 else list(texts)
        if attribute.Type() == "long double":  # the bindings cannot hand it over: 7 digits of text
            text = self._io.AvailableAttributes()[name]["Value"]
            return np.array([float(word) for word in text.strip("{} ").split(",")])
        return np.array(attribute.Data())  # a copy: the engine's own memory is gone with the step

    def shape(self, variable: str) -> tuple[int, ...]:
        return self._variables[variable]

    def spans(self, variable: str) -> list[Span]:
        try:
            blocks = self._engine.BlocksInfo(variable, self._engine.CurrentStep())
        except Exception as e:
            raise DataError(f"{variable}: its blocks are unreadable: {message_of(e)}") from e
        return [(_shape(block["Start"]), _shape(block["Count"])) for block in blocks]

    def fetch(self, wanted: Sequence[tuple[str, Span]]) -> list[Array]:
        arrays = []
        try:
            for name, (start, count) in wanted:
                variable = self._io.InquireVariable(name)
                if not variable:
                    raise DataError(f"missing: {name}")
                if variable.Type() not in DTYPES:
                    raise DataError(f"{name} is of type {variable.Type()}, which is no number")
                array = np.zeros(count, DTYPES[variable.Type()])
                arrays.append(array)
                if array.size:  # a transfer of nothing is an error to the engine
                    if count:
                        variable.SetSelection((list(start), list(count)))
                    self._engine.Get(variable, array, engine_room.Mode.Deferred)
            self._engine.PerformGets()
        except DataError:
            raise
        except Exception as e:
            raise DataError(message_of(e)) from e
        self.bytes_read += sum(a.nbytes for a in arrays)
        return arrays


def _shape(text: str) -> tuple[int, ...]:
    """ "48, 40" -> (48, 40); a single value has shape ()."""
    return tuple(int(n) for n in text.split(",") if n.strip())
