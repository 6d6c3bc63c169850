"""What `billow run` and `billow check` put on the screen."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from workflow import chain as chains
from workflow.config import Config
from workflow.journal import tail
from workflow.mirror import mirror_or_none
from workflow.plan import Plan
from workflow.watch import LiveView

REFRESH_S = 0.5
LINE_S = 5.0  # between two lines where there is no terminal


class Screen:
    """Shows a run while it goes on, from its journal, and mirrors the journal to TensorBoard."""

    def __init__(self, folder: Path, *, plain: bool) -> None:
        self._console = Console(stderr=False)
        self._view = LiveView(folder)
        self._tail = tail(folder)
        self._mirror = mirror_or_none(folder)
        self._live: Live | None = None
        self._plain = plain or not self._console.is_terminal
        self._last = 0.0
        self._console.print(f"run folder: {escape(str(folder))}", soft_wrap=True)

    def __enter__(self) -> Screen:
        if not self._plain:
            self._live = Live(self._view.render(), console=self._console, auto_refresh=False)
            self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._show(time.monotonic())
        if self._live is not None:
            self._live.__exit__(kind, error, trace)
        if self._mirror is not None:
            self._mirror.close()

    def turn(self) -> None:
        """Called by the run in every turn of its loop."""
        now = time.monotonic()
        if now - self._last >= (LINE_S if self._plain else REFRESH_S):
            self._show(now)

    def _show(self, now: float) -> None:
        self._last = now
        for event in self._tail.new():
            self._view.feed(event)
            if self._mirror is not None:
                self._mirror.feed(event)
        if self._live is not None:
            self._live.update(self._view.render(), refresh=True)
        else:
            print(self._view.one_line(), flush=True)  # noqa: T201


def print_summary(summary: Mapping[str, Any], folder: Path) -> None:
    """How a run ended, in a few lines."""
    console = Console()
    table = Table(show_header=False, box=None, pad_edge=False)
    ledger = summary["ledger"]
    ends = ", ".join(
        f"{ledger[name]} {name.replace('_', ' ')}"
        for name in ("trained", "held_out", "untrained", "dropped", "lost", "before_join")
        if ledger[name]
    )
    rows = {
        "status": summary["status"] + (f" ({summary['reason']})" if summary["reason"] else ""),
        "held-out loss": _arrow(summary["loss_first"], summary["loss_last"]),
        "training": f"{summary['training_steps']} steps on {summary['samples']} samples; "
        f"first step after {_number(summary['first_step_s'])} s, {summary['wall_s']:.1f} s in all",
        "ledger": ("closed: " if summary["ledger_closed"] else "OPEN: ")
        + f"{ledger['produced']} boxes = {ends or '0'}",
        "weights": f"{summary['weights_digest']} in {summary['learners_alive']} learners"
        + (" (NOT equal in all of them)" if summary["weights_agree"] is False else ""),
        "faults": f"{summary['restarts']} restarts, {summary['updates_skipped']} updates skipped, "
        f"suspects: {', '.join(summary['suspects']) or 'none'}",
        "run folder": str(folder),
    }
    for name, text in rows.items():
        table.add_row(f"[bold]{name}[/bold]", escape(text))
    console.print(table, soft_wrap=True)
    if (folder / "tensorboard").exists():
        console.print(
            f"curves: tensorboard --logdir {escape(str(folder / 'tensorboard'))} "
            "--reload_multifile true",
            soft_wrap=True,
        )


def _arrow(first: float | None, last: float | None) -> str:
    if first is None or last is None:
        return "not measured"
    return f"{first:.4g} -> {last:.4g} ({last / first:.2f} of the first)"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def print_estimate(config: Config, plan: Plan) -> None:
    """What a valid config would start and take."""
    shapes = chains.makes(plan.chain)
    sample_bytes = sum(4 * int(np.prod(shape)) for shape in shapes.values())
    shard_bytes = (config.replay.now + config.replay.reservoir) * sample_bytes
    queue = int(config.source.stream.parameters.get("QueueLimit", "2")) + 1
    console = Console()
    lines = [
        f"config '{config.name}' is valid; nothing was started.",
        f"source '{config.source.name}': "
        + (f"{plan.boxes} boxes per iteration" if plan.boxes is not None else "boxes not known yet")
        + (f", records {', '.join(plan.offers)}" if plan.offers else ""),
        f"the writer holds up to {queue} iterations (QueueLimit + 1)",
        "samples: " + ", ".join(f"{name} {shape}" for name, shape in shapes.items()),
        f"{config.transforms.count} transform actors, {config.parts} replay shards of up to "
        f"{shard_bytes / 2**20:.1f} MiB, {config.learners.count} learners, quorum "
        f"{config.reducer.wanted(config.learners.count)}",
    ]
    if config.source.stream.parameters.get("QueueFullPolicy") == "Discard":
        lines.append("note: QueueFullPolicy Discard loses the NEWEST iterations when readers lag")
    for line in lines:
        console.print(escape(line), soft_wrap=True)
    sys.stdout.flush()
