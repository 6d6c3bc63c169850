"""Where a run's stream comes from: a producer's process, this thread, or somebody else.

All three look the same to the run: `start`, `turn` (something to do in this thread), `lost` (why
the producer is gone, or ""), `restart`, `stop`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Protocol

from workflow import streams
from workflow.errors import ConfigError
from workflow.journal import Journal, read_journal
from workflow.plan import Plan
from workflow.protocols import Producer, StreamReader
from workflow.supervise import ProducerProcess
from workflow.types import Frame, Hosting, StreamState

log = logging.getLogger(__name__)

MakeReader = Callable[[str, str], StreamReader]


class Source(Protocol):
    epoch: int

    @property
    def name(self) -> str: ...
    @property
    def path(self) -> str: ...
    def name_of(self, epoch: int) -> str: ...
    def start(self) -> None: ...
    def turn(self) -> None: ...
    def make_reader(self) -> MakeReader: ...
    def lost(self) -> str: ...
    def final_state(self) -> StreamState | None: ...
    def wait_gone(self, at_most_s: float) -> None: ...
    def note_lost(self) -> bool: ...
    def can_restart(self) -> bool: ...
    def restart(self) -> None: ...
    def give_up(self) -> None: ...
    def stop(self) -> None: ...
    def pid(self, name: str) -> int | None: ...


def make_source(plan: Plan, folder: Path, *, inline: bool) -> Source:
    """The source that the config asks for."""
    if plan.producer is None:
        return Elsewhere(plan)
    if inline:
        return InThisThread(plan, plan.producer, folder)
    return InItsProcess(plan, folder)


class _Named:
    """A stream's name, per epoch: a restarted producer is another stream to the ledger."""

    def __init__(self, plan: Plan) -> None:
        self._source = plan.config.source
        self.epoch = 0

    def name_of(self, epoch: int) -> str:
        return self._source.name if epoch <= 1 else f"{self._source.name}#{epoch}"

    @property
    def name(self) -> str:
        return self.name_of(self.epoch)

    def turn(self) -> None:
        """Nothing to do in this thread."""

    def wait_gone(self, at_most_s: float) -> None:
        """Nothing to wait for."""

    def note_lost(self) -> bool:
        return False

    def can_restart(self) -> bool:
        return False

    def restart(self) -> None:
        raise ConfigError(f"source '{self.name}' cannot be restarted by this run")

    def give_up(self) -> None:
        """Nothing to take down."""

    def stop(self) -> None:
        """Nothing to stop."""

    def pid(self, name: str) -> int | None:
        return None

    def lost(self) -> str:
        return ""

    def final_state(self) -> StreamState | None:
        """ENDED or PRODUCER_LOST once the producer's process is gone; None if not known."""
        return None

    def make_reader(self) -> MakeReader:
        stream = self._source.stream
        return partial(
            open_stream,
            engine=stream.engine,
            parameters=dict(stream.parameters),
            silence_s=stream.silence_s,
            deadline_s=stream.open_deadline_s,
        )


def open_stream(
    name: str,
    path: str,
    *,
    engine: str,
    parameters: dict[str, str],
    silence_s: float,
    deadline_s: float,
) -> StreamReader:
    """Open a stream as a reader, in the process that will read it."""
    return streams.open_reader(
        engine, Path(path), name=name, parameters=parameters, silence_s=silence_s,
        deadline_s=deadline_s,
    )  # fmt: skip


class Elsewhere(_Named):
    """Somebody else's stream: a real simulation, known by its contact file or BP series."""

    def start(self) -> None:
        self.epoch = 1

    @property
    def path(self) -> str:
        assert self._source.contact is not None
        return self._source.contact


class InItsProcess(_Named):
    """A producer that the run starts in a process of its own."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        super().__init__(plan)
        self._folder = folder
        self._process = ProducerProcess(
            folder, engine=self._source.stream.engine, readers=plan.config.transforms.count
        )
        self._noted = 0

    def start(self) -> None:
        self._process.start()
        self.epoch = self._process.epoch

    @property
    def path(self) -> str:
        return str(self._process.path)

    def lost(self) -> str:
        code = self._process.exit_code()
        if not code:
            return ""
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        return f"{how}: {self._process.last_words()} (log: {self._process.log.name})"

    def final_state(self) -> StreamState | None:
        code = self._process.exit_code()
        if code is None:
            return None
        return StreamState.ENDED if code == 0 else StreamState.PRODUCER_LOST

    def wait_gone(self, at_most_s: float) -> None:
        self._process.wait_gone(at_most_s)

    def note_lost(self) -> bool:
        first = self._noted < self.epoch
        self._noted = self.epoch
        return first

    def can_restart(self) -> bool:
        return self._source.on_lost == "restart" and self.epoch <= self._source.max_restarts

    def restart(self) -> None:
        self._process.kill()
        self.start()

    def give_up(self) -> None:
        self._process.kill()

    def stop(self) -> None:
        self._process.stop()

    def pid(self, name: str) -> int | None:
        """Of the producer, or of one of its ranks, which it writes into its journal."""
        if name == "producer":
            return self._process.pid
        file = self._folder / "journal" / f"producer-{self.epoch}.jsonl"
        if not file.exists():
            return None
        for event in read_journal(file):
            if event["event"] == "producer/start":
                return int(event["ranks"][int(name.removeprefix("rank-"))])
        return None


class InThisThread(_Named):
    """A producer stepped by the run itself, over a stream in memory; seeded runs repeat."""

    def __init__(self, plan: Plan, producer: Producer, folder: Path) -> None:
        super().__init__(plan)
        self._producer, self._seed = producer, plan.config.seed
        self._stream = streams.MemoryStream(
            name=self._source.name,
            limit=2,
            readers=plan.config.transforms.count,
            series=producer.series(),
        )
        self._iterations: Iterator[tuple[Frame, ...]] | None = None
        self._why = ""  # it failed
        self._journal = Journal(folder / "journal" / "producer-1.jsonl", source="producer")

    @property
    def path(self) -> str:
        return "memory"

    def start(self) -> None:
        self.epoch = 1
        self._iterations = self._producer.iterations(self._seed, hosting=Hosting.INLINE)
        self._journal.write("producer/start", pid=os.getpid(), ranks=[], epoch=1)

    def make_reader(self) -> MakeReader:
        return lambda name, path: self._stream.reader()

    def turn(self) -> None:
        """Produce one iteration, if there is room for it."""
        if self._iterations is None or self._stream.full():
            return
        try:
            frames = next(self._iterations, None)
        except Exception as e:  # the producer's own code failed: its stream breaks, as a process's
            log.exception("the producer failed")
            self._why = repr(e)
            self._stream.abandon()
            self._iterations = None
            return
        if frames is None:
            self._stream.close()
            self._journal.write("producer/end", value="ended")
            self._iterations = None
            return
        self._stream.put(frames)
        self._journal.write(
            "producer/iteration", step=frames[0].iteration, value=len(frames),
            boxes=[frame.box.index for frame in frames], time_s=frames[0].time_s,
        )  # fmt: skip

    def lost(self) -> str:
        return self._why

    def stop(self) -> None:
        self._journal.close()
