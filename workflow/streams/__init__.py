"""How frames travel: one door for all engines.

    writer = open_writer("sst", path, series)       reader = open_reader("sst", path, name="a")
    writer.put(frames)            ──────▶           arrival = reader.poll()
    writer.close()                                  arrival.read(arrival.boxes, ["e/momentum"])

Engines: `sst` between processes, `bp5` a file (finished, growing, or a series of files), and
`MemoryStream` inside one process.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from workflow.errors import ConfigError
from workflow.streams.memory import MemoryStream
from workflow.streams.openpmd import check_encoding
from workflow.types import Series

if TYPE_CHECKING:
    from workflow.streams.adios_describe import Description
    from workflow.streams.adios_read import AdiosReader
    from workflow.streams.adios_write import AdiosWriter

__all__ = ["MemoryStream", "describe", "open_reader", "open_writer"]

WRITERS = {"sst": "SST", "bp5": "BP5"}
READERS = {"sst": "SST", "bp5": "BP", "bp4": "BP"}


def open_writer(
    engine: str,
    path: Path | str,
    series: Series,
    *,
    parameters: Mapping[str, str] | None = None,
    encoding: str = "variable_based",
) -> AdiosWriter:
    """The producer's end. `parameters` keep ADIOS2's names; see `adios.sst_parameters`.

    Defaults for sst: QueueLimit 2, QueueFullPolicy Block, DataTransport WAN,
    RendezvousReaderCount 1, NetworkInterface the loopback. Waits for the readers to come.
    """
    kind = _engine(engine, WRITERS)
    checked = check_encoding(encoding)
    from workflow.streams.adios_write import AdiosWriter

    return AdiosWriter(kind, path, series, parameters=parameters or {}, encoding=checked)


def open_reader(
    engine: str,
    path: Path | str,
    *,
    name: str,
    parameters: Mapping[str, str] | None = None,
    silence_s: float = 30.0,
    deadline_s: float = 60.0,
    follow: bool = True,
) -> AdiosReader:
    """A consumer's end; its frames carry `name` as their stream.

    Waits at most `deadline_s` for the stream to be there, else StreamTimeout. After `silence_s`
    without an iteration the state is STALLED. For bp5, `path` is a BP folder, a pattern such as
    "simData_%06T.bp5" or a folder of BP folders; a file without an end is followed, or, with
    follow=False, is PRODUCER_LOST at its last whole step. A followed file of a foreign writer
    is PRODUCER_LOST after silence_s + deadline_s.
    """
    kind = _engine(engine, READERS)
    from workflow.streams.adios_read import AdiosReader

    return AdiosReader(
        kind, path, name=name, parameters=parameters or {}, silence_s=silence_s,
        deadline_s=deadline_s, follow=follow,
    )  # fmt: skip


def describe(path: Path | str, engine: str = "bp5") -> Description:
    """What a recording holds: its Series, records, boxes, iterations."""
    from workflow.streams.adios_describe import describe as look_through

    return look_through(path, engine)


def _engine(engine: str, known: Mapping[str, str]) -> str:
    if engine.lower() not in known:
        raise ConfigError(
            f"engine: wanted one of {', '.join(known)}, got '{engine}'. (In one process use "
            "MemoryStream.)"
        )
    return known[engine.lower()]
