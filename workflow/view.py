"""What can be seen of a run: its events added up, and shown as a table or in one line."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from workflow.curve import Spark
from workflow.journal import Event
from workflow.tally import Tally, clean
from workflow.vitals import RunState, Signs, judge, read_summary

COLOURS = {
    "running": "green",
    "ended": "green",
    "stopped": "yellow",
    "failed": "red",
    "lost": "red",
}


class LiveView:
    """The view of one run folder. Feed it events in order of time; it never raises on their
    contents."""

    def __init__(self, folder: Path) -> None:
        self._folder = Path(folder)
        self._signs = Signs()
        self.tally = Tally()

    def feed(self, event: Event) -> str | None:
        """Take in one event; returns a line about it if a user should hear of it at once."""
        self._signs = self._signs.after(event)
        return self.tally.add(event)

    def take(self, events: Iterable[Event]) -> list[str]:
        """Feed many; the lines about those that matter."""
        return [line for line in map(self.feed, events) if line is not None]

    def state(self, now: float) -> RunState:
        """What the run is doing at unix time `now`."""
        return judge(self._folder, self._signs, now)

    def one_line(self) -> str:
        """The progress of a run in one plain line."""
        tally, state = self.tally, self.state(time.time())
        parts = [
            state.state,
            f"stream {tally.stream_state}",
            f"frames {tally.seen}" + (f" ({tally.lost} lost)" if tally.lost else ""),
            f"samples {tally.samples}",
            f"steps {tally.steps}",
            f"loss {_number(tally.loss.last)}",
            f"held-out {_number(tally.held_out.last)}",
            f"learners {len(tally.learners)}",
        ]
        if tally.restarts:
            parts.append(f"restarts {tally.restarts}")
        if tally.suspects:
            parts.append(f"suspects {', '.join(sorted(tally.suspects))}")
        return " | ".join(parts)

    def lines(self) -> list[str]:
        """The whole view as plain lines, for a pipe or a file."""
        rows = [f"{label}: {text}" for label, text in self._rows()]
        return rows + [f"  {note}" for note in self.tally.notes]

    def render(self) -> RenderableType:
        """The whole view for a terminal."""
        table = Table.grid(padding=(0, 2))
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        colour = COLOURS[self.state(time.time()).state]
        curves = {"loss": self.tally.loss, "held-out loss": self.tally.held_out}
        for label, text in self._rows():
            table.add_row(Text(label), Text(text, style=colour if label == "state" else ""))
            if label in curves and len(curves[label].points) > 1:
                table.add_row(Text(""), Spark(curves[label].points, "cyan"))
        notes = [Text(note, style="dim", overflow="fold") for note in self.tally.notes]
        return Group(table, *notes)

    # ------------------------------------------------------------ rows

    def _rows(self) -> Iterator[tuple[str, str]]:
        tally, state = self.tally, self.state(time.time())
        yield "state", f"{state.state}: {clean(state.why)}" + _lasted(tally.first_t, tally.last_t)
        summary = read_summary(self._folder) if state.over else None
        yield "stream", ("last known: " if state.over else "") + tally.stream_words()
        yield "frames", tally.frame_words(_whole(summary, "frames_lost"))
        yield "samples", tally.sample_words()
        yield "training", tally.training_words()
        yield "loss", _curve_words(tally.loss.first, tally.loss.last)
        yield "held-out loss", _curve_words(tally.held_out.first, tally.held_out.last)
        yield "learners", tally.learner_words()
        if tally.suspects:
            yield "suspects", "; ".join(f"{n}: {why}" for n, why in sorted(tally.suspects.items()))
        if tally.digests.words():
            yield "weights", tally.digests.words()
        if tally.checkpoint:
            yield "checkpoint", tally.checkpoint
        if summary is not None:
            yield "summary", _summary_words(summary)


def _whole(summary: dict[str, Any] | None, key: str) -> int:
    value = (summary or {}).get(key)
    return value if isinstance(value, int) else 0


def _summary_words(summary: dict[str, Any]) -> str:
    first, last = summary.get("loss_first"), summary.get("loss_last")
    words = [
        f"held-out loss {_number(first)} -> {_number(last)}",
        f"{clean(summary.get('training_steps', '?'))} training steps",
        f"{clean(summary.get('samples', '?'))} samples",
        f"frames {clean(summary.get('frames_seen', '?'))} of "
        f"{clean(summary.get('frames_produced', '?'))} seen",
        "ledger closed" if summary.get("ledger_closed") is True else "ledger NOT closed",
    ]
    return ", ".join(words)


def _curve_words(first: float | None, last: float | None) -> str:
    return "not measured yet" if last is None else f"{_number(first)} -> {_number(last)}"


def _number(value: object) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:.4g}"
    return "-"


def _lasted(first: float | None, last: float | None) -> str:
    return "" if first is None or last is None else f", {last - first:.0f} s of events"
