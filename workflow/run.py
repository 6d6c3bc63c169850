"""A run: the graph built from a plan, driven to its end, and what came of it.

    producer ─▶ intake (transform actors) ─▶ training (shards, learners, reducer) ─▶ summary

`Run.go` is the straight path; the same loop drives nodes in this thread (inline) and Ray actors.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from workflow import finish, sources
from workflow.checkpoint import write_checkpoint
from workflow.errors import BillowError, CheckpointError, DataError, StreamBroken
from workflow.feed import Feed
from workflow.graph import Handle, Host, InlineHost
from workflow.heldout import LIVE_ROWS, HeldOutWindow
from workflow.inbox import Driver, Inbox, Restarts
from workflow.intake import Intake
from workflow.journal import Journal
from workflow.ledger import Ledger
from workflow.nodes import Nodes
from workflow.pacing import Pacing
from workflow.plan import Plan
from workflow.team import Team
from workflow.training import Training
from workflow.types import StreamState

log = logging.getLogger(__name__)

TURN_S = 0.2  # longest wait for an answer before the run looks after deadlines
GONE_S = 3.0  # for a producer whose stream broke to be gone, so that it can be said how
DROPS_FROM = 20  # boxes received before the share of dropped ones is judged
LEAVE_S = 5.0  # for transform actors to leave the stream
DRAIN_S = 60.0  # for the last answers, at the end


class Run:
    """One run, from its plan to its summary."""

    def __init__(
        self, plan: Plan, folder: Path, *, inline: bool, on_turn: Callable[[], None] = lambda: None
    ) -> None:
        self.plan, self.folder, self.inline = plan, folder, inline
        self._on_turn = on_turn
        self.config = plan.config
        self.began = time.time()
        self.ledger = Ledger()
        self.journal = Journal(folder / "journal" / "run.jsonl", source="run")
        self.window = HeldOutWindow(keep=self.config.held_out.keep, normaliser=plan.normaliser)
        self.stop_asked = ""
        self.status, self.reason = "failed", ""
        self.losses: dict[str, dict[str, float]] = {}
        self.digests: dict[str, str] = {}
        self.peaks: dict[str, int] = {}
        self.restarts = Restarts(limit=self.config.learners.max_restarts)
        self._evaluated = self._saved = 0  # how often so far
        self._beat = 0.0
        self._faults = list(self.config.faults)
        self._lost_extra = 0
        self._stalled = ""  # for how long, once the producer was given up for it

    # ------------------------------------------------------------ the straight path

    def go(self) -> dict[str, Any]:
        """Run to the end; the summary is returned and written whatever happens."""
        self.journal.write("run/start", pid=os.getpid(), name=self.config.name, inline=self.inline)
        self.source = sources.make_source(self.plan, self.folder, inline=self.inline)
        host: Host | None = None
        try:
            self.source.start()
            host = self._make_host()
            self._build(host)
            self._loop()
            self._last_answers()
            self._measure()
        except BillowError as e:
            self.status, self.reason = "failed", f"{type(e).__name__}: {e}"
            log.error("%s", self.reason)
        except BaseException as e:  # the summary says so, then it goes on its way
            self.status, self.reason = "failed", repr(e)
            raise
        finally:
            self._leave_stream(host)
            self.source.stop()
            summary = self._summary()
            if host is not None:
                host.close()
            self.journal.write("run/end", value=self.status, why=self.reason)
            self.journal.close()
        return summary

    def ask_to_stop(self, number: int = signal.SIGINT, frame: Any = None) -> None:
        """Stop at the next step boundary, with a checkpoint; a second time, at once."""
        if self.stop_asked:
            raise KeyboardInterrupt
        self.stop_asked = signal.Signals(number).name

    # ------------------------------------------------------------ building

    def _make_host(self) -> Host:
        if self.inline:
            return InlineHost()
        from workflow.cluster import RayHost  # Ray is imported only by runs that use it

        cluster = self.config.cluster
        return RayHost(
            address=cluster.address,
            object_store_mb=cluster.object_store_mb,
            cpus=cluster.cpus,
            gpus=cluster.gpus,
        )

    def _build(self, host: Host) -> None:
        config, plan = self.config, self.plan
        self.host = host
        self.inbox = Inbox(host)
        nodes = Nodes(host, plan, self.source.make_reader())
        driver = Driver(
            host=host,
            inbox=self.inbox,
            ledger=self.ledger,
            journal=self.journal,
            restarts=self.restarts,
            patience_s=config.reducer.deadline_s + config.learners.silent_s,
        )
        self.feed = Feed(
            driver,
            pacing=Pacing(
                parts=config.parts,
                batches_per_sample=config.replay.batches_per_sample,
                first_samples=min(config.replay.rows // 2, config.replay.now),
            ),
            normaliser=plan.normaliser,
            start=nodes.shard,
            prepare=config.replay.prepare,
        )
        self.team = Team(
            driver,
            start=nodes.learner,
            names=[f"learner-{i}" for i in range(config.learners.count)],
            silent_s=config.learners.silent_s,
        )
        self.training = Training(
            driver,
            feed=self.feed,
            team=self.team,
            start_reducer=nodes.reducer,
            quorum=config.reducer.wanted(config.learners.count),
            deadline_s=config.reducer.deadline_s,
            max_skipped=config.reducer.max_skipped,
        )
        self.intake = Intake(
            driver,
            start=nodes.transform,
            transforms=config.transforms,
            shards=config.parts,
            held_out_every=config.held_out.every,
            open_deadline_s=config.source.stream.open_deadline_s,
        )
        self.intake.join(self.source.name, self.source.path)

    # ------------------------------------------------------------ the loop

    def _loop(self) -> None:
        while not self._finished():
            self.source.turn()
            self.feed.turn(self.intake.ready)
            self.training.turn()
            self.intake.turn()
            self.inbox.turn(TURN_S)
            self._look_after()

    def _look_after(self) -> None:
        """What has to be done now and then: deadlines, heartbeat, faults, held-out loss."""
        self.intake.watch()
        self.team.watch()
        self.training.watch()
        self._watch_source()
        self._watch_drops()
        self.window.collect(self.host, self.feed.held_out)
        self._inject_faults()
        self._evaluate_live()
        self._checkpoint_now_and_then()
        if time.monotonic() - self._beat > 1.0:
            self._beat = time.monotonic()
            self.journal.heartbeat()
        self._on_turn()

    def _finished(self) -> bool:
        """Whether the run is over, and why."""
        limit = self.config.limits.max_steps
        if self.stop_asked:
            self.status, self.reason = "stopped", f"by {self.stop_asked}"
            return self.training.between_steps()
        if limit is not None and self.training.steps >= limit:
            self.status, self.reason = "stopped", f"limits.max_steps: {limit} reached"
            return True
        if not (self.intake.over() and not self.intake.ready and self.training.idle()):
            return False
        if self.intake.state is StreamState.PRODUCER_LOST:
            return self._after_producer_lost()
        after_end = self.config.limits.steps_after_end
        if self.feed.pacing.warm and self.feed.pacing.extra < after_end:
            self.feed.pacing.extra = after_end
            return False
        self.status, self.reason = "ended", ""
        return True

    def _after_producer_lost(self) -> bool:
        if self.source.can_restart():
            self.source.restart()
            self.journal.write("producer/restart", epoch=self.source.epoch)
            self.intake.join(self.source.name, self.source.path)
            return False
        self.source.wait_gone(GONE_S)
        self.status = "failed"
        how = self.source.lost() or "its stream broke"
        self.reason = f"the producer was lost: {self._stalled}{how}"
        return True

    def _watch_source(self) -> None:
        """The producer's process, a stall that has lasted too long, and training meanwhile."""
        lost = self.source.lost()
        self.intake.producer_state = self.source.final_state()
        if lost and self.source.note_lost():
            self.journal.write("producer/lost", why=lost, epoch=self.source.epoch)
            log.warning("the producer is lost: %s", lost)
        if lost and self.intake.iterations == 0 and not self.source.can_restart():
            self.intake.give_up()
            raise StreamBroken(f"the producer ended before its first iteration: {lost}")
        stalled_s = self.intake.stalled_s()
        if stalled_s > self.config.source.stream.lost_deadline_s:
            self._stalled = f"stalled for {stalled_s:.0f} s (source.stream.lost_deadline_s); then "
            self.journal.write("producer/lost", why=self._stalled)
            self.source.give_up()
            self.intake.give_up()
        away = self.intake.away()
        room = self._lost_extra < self.config.limits.steps_while_lost
        if away and room and self.training.idle() and self.feed.pacing.warm:
            self._lost_extra += 1
            self.feed.pacing.extra += 1

    def _watch_drops(self) -> None:
        """A run that throws nearly everything away stops and says so."""
        received, spoilt = self.intake.received, self.intake.spoilt
        limit = self.config.limits.max_dropped
        if received >= DROPS_FROM and spoilt > limit * received:
            reasons = self.ledger.balance().reasons
            worst = max((r for r in reasons if r.startswith("dropped")), key=reasons.__getitem__)
            raise DataError(
                f"limits.max_dropped: {spoilt} of {received} boxes were dropped, wanted at most "
                f"{limit:.0%}; most often {worst}. Mend the stream or the transforms."
            )

    def _inject_faults(self) -> None:
        due = [f for f in self._faults if self.training.steps >= f.at_step]
        for fault in due:
            pid = self._pid(fault.node)
            if pid is None:
                continue  # it is not up yet: the fault comes as soon as it is
            self._faults.remove(fault)
            self.journal.write("fault/inject", node=fault.node, signal=fault.signal, pid=pid)
            os.kill(pid, getattr(signal, f"SIG{fault.signal}"))

    def _pid(self, name: str) -> int | None:
        if name == "producer" or name.startswith("rank-"):
            return self.source.pid(name)
        handles = [m.node for m in self.team.members.values()]
        handles += [r.node for r in self.intake.readers.values()]
        handles += [*self.feed.shards, self.training.reducer]
        return next((h.pid for h in handles if h.name == name), None)

    # ------------------------------------------------------------ measuring

    def _evaluate_live(self) -> None:
        due = self.training.steps // self.config.held_out.evaluate_every
        if due > self._evaluated and len(self.window):
            self._evaluated = due
            arrays = self.host.keep(self.window.arrays(self.feed.moments, rows=LIVE_ROWS))
            step = self.training.steps
            self.team.evaluate(arrays, lambda loss: self._live_loss(step, loss))

    def _live_loss(self, step: int, loss: Any) -> None:
        self.journal.write("learner/heldout_loss", step=step, value=loss["total"], terms=dict(loss))

    def _last_answers(self) -> None:
        """Wait for every call that is under way; nothing new is begun."""
        self._leave_stream(self.host)
        self.team.close()
        until = time.monotonic() + DRAIN_S
        while len(self.inbox) and time.monotonic() < until:
            self.inbox.turn(TURN_S)
            self.team.watch()
            self.training.watch()
        self.window.collect(self.host, self.feed.held_out)

    def _leave_stream(self, host: Host | None) -> None:
        """A writer that waits for readers goes on when they have left."""
        if host is not None and hasattr(self, "intake"):
            finish.answers(host, self.intake.leave(), within_s=LEAVE_S)

    def _measure(self) -> None:
        """Digests of all learners, first and last loss on the same held-out window, checkpoint."""
        learners = self.team.able()
        self.digests = finish.digests(self.host, learners)
        if not learners or self.team.initial_state is None:
            return
        if len(self.window):
            arrays = self.host.keep(self.window.arrays(self.feed.moments))
            self.losses = finish.first_and_last_loss(
                self.host, learners[0].node, arrays, self.team.initial_state
            )
        first = learners[0]
        state = self.host.result(self.host.call(first.node, "state"))
        self._checkpoint(self.training.steps, state, self.digests.get(first.name, ""))
        self.peaks = finish.peak_memory(self.host, self._nodes())

    def _nodes(self) -> list[Handle]:
        return [
            *(m.node for m in self.team.able()),
            *(r.node for r in self.intake.readers.values() if r.left),
            *self.feed.shards,
            self.training.reducer,
        ]

    def _checkpoint_now_and_then(self) -> None:
        due = self.training.steps // self.config.learners.checkpoint_every
        if due > self._saved:
            self._saved = due
            self.team.save(self._checkpoint)

    def _checkpoint(self, step: int, state: Any, digest: str) -> None:
        try:
            path = write_checkpoint(
                self.folder / "checkpoints",
                step=step,
                state=state,
                moments=self.feed.moments,
                facts=finish.checkpoint_facts(self.plan, digest),
                keep=self.config.learners.keep_checkpoints,
            )
        except CheckpointError as e:
            self.journal.write("checkpoint/refused", why=str(e))
            log.error("%s", e)
            return
        self.journal.write("checkpoint/written", value=str(path.name), step=step)

    def _summary(self) -> dict[str, Any]:
        return finish.write_summary(self)


def make_run(
    plan: Plan, folder: Path, *, inline: bool, on_turn: Callable[[], None] = lambda: None
) -> Run:
    """A run whose SIGINT and SIGTERM stop it at a step boundary, with a checkpoint."""
    run = Run(plan, folder, inline=inline, on_turn=on_turn)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, partial(Run.ask_to_stop, run))
    return run
