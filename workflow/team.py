"""Team: the learners of a run. A lost one is replaced, takes a peer's state, and rejoins.

Learners hold bit-equal weights: they begin with the same (which depend on the seed only), apply the
same updates in the same order, and a newcomer takes weights and optimizer from a peer between two
steps, because calls to an actor are carried out in the order in which they were made.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from workflow.errors import BillowError, QuorumError
from workflow.graph import Call, Handle
from workflow.inbox import Driver


@dataclass
class Member:
    """A learner as the driver knows it."""

    name: str
    node: Handle
    starting: bool = True
    active: bool = False  # updates are sent to it
    behind: Call | None = None  # it gets no part until this is answered: it missed a deadline,
    # or takes over a peer's state


class Team:
    """Starts, heals and replaces learners."""

    def __init__(
        self,
        driver: Driver,
        *,
        start: Callable[[str], tuple[Handle, Call]],
        names: list[str],
        silent_s: float,
    ) -> None:
        self._host, self._inbox, self._journal = driver.host, driver.inbox, driver.journal
        self._restarts, self._start, self._silent_s = driver.restarts, start, silent_s
        self.initial_state: Any = None  # payload: the state before the first step
        self._saved: tuple[int, Any] = (0, None)  # (step, payload) of the newest checkpoint
        self.members: dict[str, Member] = {}
        self._closing = False
        self.steps = 0  # applied so far
        for name in names:
            self._spawn(name)

    def able(self) -> list[Member]:
        """Learners that take part, those in step with the run first."""
        active = [m for m in self.members.values() if m.active]
        return sorted(active, key=lambda m: (m.behind is not None, m.name))

    def in_step(self) -> list[str]:
        """Names of those that can take a part now."""
        return [m.name for m in self.able() if m.behind is None]

    def begin(self) -> bool:
        """Whether training can begin: all are there from the first step. Keeps the first state."""
        if self.initial_state is not None:
            return bool(self.able())
        if any(m.starting for m in self.members.values()) or not self.able():
            return False
        self.initial_state = self._host.call(self.able()[0].node, "state").receipt
        self._saved = (0, self.initial_state)
        return True

    def save(self, take: Callable[[int, Any, str], None]) -> None:
        """Get the newest state and its digest; it stays here, too, for when all learners die."""
        if not self.able():
            return
        node, step = self.able()[0].node, self.steps
        state = self._host.call(node, "state").receipt

        def both(digest: str) -> None:
            self._saved = (step, state)
            take(step, self._host.fetch(state), digest)

        self._inbox.expect(self._host.call(node, "digest"), both, partial(self.lose, node))

    def call(self, name: str, method: str, *arguments: Any, payloads: int = 0) -> Call:
        return self._host.call(self.members[name].node, method, *arguments, payloads=payloads)

    def apply(self, update: Any) -> None:
        """Send an update (a payload) to everybody."""
        self.steps += 1
        for member in self.able():
            call = self._host.call(member.node, "apply", update)
            self._inbox.expect(
                call, partial(self._applied, member.name), partial(self.lose, member.node)
            )

    def evaluate(self, arrays: Any, take: Callable[[Any], None]) -> None:
        """Loss on held-out arrays (a payload) with the newest weights."""
        for member in self.able()[:1]:
            call = self._host.call(member.node, "evaluate", arrays)
            self._inbox.expect(call, take, partial(self.lose, member.node))

    def wait_for(self, name: str) -> None:
        """It missed a deadline: no part for it until it has caught up with its calls."""
        member = self.members.get(name)
        if member is None or member.behind is not None:
            return
        member.behind = self._inbox.expect(
            self._host.call(member.node, "digest"),
            partial(self._caught_up, member),
            partial(self.lose, member.node),
        )

    def close(self) -> None:
        """Nobody is replaced any more; who does not answer in time is left out."""
        self._closing = True
        for member in self.able():
            self.wait_for(member.name)

    def watch(self) -> None:
        """Replace a learner that has been behind for too long."""
        now = time.monotonic()
        for member in list(self.members.values()):
            if member.behind is not None and now - member.behind.made_at > self._silent_s:
                why = QuorumError(f"silent for more than {self._silent_s:g} s")
                self.lose(member.node, why)

    def lose(self, node: Handle, error: BillowError) -> None:
        """A learner is gone: it is replaced."""
        member = self.members.get(node.name)
        if member is None or member.node is not node:
            return  # it is replaced already
        del self.members[node.name]
        self._inbox.forget(member.behind)
        self._host.kill(node)
        self._journal.write("learner/lost", learner=node.name, why=str(error), step=self.steps)
        if not self._closing:
            self._restarts.note(node.name, str(error))
            self._spawn(node.name)

    # ------------------------------------------------------------ inside

    def _spawn(self, name: str) -> None:
        node, call = self._start(name)
        member = self.members[name] = Member(name=name, node=node)
        self._inbox.expect(call, partial(self._started, member), partial(self.lose, node))

    def _started(self, member: Member, about: Mapping[str, Any]) -> None:
        member.starting = False
        member.node.pid, member.node.host = about["pid"], about["host"]
        if self.initial_state is None:
            self._join(member, "")
            return
        peers = self.able()
        if peers:
            state = self._host.call(peers[0].node, "state").receipt
        else:  # the last one that held the weights is gone: what came after the checkpoint is, too
            step, state = self._saved
            self._journal.write("learner/rewound", learner=member.name, step=step, was=self.steps)
        member.active = True  # updates queue up behind the state
        member.behind = self._inbox.expect(
            self._host.call(member.node, "load_state", state),
            partial(self._healed, member),
            partial(self.lose, member.node),
        )

    def _healed(self, member: Member, digest: str) -> None:
        member.behind = None
        self._join(member, digest)

    def _join(self, member: Member, digest: str) -> None:
        member.active = True
        self._journal.write(
            "learner/join", learner=member.name, pid=member.node.pid, host=member.node.host,
            step=self.steps, digest=digest,
        )  # fmt: skip

    def _caught_up(self, member: Member, digest: str) -> None:
        member.behind = None

    def _applied(self, name: str, receipt: Mapping[str, Any]) -> None:
        self._journal.write(
            "weights/digest", step=receipt["step"], learner=name, value=receipt["digest"]
        )
