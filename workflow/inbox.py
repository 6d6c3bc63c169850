"""The driver's inbox: calls under way, and what to do with what each of them gives.

And `Driver`: what every part of the driver works with.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from workflow.errors import BillowError, NodeLost
from workflow.graph import Call, Host
from workflow.journal import Journal
from workflow.ledger import Ledger

log = logging.getLogger(__name__)

Take = Callable[[Any], None]
Fail = Callable[[BillowError], None]


class Inbox:
    """Dispatches answers. A call without a `failed` handler lets its error end the run."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._waiting: dict[Call, tuple[Take, Fail]] = {}
        self._due: dict[Call, tuple[float, float]] = {}  # time.monotonic(), seconds allowed

    def expect(self, call: Call, take: Take, failed: Fail, within_s: float = math.inf) -> Call:
        """Wait for a call: `take` gets its receipt, `failed` one of our errors (NodeLost, ...).

        A node that does not answer within the time (it is frozen) is taken down: NodeLost.
        """
        self._waiting[call] = (take, failed)
        if within_s < math.inf:
            self._due[call] = (time.monotonic() + within_s, within_s)
        return call

    def forget(self, call: Call | None) -> None:
        """What it gives is of no interest any more."""
        if call is not None:
            self._waiting.pop(call, None)
            self._due.pop(call, None)

    def __len__(self) -> int:
        return len(self._waiting)

    def turn(self, timeout_s: float) -> None:
        """Wait until something is there, then deal with all that is, oldest call first."""
        for call in self._host.wait(list(self._waiting), timeout_s):
            handlers = self._waiting.pop(call, None)
            self._due.pop(call, None)
            if handlers is None:
                continue  # forgotten by what an earlier one of these did
            take, failed = handlers
            try:
                receipt = self._host.result(call)
            except BillowError as e:
                failed(e)
                continue
            take(receipt)
        self._take_down_the_frozen()

    def _take_down_the_frozen(self) -> None:
        now = time.monotonic()
        for call, (due, within_s) in list(self._due.items()):
            if now <= due or call not in self._due:
                continue
            del self._due[call]
            _, failed = self._waiting.pop(call)
            self._host.kill(call.node)
            failed(NodeLost(f"{call.node.name}: no answer for {within_s:g} s, taken down"))


@dataclass
class Restarts:
    """How often nodes of a run were replaced; past the limit the run cannot go on."""

    limit: int
    by_node: dict[str, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return sum(self.by_node.values())

    def note(self, name: str, why: str) -> None:
        """One more; NodeLost past the limit."""
        log.warning("%s is lost: %s", name, why)
        self.by_node[name] = self.by_node.get(name, 0) + 1
        if self.count > self.limit:
            raise NodeLost(
                f"{name}: lost, after {self.limit} restarts in this run (learners.max_restarts); "
                f"the last reason: {why}"
            )


@dataclass(frozen=True, kw_only=True)
class Driver:
    """What intake, feed, team and training share."""

    host: Host
    inbox: Inbox
    ledger: Ledger
    journal: Journal
    restarts: Restarts
    patience_s: float  # for an answer or a quorum; a shard or reducer silent so long is frozen


def fatal(error: BillowError) -> None:
    """A `failed` handler for calls whose error ends the run."""
    raise error
