"""`billow simulate`: the producer of a config alone, and what its physics did.

    producer ──frames──▶ observer ──▶ energies.csv, growth rate, pictures
                  └────▶ nothing, a BP5 file, or the config's stream

Runs in the process of the command; the producer's ranks have their own. A producer that fails
leaves the stream without a goodbye, as in a run; an interruption closes it after the last whole
iteration, and what was computed until then is shown.
"""

from __future__ import annotations

import csv
import importlib.util
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import yaml
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from workflow import plugins, streams
from workflow.config import Config
from workflow.errors import BillowError, ConfigError
from workflow.protocols import Producer, StreamWriter
from workflow.types import Frame, Hosting

OBSERVER = "producers.observer:Observer"  # looked up by name, as a config's plug-ins are
LINE_S = 5.0  # between two lines where there is no terminal
PICTURES, FILM_PICTURES = 16, 96  # kept in memory for --plot, --movie


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where a simulation's output goes."""

    series: Path | None  # a BP5 folder
    stream: Path | None  # a contact file of the config's engine
    energies: Path
    picture: Path | None
    movie: Path | None


def places(
    config: Config, *, out: Path | None, stream: Path | None, plot: bool, movie: bool
) -> Places:
    """All paths, before anything is started; ConfigError when one is taken or cannot be drawn."""
    if (plot or movie) and importlib.util.find_spec("matplotlib") is None:
        raise ConfigError(
            "--plot, --movie: wanted matplotlib, got none. pip install 'billow[plot]'."
        )
    if out is not None and stream is not None:
        raise ConfigError("--out and --stream: wanted one of the two, got both.")
    if out is not None and out.suffix in (".h5", ".bp4", ".csv", ".png"):
        raise ConfigError(
            f"--out {out}: wanted the path of a new BP5 folder, as in khi.bp5, got '{out.suffix}'."
        )
    folder = Path("runs") / f"{config.name}-simulate-{time.strftime('%Y%m%d-%H%M%S')}"
    beside = folder if out is None else out.parent
    prefix = "" if out is None else f"{out.name.removesuffix('.bp5').removesuffix('.bp')}."
    found = Places(
        series=out,
        stream=stream,
        energies=beside / f"{prefix}energies.csv",
        picture=beside / f"{prefix}vortices.png" if plot else None,
        movie=beside / f"{prefix}vortices.gif" if movie else None,
    )
    for path in vars(found).values():
        if path is not None and path.exists():
            raise ConfigError(f"{path}: wanted a new path, this one is taken. Give another --out.")
    return found


def simulate(config: Config, where: Places, *, plain: bool) -> bool:
    """Run the producer to its end, print what came of it; False if it was interrupted.

    Raises NodeLost when a rank died, and what else the producer raises.
    """
    if config.source.producer is None:
        raise ConfigError(
            "source: wanted a 'producer' to run, got a 'contact': somebody else's stream. "
            "`billow run` learns from it."
        )
    producer: Producer = plugins.build(config.source.producer, "source.producer")
    plugins.fits(producer, Producer, "source.producer")
    observer = plugins.load(OBSERVER, "simulate")(
        producer.series(),
        theory=getattr(producer, "cold_growth_rate", None),
        pictures=FILM_PICTURES if where.movie else PICTURES if where.picture else 0,
    )
    where.energies.parent.mkdir(parents=True, exist_ok=True)
    if where.series is None:
        resolved = yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False)
        (where.energies.parent / "config.yaml").write_text(resolved)
    screen = Screen(config.name, getattr(producer, "outputs", None), plain=plain)
    began = time.monotonic()
    try:
        whole = _run(config, producer, observer, where, screen)
    except BillowError:
        screen.say(f"failed after {len(observer.rows)} outputs; their energies: {where.energies}")
        raise
    screen.results(observer, time.monotonic() - began, whole=whole)
    if where.picture is not None and observer.rows:
        observer.draw(where.picture, config.name)
    if where.movie is not None and observer.rows:
        observer.film(where.movie, config.name)
    screen.files(where)
    return whole


def _run(config: Config, producer: Producer, observer: Any, where: Places, screen: Screen) -> bool:
    """Every iteration: computed, measured, written; False if it was interrupted."""
    iterations = producer.iterations(config.seed, hosting=Hosting.PROCESSES)
    with ExitStack() as stack:
        stack.callback(getattr(iterations, "close", lambda: None))
        stop = stack.enter_context(_stop_requests())
        frames = stop.wait_for(iterations)  # ranks start before there are threads
        if frames is None:
            return not stop.asked
        writer = stack.enter_context(_writer(config, producer, where, screen))
        table = stack.enter_context(_table(where.energies))
        stack.enter_context(screen)
        while frames is not None:
            table(observer.look(frames))
            if writer is not None:
                writer.put(frames)
            screen.turn(frames, observer.rows[-1])
            frames = None if stop.asked else stop.wait_for(iterations)
        return not stop.asked


@contextmanager
def _writer(
    config: Config, producer: Producer, where: Places, screen: Screen
) -> Iterator[StreamWriter | None]:
    """The stream's end, closed after success, abandoned after an error."""
    stream = config.source.stream
    if where.series is not None:
        with streams.open_writer(
            "bp5", where.series, producer.series(), encoding=stream.encoding
        ) as writer:
            yield writer
    elif where.stream is not None:
        screen.say(f"waiting for a reader of {where.stream} ({stream.engine})")
        stops = (signal.SIGINT, signal.SIGTERM)
        before = {n: signal.signal(n, signal.SIG_DFL) for n in stops}  # the engine waits without us
        try:
            opened = streams.open_writer(
                stream.engine, where.stream, producer.series(),
                parameters=stream.parameters, encoding=stream.encoding,
            )  # fmt: skip
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        with opened as writer:
            yield writer
    else:
        yield None


@contextmanager
def _table(path: Path) -> Iterator[Any]:
    """Writes rows to a CSV file, each at once; the first one's names are the columns."""
    with path.open("w", newline="") as file:
        writer: csv.DictWriter[str] | None = None

        def write(row: Mapping[str, float]) -> None:
            nonlocal writer
            if writer is None:
                writer = csv.DictWriter(file, list(row), extrasaction="ignore", restval="")
                writer.writeheader()
            writer.writerow({k: v if isinstance(v, int) else f"{v:.9g}" for k, v in row.items()})
            file.flush()

        yield write


class _StopRequests:
    """SIGINT and SIGTERM stop the simulation between two iterations; the second one at once."""

    def __init__(self) -> None:
        self.asked = False
        self._waiting = False

    def ask(self, number: int, frame: FrameType | None) -> None:
        again, self.asked = self.asked, True
        if self._waiting or again:
            raise KeyboardInterrupt

    def wait_for(self, iterations: Iterator[tuple[Frame, ...]]) -> tuple[Frame, ...] | None:
        """The next iteration; None at the end, or when a stop is asked for meanwhile."""
        self._waiting = True
        try:
            return None if self.asked else next(iterations, None)
        except KeyboardInterrupt:
            return None
        finally:
            self._waiting = False


@contextmanager
def _stop_requests() -> Iterator[_StopRequests]:
    stop = _StopRequests()
    before = {n: signal.signal(n, stop.ask) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# ---------------------------------------------------------------- the screen


class Screen:
    """A progress bar on a terminal, lines elsewhere, and the results at the end."""

    def __init__(self, name: str, outputs: Sequence[int] | None, *, plain: bool) -> None:
        self._console = Console()
        self._plain = plain or not self._console.is_terminal
        self._total = None if outputs is None else len(outputs)
        self._done = 0
        self._last = -LINE_S
        self._bar = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[said]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self._console,
        )
        self._task = self._bar.add_task(name, total=self._total, said="")
        first = f"first output: iteration {outputs[0]}" if outputs else ""
        self.say(f"{name}: loading or compiling the producer; {first}".rstrip("; "))

    def say(self, text: str) -> None:
        self._console.print(escape(text), soft_wrap=True, highlight=False)
        sys.stdout.flush()

    def __enter__(self) -> Screen:
        if not self._plain:
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if not self._plain:
            self._bar.stop()

    def turn(self, frames: Sequence[Frame], row: Mapping[str, float]) -> None:
        """One more iteration is done."""
        self._done += 1
        of = "" if self._total is None else f" of {self._total}"
        fields = sum(v for k, v in row.items() if k[:1] in "EB" and k[2:] == "_J")
        said = f"iteration {frames[0].iteration} ({self._done}{of})"
        said += f", field energy {fields:.3g} J" if "Ex_J" in row else ""
        if not self._plain:
            self._bar.update(self._task, completed=self._done, said=said)
        elif time.monotonic() - self._last >= LINE_S or self._done == self._total:
            self._last = time.monotonic()
            self.say(said)

    def results(self, observer: Any, wall_s: float, *, whole: bool) -> None:
        """Energies, drift, growth."""
        rows = observer.rows
        how = "ended" if whole else "interrupted"
        if not rows:
            self.say(f"{how} before the first output")
            return
        first, last = int(rows[0]["iteration"]), int(rows[-1]["iteration"])
        self.say(f"{how} after {len(rows)} outputs, iterations {first} to {last}, {wall_s:.1f} s")
        table = Table(box=None, pad_edge=False)
        table.add_column("energy [J]")
        for heading in (f"iteration {first}", "largest", f"iteration {last}"):
            table.add_column(heading, justify="right")
        for name, values in observer.energies().items():
            numbers = (values[0], values.max(), values[-1])
            table.add_row(name, *(f"{number:.4e}" for number in numbers))
        if table.row_count:
            self._console.print(table)
        for what, words in observer.findings():
            self._console.print(
                f"[bold]{escape(what)}[/bold]: {escape(words)}", soft_wrap=True, highlight=False
            )

    def files(self, where: Places) -> None:
        """What was written, and where."""
        for name, path in vars(where).items():
            if path is not None and path.exists():
                self.say(f"{name}: {path}")
