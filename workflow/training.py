"""Training: one update a step, from the offers of a quorum of learners.

    batches (feed) -> gradients (team; quorum, deadline) -> update (reducer) -> applied by all

Faults are data: a learner that is dead, slow or set aside is missing in the step's update, and the
step goes on without it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from workflow import deal
from workflow.errors import BillowError, QuorumError
from workflow.feed import Feed, Prepared
from workflow.graph import Call, Handle, Many
from workflow.inbox import Driver
from workflow.team import Team
from workflow.types import Key


@dataclass
class Step:
    """One training step under way."""

    prepared: Prepared
    parts: dict[str, int]  # learner -> the part dealt to it
    waiting: dict[str, Call] = field(default_factory=dict)  # gradients that have not come
    offers: dict[str, Call] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)  # [s]

    @property
    def number(self) -> int:
        return self.prepared.step


class Training:
    """Takes steps, one at a time."""

    def __init__(
        self,
        driver: Driver,
        *,
        feed: Feed,
        team: Team,
        start_reducer: Callable[[str], tuple[Handle, Call]],
        quorum: int,
        deadline_s: float,
        max_skipped: int,
    ) -> None:
        self._host, self._inbox = driver.host, driver.inbox
        self._ledger, self._journal = driver.ledger, driver.journal
        self._restarts, self._patience_s = driver.restarts, driver.patience_s
        self.feed, self.team, self._start_reducer = feed, team, start_reducer
        self._quorum, self._deadline_s = quorum, deadline_s
        self._max_skipped = max_skipped
        self.steps = 0  # taken
        self.skipped = 0
        self.suspects: dict[str, str] = {}
        self.waited_s = 0.0  # with nothing to train on, since the first step
        self.first_step_at: float | None = None  # time.time()
        self._current: Step | None = None
        self._skipped_in_row = 0
        self._idle_since = time.monotonic()
        self.reducer = self._spawn_reducer()

    # ------------------------------------------------------------ one turn

    def between_steps(self) -> bool:
        """Whether no training step is under way."""
        return self._current is None

    def idle(self) -> bool:
        """Whether everything that was owed has been done."""
        return self._current is None and self.feed.idle()

    def turn(self) -> None:
        """Begin the next step if none is under way and its batches and learners are there."""
        if self._current is not None or not self.team.begin():
            return
        prepared = self.feed.take()
        if prepared is None:
            return
        if self.first_step_at is not None:
            self.waited_s += time.monotonic() - self._idle_since
        self._ask_learners(prepared)

    def watch(self) -> None:
        """Learners that were lost meanwhile, and the deadline of the step's offers."""
        step = self._current
        if step is None or not step.waiting:
            return
        for name, call in list(step.waiting.items()):
            member = self.team.members.get(name)
            if member is None or member.node is not call.node:
                self._inbox.forget(step.waiting.pop(name))
        passed_s = time.monotonic() - step.began
        enough = len(step.offers) >= self._quorum
        if not step.waiting:
            self._reduce(step)
        elif passed_s > self._deadline_s and (enough or passed_s > self._patience_s):
            self._close_offers(step)

    # ------------------------------------------------------------ offers

    def _ask_learners(self, prepared: Prepared) -> None:
        parts = deal.parts_to_learners(prepared.step, self.team.in_step(), self.feed.pacing.parts)
        parts = {name: part for name, part in parts.items() if part in prepared.batches}
        step = self._current = Step(prepared=prepared, parts=parts)
        for name, part in parts.items():
            call = self.team.call(name, "gradient", prepared.batches[part], payloads=1)
            step.waiting[name] = self._inbox.expect(
                call, partial(self._offered, step, name, call), partial(self._no_offer, step, name)
            )
        if not parts:
            self._reduce(step)

    def _offered(self, step: Step, name: str, call: Call, receipt: Mapping[str, Any]) -> None:
        step.waiting.pop(name)
        step.offers[name] = call
        self._journal.write(
            "learner/loss", step=step.number, learner=name, part=step.parts[name],
            value=receipt["loss"]["total"], terms=dict(receipt["loss"]), busy_s=receipt["busy_s"],
        )  # fmt: skip
        if not step.waiting:
            self._reduce(step)

    def _no_offer(self, step: Step, name: str, error: BillowError) -> None:
        call = step.waiting.pop(name)
        self.team.lose(call.node, error)
        if not step.waiting:
            self._reduce(step)

    def _close_offers(self, step: Step) -> None:
        """What has come by now is what the update is made of."""
        for name, call in step.waiting.items():
            self._journal.write(
                "learner/late", step=step.number, learner=name, why=f"over {self._deadline_s:g} s"
            )
            self._inbox.forget(call)
            self.team.wait_for(name)
        step.waiting.clear()
        self._reduce(step)

    # ------------------------------------------------------------ the update

    def _spawn_reducer(self) -> Handle:
        node, call = self._start_reducer("reducer")
        self._inbox.expect(
            call, partial(self._reducer_started, node), partial(self._lose_reducer, node)
        )
        return node

    def _reducer_started(self, node: Handle, about: Mapping[str, Any]) -> None:
        node.pid, node.host = about["pid"], about["host"]
        self._journal.write("reducer/join", node=node.name, pid=node.pid, host=node.host)

    def _lose_reducer(self, node: Handle, error: BillowError) -> None:
        if node is not self.reducer:
            return
        self._host.kill(node)
        self._journal.write("reducer/lost", why=str(error), step=self.steps)
        self._restarts.note(node.name, str(error))
        self.reducer = self._spawn_reducer()

    def _reduce(self, step: Step) -> None:
        names = sorted(step.offers)
        call = self._host.call(
            self.reducer, "reduce", step.number,
            Many([step.offers[name].payloads[0] for name in names]), sorted(step.parts),
            payloads=1,
        )  # fmt: skip
        self._inbox.expect(
            call,
            partial(self._reduced, step, call),
            partial(self._not_reduced, step),
            within_s=self._patience_s,
        )

    def _not_reduced(self, step: Step, error: BillowError) -> None:
        """Offers outlive the reducer: they are made again to the next one."""
        self._lose_reducer(self.reducer, error)
        self._reduce(step)

    def _reduced(self, step: Step, call: Call, receipt: Mapping[str, Any]) -> None:
        self.team.apply(call.payloads[0])
        self.suspects |= receipt["suspects"]
        self._journal.write("reduce/update", **receipt)
        if receipt["reason"]:
            self._skip(step, receipt["reason"])
        else:
            self._skipped_in_row = 0
            for name in receipt["used"]:
                manifest = step.prepared.manifests[step.parts[name]]
                rows = [Key(*row) for row in manifest["rows"]]
                self._ledger.trained(rows[: manifest["from_now"]], rows[manifest["from_now"] :])
        self.steps += 1
        self.first_step_at = self.first_step_at or time.time()
        self._current, self._idle_since = None, time.monotonic()

    def _skip(self, step: Step, why: str) -> None:
        self.skipped += 1
        self._skipped_in_row += 1
        self._journal.write("reduce/skipped", step=step.number, why=why)
        if self._skipped_in_row > self._max_skipped:
            raise QuorumError(
                f"reducer.max_skipped: {self._skipped_in_row} training steps in a row gave no "
                f"update, wanted at most {self._max_skipped}; the last: {why}. Start more "
                "learners, or lower reducer.quorum."
            )
