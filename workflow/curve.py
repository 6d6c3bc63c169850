"""A curve of bounded memory, and its picture in one line of text."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment

BLOCKS = "▁▂▃▄▅▆▇█"
PLAIN = "_.-=+*#@"  # for a terminal that knows ASCII only


class Curve:
    """Values by step. Past `points` of them, neighbours are averaged: memory stays bounded."""

    def __init__(self, points: int = 512) -> None:
        self._limit = points
        self._width = 1  # values that one full point stands for
        self._points: list[float] = []  # means
        self._filled = 0  # values in the last point
        self.last: float | None = None
        self.first: float | None = None

    def add(self, value: float) -> None:
        """Append one value; a non-finite one is remembered as the last, but not drawn."""
        self.last = value
        self.first = value if self.first is None else self.first
        if not math.isfinite(value):
            return
        if self._points and self._filled < self._width:
            self._filled += 1
            self._points[-1] += (value - self._points[-1]) / self._filled
            return
        if len(self._points) >= self._limit:
            self._points = list(_pairs(self._points))
            self._width *= 2
        self._points.append(value)
        self._filled = 1

    @property
    def points(self) -> tuple[float, ...]:
        return tuple(self._points)


def sparkline(values: Sequence[float], width: int, blocks: str = BLOCKS) -> str:
    """At most `width` characters whose height is the value, lowest to highest."""
    if not values or width < 1:
        return ""
    columns = min(width, len(values))
    edges = [i * len(values) // columns for i in range(columns + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in itertools.pairwise(edges)]
    low, high = min(means), max(means)
    span = (high - low) or 1.0
    top = len(blocks) - 1
    return "".join(blocks[round((mean - low) / span * top)] for mean in means)


class Spark:
    """A sparkline that takes the width, and the characters, that the terminal has."""

    def __init__(self, values: Sequence[float], style: str = "") -> None:
        self._values, self._style = values, style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        blocks = PLAIN if options.ascii_only else BLOCKS
        text = sparkline(self._values, min(options.max_width, 60), blocks)
        yield Segment(text, console.get_style(self._style) if self._style else None)


def _pairs(points: Sequence[float]) -> Iterator[float]:
    """Means of neighbours; an odd last one stays."""
    for i in range(0, len(points), 2):
        pair = points[i : i + 2]
        yield sum(pair) / len(pair)
