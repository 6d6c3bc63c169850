"""Feed: finished iterations and owed steps become a fixed sequence of insertions and batches.

The sequence depends on counts only (workflow/pacing.py), never on how fast anybody is, and runs
`prepare` training steps ahead of the learners.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from workflow.errors import BillowError
from workflow.graph import Call, Handle, Joined
from workflow.inbox import Driver, fatal
from workflow.intake import Iteration
from workflow.ledger import Fate
from workflow.pacing import Pacing
from workflow.protocols import Normaliser
from workflow.types import Array, Key


@dataclass
class Prepared:
    """The batches of one training step, one per part."""

    step: int
    batches: dict[int, Any] = field(default_factory=dict)  # part -> payload; none for an empty one
    manifests: dict[int, Mapping[str, Any]] = field(default_factory=dict)


class Feed:
    """Drives the replay shards."""

    def __init__(
        self,
        driver: Driver,
        *,
        pacing: Pacing,
        normaliser: Normaliser | None,
        start: Callable[[str], tuple[Handle, Call]],
        prepare: int,
    ) -> None:
        self._host, self._inbox = driver.host, driver.inbox
        self._ledger, self._journal = driver.ledger, driver.journal
        self._restarts, self._patience_s = driver.restarts, driver.patience_s
        self.pacing, self._normaliser = pacing, normaliser
        self._start, self._prepare = start, prepare
        self.moments: Mapping[str, Array] = {}
        self.held_out: list[list[Any]] = []  # per iteration the payloads: lists of samples
        self._prepared: deque[Prepared] = deque()
        self._batches_made = 0
        self.shards = [self._spawn(part) for part in range(pacing.parts)]

    def turn(self, ready: deque[Iteration]) -> None:
        """Go on with the sequence, as far as there is something to do and room for it."""
        while len(self._prepared) < self._prepare:
            if self.pacing.owed > self._batches_made:
                self._prepare_step(self._batches_made)
                self._batches_made += 1
            elif ready:
                self._insert(ready.popleft())
            else:
                return

    def take(self) -> Prepared | None:
        """The next step's batches, once all parts are there."""
        if self._prepared and len(self._prepared[0].manifests) == self.pacing.parts:
            return self._prepared.popleft()
        return None

    def idle(self) -> bool:
        """Whether no batch is under way or waits to be trained on."""
        return not self._prepared

    def lose(self, part: int, node: Handle, error: BillowError) -> None:
        """A shard is gone, with its samples; an empty one takes its place."""
        if self.shards[part] is not node:
            return
        self._host.kill(node)
        self._journal.write("shard/lost", node=node.name, why=str(error))
        self._restarts.note(node.name, str(error))
        self.shards[part] = self._spawn(part)

    # ------------------------------------------------------------ inside

    def _spawn(self, part: int) -> Handle:
        node, call = self._start(f"shard-{part}")
        self._inbox.expect(call, partial(self._started, node), fatal)
        return node

    def _started(self, node: Handle, about: Mapping[str, Any]) -> None:
        node.pid, node.host = about["pid"], about["host"]
        self._journal.write("shard/join", node=node.name, pid=node.pid, host=node.host)

    def _prepare_step(self, step: int) -> None:
        prepared = Prepared(step=step)
        self._prepared.append(prepared)
        for part, shard in enumerate(self.shards):
            call = self._host.call(shard, "batch", step, self.moments, payloads=1)
            self._inbox.expect(
                call,
                partial(self._made, prepared, part, call),
                partial(self._not_made, prepared, part, shard),
                within_s=self._patience_s,
            )

    def _made(self, prepared: Prepared, part: int, call: Call, manifest: Mapping[str, Any]) -> None:
        prepared.manifests[part] = manifest
        if manifest["rows"]:
            prepared.batches[part] = call.payloads[0]

    def _not_made(self, prepared: Prepared, part: int, node: Handle, error: BillowError) -> None:
        prepared.manifests[part] = {"rows": ()}
        self.lose(part, node, error)

    def _insert(self, iteration: Iteration) -> None:
        if iteration.held_out:
            self.held_out.append([pack[-1] for pack in iteration.packs])
            for key in iteration.made:
                self._ledger.end(key, Fate.HELD_OUT)
            return
        if self._normaliser is not None:
            for key in sorted(iteration.moments):
                self.moments = self._normaliser.merge(self.moments, iteration.moments[key])
        for part, shard in enumerate(self.shards):
            call = self._host.call(
                shard, "insert", Joined([pack[part] for pack in iteration.packs])
            )
            self._inbox.expect(
                call,
                partial(self._inserted, part),
                partial(self.lose, part, shard),
                within_s=self._patience_s,
            )
        shards = [iteration.shards[key.box] for key in iteration.made]
        self.pacing.insert(shards)
        self._journal.write(
            "sample/insert", value=len(shards), step=iteration.number, time_s=iteration.time_s
        )

    def _inserted(self, part: int, receipt: Mapping[str, Any]) -> None:
        self._journal.write(
            "replay/fill", value=receipt["reservoir"], part=part, now=receipt["now"],
            seen=receipt["seen"],
        )  # fmt: skip
        self._ledger.untrained(
            (Key(*key) for key in receipt["evicted_unseen"]),
            by=f"shard-{part}",
            why="left replay before it was drawn",
        )
        for key, why in receipt["refused"]:
            self._ledger.untrained([Key(*key)], by=f"shard-{part}", why=why)
