"""`billow watch`: the terminal view of a run, from its journal and summary alone.

Works on a running, finished or killed run. Strings from the journal are shown as text: they may
come from a stream, and are neither markup nor terminal control.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path

from rich.console import Console
from rich.live import Live

from workflow.journal import Tail, tail
from workflow.view import LiveView
from workflow.vitals import RunState

__all__ = ["LiveView", "watch"]

log = logging.getLogger(__name__)

REFRESH_S = 0.5
LINE_S = 5.0  # between two progress lines where there is no terminal


def watch(
    folder: Path,
    *,
    follow: bool,
    console: Console | None = None,
    refresh_s: float = REFRESH_S,
    line_s: float = LINE_S,
) -> RunState:
    """Show the run in a folder; with `follow` until it is over or the user leaves (Ctrl-C)."""
    console = console or Console()
    view, follower = LiveView(folder), tail(folder)
    try:
        if not console.is_terminal:
            _lines(view, follower, console, follow=follow, refresh_s=refresh_s, line_s=line_s)
        elif follow:
            _live(view, follower, console, refresh_s)
        else:
            view.take(follower.new())
            console.print(view.render())
    except KeyboardInterrupt:
        log.debug("left the view of %s", folder)
    return view.state(time.time())


def _live(view: LiveView, follower: Tail, console: Console, refresh_s: float) -> None:
    view.take(follower.new())
    with Live(view.render(), console=console, auto_refresh=False) as live:
        while not view.state(time.time()).over:
            time.sleep(refresh_s)
            view.take(follower.new())
            live.update(view.render(), refresh=True)


def _lines(
    view: LiveView,
    follower: Tail,
    console: Console,
    *,
    follow: bool,
    refresh_s: float,
    line_s: float,
) -> None:
    """Progress as plain lines, what happens as it happens, and the whole state at the end."""
    view.take(follower.new())
    if follow and not view.state(time.time()).over:  # else they come with the whole state below
        for note in view.tally.notes:
            _say(console, note)
    shown, said_at = "", time.monotonic()
    while follow and not view.state(time.time()).over:
        line = view.one_line()
        if line != shown and (not shown or time.monotonic() - said_at >= line_s):
            _say(console, line)
            shown, said_at = line, time.monotonic()
        time.sleep(refresh_s)
        for note in view.take(follower.new()):
            _say(console, note)
    view.take(follower.new())
    for line in view.lines():
        _say(console, line)


def _say(console: Console, line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)
