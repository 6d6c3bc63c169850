"""What benchmarks share: a stopwatch, a row of their result, and its table."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table


def timed(work: Callable[[], None]) -> float:
    """Wall seconds of one call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def row(
    case: str, unit: str, value: float, peer: str | None = None, peer_value: float | None = None
) -> dict[str, Any]:
    """Of a cost: the ratio is the peer's over ours."""
    ratio = None if peer_value is None else peer_value / value
    return {"case": case, "unit": unit, "billow": value, "peer": peer, "peer_value": peer_value,
            "ratio": ratio}  # fmt: skip


def show(title: str, rows: Sequence[dict[str, Any]], digits: int) -> None:
    """Print the rows; values with so many digits."""
    table = Table(title=title)
    for column in ("case", "unit", "billow", "peer", "", "ratio"):
        table.add_column(column, justify="left" if column in ("case", "unit", "peer") else "right")
    for r in rows:
        peer = "" if r["peer_value"] is None else f"{r['peer_value']:.{digits}f}"
        ratio = "" if r["ratio"] is None else f"{r['ratio']:.2f}"
        table.add_row(
            r["case"], r["unit"], f"{r['billow']:.{digits}f}", r["peer"] or "", peer, ratio
        )
    Console().print(table)
